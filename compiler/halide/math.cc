// Polynomials on clamped arguments: the clamp both keeps the polynomial in its range and stops an infinite constant
// from reaching arithmetic that LLVM believes to be finite. Inside, ordinary (contractible) operators make FMAs.
#include "compiler/halide/math.h"

#include <cmath>
#include <initializer_list>
#include <optional>

namespace heddle::math {

using Halide::Expr;
using Halide::Internal::Call;

static Expr strict(Call::IntrinsicOp op, Halide::Type type, Expr a, Expr b) {
  return Call::make(type, op, {std::move(a), std::move(b)}, Call::PureIntrinsic);
}
static Halide::Type truth(const Expr &a) { return Halide::Bool(a.type().lanes()); }

Expr less(Expr a, Expr b) { return strict(Call::strict_lt, truth(a), a, b); }
// Halide 21 turns a <= b into !(b < a), which is true of NaN. LLVM makes one comparison of this.
Expr less_equal(Expr a, Expr b) { return less(a, b) || equal(a, b); }
Expr equal(Expr a, Expr b) { return strict(Call::strict_eq, truth(a), a, b); }
Expr strict_add(Expr a, Expr b) { return strict(Call::strict_add, a.type(), a, b); }
Expr strict_sub(Expr a, Expr b) { return strict(Call::strict_sub, a.type(), a, b); }
Expr strict_mul(Expr a, Expr b) { return strict(Call::strict_mul, a.type(), a, b); }
Expr strict_div(Expr a, Expr b) { return strict(Call::strict_div, a.type(), a, b); }

Expr opaque(Expr x) {
  // No address of a session has its uppermost bit set, which LLVM can't know. Halide wants one such parameter.
  static const Expr context = Halide::user_context_value();
  Expr address = Halide::reinterpret(Halide::UInt(64), context);
  Halide::Type bits = Halide::UInt(x.type().bits());
  return Halide::reinterpret(x.type(), Halide::reinterpret(bits, x) ^ Halide::cast(bits, address >> 63));
}

Expr is_nan(Expr x) {
  x = opaque(x);
  return !equal(x, x);
}

/// A single maxps or minps, which returns its second operand where one is NaN: `kept` must be the other one's elder.
static Expr larger(Expr other, Expr kept) { return select(less(kept, other), other, kept); }
static Expr smaller(Expr other, Expr kept) { return select(less(other, kept), other, kept); }

static std::optional<double> constant(const Expr &e) {
  if (auto *f = e.as<Halide::Internal::FloatImm>())
    return f->value;
  if (auto *i = e.as<Halide::Internal::IntImm>())
    return double(i->value);
  return std::nullopt;
}

/// The one of the two that is NaN whatever else is; of others puts a constant second.
static std::optional<Expr> nan_of(Expr &a, Expr &b) {
  if (Halide::Internal::is_const(a))
    std::swap(a, b);
  for (const Expr &e : {a, b})
    if (std::isnan(constant(e).value_or(0)))
      return e;
  return std::nullopt;
}

Expr maximum(Expr a, Expr b) {
  if (std::optional<Expr> nan = nan_of(a, b))
    return *nan;
  if (Halide::Internal::is_const(b))
    return larger(b, a);
  return select(math::is_nan(b), b, larger(b, a));
}

Expr minimum(Expr a, Expr b) {
  if (std::optional<Expr> nan = nan_of(a, b))
    return *nan;
  if (Halide::Internal::is_const(b))
    return smaller(b, a);
  return select(math::is_nan(b), b, smaller(b, a));
}

static Expr clamp_keeping_nan(Expr x, float low, float high) { return smaller(high, larger(low, x)); }

/// c[0] x^n + c[1] x^(n-1) + …
static Expr polynomial(const Expr &x, std::initializer_list<float> coefficients) {
  Expr sum;
  for (float c : coefficients)
    sum = sum.defined() ? sum * x + c : Expr(c);
  return sum;
}

/// x between the ends past which e^x is 0 or infinity in any case, k, the nearest integer to x / ln 2, from -126 to
/// 128, and 2^(k - 1), or 0 for the least k.
struct Exponent {
  Expr x, k, power;

