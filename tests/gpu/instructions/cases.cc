// Types, numbers and spellings for the cases (cases.h).
#include "tests/gpu/instructions/cases.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <map>

namespace gpu_test {

std::vector<std::string> parts_of(const std::string &row) {
  std::vector<std::string> parts(1);
  for (char c : row)
    if (c == '.')
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}

std::string joined(const std::vector<std::string> &parts, const std::string &by) {
  std::string text;
  for (size_t i = 0; i < parts.size(); i++)
    text += (i ? by : "") + parts[i];
  return text;
}

unsigned bits_of(const std::string &type) {
  if (type == "pred")
    return 1;
  if (type == "tf32" || type.find("16x2") != type.npos)
    return 32;
  if (type.size() > 4 && type[0] == 'e') // e4m3x2
    return 16;
  return unsigned(atoi(type.c_str() + type.find_first_of("0123456789")));
}

bool is_signed(const std::string &type) { return type[0] == 's'; }

__int128 integer(const std::string &type, uint64_t bits) {
  unsigned n = bits_of(type);
  __int128 value = n == 64 ? bits : bits & ((1ull << n) - 1);
  return is_signed(type) && value >> (n - 1) ? value - (__int128(1) << n) : value;
}

uint64_t truncated(unsigned bits, __int128 value) {
  return bits == 64 ? uint64_t(value) : uint64_t(value) & ((1ull << bits) - 1);
}

std::string spelled(const std::string &opcode, int sources) {
  static const char *operands[] = {" D, A;", " D, A, B;", " D, A, B, C;"};
  return opcode + operands[sources - 1];
}

long double real(const std::string &type, uint64_t bits) {
  if (type == "f64")
    return std::bit_cast<double>(bits);
  if (type == "f32" || type == "tf32")
    return std::bit_cast<float>(uint32_t(bits));
  int fraction = type == "bf16" ? 7 : type == "e4m3" ? 3 : type == "e5m2" ? 2 : 10;
  int exponents = type == "bf16" ? 8 : type == "e4m3" ? 4 : 5, width = 1 + exponents + fraction;
  bits &= (1ull << width) - 1;
  bool negative = bits >> (width - 1);
  int exponent = int(bits >> fraction) & ((1 << exponents) - 1), f = int(bits) & ((1 << fraction) - 1);
  int bias = (1 << (exponents - 1)) - 1, top = (1 << exponents) - 1;
  long double value;
  if (type == "e4m3" && exponent == top && f == 7)
    value = NAN;
  else if (type != "e4m3" && exponent == top)
    value = f ? NAN : INFINITY;
  else
    value = exponent ? ldexpl((1 << fraction) + f, exponent - bias - fraction) : ldexpl(f, 1 - bias - fraction);
  return negative ? -value : value;
}

uint64_t nearest(const std::string &type, long double value) {
  if (type == "f64")
    return std::bit_cast<uint64_t>(double(value));
  if (type == "f32")
    return std::bit_cast<uint32_t>(float(value));
  // All numbers of the type that are not negative, by size; behind them what would come next.
  static std::map<std::string, std::vector<std::pair<long double, uint64_t>>> all;
  auto &numbers = all[type];
  unsigned sign = type[0] == 'e' ? 7 : 15;
  if (numbers.empty())
    for (uint64_t b = 0; !(b >> sign); b++)
      if (long double v = real(type, b); v == v && !std::isinf(v))
        numbers.push_back({v, b});
  if (value != value)
    return type == "e4m3" || type == "e5m2" ? 0x7f : 0x7fff;
  long double magnitude = fabsl(value);
  uint64_t negative = std::signbit(value) ? 1ull << sign : 0;
  auto above = std::lower_bound(numbers.begin(), numbers.end(), std::pair(magnitude, uint64_t(0)));
  if (above == numbers.end()) {
    auto last = numbers.back();
    long double step = last.first - numbers[numbers.size() - 2].first;
    return negative | (magnitude >= last.first + step / 2 ? last.second + 1 : last.second);
  }
  if (above->first == magnitude || above == numbers.begin())
    return negative | above->second;
  auto below = above - 1;
  long double down = magnitude - below->first, up = above->first - magnitude;
  bool take_above = up < down || (up == down && !(above->second & 1));
  return negative | (take_above ? above->second : below->second);
}

} // namespace gpu_test
