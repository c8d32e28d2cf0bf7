// Philox 4x32-10 in arith, on words of 32 bits that wrap around: the ops that give what does not fit as a second result
// are the unsigned ones, of which every target knows that they do.
#include "compiler/ir/import_entry.h"
#include "dsl/check/philox.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include <array>

namespace heddle::ir {

using mlir::Value;
namespace arith = mlir::arith;

Value BodyWriter::write_philox(const heddle::Expr &expr, mlir::Location loc) {
  auto number = [&](uint32_t n) {
    return arith::ConstantOp::create(builder_, loc, builder_.getI32IntegerAttr(int32_t(n)));
  };
  auto either = [&](Value a, Value b) { return arith::XOrIOp::create(builder_, loc, a, b); };
  std::array<Value, 6> args;
  for (size_t i = 0; i < args.size(); ++i)
    args[i] = write(*expr.args[i]);
  std::array<Value, 2> key = {args[0], args[1]};
  std::array<Value, 4> counter = {args[2], args[3], args[4], args[5]};
  for (int round = 0; round < philox_rounds; ++round) {
    auto a = arith::MulUIExtendedOp::create(builder_, loc, counter[0], number(philox_factors[0]));
    auto b = arith::MulUIExtendedOp::create(builder_, loc, counter[2], number(philox_factors[1]));
    counter = {either(either(b.getHigh(), counter[1]), key[0]), b.getLow(),
               either(either(a.getHigh(), counter[3]), key[1]), a.getLow()};
    for (int k : {0, 1})
      key[k] = arith::AddUIExtendedOp::create(builder_, loc, key[k], number(philox_steps[k])).getSum();
  }
  return counter[expr.whole];
}

} // namespace heddle::ir