  explicit Exponent(const Expr &any) : x(clamp_keeping_nan(any, -87.3365448f, 89.0f)) {
    // An addition rounds to an integer: Halide's rounding of 16 lanes is two instructions of 8. The sum's last bits are
    // the power's exponent.
    constexpr float whole = 12582912.0f + 126; // 1.5 * 2^23, and what makes an exponent of k - 1
    Expr sum = x * 1.44269504f + whole;
    k = strict_sub(sum, whole);
    power = Halide::reinterpret<float>(Halide::reinterpret<uint32_t>(sum) << 23);
  }
};

Expr exp(Expr x) {
  if (x.type() == Halide::Float(64))
    return Halide::exp(x);
  Exponent e(cast<float>(x));
  // x = k ln 2 + r with |r| ≤ ln 2 / 2, where ln 2 is the sum of two floats. The first has 15 bits, so that its product
  // with k is exact, and by Sterbenz the difference, too: whether LLVM makes an FMA of that or, where it knows x, a
  // product and a difference, r is the same. That the last operation is strict keeps it from joining the two floats.
  Expr r = strict_sub(e.x - e.k * 0.693145751953125f, e.k * 1.42860682e-6f);
  // 2 e^r = 2 + 2 r + r^2 q(r), where q has the least error relative to e^r on |r| ≤ 0.3475: 4e-9.
  Expr p = polynomial(r, {2.7628444e-3f, 1.67377974e-2f, 8.33368114e-2f, 3.33330382e-1f, 9.99999866e-1f, 2.0f, 2.0f});
  return cast(x.type(), strict_mul(p, e.power));
}

Expr rough_exp(Expr x) {
  Exponent e(x);
  // 2 e^r = 2 + r q(r), where q has the least error relative to e^r on |r| ≤ 0.3475: 2.9e-6.
  Expr p = polynomial(e.x - e.k * 0.693147181f, {8.30259322e-2f, 3.3576213e-1f, 1.00006093f, 1.99993299f, 2.0f});
  return strict_mul(p, e.power);
}

Expr erf(Expr x) {
  if (x.type() == Halide::Float(64))
    return Halide::erf(x);
  Halide::Type type = x.type();
  x = clamp_keeping_nan(cast<float>(x), -4.0f, 4.0f);
  Expr square = x * x;
  // Eigen's ratio for erf on [-4, 4] (GenericPacketMathFunctions.h, generic_fast_erf_float)
  Expr p =
      polynomial(square, {-2.72614225801306e-10f, 2.77068142495902e-08f, -2.10102402082508e-06f, -5.69250639462346e-05f,
                          -7.34990630326855e-04f, -2.95459980854025e-03f, -1.60960333262415e-02f});
  Expr q = polynomial(square, {-1.45660718464996e-05f, -2.13374055278905e-04f, -1.68282697438203e-03f,
                               -7.37332916720468e-03f, -1.42647390514189e-02f});
  return cast(type, p * x / q);
}

Expr rough_erf(Expr x) {
  // x q(x^2) with the least absolute error on [-2.85, 2.85], where erf is 1 but for 5.6e-5.
  x = clamp_keeping_nan(x, -2.85f, 2.85f);
  return x * polynomial(x * x, {-4.95984864e-7f, 1.98720136e-5f, -3.46891436e-4f, 3.5128505e-3f, -2.33040862e-2f,
                                1.0871505e-1f, -3.73928308e-1f, 1.1280334f});
}

Expr tanh(Expr x) {
  if (x.type() == Halide::Float(64))
    return Halide::tanh(x);
  Halide::Type type = x.type();
  x = clamp_keeping_nan(cast<float>(x), -7.90531110763549805f, 7.90531110763549805f);
  Expr square = x * x;
  // Eigen's ratio for tanh (MathFunctionsImpl.h, generic_fast_tanh_float)
  Expr p =
      polynomial(square, {-2.76076847742355e-16f, 2.00018790482477e-13f, -8.60467152213735e-11f, 5.12229709037114e-08f,
                          1.48572235717979e-05f, 6.37261928875436e-04f, 4.89352455891786e-03f});
  Expr q =
      polynomial(square, {1.19825839466702e-06f, 1.18534705686654e-04f, 2.26843463243900e-03f, 4.89352518554385e-03f});
  return cast(type, p * x / q);
}

Expr rough_tanh(Expr x) {
  // A ratio with the least absolute error on [-5.24, 5.24], where tanh is 1 but for 5.6e-5.
  x = clamp_keeping_nan(x, -5.24f, 5.24f);
  Expr square = x * x;
  return x * polynomial(square, {6.31787989e-4f, 1.00907639e-1f, 9.99756038e-1f}) /
         polynomial(square, {1.24000562e-2f, 4.33554083e-1f, 1.0f});
}

/// The sine of x + quarters * pi / 2.
static Expr sine(Expr x, int quarters) {
  Halide::Type type = x.type();
  // x = k pi / 2 + r with |r| <= pi / 4, in double: no argument reduction in parts. k's last bits are those of the sum
  // whose rounding finds it.
  Expr wide = cast<double>(cast<float>(x));
  auto number = [&](double value) { return Halide::Internal::make_const(wide.type(), value); };
  Expr whole = number(6755399441055744.0); // 1.5 * 2^52
  Expr sum = strict_add(wide * number(0.63661977236758134), whole);
  Expr k = strict_sub(sum, whole);
  Expr r = clamp_keeping_nan(cast<float>(strict_sub(wide, strict_mul(k, number(1.5707963267948966)))), -0.8f, 0.8f),
       square = r * r;
  Expr quarter = cast<int32_t>(reinterpret<int64_t>(sum) & 3) + quarters;
  // Cephes, sinf.c
  Expr odd = polynomial(square, {-1.9515295891e-4f, 8.3321608736e-3f, -1.6666654611e-1f}) * square * r + r;
  Expr even =
      polynomial(square, {2.443315711809948e-5f, -1.388731625493765e-3f, 4.166664568298827e-2f}) * square * square +
      (1.0f - 0.5f * square);
  Expr value = select((quarter & 1) != 0, even, odd);
  return cast(type, select((quarter & 2) != 0, -value, value));
}

Expr sin(Expr x) { return x.type() == Halide::Float(64) ? Halide::sin(x) : sine(std::move(x), 0); }
Expr cos(Expr x) { return x.type() == Halide::Float(64) ? Halide::cos(x) : sine(std::move(x), 1); }

Expr log(Expr x) {
  // Halide's is right for all numbers and for -inf; of what has no end upwards it takes the exponent's bits.
  return select(less(x, Halide::Internal::make_const(x.type(), HUGE_VAL)), Halide::log(x), x);
}

/// |x|, also of what LLVM may take for no NaN.
static Expr without_sign(const Expr &x) { return reinterpret<float>(reinterpret<int32_t>(x) & 0x7fffffff); }

static Expr is_whole(const Expr &x) {
  std::optional<double> n = constant(x);
  return n ? Halide::Internal::make_bool(*n == std::floor(*n)) : math::equal(floor(x), x);
}

/// |x|^y = e^(y ln |x|), of which the rules of IEEE 754, 9.2.1, make x^y.
static Expr general_power(const Expr &x, const Expr &y) {
  std::optional<double> base = constant(x), exponent = constant(y);
  Expr size = base ? Expr(float(std::abs(*base))) : without_sign(x);
  Expr ln = base && *base != 0 ? Expr(float(std::log(std::abs(*base)))) : math::log(size);
  Expr result = math::exp(strict_mul(y, ln));
  // 0 times infinity: anything to the power of 0 is 1, and so is 1 to any power.
  if (!exponent || *exponent == 0)
    result = select(math::equal(y, 0.0f), 1.0f, result);
  if (!base || std::abs(*base) == 1) {
    Expr one = math::equal(x, 1.0f);
    if (!exponent)
      one = one || (math::equal(size, 1.0f) && math::equal(without_sign(y), HUGE_VALF));
    result = select(one, 1.0f, result);
  }
  if (base && *base > 0)
    return result;
  Expr odd = is_whole(y) && !is_whole(exponent ? Expr(float(*exponent / 2)) : y * 0.5f);
  result = select(reinterpret<int32_t>(x) < 0 && odd, -result, result);
  Expr not_real = math::less(x, 0.0f) && math::less(-HUGE_VALF, x) && !is_whole(y);
  return select(not_real, Halide::Internal::make_const(Halide::Float(32), std::nan("")), result);
}

Expr power(Expr x, Expr y) {
  Halide::Type type = x.type();
  if (std::optional<double> n = constant(y)) {
    if (*n == std::nearbyint(*n) && std::abs(*n) <= 8)
      return Halide::Internal::raise_to_integer_power(x, int64_t(*n));
    if (std::abs(*n) == 0.5 && type == Halide::Float(32)) {
      // A root, but for -inf, which becomes infinite, and -0, which becomes 0.
      x = select(math::less(x, 0.0f) && math::less(-HUGE_VALF, x), x, without_sign(x));
      return *n > 0 ? sqrt(x) : 1.0f / sqrt(x);
    }
  }
  if (type == Halide::Float(64))
    return Halide::pow(x, y);
  return cast(type, general_power(cast<float>(x), cast<float>(y)));
}

} // namespace heddle::math
