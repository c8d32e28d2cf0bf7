// Between which numbers whole numbers are, as far as dims and operations tell.
#pragma once

#include "dsl/check/program.h"

namespace heddle::checking {

/// Both ends included. Doubles, so that no end overflows.
struct Range {
  double least, most;
};

Range operator+(const Range &a, const Range &b);
Range operator-(const Range &a, const Range &b);
Range operator*(const Range &a, const Range &b);

inline constexpr Range of_i32 = {-0x1p31, 0x1p31 - 1};
inline constexpr Range of_i8 = {-128, 127};

bool fits(const Range &range, const Range &into);
Range hull(const Range &a, const Range &b);
/// What both have in common; nothing but the nearer end of `b` where that is nothing.
Range common(const Range &a, const Range &b);
Range smaller(const Range &a, const Range &b);
Range larger(const Range &a, const Range &b);
/// Rounded down, by any number: none is further from 0 than the dividend, but for the rounding.
Range divide(const Range &a, const Range &by);
Range remainder(const Range &by);

Range values_of(const Size &size, const std::vector<Dim> &dims);

/// A size that is never less than `size`, nor than 0, in any call.
Size at_least(const Size &size, const std::vector<Dim> &dims);

} // namespace heddle::checking
