// Functions that devices compute approximately. They are computed as exactly as the host's libm does; on demand
// (Settings::worst_approximation) each result is off by the largest error that the PTX manual states.
#include "tests/gpu/driver/isa/floats.h"
#include "tests/gpu/driver/isa/lanes.h"
#include "tests/gpu/driver/settings.h"

namespace ptx {
namespace {

/// `relative` is the documented error; its sign depends on the argument's bits, so that both occur.
float approximated(float exact, double relative, float argument) {
  static const bool worst = settings().worst_approximation;
  if (!worst)
    return exact;
  bool up = std::bit_cast<u32>(argument) * 2654435761u >> 31;
  return float(exact * (1 + (up ? relative : -relative)));
}

float absolute(float exact, double error, float argument) {
  static const bool worst = settings().worst_approximation;
  if (!worst)
    return exact;
  bool up = std::bit_cast<u32>(argument) * 2654435761u >> 31;
  return float(exact + (up ? error : -error));
}

template <bool ftz> void functions(Table &t) {
  std::string rest = ftz ? ".ftz.f32" : ".f32";
  static constexpr auto in = [](float x) { return ftz ? flush(x) : x; };
  static constexpr auto out = [](float x) { return ftz ? flush(canonical(x)) : canonical(x); };
  auto one = [&]<class F>(const char *name, F) {
    t.add(lanes(name + rest, [](float a) { return out(F{}(in(a))); }, Class::special_function));
  };
  // Errors: PTX ISA 8.x, floating point instructions.
  one("ex2.approx", [](float a) { return approximated(std::exp2(a), 0x1p-22, a); });
  one("lg2.approx", [](float a) { return absolute(std::log2(a), a > 0.5f && a < 2 ? 0x1p-22 : 0, a); });
  one("sin.approx", [](float a) { return absolute(std::sin(a), 6.75e-7, a); });
  one("cos.approx", [](float a) { return absolute(std::cos(a), 6.75e-7, a); });
  one("rcp.approx", [](float a) { return approximated(1 / a, 0x1p-23, a); });
  one("sqrt.approx", [](float a) { return approximated(std::sqrt(a), 0x1p-23, a); });
  one("rsqrt.approx", [](float a) { return approximated(float(1 / std::sqrt(double(a))), 1.28e-7, a); });
  t.add(lanes(
      "div.approx" + rest, [](float a, float b) { return out(approximated(in(a) / in(b), 0x1p-22, a)); },
      Class::special_function));
  t.add(lanes(
      "div.full" + rest, [](float a, float b) { return out(approximated(in(a) / in(b), 0x1p-22, a)); },
      Class::special_function));
}

} // namespace

void add_approximate_rows(Table &t) {
  functions<false>(t);
  functions<true>(t);
  t.add(lanes(
      "tanh.approx.f32", [](float a) { return canonical(approximated(std::tanh(a), 0x1p-11, a)); },
      Class::special_function));
  // The upper half of a double only (PTX: .ftz.f64 truncates its operand and its result).
  static constexpr auto upper = [](double x) { return std::bit_cast<double>(std::bit_cast<u64>(x) & ~0xffffffffull); };
  t.add(lanes("rcp.approx.ftz.f64", [](double a) { return upper(1 / upper(a)); }, Class::special_function));
  t.add(
      lanes("rsqrt.approx.ftz.f64", [](double a) { return upper(1 / std::sqrt(upper(a))); }, Class::special_function));
  t.add(lanes("rsqrt.approx.f64", [](double a) { return 1 / std::sqrt(a); }, Class::special_function));
}

} // namespace ptx
