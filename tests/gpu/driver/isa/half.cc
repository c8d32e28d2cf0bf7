// Arithmetic of f16 and bf16, singly and in pairs. Computed wider and rounded once.
#include "tests/gpu/driver/isa/floats.h"
#include "tests/gpu/driver/isa/lanes.h"

namespace ptx {
namespace {

template <class T> T narrow(float x) {
  if constexpr (std::is_same_v<T, bf16>)
    return to_bf16(x);
  else
    return canonical(f16(x));
}
template <class T> T narrow_odd(double x) { // x is rounded to odd, or exact
  constexpr Format format = std::is_same_v<T, bf16> ? bf16_format : f16_format;
  return std::bit_cast<T>(u16(round_to_format(x, format, Rounding::nearest_even)));
}
template <class T> T flushed16(T x) { // f16 only: bf16 has no .ftz
  u16 bits = std::bit_cast<u16>(x);
  return bits & 0x7c00 ? x : std::bit_cast<T>(u16(bits & 0x8000));
}
template <class T> T with_sign_bits(T x, u16 keep, u16 flip) {
  return std::bit_cast<T>(u16((std::bit_cast<u16>(x) & keep) ^ flip));
}

/// A row for T and one for Two<T>, from a function of one T.
template <class T> class Rows {
public:
  Rows(Table &t, const char *type) : table(t), type(type) {}

  template <class F> void one(const std::string &opcode, F) {
    table.add(lanes(opcode + "." + type, [](T a) { return F{}(a); }, Class::floating));
    table.add(
        lanes(opcode + "." + type + "x2", [](Two<T> a) { return Two<T>{F{}(a.low), F{}(a.high)}; }, Class::floating));
  }
  template <class F> void two(const std::string &opcode, F) {
    table.add(lanes(opcode + "." + type, [](T a, T b) { return F{}(a, b); }, Class::floating));
    table.add(lanes(
        opcode + "." + type + "x2", [](Two<T> a, Two<T> b) { return Two<T>{F{}(a.low, b.low), F{}(a.high, b.high)}; },
        Class::floating));
  }
  template <class F> void three(const std::string &opcode, F) {
    table.add(lanes(opcode + "." + type, [](T a, T b, T c) { return F{}(a, b, c); }, Class::floating));
    table.add(lanes(
        opcode + "." + type + "x2",
        [](Two<T> a, Two<T> b, Two<T> c) { return Two<T>{F{}(a.low, b.low, c.low), F{}(a.high, b.high, c.high)}; },
        Class::floating));
  }

private:
  Table &table;
  std::string type;
};

template <class T> T fused(T a, T b, T c) { // the product of two is exact in f64
  return narrow_odd<T>(sum_to_odd(double(to_float(a)) * to_float(b), to_float(c)));
}
template <class T> T relu(T x) {
  float f = to_float(x);
  return f != f ? narrow<T>(f) : f > 0 ? x : narrow<T>(0);
}
template <class T> T saturated(T x) { return narrow<T>(saturate(to_float(x))); }

template <class T, bool nan> T lower(T a, T b) {
  float x = to_float(a), y = to_float(b);
  if (x != x || y != y)
    return nan || (x != x && y != y) ? narrow<T>(NAN) : x != x ? b : a;
  if (x == 0 && y == 0)
    return std::signbit(x) ? a : b;
  return x < y ? a : b;
}
template <class T, bool nan> T upper(T a, T b) {
  float x = to_float(a), y = to_float(b);
  if (x != x || y != y)
    return nan || (x != x && y != y) ? narrow<T>(NAN) : x != x ? b : a;
  if (x == 0 && y == 0)
    return std::signbit(x) ? b : a;
  return x > y ? a : b;
}

template <class T> void arithmetic(Table &t, const char *type) {
  Rows<T> rows(t, type);
  // Sums of two f16 are exact in f32, of two bf16 are not: through f64, where they are.
  static constexpr auto sum = [](T a, T b) { return narrow_odd<T>(sum_to_odd(to_float(a), to_float(b))); };
  static constexpr auto difference = [](T a, T b) { return narrow_odd<T>(sum_to_odd(to_float(a), -to_float(b))); };
  static constexpr auto product = [](T a, T b) { return narrow<T>(to_float(a) * to_float(b)); };
  rows.two("add", sum);
  rows.two("sub", difference);
  rows.two("mul", product);
  rows.three("fma", [](T a, T b, T c) { return fused(a, b, c); });
  rows.three("fma.relu", [](T a, T b, T c) { return relu(fused(a, b, c)); });
  rows.one("neg", [](T a) { return with_sign_bits(a, 0xffff, 0x8000); });
  rows.one("abs", [](T a) { return with_sign_bits(a, 0x7fff, 0); });
  rows.two("min", [](T a, T b) { return lower<T, false>(a, b); }),
      rows.two("max", [](T a, T b) { return upper<T, false>(a, b); });
  rows.two("min.NaN", [](T a, T b) { return lower<T, true>(a, b); }),
      rows.two("max.NaN", [](T a, T b) { return upper<T, true>(a, b); });
}

void f16_only(Table &t) {
  Rows<f16> rows(t, "f16");
  static constexpr auto z = [](f16 x) { return flushed16(x); };
  static constexpr auto sum = [](f16 a, f16 b) { return f16(float(a) + float(b)); };
  static constexpr auto product = [](f16 a, f16 b) { return f16(float(a) * float(b)); };
  rows.two("add.ftz", [](f16 a, f16 b) { return z(canonical(sum(z(a), z(b)))); });
  rows.two("sub.ftz", [](f16 a, f16 b) { return z(canonical(sum(z(a), f16(-z(b))))); });
  rows.two("mul.ftz", [](f16 a, f16 b) { return z(canonical(product(z(a), z(b)))); });
  rows.three("fma.ftz", [](f16 a, f16 b, f16 c) { return z(fused(z(a), z(b), z(c))); });
  rows.two("add.sat", [](f16 a, f16 b) { return saturated(sum(a, b)); });
  rows.two("sub.sat", [](f16 a, f16 b) { return saturated(sum(a, f16(-b))); });
  rows.two("mul.sat", [](f16 a, f16 b) { return saturated(product(a, b)); });
  rows.three("fma.sat", [](f16 a, f16 b, f16 c) { return saturated(fused(a, b, c)); });
  rows.one("neg.ftz", [](f16 a) { return with_sign_bits(z(a), 0xffff, 0x8000); });
  rows.one("abs.ftz", [](f16 a) { return with_sign_bits(z(a), 0x7fff, 0); });
  rows.one("ex2.approx", [](f16 a) { return canonical(f16(std::exp2(float(a)))); });
  rows.one("tanh.approx", [](f16 a) { return canonical(f16(std::tanh(float(a)))); });
}

void bf16_only(Table &t) {
  Rows<bf16> rows(t, "bf16");
  rows.one("ex2.approx.ftz", [](bf16 a) { return to_bf16(flush(std::exp2(flush(float(a))))); });
  rows.one("tanh.approx", [](bf16 a) { return to_bf16(std::tanh(float(a))); });
}

} // namespace

void add_half_rows(Table &t) {
  arithmetic<f16>(t, "f16");
  arithmetic<bf16>(t, "bf16");
  f16_only(t);
  bf16_only(t);
}

} // namespace ptx
