// The values that each type of the language can hold. The evaluator computes in double; what it stores in a
// tensor of a declared type goes through here, once, from the exact double (no second rounding through f32).
#pragma once

#include "dsl/check/program.h"

#include <cmath>
#include <cstdint>
#include <limits>

namespace heddle {

/// Rounds to nearest even with `bits` of significand and the exponent range of a small binary format.
inline double round_to_format(double value, int bits, int least_exponent, double largest) {
  if (!std::isfinite(value) || value == 0)
    return value;
  int exponent;
  std::frexp(value, &exponent); // |value| in [2^(exponent - 1), 2^exponent)
  int unit = std::max(exponent - bits, least_exponent);
  double rounded = std::ldexp(std::nearbyint(std::ldexp(value, -unit)), unit);
  return std::fabs(rounded) > largest ? std::copysign(std::numeric_limits<double>::infinity(), value) : rounded;
}

/// Two's complement wrap-around of a whole number, as integer instructions do; 0 for what is no number.
inline double wrap_to_bits(double value, int bits) {
  double half = std::ldexp(1.0, bits - 1);
  if (value >= -half && value < half)
    return value;
  if (!std::isfinite(value))
    return 0;
  double rest = value - std::floor(value / (2 * half)) * (2 * half);
  return rest >= half ? rest - 2 * half : rest;
}

/// `value`, computed exactly, as a tensor of `type` holds it.
inline double round_to(Type type, double value) {
  switch (type) {
  case Type::f32:
    return static_cast<float>(value);
  case Type::f16:
    return round_to_format(value, 11, -24, 65504.0);
  case Type::bf16:
    return round_to_format(value, 8, -133, 0x1.FEp127);
  case Type::i32:
    return wrap_to_bits(value, 32);
  case Type::i8:
    return wrap_to_bits(value, 8);
  case Type::boolean:
    return value != 0;
  }
  return value;
}

/// `value` of any type converted by a written cast: a real number loses its fraction and stops at the ends of
/// the integer's range (NaN is 0), as the compiled code's conversion does.
inline double cast_to(Type type, double value) {
  if (type != Type::i32 && type != Type::i8)
    return round_to(type, value);
  double half = type == Type::i32 ? 0x1p31 : 0x1p7;
  if (std::isnan(value))
    return 0;
  return std::fmin(std::fmax(std::trunc(value), -half), half - 1);
}

} // namespace heddle
