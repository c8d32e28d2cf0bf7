// The same formulas as compiler/halide/math.cc, without what keeps Halide and LLVM from assuming that nothing is
// infinite: arith's operations are IEEE's. Narrow types compute in f32.
#include "compiler/gpu/functions.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"

#include <cmath>
#include <initializer_list>
#include <limits>

namespace heddle::gpu {

using namespace mlir;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// Writes code for f32, f64, i32 and i1 values.
class Writer {
public:
  Writer(OpBuilder &b, Location loc) : b(b), loc(loc) {}

  Value real(double value) { return arith::ConstantOp::create(b, loc, b.getF32FloatAttr(float(value))); }
  Value wide(double value) { return arith::ConstantOp::create(b, loc, b.getF64FloatAttr(value)); }
  Value whole(int32_t value) { return arith::ConstantIntOp::create(b, loc, value, 32); }
  Value add(Value x, Value y) { return arith::AddFOp::create(b, loc, x, y); }
  Value sub(Value x, Value y) { return arith::SubFOp::create(b, loc, x, y); }
  Value mul(Value x, Value y) { return arith::MulFOp::create(b, loc, x, y); }
  Value div(Value x, Value y) { return arith::DivFOp::create(b, loc, x, y); }
  Value fma(Value x, Value y, Value z) { return math::FmaOp::create(b, loc, x, y, z); }
  Value less(Value x, Value y) { return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OLT, x, y); }
  Value equal(Value x, Value y) { return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, x, y); }
  Value either(Value x, Value y) { return arith::OrIOp::create(b, loc, x, y); }
  Value both(Value x, Value y) { return arith::AndIOp::create(b, loc, x, y); }
  Value no(Value x) { return arith::XOrIOp::create(b, loc, x, arith::ConstantIntOp::create(b, loc, 1, 1)); }
  Value choose(Value condition, Value x, Value y) { return arith::SelectOp::create(b, loc, condition, x, y); }
  Value bits(Value x) { return arith::BitcastOp::create(b, loc, b.getI32Type(), x); }
  Value from_bits(Value x) { return arith::BitcastOp::create(b, loc, b.getF32Type(), x); }
  Value is_set(Value x, int32_t mask) {
    Value masked = arith::AndIOp::create(b, loc, x, whole(mask));
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, masked, whole(0));
  }
  Value negated(Value x) { return arith::NegFOp::create(b, loc, x); }
  Value without_sign(Value x) { return math::AbsFOp::create(b, loc, x); }
  /// NaN stays NaN.
  Value clamp(Value x, double low, double high) {
    x = choose(less(x, real(low)), real(low), x);
    return choose(less(real(high), x), real(high), x);
  }
  /// c[0] x^n + c[1] x^(n-1) + …
  Value polynomial(Value x, std::initializer_list<double> coefficients) {
    Value sum;
    for (double c : coefficients)
      sum = sum ? fma(sum, x, real(c)) : real(c);
    return sum;
  }

  Value exp(Value x) {
    Value magic = real(12582912.0); // 1.5 * 2^23
    Value sum = fma(x, real(1.44269504), magic);
    Value k = sub(sum, magic);
    Value r = fma(k, real(-1.42860682e-6), fma(k, real(-0.693145751953125), x));
    Value p = polynomial(r, {1.38142220e-3, 8.36889870e-3, 4.16684057e-2, 1.66665191e-1, 4.99999933e-1, 1, 1});
    Value exponent = arith::ShLIOp::create(b, loc, bits(sum), whole(23));
    Value result = from_bits(arith::AddIOp::create(b, loc, bits(p), exponent));
    result = choose(less(x, real(-87.3365448)), real(0), result);
    return choose(less(x, real(88.7228394)), result, add(x, real(infinity)));
  }

  Value erf(Value x) {
    x = clamp(x, -4, 4);
    Value square = mul(x, x);
    Value p =
        polynomial(square, {-2.72614225801306e-10, 2.77068142495902e-08, -2.10102402082508e-06, -5.69250639462346e-05,
                            -7.34990630326855e-04, -2.95459980854025e-03, -1.60960333262415e-02});
    Value q = polynomial(square, {-1.45660718464996e-05, -2.13374055278905e-04, -1.68282697438203e-03,
                                  -7.37332916720468e-03, -1.42647390514189e-02});
    return div(mul(p, x), q);
  }

  Value tanh(Value x) {
    x = clamp(x, -7.90531110763549805, 7.90531110763549805);
    Value square = mul(x, x);
    Value p =
        polynomial(square, {-2.76076847742355e-16, 2.00018790482477e-13, -8.60467152213735e-11, 5.12229709037114e-08,
                            1.48572235717979e-05, 6.37261928875436e-04, 4.89352455891786e-03});
    Value q =
        polynomial(square, {1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03, 4.89352518554385e-03});
    return div(mul(p, x), q);
  }

  /// The sine of x + quarters * pi / 2.
  Value sine(Value x, int32_t quarters) {
    Value far = arith::ExtFOp::create(b, loc, b.getF64Type(), x);
    Value magic = wide(6755399441055744.0); // 1.5 * 2^52
    Value sum = add(mul(far, wide(0.63661977236758134)), magic);
    Value k = sub(sum, magic);
    Value rest = sub(far, mul(k, wide(1.5707963267948966)));
    Value r = clamp(arith::TruncFOp::create(b, loc, b.getF32Type(), rest), -0.8, 0.8);
    Value square = mul(r, r);
    Value last = arith::TruncIOp::create(b, loc, b.getI32Type(),
                                         arith::BitcastOp::create(b, loc, b.getI64Type(), sum).getResult());
    Value quarter = arith::AddIOp::create(b, loc, last, whole(quarters));
    Value odd = polynomial(square, {-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1});
    odd = fma(mul(odd, square), r, r);
    Value even = polynomial(square, {2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2});
    even = fma(mul(even, square), square, fma(square, real(-0.5), real(1)));
    Value value = choose(is_set(quarter, 1), even, odd);
    return choose(is_set(quarter, 2), negated(value), value);
  }

  Value log(Value x) {
    // x = m 2^e with m in [sqrt(1/2), sqrt(2)); of denormal numbers after a product with 2^23. Cephes, logf.c.
    Value small = less(x, real(1.17549435e-38));
    Value scaled = choose(small, mul(x, real(8388608)), x);
    Value word = bits(scaled);
    Value exponent = arith::ShRUIOp::create(b, loc, word, whole(23));
    exponent = arith::SubIOp::create(b, loc, exponent, choose(small, whole(126 + 23), whole(126)));
    Value m = arith::AndIOp::create(b, loc, word, whole(0x7fffff));
    m = from_bits(arith::OrIOp::create(b, loc, m, whole(0x3f000000)));
    Value low = less(m, real(0.70710678118654752440));
    Value e = arith::SIToFPOp::create(b, loc, b.getF32Type(), exponent);
    e = choose(low, sub(e, real(1)), e);
    m = sub(choose(low, add(m, m), m), real(1));
    Value square = mul(m, m);
    Value y = polynomial(m, {7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
                             -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1});
    y = mul(mul(y, m), square);
    y = fma(e, real(-2.12194440e-4), y);
    y = fma(square, real(-0.5), y);
    Value result = fma(e, real(0.693359375), add(m, y));
    result = choose(less(x, real(infinity)), result, x); // infinity and NaN
    result = choose(equal(x, real(0)), real(-infinity), result);
    return choose(less(x, real(0)), real(std::nan("")), result);
  }

  Value is_whole(Value x) { return equal(math::FloorOp::create(b, loc, x), x); }

  /// |x|^y = e^(y ln |x|), of which the rules of IEEE 754, 9.2.1, make x^y.
  Value general_power(Value x, Value y) {
    Value size = without_sign(x);
    Value result = exp(mul(y, log(size)));
    result = choose(equal(y, real(0)), real(1), result);
    Value one = either(equal(x, real(1)), both(equal(size, real(1)), equal(without_sign(y), real(infinity))));
    result = choose(one, real(1), result);
    Value odd = both(is_whole(y), no(is_whole(mul(y, real(0.5)))));
    result = choose(both(is_set(bits(x), std::numeric_limits<int32_t>::min()), odd), negated(result), result);
    Value not_real = both(both(less(x, real(0)), less(real(-infinity), x)), no(is_whole(y)));
    return choose(not_real, real(std::nan("")), result);
  }

  Value power(Value x, Value y) {
    FloatAttr constant;
    if (!matchPattern(y, m_Constant(&constant)))
      return general_power(x, y);
    double n = constant.getValueAsDouble();
    if (n == std::nearbyint(n) && std::abs(n) <= 8) {
      Value out = real(1);
      for (int i = 0; i < std::abs(n); ++i)
        out = i == 0 ? x : mul(out, x);
      return n < 0 ? div(real(1), out) : out;
    }
    if (std::abs(n) == 0.5) { // a root, but for -inf, which becomes infinite, and -0, which becomes 0
      x = choose(both(less(x, real(0)), less(real(-infinity), x)), x, without_sign(x));
      Value root = math::SqrtOp::create(b, loc, x);
      return n > 0 ? root : div(real(1), root);
    }
    return general_power(x, y);
  }

