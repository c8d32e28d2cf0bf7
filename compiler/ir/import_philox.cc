// Philox 4x32-10 in arith. The words are numbers of 64 bits below 2^32, and a product is made of two with 16 bits of
// the factor each, so that nothing overflows: what overflows is undefined in Halide and LLVM.
#include "compiler/ir/import_entry.h"
#include "dsl/check/philox.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include <array>

namespace heddle::ir {

using mlir::Location;
using mlir::Value;
namespace arith = mlir::arith;

namespace {

class Words {
public:
  Words(mlir::OpBuilder &builder, Location loc) : builder_(builder), loc_(loc) {}

  Value number(int64_t n) { return arith::ConstantOp::create(builder_, loc_, builder_.getI64IntegerAttr(n)); }
  Value add(Value a, Value b) { return arith::AddIOp::create(builder_, loc_, a, b); }
  Value both(Value a, int64_t bits) { return arith::AndIOp::create(builder_, loc_, a, number(bits)); }
  Value either(Value a, Value b) { return arith::XOrIOp::create(builder_, loc_, a, b); }
  Value times(Value a, int64_t n) { return arith::MulIOp::create(builder_, loc_, a, number(n)); }
  Value high(Value a, int bits) { return arith::ShRUIOp::create(builder_, loc_, a, number(bits)); }

  /// The two words of a * factor: a * f == (a * (f / 2^16)) * 2^16 + a * (f % 2^16).
  std::pair<Value, Value> product(Value a, uint32_t factor) {
    Value upper = times(a, factor >> 16), lower = times(a, factor & 0xffff);
    Value first = high(add(upper, high(lower, 16)), 16);
    Value second = both(add(times(both(upper, 0xffff), 1 << 16), both(lower, 0xffffffff)), 0xffffffff);
    return {first, second};
  }

private:
  mlir::OpBuilder &builder_;
  Location loc_;
};

} // namespace

Value BodyWriter::write_philox(const heddle::Expr &expr, Location loc) {
  Words words(builder_, loc);
  std::array<Value, 6> args;
  for (size_t i = 0; i < args.size(); ++i)
    args[i] = arith::ExtUIOp::create(builder_, loc, builder_.getI64Type(), write(*expr.args[i]));
  std::array<Value, 2> key = {args[0], args[1]};
  std::array<Value, 4> counter = {args[2], args[3], args[4], args[5]};
  for (int round = 0; round < philox_rounds; ++round) {
    auto [a_high, a_low] = words.product(counter[0], philox_factors[0]);
    auto [b_high, b_low] = words.product(counter[2], philox_factors[1]);
    counter = {words.either(words.either(b_high, counter[1]), key[0]), b_low,
               words.either(words.either(a_high, counter[3]), key[1]), a_low};
    for (int k : {0, 1})
      key[k] = words.both(words.add(key[k], words.number(philox_steps[k])), 0xffffffff);
  }
  return arith::TruncIOp::create(builder_, loc, builder_.getI32Type(), counter[expr.whole]);
}

} // namespace heddle::ir
