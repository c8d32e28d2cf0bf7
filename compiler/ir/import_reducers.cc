// The language's reducers in MLIR: what a sum, product, extreme or question begins with, and how it takes one more
// value. argmax and argmin, which keep two values, are composed in import.cc from the extremes here.
#include "compiler/ir/import_reducers.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include <cmath>

namespace heddle::ir {

using namespace mlir;

double neutral(Reducer reducer, mlir::Type type) {
  bool real = isa<FloatType>(type);
  unsigned bits = type.getIntOrFloatBitWidth();
  switch (reducer) {
  case Reducer::prod:
  case Reducer::all:
    return 1;
  case Reducer::max:
  case Reducer::argmax:
    return real ? -INFINITY : -std::ldexp(1.0, bits - 1);
  case Reducer::min:
  case Reducer::argmin:
    return real ? INFINITY : std::ldexp(1.0, bits - 1) - 1;
  default:
    return 0;
  }
}

mlir::Value combine(OpBuilder &body, Location loc, Reducer reducer, mlir::Value acc, mlir::Value value) {
  bool real = isa<FloatType>(acc.getType());
  switch (reducer) {
  case Reducer::sum:
    return real ? mlir::Value(arith::AddFOp::create(body, loc, acc, value))
                : mlir::Value(arith::AddIOp::create(body, loc, acc, value));
  case Reducer::prod:
    return real ? mlir::Value(arith::MulFOp::create(body, loc, acc, value))
                : mlir::Value(arith::MulIOp::create(body, loc, acc, value));
  case Reducer::max:
    return real ? mlir::Value(arith::MaximumFOp::create(body, loc, acc, value))
                : mlir::Value(arith::MaxSIOp::create(body, loc, acc, value));
  case Reducer::min:
    return real ? mlir::Value(arith::MinimumFOp::create(body, loc, acc, value))
                : mlir::Value(arith::MinSIOp::create(body, loc, acc, value));
  case Reducer::any:
    return arith::OrIOp::create(body, loc, acc, value);
  case Reducer::all:
    return arith::AndIOp::create(body, loc, acc, value);
  default:
    llvm_unreachable("argmax and argmin keep two values");
  }
}

} // namespace heddle::ir
