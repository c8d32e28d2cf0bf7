// Numbers of 16 bits, rounding into narrow formats, and what devices do with NaN and subnormals.
#pragma once

#include "tests/gpu/driver/types.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace ptx {

using f16 = _Float16;

struct bf16 {
  u16 bits;
  explicit operator float() const { return std::bit_cast<float>(u32(bits) << 16); }
};

/// Two of them in one register.
template <class T> struct Two {
  T low, high;
};

inline float flush(float x) { // subnormals are zeros
  u32 b = std::bit_cast<u32>(x);
  return b & 0x7f800000 ? x : std::bit_cast<float>(b & 0x80000000);
}

inline float canonical(float x) { return x == x ? x : std::bit_cast<float>(0x7fffffffu); }
inline double canonical(double x) { return x; } // f64 keeps what the NaN carries
inline f16 canonical(f16 x) { return x == x ? x : std::bit_cast<f16>(u16(0x7fff)); }

inline float saturate(float x) { return x > 0 ? (x < 1 ? x : 1.0f) : 0.0f; } // NaN becomes 0

/// Round to nearest even; NaN is canonical.
inline bf16 to_bf16(float x) {
  u32 b = std::bit_cast<u32>(x);
  u16 rounded = u16((b + 0x7fff + (b >> 16 & 1)) >> 16);
  return {(b & 0x7fffffff) > 0x7f800000 ? u16(0x7fff) : rounded};
}

inline float to_float(f16 x) { return float(x); }
inline float to_float(bf16 x) { return float(x); }

/// a + b so rounded that a further rounding to a narrower format is as if it were the only one (round to odd).
inline double sum_to_odd(double a, double b) {
  double s = a + b;
  double t = s - a;
  double error = (a - (s - t)) + (b - t);
  u64 bits = std::bit_cast<u64>(s);
  if (error != 0 && std::isfinite(s) && !(bits & 1))
    bits += (error > 0) == (s > 0) ? 1 : u64(-1);
  return std::bit_cast<double>(bits);
}

enum class Rounding : u8 { nearest_even, nearest_away, zero, down, up };

/// A binary format: bits of exponent and of fraction. Saturating formats have no infinity.
struct Format {
  u8 exponent, fraction;
  bool has_infinity = true;
};
inline constexpr Format f16_format{5, 10}, bf16_format{8, 7}, tf32_format{8, 10}, f32_format{8, 23};
inline constexpr Format e4m3_format{4, 3, false}, e5m2_format{5, 2};

/// The bits of x, rounded once, sign above exponent above fraction. Beyond the largest number: infinity, or the
/// largest where `finite` says so or the direction does.
inline u64 round_to_format(double x, Format f, Rounding rounding, bool finite = false) {
  u64 sign = std::signbit(x) ? 1ull << (f.exponent + f.fraction) : 0;
  u64 infinity = ((1ull << f.exponent) - 1) << f.fraction;
  if (x != x)
    return infinity | ((1ull << f.fraction) - 1);
  int bias = (1 << (f.exponent - 1)) - 1;
  u64 largest = f.has_infinity ? infinity - 1 : infinity | ((1ull << f.fraction) - 2); // e4m3: only all ones is NaN
  double magnitude = std::fabs(x);
  auto overflow = [&] {
    bool to_largest = finite || rounding == Rounding::zero || (rounding == Rounding::down && !sign) ||
                      (rounding == Rounding::up && sign);
    return sign | (to_largest ? largest : f.has_infinity ? infinity : infinity | ((1ull << f.fraction) - 1));
  };
  if (std::isinf(x))
    return finite || !f.has_infinity ? overflow() : sign | infinity;
  if (magnitude == 0)
    return sign;
  int exponent = std::max(std::ilogb(magnitude), 1 - bias);
  double steps = std::ldexp(magnitude, f.fraction - exponent); // in units of the last place
  double whole = std::floor(steps), rest = steps - whole;
  bool up = false;
  switch (rounding) {
  case Rounding::nearest_even:
    up = rest > 0.5 || (rest == 0.5 && u64(whole) % 2);
    break;
  case Rounding::nearest_away:
    up = rest >= 0.5;
    break;
  case Rounding::zero:
    break;
  case Rounding::down:
    up = sign && rest > 0;
    break;
  case Rounding::up:
    up = !sign && rest > 0;
    break;
  }
  u64 units = u64(whole) + up; // a carry into the exponent is the next binade
  u64 bits = units;
  if (units >> f.fraction)
    bits = (u64(exponent + bias - 1) << f.fraction) + units;
  return bits > largest ? overflow() : sign | bits;
}

} // namespace ptx
