// References for comparisons, choices, moves and conversions (cases.h).
#include "tests/gpu/instructions/cases.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace gpu_test {
namespace {

using I = __int128;
bool is_float(const std::string &t) { return t == "f16" || t == "bf16" || t == "f32" || t == "f64" || t == "tf32"; }

/// Less, equal, greater or neither, as bits 0 to 3; a comparison is the set of outcomes that it accepts.
unsigned outcome(const std::string &type, bool ftz, uint64_t a, uint64_t b) {
  if (!is_float(type)) {
    I x = integer(type, a), y = integer(type, b);
    return x < y ? 1 : x == y ? 2 : 4;
  }
  long double x = real(type, a), y = real(type, b);
  if (ftz) {
    x = fabsl(x) < 0x1p-126L ? 0 : x;
    y = fabsl(y) < 0x1p-126L ? 0 : y;
  }
  return x != x || y != y ? 8 : x < y ? 1 : x == y ? 2 : 4;
}

unsigned accepted(const std::string &comparison) {
  static const std::pair<const char *, unsigned> all[] = {
      {"eq", 2}, {"ne", 5},   {"lt", 1},   {"le", 3},  {"gt", 4},   {"ge", 6},   {"lo", 1},   {"ls", 3},  {"hi", 4},
      {"hs", 6}, {"equ", 10}, {"neu", 13}, {"ltu", 9}, {"leu", 11}, {"gtu", 12}, {"geu", 14}, {"num", 7}, {"nan", 8}};
  for (auto [name, set] : all)
    if (comparison == name)
      return set;
  return 0;
}

/// x as the integer type, cut at its ends.
uint64_t to_integer(const std::string &to, const std::string &from, long double x) {
  unsigned bits = bits_of(to);
  if (x != x)
    return bits == 64 || from == "f64" ? 1ull << (bits - 1) : 0;
  long double low = is_signed(to) ? -ldexpl(1, int(bits) - 1) : 0, high = ldexpl(1, int(bits) - is_signed(to)) - 1;
  return truncated(bits, x <= low ? I(low) : x >= high ? (I(1) << (bits - is_signed(to))) - 1 : I(x));
}

} // namespace

void add_choice_cases(const std::vector<std::string> &rows, std::vector<Case> &cases) {
  for (const std::string &row : rows) {
    std::vector<std::string> p = parts_of(row);
    std::string op = p[0], type = p.back();
    bool ftz = std::find(p.begin(), p.end(), "ftz") != p.end();
    if (op == "setp") {
      unsigned set = accepted(p[1]);
      if (type == "f16x2" || type == "bf16x2") { // a result of each half, combined with a third predicate
        std::string half = type.substr(0, type.size() - 2), text = row;
        text.insert(text.find('.', 5), ".and");
        for (unsigned shift : {0, 16}) {
          auto holds = [=](uint64_t a, uint64_t b) {
            return (outcome(half, ftz, a >> shift & 0xffff, b >> shift & 0xffff) & set) != 0;
          };
          cases.push_back({row, "{ .reg .pred r; " + row + (shift ? " r|D" : " D|r") + ", A, B; }", "pred", type, type,
                           "", [=](uint64_t a, uint64_t b, uint64_t) { return uint64_t(holds(a, b)); }});
          cases.push_back(
              {row, "{ .reg .pred q, r; setp.ne.u32 q, C, 0; " + text + (shift ? " r|D" : " D|r") + ", A, B, !q; }",
               "pred", type, type, "u32",
               [=](uint64_t a, uint64_t b, uint64_t c) { return uint64_t(holds(a, b) && c == 0); }});
        }
        continue;
      }
      cases.push_back({row, spelled(row, 2), "pred", type, type, "", [=](uint64_t a, uint64_t b, uint64_t) {
                         return uint64_t((outcome(type, ftz, a, b) & set) != 0);
                       }});
      if (type == "f16" || type == "bf16") // these have one result only
        continue;
      // Both results, combined with a third predicate.
      std::string text = row;
      text.insert(text.find('.', 5), ".xor");
      cases.push_back({row, "{ .reg .pred q, r; setp.ne.u32 q, C, 0; " + text + " r|D, A, B, !q; }", "pred", type, type,
                       "u32", [=](uint64_t a, uint64_t b, uint64_t c) {
                         return uint64_t(!(outcome(type, ftz, a, b) & set) != (c == 0));
                       }});
    } else if (op == "set") {
      std::string result = p[p.size() - 2];
      unsigned set = accepted(p[1]);
      cases.push_back({row, spelled(row, 2), result, type, type, "", [=](uint64_t a, uint64_t b, uint64_t) {
                         bool holds = outcome(type, ftz, a, b) & set;
                         return uint64_t(!holds ? 0 : result == "f32" ? 0x3f800000 : 0xffffffff);
                       }});
    } else if (op == "selp") {
      cases.push_back({row, spelled(row, 3), type, type, type, "pred",
                       [](uint64_t a, uint64_t b, uint64_t p) { return p ? a : b; }});
    } else if (op == "slct") {
      std::string value = p[p.size() - 2];
      cases.push_back({row, spelled(row, 3), value, value, value, type, [=](uint64_t a, uint64_t b, uint64_t c) {
                         bool first =
                             type == "s32" ? integer(type, c) >= 0 : real(type, c) >= 0 || (ftz && !(c & 0x7f800000));
                         return first ? a : b;
                       }});
    } else if (op == "mov" || (op == "cvta" && p[1] == "to" && p[2] == "global")) {
      cases.push_back({row, spelled(row, 1), type, type, "", "", [](uint64_t a, uint64_t, uint64_t) { return a; }});
    }
  }
}

