// What a compiled program may answer: for each number the least and the largest value that correct code can give.
// Correct code computes in the declared types, in any order of summation, with fused or separate products, and with
// functions as exact as compiler/halide/math.h says. `terms` is the sum of the magnitudes that went into a sum:
// rounding is relative to it, not to the result, because terms may be added in any order and cancel.
//
// With u = 2^-24 the rules are: a sum of n terms is off by (n + 1) u terms (n u terms is the bound for any order; one
// more for the evaluator's own rounding), a product by 2 u of its magnitude, a quotient by 6 u (its reciprocal may be
// rounded first), a function by its stated error doubled. Whole and binary fractions that stay exact in any order have
// no error, so that programs on whole numbers are compared bit by bit. What IEEE 754 makes of an exact 0 as divisor and
// of exact infinities is held to, NaN included.
#pragma once

#include "dsl/check/program.h"

#include <vector>

namespace heddle::fuzz {

struct Interval {
  double lo = 0, hi = 0; // NaN: anything
  double terms = 0;
  enum Certain { in_range, nan, infinite } certain = in_range; // nan: it is NaN; infinite: it is so, of either sign

  static Interval point(double value);
  static Interval anything();
  static Interval not_a_number();
  /// Whether some values are wrong.
  bool held() const { return known() || certain == nan; }
  bool known() const { return lo == lo && hi == hi; }
  bool is_point() const { return lo == hi; }
  bool certainly() const { return lo == 1 && hi == 1; } // of a condition
  bool never() const { return lo == 0 && hi == 0; }
  bool contains(double value) const;
};

Interval hull(Interval a, Interval b);
/// What an operation of the language gives, computed in `type`; `from` is the type of its first argument.
Interval apply(Expr::Op op, Type type, Type from, const std::vector<Interval> &args);
/// A value as a tensor of that type holds it.
Interval stored(Type type, Interval value);
/// A reduction of all terms in their order.
Interval reduce(Reducer reducer, Type type, const std::vector<Interval> &terms);

} // namespace heddle::fuzz
