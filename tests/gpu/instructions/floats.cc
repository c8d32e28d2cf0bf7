// References for floats of 32 and 64 bits, exact and approximate, and of 16 bits (cases.h). Compiled with
// -frounding-math: the processor's own rounding modes are the reference.
#include "tests/gpu/instructions/cases.h"

#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>

namespace gpu_test {
namespace {

bool has(const std::vector<std::string> &p, const char *part) { return std::find(p.begin(), p.end(), part) != p.end(); }

int mode_of(const std::vector<std::string> &p) {
  return has(p, "rz") ? FE_TOWARDZERO : has(p, "rm") ? FE_DOWNWARD : has(p, "rp") ? FE_UPWARD : FE_TONEAREST;
}

template <class T> T computed(const std::string &op, T x, T y, T z) {
  volatile T a = x, b = y, c = z; // so that it is computed here, in this rounding mode
  if (op == "add")
    return a + b;
  if (op == "sub")
    return a - b;
  if (op == "mul")
    return a * b;
  if (op == "div")
    return a / b;
  if (op == "rcp")
    return T(1) / a;
  if (op == "sqrt")
    return std::sqrt(T(a));
  if (op == "fma" || op == "mad")
    return std::fma(T(a), T(b), T(c));
  if (op == "abs")
    return std::signbit(T(a)) ? -a : T(a);
  if (op == "neg")
    return -a;
  if (op == "copysign")
    return std::signbit(T(a)) == std::signbit(T(b)) ? T(b) : -b;
  return T(NAN);
}

template <class T> T extreme(bool least, bool nan, bool sign_of_product, T a, T b) {
  if (nan && (std::isnan(a) || std::isnan(b)))
    return NAN;
  bool negative = std::signbit(a) != std::signbit(b);
  if (sign_of_product)
    a = std::fabs(a), b = std::fabs(b);
  T r;
  if (std::isnan(a) || std::isnan(b))
    r = std::isnan(a) ? b : a;
  else if (a == b)
    r = std::signbit(a) == least ? a : b; // -0 is less than 0
  else
    r = (a < b) == least ? a : b;
  return sign_of_product ? std::copysign(r, negative ? T(-1) : T(1)) : r;
}

float zero_if_subnormal(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; }

int sources_of(const std::string &op) {
  if (op == "fma" || op == "mad")
    return 3;
  return op == "rcp" || op == "sqrt" || op == "abs" || op == "neg" ? 1 : 2;
}

template <class T> void add_exact(const std::string &row, const std::vector<std::string> &p, std::vector<Case> &cases) {
  using U = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  static const char *ops[] = {"add", "sub", "mul", "div",      "rcp", "sqrt", "fma",
                              "mad", "abs", "neg", "copysign", "min", "max"};
  std::string op = p[0], type = p.back();
  if (has(p, "approx") || has(p, "full") || std::find(std::begin(ops), std::end(ops), op) == std::end(ops))
    return;
  bool ftz = has(p, "ftz"), sat = has(p, "sat"), nan = has(p, "NaN"), sign = has(p, "xorsign");
  int mode = mode_of(p), n = sources_of(op);
  std::string text = row;
  bool must_say = op == "div" || op == "rcp" || op == "sqrt" || op == "fma" || op == "mad";
  if (must_say && mode == FE_TONEAREST)
    text.insert(op.size(), ".rn");
  cases.push_back({row, spelled(text, n), type, type, n > 1 ? type : "", n > 2 ? type : "",
                   [=](uint64_t a, uint64_t b, uint64_t c) {
                     auto in = [&](uint64_t bits) {
                       T x = std::bit_cast<T>(U(bits));
                       return ftz ? T(zero_if_subnormal(float(x))) : x;
                     };
                     T r;
                     if (op == "min" || op == "max")
                       r = extreme(op == "min", nan, sign, in(a), in(b));
                     else {
                       fesetround(mode);
                       r = computed<T>(op, in(a), in(b), in(c));
                       fesetround(FE_TONEAREST);
                     }
                     if (ftz)
                       r = T(zero_if_subnormal(float(r)));
                     if (sat)
                       r = std::isnan(r) || r < 0 ? T(0) : r > 1 ? T(1) : r == 0 ? T(0) : r;
                     if (std::isnan(r) && sizeof(T) == 4 && op != "neg" && op != "abs" && op != "copysign")
                       return uint64_t(0x7fffffff);
                     return uint64_t(std::bit_cast<U>(r));
                   }});
}

double function(const std::string &op, double a, double b) {
  if (op == "ex2")
    return std::exp2(a);
  if (op == "lg2")
    return std::log2(a);
  if (op == "sin")
    return std::sin(a);
  if (op == "cos")
    return std::cos(a);
  if (op == "rcp")
    return 1 / a;
  if (op == "sqrt")
    return std::sqrt(a);
  if (op == "rsqrt")
    return 1 / std::sqrt(a);
  if (op == "div")
    return a / b;
  return std::tanh(a);
}

void add_approximate(const std::string &row, const std::vector<std::string> &p, std::vector<Case> &cases) {
  if (!has(p, "approx") && !has(p, "full"))
    return;
  std::string op = p[0], type = p.back();
  bool ftz = has(p, "ftz"), half = type.find("16") != type.npos;
  if (half)
    return;
  int n = op == "div" ? 2 : 1;
  Case c{row, spelled(row, n), type, type, n > 1 ? type : "", "", nullptr, 2e-6};
  c.reference = [=](uint64_t a, uint64_t b, uint64_t) -> uint64_t {
    if (type == "f64") {
      auto x = std::bit_cast<double>(ftz ? a & ~0xffffffffull : a);
      double y = function(op, x, 0);
      return ftz ? std::bit_cast<uint64_t>(y) & ~0xffffffffull : std::bit_cast<uint64_t>(y);
    }
    auto in = [&](uint64_t bits) {
      auto x = std::bit_cast<float>(uint32_t(bits));
      return ftz ? zero_if_subnormal(x) : x;
    };
    float y = float(function(op, in(a), in(b)));
    return uint64_t(std::bit_cast<uint32_t>(ftz ? zero_if_subnormal(y) : y));
  };
  cases.push_back(c);
}

// --- 16 bits: exact in long double, then the nearest number of the type
uint64_t half_result(const std::string &type, const std::vector<std::string> &p, uint64_t a, uint64_t b, uint64_t c) {
  std::string op = p[0];
  bool ftz = has(p, "ftz") && type == "f16";
  auto in = [&](uint64_t bits) {
    bits &= 0xffff;
    return ftz && !(bits & 0x7c00) ? bits & 0x8000 : bits;
  };
  a = in(a), b = in(b), c = in(c);
  if (op == "neg")
    return a ^ 0x8000;
  if (op == "abs")
    return a & 0x7fff;
  long double x = real(type, a), y = real(type, b), z = real(type, c);
  if (op == "min" || op == "max") {
    long double r = extreme(op == "min", has(p, "NaN"), false, x, y);
    return std::isnan(r) ? 0x7fff : nearest(type, r);
  }
  long double r = op == "add"   ? x + y
                  : op == "sub" ? x - y
                  : op == "mul" ? x * y
                  : op == "fma" ? x * y + z
                  : op == "ex2" ? (long double)(std::exp2(float(x)))
                                : (long double)(std::tanh(float(x)));
  if (op == "fma" && std::isfinite(r)) { // the product is exact; of the sum's rest only the sign can matter
    long double product = x * y, t = r - product, rest = (product - (r - t)) + (z - t);
    r = rest > 0 ? nextafterl(r, INFINITY) : rest < 0 ? nextafterl(r, -INFINITY) : r;
  }
  if (op == "ex2" && has(p, "ftz") && type == "bf16") {
    r = std::exp2(std::fabs(x) < 0x1p-126L ? 0.0f : float(x));
    r = r < 0x1p-126L ? 0 : r;
  }
  uint64_t bits = std::isnan(r) ? 0x7fff : nearest(type, r);
  if (has(p, "sat"))
    bits = std::isnan(r) || bits >> 15 ? 0 : real(type, bits) > 1 ? nearest(type, 1) : bits;
  if (has(p, "relu") && bits >> 15)
    bits = 0;
  return in(bits);
}

} // namespace

void add_float_cases(const std::vector<std::string> &rows, std::vector<Case> &cases) {
  for (const std::string &row : rows) {
    std::vector<std::string> p = parts_of(row);
    if (p[0] == "testp") {
      cases.push_back({row, spelled(row, 1), "pred", p.back(), "", "", [=](uint64_t a, uint64_t, uint64_t) {
                         bool wide = p.back() == "f64";
                         uint64_t fraction = wide ? a << 12 : (a << 41),
                                  exponent = wide ? a >> 52 & 0x7ff : a >> 23 & 0xff;
                         bool top = exponent == (wide ? 0x7ff : 0xff);
                         bool holds = p[1] == "finite"       ? !top
                                      : p[1] == "infinite"   ? top && !fraction
                                      : p[1] == "number"     ? !top || !fraction
                                      : p[1] == "notanumber" ? top && fraction
                                      : p[1] == "normal"     ? exponent && !top
                                                             : !exponent && fraction;
                         return uint64_t(holds);
                       }});
      continue;
    }
    if (p.back() == "f32" && p[0] != "set" && p[0] != "setp" && p[0] != "slct" && p[0] != "cvt" && p[0] != "atom")
      add_exact<float>(row, p, cases);
    if (p.back() == "f64" && p[0] != "set" && p[0] != "setp" && p[0] != "cvt" && p[0] != "atom")
      add_exact<double>(row, p, cases);
    if (p[0] != "cvt")
      add_approximate(row, p, cases);
  }
}

void add_half_cases(const std::vector<std::string> &rows, std::vector<Case> &cases) {
  static const char *ops[] = {"add", "sub", "mul", "fma", "neg", "abs", "min", "max", "ex2", "tanh"};
  for (const std::string &row : rows) {
    std::vector<std::string> p = parts_of(row);
    std::string last = p.back();
    if (std::find(std::begin(ops), std::end(ops), p[0]) == std::end(ops))
      continue;
    bool two = last == "f16x2" || last == "bf16x2";
    std::string type = two ? last.substr(0, last.size() - 2) : last;
    if (type != "f16" && type != "bf16")
      continue;
    int n = p[0] == "fma" ? 3 : p[0] == "neg" || p[0] == "abs" || p[0] == "ex2" || p[0] == "tanh" ? 1 : 2;
    std::string text = row;
    if (p[0] == "fma")
      text.insert(3, ".rn");
    std::string t = two ? "b32" : "b16";
    cases.push_back({row, spelled(text, n), two ? last : type, two ? last : type, n > 1 ? (two ? last : type) : "",
                     n > 2 ? (two ? last : type) : "", [=](uint64_t a, uint64_t b, uint64_t c) {
                       uint64_t r = half_result(type, p, a, b, c);
                       return two ? r | half_result(type, p, a >> 16, b >> 16, c >> 16) << 16 : r;
                     }});
  }
}

} // namespace gpu_test
