// Interval arithmetic with the roundings of f32 (or of a narrower type) put in by hand; the bounds themselves are
// doubles, whose own error is far below one of those roundings.
#include "tests/fuzz/programs/interval.h"

#include "dsl/check/round.h"

#include <algorithm>
#include <cmath>

namespace heddle::fuzz {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double tiny = 1e-36;   // what is smaller may become 0, also on the way
constexpr double largest = 1e36; // what is larger may overflow on the way

double unit(Type type) {
  return type == Type::bf16 ? 0x1p-8 : type == Type::f16 ? 0x1p-11 : is_floating(type) ? 0x1p-24 : 0;
}

double magnitude(const Interval &x) {
  double a = std::fabs(x.lo), b = std::fabs(x.hi);
  return std::max(std::isfinite(a) ? a : 0, std::isfinite(b) ? b : 0);
}

/// Whether correct code of any kind gets this very value from operands that are exact themselves.
bool exact(const Interval &x, Type type) {
  if (!x.is_point())
    return false;
  if (!std::isfinite(x.lo))
    return true;
  double steps = type == Type::f32 ? 0x1p24 : type == Type::f16 ? 0x1p11 : 0x1p8;
  return x.lo * 64 == std::floor(x.lo * 64) && x.terms * 64 <= steps;
}

Interval widened(Interval x, double by) {
  if (std::isfinite(x.lo))
    x.lo -= by;
  if (std::isfinite(x.hi))
    x.hi += by;
  return x;
}

/// Rejects what may have overflowed on the way, where infinities and NaN are nobody's fault.
Interval checked(Interval x, Type type) {
  if (!x.known())
    return Interval::anything();
  double most = is_floating(type) ? (type == Type::f16 ? 6e4 : largest) : 0x1p31;
  if (std::max(magnitude(x), x.terms) > most)
    return Interval::anything();
  if (!is_floating(type) && (!std::isfinite(x.lo) || !(x.hi < 0x1p31)))
    return Interval::anything();
  return x;
}

/// The result of sums and products: off by `roundings` units of the terms, unless exact.
Interval rounded(Interval x, Type type, double roundings, bool operands_exact) {
  if (is_floating(type) && !(operands_exact && exact(x, type)))
    x = widened(x, roundings * unit(type) * x.terms + tiny);
  return checked(x, type);
}

Interval relative(Interval x, Type type, double roundings, double absolute = 0) {
  x = widened(x, roundings * unit(type) * magnitude(x) + absolute + tiny);
  x.terms = magnitude(x);
  return checked(x, type);
}

template <class F> Interval monotone(Interval x, F f) {
  Interval y{f(x.lo), f(x.hi)};
  y.terms = magnitude(y);
  return y;
}

/// The least and largest of f at the corners.
template <class F> Interval corners(Interval a, Interval b, F f) {
  double v[] = {f(a.lo, b.lo), f(a.lo, b.hi), f(a.hi, b.lo), f(a.hi, b.hi)};
  Interval out{v[0], v[0]};
  for (double x : v) {
    if (std::isnan(x))
      return Interval::anything();
    out.lo = std::min(out.lo, x);
    out.hi = std::max(out.hi, x);
  }
  out.terms = magnitude(out);
  return out;
}

bool infinite(const Interval &x) { return std::isinf(x.lo) || std::isinf(x.hi); }

/// Infinity times what may be 0 is NaN, though no corner is.
Interval product(Interval a, Interval b) {
  auto may_be_zero = [](const Interval &x) { return x.lo <= 0 && x.hi >= 0; };
  if ((infinite(a) && may_be_zero(b)) || (infinite(b) && may_be_zero(a)))
    return a.is_point() && b.is_point() ? Interval::not_a_number() : Interval::anything();
  return corners(a, b, [](double x, double y) { return x * y; });
}

/// Infinity less infinity is NaN.
Interval sum(Interval a, Interval b) {
  if ((a.lo == -infinity && b.hi == infinity) || (a.hi == infinity && b.lo == -infinity))
    return a.is_point() && b.is_point() ? Interval::not_a_number() : Interval::anything();
  return {a.lo + b.lo, a.hi + b.hi, a.terms + b.terms};
}

Interval truth(bool can_be_false, bool can_be_true) { return {can_be_false ? 0.0 : 1.0, can_be_true ? 1.0 : 0.0, 1}; }

Interval compare(Expr::Op op, Interval a, Interval b) {
  switch (op) {
  case Expr::less:
    return truth(a.hi >= b.lo, a.lo < b.hi);
  case Expr::less_equal:
    return truth(a.hi > b.lo, a.lo <= b.hi);
  case Expr::greater:
    return compare(Expr::less, b, a);
  case Expr::greater_equal:
    return compare(Expr::less_equal, b, a);
  default: {
    bool meet = a.lo <= b.hi && b.lo <= a.hi, same = a.is_point() && b.is_point() && a.lo == b.lo;
    return op == Expr::equal ? truth(!same, meet) : truth(meet, !same);
  }
  }
}

/// a / b where b is 0: infinite, with a sign where that of the 0 is certain; 0 / 0 is NaN.
Interval divided_by_zero(Interval a, Interval b) {
  if (a.lo <= 0 && a.hi >= 0)
    return a.is_point() ? Interval::not_a_number() : Interval::anything();
  if (b.terms == 0 && !std::signbit(b.lo) && !std::signbit(b.hi)) // no difference, no product with a negative number
    return Interval::point(a.lo > 0 ? infinity : -infinity);
  return {-infinity, infinity, 0, Interval::infinite};
}

/// What NaN makes of an operation, whatever its other operand is.
Interval of_not_a_number(Expr::Op op, Type type) {
  switch (op) {
  case Expr::not_equal:
    return Interval::point(1);
  case Expr::less:
  case Expr::less_equal:
  case Expr::greater:
  case Expr::greater_equal:
  case Expr::equal:
    return Interval::point(0);
  case Expr::cast:
    return is_floating(type) ? Interval::not_a_number() : Interval::point(type == Type::boolean);
  case Expr::power: // 1 to the power NaN, and NaN to the power 0
    return Interval::anything();
  default:
    return Interval::not_a_number();
  }
}

/// a / b rounded down; of whole numbers by 0 it is 0, else by zero it is anything.
Interval quotient_down(Interval a, Interval b, Type type) {
  if (b.lo <= 0 && b.hi >= 0)
    return b.is_point() && !is_floating(type) ? Interval::point(0) : Interval::anything();
  Interval q = corners(a, b, [](double x, double y) { return x / y; });
  if (!q.known())
    return q;
  if (is_floating(type))
    q = relative(q, type, 6);
  return monotone(q, [](double x) { return std::floor(x); });
}

Interval remainder(Interval a, Interval b, Type type) {
  Interval q = quotient_down(a, b, type);
  if (!q.known())
    return q;
  if (b.is_point() && b.lo == 0)
    return Interval::point(0);
  if (q.is_point())
    return apply(Expr::sub, type, type, {a, apply(Expr::mul, type, type, {q, b})});
  Interval all{std::min(b.lo, 0.0), std::max(b.hi, 0.0)};
  all.terms = magnitude(a) + magnitude(b);
  return is_floating(type) ? rounded(all, type, 8, false) : all;
}

Interval power(Interval a, Interval b, Type type) {
  if (b.is_point() && b.lo == std::floor(b.lo) && std::fabs(b.lo) <= 64) {
    auto raise = [&](double x, double) { return std::pow(x, b.lo); };
    if (b.lo < 0 && a.lo <= 0 && a.hi >= 0)
      return Interval::anything();
    Interval y = corners(a, b, raise);
    if (a.lo < 0 && a.hi > 0 && std::fmod(b.lo, 2) == 0)
      y.lo = b.lo == 0 ? 1 : 0;
    if (y.known() && a.is_point() && b.lo >= 0 && exact(y, type) && exact(a, type))
      return y;
    return y.known() ? relative(y, type, 4 * std::fabs(b.lo) + 8) : y;
  }
  if (a.lo <= 0) // 0 to a power that is no whole number, too: pow(0, y) is computed through a logarithm
    return Interval::anything();
  Interval y = corners(a, b, [](double x, double p) { return std::pow(x, p); });
  double steepness = std::max(std::fabs(std::log(a.lo)), std::fabs(std::log(a.hi))) * magnitude(b);
  return y.known() ? relative(y, type, 16 + 8 * steepness) : y;
}

Interval wave(Interval x, bool cosine, Type type) {
  if (magnitude(x) > 1e4 || !std::isfinite(x.lo) || !std::isfinite(x.hi))
    return Interval::anything();
  double middle = (x.lo + x.hi) / 2, half = (x.hi - x.lo) / 2, y = cosine ? std::cos(middle) : std::sin(middle);
  double off = half + 16 * unit(type) * (1 + magnitude(x));
  return {std::max(y - off, -1 - off), std::min(y + off, 1 + off), 1};
}

} // namespace