private:
  OpBuilder &b;
  Location loc;
};

/// Computes in f32, whatever the op's type.
template <class Op> struct Written : OpRewritePattern<Op> {
  using Formula = Value (*)(Writer &, ArrayRef<Value>);
  Written(MLIRContext *context, Formula formula) : OpRewritePattern<Op>(context), formula(formula) {}

  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    Type type = op.getType(), f32 = rewriter.getF32Type();
    bool narrow = type != f32;
    if (!isa<FloatType>(type) || type.getIntOrFloatBitWidth() > 32)
      return failure();
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(narrow ? arith::ExtFOp::create(rewriter, op.getLoc(), f32, operand).getResult() : operand);
    Writer writer(rewriter, op.getLoc());
    Value result = formula(writer, operands);
    if (narrow)
      result = arith::TruncFOp::create(rewriter, op.getLoc(), type, result);
    rewriter.replaceOp(op, result);
    return success();
  }

  Formula formula;
};

} // namespace

void populate_function_patterns(RewritePatternSet &patterns) {
  using Values = ArrayRef<Value>;
  MLIRContext *context = patterns.getContext();
  patterns.add<Written<math::ExpOp>>(context, [](Writer &w, Values x) { return w.exp(x[0]); });
  patterns.add<Written<math::LogOp>>(context, [](Writer &w, Values x) { return w.log(x[0]); });
  patterns.add<Written<math::TanhOp>>(context, [](Writer &w, Values x) { return w.tanh(x[0]); });
  patterns.add<Written<math::ErfOp>>(context, [](Writer &w, Values x) { return w.erf(x[0]); });
  patterns.add<Written<math::SinOp>>(context, [](Writer &w, Values x) { return w.sine(x[0], 0); });
  patterns.add<Written<math::CosOp>>(context, [](Writer &w, Values x) { return w.sine(x[0], 1); });
  patterns.add<Written<math::PowFOp>>(context, [](Writer &w, Values x) { return w.power(x[0], x[1]); });
}

} // namespace heddle::gpu