void add_conversion_cases(const std::vector<std::string> &rows, std::vector<Case> &cases) {
  for (const std::string &row : rows) {
    std::vector<std::string> p = parts_of(row);
    if (p[0] != "cvt" || p.size() != 3)
      continue;
    std::string to = p[1], from = p[2];
    auto add = [&](const std::string &modifiers, auto f) {
      cases.push_back({row, spelled("cvt" + modifiers + "." + to + "." + from, 1), to, from, "", "",
                       [=](uint64_t a, uint64_t, uint64_t) { return f(a); }});
    };
    bool narrow_to = to[0] == 'e', narrow_from = from[0] == 'e';
    if (to == "f16x2" && narrow_from) {
      std::string each = from.substr(0, 4);
      cases.push_back({row, "cvt.rn.f16x2." + from + " D, A;", to, "b16", "", "", [=](uint64_t a, uint64_t, uint64_t) {
                         return nearest("f16", real(each, a & 255)) | nearest("f16", real(each, a >> 8 & 255)) << 16;
                       }});
    } else if (narrow_to) { // beyond the largest number: the largest
      std::string each = to.substr(0, 4);
      uint64_t largest = each == "e4m3" ? 0x7e : 0x7b;
      auto one = [=](long double x) {
        if (x != x)
          return uint64_t(0x7f);
        uint64_t bits = nearest(each, std::isinf(x) ? copysignl(1e30L, x) : x);
        return (bits & 127) > largest ? (bits & 128) | largest : bits;
      };
      if (from == "f32")
        cases.push_back(
            {row, "cvt.rn.satfinite." + to + ".f32 D, A, B;", "b16", "f32", "f32", "",
             [=](uint64_t a, uint64_t b, uint64_t) { return one(real("f32", a)) << 8 | one(real("f32", b)); }});
      else
        cases.push_back(
            {row, "cvt.rn.satfinite." + to + ".f16x2 D, A;", "b16", "f16x2", "", "",
             [=](uint64_t a, uint64_t, uint64_t) { return one(real("f16", a >> 16)) << 8 | one(real("f16", a)); }});
    } else if (to == "f16x2" || to == "bf16x2") {
      std::string each = to.substr(0, to.size() - 2);
      for (bool relu : {false, true})
        cases.push_back({row, std::string("cvt.rn") + (relu ? ".relu." : ".") + to + ".f32 D, A, B;", to, "f32", "f32",
                         "", [=](uint64_t a, uint64_t b, uint64_t) {
                           auto one = [&](uint64_t v) {
                             long double x = real("f32", v);
                             return x != x ? 0x7fff : relu && !(x > 0) ? 0 : nearest(each, x);
                           };
                           return one(a) << 16 | one(b);
                         }});
    } else if (to == "tf32") {
      add(".rna", [](uint64_t a) { // half of the last place is added to the magnitude
        uint32_t b = uint32_t(a);
        bool nan = (b & 0x7fffffff) > 0x7f800000, infinite = (b & 0x7fffffff) == 0x7f800000;
        return uint64_t(nan ? 0x7fffe000 : infinite ? b : (b + 0x1000) & ~0x1fffu);
      });
    } else if (is_float(to) && is_float(from)) {
      if (to == from) {
        for (auto [mode, f] : {std::pair{".rni", &nearbyintl}, {".rzi", &truncl}, {".rmi", &floorl}, {".rpi", &ceill}})
          add(mode, [=](uint64_t a) {
            long double x = real(from, a);
            return x != x && to == "f64" ? a : nearest(to, x != x ? (long double)NAN : f(x));
          });
        continue;
      }
      bool widens = bits_of(to) > bits_of(from);
      auto value = [=](uint64_t a) {
        long double x = real(from, a);
        return x != x ? (to == "f64" ? nearest(to, x) : to == "f32" ? 0x7fffffff : 0x7fff) : nearest(to, x);
      };
      add(widens ? "" : ".rn", value);
      if (from == "f64" && to == "f32")
        for (auto [mode, direction] : {std::pair{".rm", -1}, {".rp", 1}})
          add(mode, [=](uint64_t a) {
            double x = std::bit_cast<double>(a);
            float r = float(x);
            if (x == x && direction < 0 && r > x)
              r = std::nextafter(r, -INFINITY);
            if (x == x && direction > 0 && r < x)
              r = std::nextafter(r, INFINITY);
            return uint64_t(x != x ? 0x7fffffff : std::bit_cast<uint32_t>(r));
          });
    } else if (is_float(from)) {
      for (auto [mode, f] : {std::pair{".rni", &nearbyintl}, {".rzi", &truncl}, {".rmi", &floorl}, {".rpi", &ceill}})
        add(mode, [=](uint64_t a) { return to_integer(to, from, f(real(from, a))); });
    } else if (is_float(to)) {
      add(".rn", [=](uint64_t a) { return nearest(to, (long double)integer(from, a)); });
    } else {
      add("", [=](uint64_t a) { return truncated(bits_of(to), integer(from, a)); });
      bool can_saturate =
          is_signed(from) ? !is_signed(to) || bits_of(to) < bits_of(from) : bits_of(to) - is_signed(to) < bits_of(from);
      if (can_saturate)
        add(".sat", [=](uint64_t a) {
          I v = integer(from, a), one = 1;
          unsigned bits = bits_of(to);
          I low = is_signed(to) ? -(one << (bits - 1)) : 0, high = (one << (bits - is_signed(to))) - 1;
          return truncated(bits, std::min(std::max(v, low), high));
        });
    }
  }
  for (const std::string &row : rows)
    if (row.rfind("cvt.pack", 0) == 0) {
      std::vector<std::string> p = parts_of(row);
      unsigned bits = bits_of(p[3]);
      bool three = p.size() == 6;
      cases.push_back({row, spelled(row, three ? 3 : 2), "b32", "s32", "s32", three ? "b32" : "",
                       [=](uint64_t a, uint64_t b, uint64_t c) {
                         auto cut = [&](uint64_t v) {
                           I x = integer("s32", v), one = 1;
                           I low = is_signed(p[3]) ? -(one << (bits - 1)) : 0,
                             high = (one << (bits - is_signed(p[3]))) - 1;
                           return truncated(bits, std::min(std::max(x, low), high));
                         };
                         return truncated(32, I(cut(a) << bits | cut(b) | (three ? c << 16 : 0)));
                       }});
    }
}

} // namespace gpu_test