Interval Interval::point(double value) {
  return value == value ? Interval{value, value, std::isfinite(value) ? std::fabs(value) : 0} : anything();
}

Interval Interval::anything() {
  double nan = std::numeric_limits<double>::quiet_NaN();
  return {nan, nan, 0};
}

Interval Interval::not_a_number() {
  Interval out = anything();
  out.certain = nan;
  return out;
}

bool Interval::contains(double value) const {
  if (certain != in_range)
    return certain == nan ? std::isnan(value) : std::isinf(value);
  return !known() || (value >= lo && value <= hi);
}

Interval hull(Interval a, Interval b) {
  if (a.certain != Interval::in_range && a.certain == b.certain)
    return a;
  if (!a.known() || !b.known())
    return Interval::anything();
  return {std::min(a.lo, b.lo), std::max(a.hi, b.hi), std::max(a.terms, b.terms)};
}

Interval stored(Type type, Interval x) {
  if (!x.known() || x.certain == Interval::infinite)
    return x;
  if (type == Type::i8 && (x.lo < -128 || x.hi > 127))
    return x.is_point() ? Interval::point(wrap_to_bits(x.lo, 8)) : Interval::anything();
  if (is_floating(type)) {
    Interval y = monotone(x, [&](double v) { return round_to(type, v); });
    // Rounded here or not, and perhaps elsewhere on the way; small f16 are rounded by more than `unit` of themselves.
    y.lo = std::min(x.lo, y.lo);
    y.hi = std::max(x.hi, y.hi);
    if (!exact(x, type))
      y = widened(y, unit(type) * magnitude(y));
    return checked(y, type);
  }
  x.terms = magnitude(x);
  return checked(x, type);
}

