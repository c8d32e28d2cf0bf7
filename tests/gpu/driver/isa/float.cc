// Arithmetic of f32 and f64 with exact rounding. Results that are NaN are the one NaN that devices give.
#include "tests/gpu/driver/isa/floats.h"
#include "tests/gpu/driver/isa/lanes.h"

namespace ptx {
namespace {

/// Operands and result as they are, or with subnormals taken as zeros.
template <class T, bool ftz> T flushed(T x) {
  if constexpr (ftz)
    return flush(x);
  else
    return x;
}

template <class T, bool ftz, bool sat> T finished(T x) {
  x = flushed<T, ftz>(canonical(x));
  if constexpr (sat)
    x = saturate(x);
  return x;
}

/// In all four directions; .rn is not written in names.
template <class F> void in_all_directions(Table &t, const std::string &opcode, const std::string &rest, F f) {
  t.add(lanes(opcode + rest, f, Class::floating));
  t.add(rounded_lanes<FE_TOWARDZERO>(opcode + ".rz" + rest, f, Class::floating));
  t.add(rounded_lanes<FE_DOWNWARD>(opcode + ".rm" + rest, f, Class::floating));
  t.add(rounded_lanes<FE_UPWARD>(opcode + ".rp" + rest, f, Class::floating));
}

template <class T, bool ftz, bool sat> void rounded_arithmetic(Table &t, const std::string &type) {
  std::string rest = std::string(ftz ? ".ftz" : "") + (sat ? ".sat" : "") + type;
  static constexpr auto in = [](T x) { return flushed<T, ftz>(x); };
  static constexpr auto out = [](T x) { return finished<T, ftz, sat>(x); };
  in_all_directions(t, "add", rest, [](T a, T b) { return out(in(a) + in(b)); });
  in_all_directions(t, "sub", rest, [](T a, T b) { return out(in(a)-in(b)); });
  in_all_directions(t, "mul", rest, [](T a, T b) { return out(in(a)*in(b)); });
  auto fma = [](T a, T b, T c) { return out(std::fma(in(a), in(b), in(c))); };
  in_all_directions(t, "fma", rest, fma);
  in_all_directions(t, "mad", rest, fma);
}

template <class T> T least(T a, T b) { // NaN yields to numbers, -0 is below 0
  if (a == 0 && b == 0)
    return std::signbit(a) ? a : b;
  return a != a ? b : b != b ? a : a < b ? a : b;
}
template <class T> T greatest(T a, T b) {
  if (a == 0 && b == 0)
    return std::signbit(a) ? b : a;
  return a != a ? b : b != b ? a : a > b ? a : b;
}
template <class T> T nan_of(T a, T b) { return a != a ? a : b; }

template <class T, bool ftz> void arithmetic(Table &t, const std::string &type) {
  std::string rest = (ftz ? ".ftz" : "") + type;
  static constexpr auto in = [](T x) { return flushed<T, ftz>(x); };
  static constexpr auto out = [](T x) { return finished<T, ftz, false>(x); };
  in_all_directions(t, "div", rest, [](T a, T b) { return out(in(a) / in(b)); });
  in_all_directions(t, "rcp", rest, [](T a) { return out(1 / in(a)); });
  in_all_directions(t, "sqrt", rest, [](T a) { return out(std::sqrt(in(a))); });
  t.add(lanes("abs" + rest, [](T a) { return std::fabs(in(a)); }, Class::floating));
  t.add(lanes("neg" + rest, [](T a) { return -in(a); }, Class::floating));
  t.add(lanes("min" + rest, [](T a, T b) { return out(least(in(a), in(b))); }, Class::floating));
  t.add(lanes("max" + rest, [](T a, T b) { return out(greatest(in(a), in(b))); }, Class::floating));
  if constexpr (sizeof(T) == 4) {
    t.add(lanes(
        "min" + std::string(ftz ? ".ftz" : "") + ".NaN" + type,
        [](T a, T b) {
          a = in(a), b = in(b);
          return out(a != a || b != b ? nan_of(a, b) : least(a, b));
        },
        Class::floating));
    t.add(lanes(
        "max" + std::string(ftz ? ".ftz" : "") + ".NaN" + type,
        [](T a, T b) {
          a = in(a), b = in(b);
          return out(a != a || b != b ? nan_of(a, b) : greatest(a, b));
        },
        Class::floating));
    t.add(lanes(
        "min" + std::string(ftz ? ".ftz" : "") + ".xorsign.abs" + type,
        [](T a, T b) {
          a = in(a), b = in(b);
          T least_abs = least(std::fabs(a), std::fabs(b));
          return out(std::copysign(least_abs, std::signbit(a) != std::signbit(b) ? T(-1) : T(1)));
        },
        Class::floating));
    t.add(lanes(
        "max" + std::string(ftz ? ".ftz" : "") + ".xorsign.abs" + type,
        [](T a, T b) {
          a = in(a), b = in(b);
          T greatest_abs = greatest(std::fabs(a), std::fabs(b));
          return out(std::copysign(greatest_abs, std::signbit(a) != std::signbit(b) ? T(-1) : T(1)));
        },
        Class::floating));
  }
}

/// testp p, a: one bit per lane.
template <class T, class F> struct TestFunction {
  static void execute(Warp &warp, const Op &op, Mask mask) {
    const T *a = warp.reg<T>(op.a);
    Mask result = 0;
    for (int l = 0; l < warp_size; l++)
      result |= Mask(F{}(a[l])) << l;
    warp.set_predicate(op.d, result, mask);
  }
};

template <class T> void tests_of_class(Table &t, const std::string &type) {
  auto test = [&]<class F>(const char *name, F) {
    t.add({"testp." + std::string(name) + type,
           TestFunction<T, F>::execute,
           decode_lanes,
           Class::predicate,
           {0, sizeof(T)}});
  };
  test("finite", [](T a) { return std::fabs(a) < std::numeric_limits<T>::infinity(); });
  test("infinite", [](T a) { return std::isinf(a); });
  test("number", [](T a) { return !std::isnan(a); });
  test("notanumber", [](T a) { return std::isnan(a); });
  test("normal", [](T a) { return std::isnormal(a); });
  test("subnormal", [](T a) { return std::fpclassify(a) == FP_SUBNORMAL; });
}

} // namespace

void add_float_rows(Table &t) {
  rounded_arithmetic<float, false, false>(t, ".f32");
  rounded_arithmetic<float, false, true>(t, ".f32");
  rounded_arithmetic<float, true, false>(t, ".f32");
  rounded_arithmetic<float, true, true>(t, ".f32");
  rounded_arithmetic<double, false, false>(t, ".f64");
  arithmetic<float, false>(t, ".f32");
  arithmetic<float, true>(t, ".f32");
  arithmetic<double, false>(t, ".f64");
  tests_of_class<float>(t, ".f32");
  tests_of_class<double>(t, ".f64");
  t.add(lanes("copysign.f32", [](float sign, float b) { return std::copysign(b, sign); }, Class::floating));
  t.add(lanes("copysign.f64", [](double sign, double b) { return std::copysign(b, sign); }, Class::floating));
}

} // namespace ptx