Interval apply(Expr::Op op, Type type, Type from, const std::vector<Interval> &args) {
  if (is_floating(type) && op != Expr::cast)
    type = Type::f32; // formulas compute in f32
  const Interval &a = args[0], b = args.size() > 1 ? args[1] : Interval();
  // What decides alone, whatever the other side is.
  if (op == Expr::logical_and && (a.never() || b.never()))
    return Interval::point(0);
  if (op == Expr::logical_or && (a.certainly() || b.certainly()))
    return Interval::point(1);
  if (op == Expr::select)
    return a.certainly() ? b : a.never() ? args[2] : a.known() ? hull(b, args[2]) : Interval::anything();
  bool logical = op == Expr::logical_and || op == Expr::logical_or || op == Expr::logical_not;
  for (const Interval &arg : args)
    if (arg.certain == Interval::nan && !logical)
      return of_not_a_number(op, type);
  for (const Interval &arg : args)
    if (!arg.known())
      return type == Type::boolean ? truth(true, true) : Interval::anything();
  // Points that are no small binary fractions: x - x is 0, but not where the 0.75 behind it is taken from x first.
  auto is_exact = [&](const Interval &x) { return !is_floating(from) || exact(x, type); };
  bool exact_operands = is_exact(a) && (args.size() < 2 || is_exact(b));
  switch (op) {
  case Expr::add:
  case Expr::sub: {
    Interval y = sum(a, op == Expr::add ? b : Interval{-b.hi, -b.lo, b.terms});
    return y.known() ? rounded(y, type, 2, exact_operands) : y;
  }
  case Expr::mul: {
    Interval y = product(a, b);
    if (!y.known())
      return y;
    y.terms = a.terms * b.terms;
    return rounded(y, type, 2, exact_operands);
  }
  case Expr::div: {
    if (b.lo <= 0 && b.hi >= 0)
      return b.is_point() ? divided_by_zero(a, b) : Interval::anything();
    Interval y = corners(a, b, [](double x, double v) { return x / v; });
    if (!y.known())
      return y;
    y.terms = a.terms / std::min(std::fabs(b.lo), std::fabs(b.hi));
    return rounded(y, type, 6, false);
  }
  case Expr::floor_div:
    return checked(quotient_down(a, b, type), type);
  case Expr::mod:
    return remainder(a, b, type);
  case Expr::power:
    return power(a, b, type);
  case Expr::negate:
    return {-a.hi, -a.lo, a.terms};
  case Expr::minimum:
    return {std::min(a.lo, b.lo), std::min(a.hi, b.hi), std::max(a.terms, b.terms)};
  case Expr::maximum:
    return {std::max(a.lo, b.lo), std::max(a.hi, b.hi), std::max(a.terms, b.terms)};
  case Expr::absolute:
    if (a.lo >= 0)
      return a;
    if (a.certain == Interval::infinite)
      return Interval::point(infinity);
    return a.hi <= 0 ? Interval{-a.hi, -a.lo, a.terms} : Interval{0, std::max(-a.lo, a.hi), a.terms};
  case Expr::less:
  case Expr::less_equal:
  case Expr::greater:
  case Expr::greater_equal:
  case Expr::equal:
  case Expr::not_equal:
    return compare(op, a, b);
  case Expr::logical_and:
    return {std::min(a.lo, b.lo), std::min(a.hi, b.hi), 1};
  case Expr::logical_or:
    return {std::max(a.lo, b.lo), std::max(a.hi, b.hi), 1};
  case Expr::logical_not:
    return {1 - a.hi, 1 - a.lo, 1};
  case Expr::cast:
    if (type == Type::boolean)
      return apply(Expr::not_equal, Type::boolean, from, {a, Interval::point(0)});
    if (!is_floating(type)) {
      if (magnitude(a) > 0x1p30 || !std::isfinite(a.lo) || !std::isfinite(a.hi))
        return Interval::anything();
      return checked(monotone(a, [&](double v) { return cast_to(type, v); }), type);
    }
    if (is_floating(type) && unit(type) <= unit(from))
      return magnitude(a) <= 0x1p24 || is_floating(from) ? a : stored(type, a);
    return stored(type, a);
  case Expr::exp: {
    if (a.hi > 80)
      return Interval::anything();
    return relative(monotone(a, [](double x) { return std::exp(x); }), type, 6);
  }
  case Expr::log:
    if (a.lo <= 1e-30 || !std::isfinite(a.hi))
      return Interval::anything();
    return relative(monotone(a, [](double x) { return std::log(x); }), type, 8, 8 * unit(type));
  case Expr::sqrt:
    if (a.lo < 0)
      return Interval::anything();
    return relative(monotone(a, [](double x) { return std::sqrt(x); }), type, 6, a.lo < 1e-30 ? 1e-18 : 0);
  case Expr::sin:
    return wave(a, false, type);
  case Expr::cos:
    return wave(a, true, type);
  case Expr::tanh:
    return relative(monotone(a, [](double x) { return std::tanh(x); }), type, 16);
  case Expr::erf:
    return relative(monotone(a, [](double x) { return std::erf(x); }), type, 8, 4e-7);
  case Expr::floor:
    return monotone(a, [](double x) { return std::floor(x); });
  default:
    return Interval::anything();
  }
}

Interval reduce(Reducer reducer, Type type, const std::vector<Interval> &terms) {
  if (reducer == Reducer::argmax || reducer == Reducer::argmin) {
    double sign = reducer == Reducer::argmax ? 1 : -1, sure = -infinity, most = -infinity;
    auto best = [&](const Interval &t) { return sign > 0 ? t.hi : -t.lo; };
    for (const Interval &t : terms) {
      if (!t.known())
        return {0, double(terms.size()) - 1, double(terms.size())};
      sure = std::max(sure, sign > 0 ? t.lo : -t.hi); // the winner has at least that
      most = std::max(most, best(t));
    }
    Interval out = Interval::point(0);
    bool found = false;
    for (size_t i = 0; i < terms.size(); ++i) {
      if (best(terms[i]) < sure)
        continue;
      if (!found)
        out = Interval::point(double(i));
      found = true;
      out.hi = out.terms = double(i);
      if (out.lo == out.hi && terms[i].is_point() && most == sure) // of equals the first
        break;
    }
    return out;
  }
  Interval y;
  bool operands_exact = true;
  switch (reducer) {
  case Reducer::sum:
    y = Interval::point(0);
    break;
  case Reducer::prod:
  case Reducer::all:
    y = Interval::point(1);
    break;
  case Reducer::max:
    y = Interval::point(is_floating(type) ? -infinity : -0x1p31);
    break;
  case Reducer::min:
    y = Interval::point(is_floating(type) ? infinity : 0x1p31 - 1);
    break;
  default:
    y = Interval::point(0);
  }
  for (const Interval &t : terms) {
    operands_exact &= !is_floating(type) || exact(t, type);
    switch (reducer) {
    case Reducer::sum:
      if (!t.known())
        return t;
      y = sum(y, t);
      break;
    case Reducer::prod:
      if (!t.known())
        return t;
      y = product(y, t);
      y.terms = magnitude(y);
      operands_exact &= exact(y, type) || !is_floating(type);
      break;
    default: {
      if (t.certain == Interval::nan) // the evaluator keeps it, kernels may skip it
        return Interval::anything();
      Expr::Op op = reducer == Reducer::max   ? Expr::maximum
                    : reducer == Reducer::min ? Expr::minimum
                    : reducer == Reducer::any ? Expr::logical_or
                                              : Expr::logical_and;
      y = apply(op, type, type, {y, t});
    }
    }
    if (!y.known())
      return y;
  }
  if (reducer == Reducer::sum || reducer == Reducer::prod)
    return rounded(y, type, double(terms.size()) + 1, operands_exact);
  return y;
}

} // namespace heddle::fuzz
