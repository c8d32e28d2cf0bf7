// References for integer arithmetic and for bits (cases.h).
#include "tests/gpu/instructions/cases.h"

#include <algorithm>

namespace gpu_test {
namespace {

using I = __int128;
bool is_integer_type(const std::string &t) { return (t[0] == 'u' || t[0] == 's') && t.size() <= 3 && t != "sat"; }

I clamped(I v, I low, I high) { return std::min(std::max(v, low), high); }

/// What op gives for numbers of the type; the result is truncated by the caller.
std::function<I(I, I, I)> operation(const std::string &op, const std::string &form, unsigned bits, bool sign) {
  if (op == "add")
    return [](I a, I b, I) { return a + b; };
  if (op == "sub")
    return [](I a, I b, I) { return a - b; };
  if (op == "mul" && form != "hi")
    return [](I a, I b, I) { return I((unsigned __int128)a * (unsigned __int128)b); };
  if (op == "mul")
    return [=](I a, I b, I) { return sign ? a * b >> bits : I((unsigned __int128)a * (unsigned __int128)b >> bits); };
  if (op == "mad" && form != "hi")
    return [](I a, I b, I c) { return I((unsigned __int128)a * (unsigned __int128)b + (unsigned __int128)c); };
  if (op == "mad")
    return [=](I a, I b, I c) {
      return (sign ? a * b >> bits : I((unsigned __int128)a * (unsigned __int128)b >> bits)) + c;
    };
  if (op == "div")
    return [](I a, I b, I) { return b == 0 ? I(-1) : a / b; };
  if (op == "rem")
    return [](I a, I b, I) { return b == 0 ? a : a % b; };
  if (op == "min")
    return [](I a, I b, I) { return a < b ? a : b; };
  if (op == "max")
    return [](I a, I b, I) { return a < b ? b : a; };
  if (op == "sad")
    return [](I a, I b, I c) { return c + (a < b ? b - a : a - b); };
  if (op == "neg")
    return [](I a, I, I) { return -a; };
  if (op == "abs")
    return [](I a, I, I) { return a < 0 ? -a : a; };
  return nullptr;
}

int sources_of(const std::string &op) { return op == "mad" || op == "sad" ? 3 : op == "neg" || op == "abs" ? 1 : 2; }

std::string wider(const std::string &t) { return t.substr(0, 1) + std::to_string(2 * bits_of(t)); }

} // namespace

void add_integer_cases(const std::vector<std::string> &rows, std::vector<Case> &cases) {
  for (const std::string &row : rows) {
    std::vector<std::string> p = parts_of(row);
    std::string op = p[0], type = p.back();
    bool carries = std::find(p.begin(), p.end(), "cc") != p.end() || op == "addc" || op == "subc" || op == "madc";
    if (op == "dp4a" || op == "dp2a") {
      std::string ta = p[p.size() - 2], tb = type;
      bool high = p[1] == "hi", four = op == "dp4a";
      Case c{row, spelled(row, 3), "u32", "b32", "b32", "b32", nullptr};
      c.reference = [=](uint64_t a, uint64_t b, uint64_t sum) {
        for (int i = 0; i < (four ? 4 : 2); i++) {
          I x = four ? integer(ta[0] == 's' ? "s8" : "u8", a >> 8 * i)
                     : integer(ta[0] == 's' ? "s16" : "u16", a >> 16 * i);
          I y = integer(tb[0] == 's' ? "s8" : "u8", b >> (8 * i + (high ? 16 : 0)));
          sum += uint64_t(x * y);
        }
        return truncated(32, I(sum));
      };
      cases.push_back(c);
      continue;
    }
    if (op == "mul24" || op == "mad24") {
      bool high = p[1] == "hi", adds = op == "mad24", sign = is_signed(type);
      cases.push_back({row, spelled(row, adds ? 3 : 2), type, type, type, adds ? type : "",
                       [=](uint64_t a, uint64_t b, uint64_t c) {
                         auto low = [&](uint64_t v) {
                           I x = I(v & 0xffffff);
                           return sign && x >> 23 ? x - (1 << 24) : x;
                         };
                         I product = low(a) * low(b);
                         return truncated(32, (high ? product >> 16 : product) + (adds ? I(c) : 0));
                       }});
      continue;
    }
    if (type == "u16x2" || type == "s16x2") {
      std::string half = type.substr(0, 3);
      auto f = operation(op, "", 16, half[0] == 's');
      if (!f || p.size() != 2)
        continue;
      cases.push_back({row, spelled(row, 2), "b32", "b32", "b32", "", [=](uint64_t a, uint64_t b, uint64_t) {
                         return truncated(16, f(integer(half, a), integer(half, b), 0)) |
                                truncated(16, f(integer(half, a >> 16), integer(half, b >> 16), 0)) << 16;
                       }});
      continue;
    }
    if (!is_integer_type(type) || carries || p.size() > 4)
      continue;
    std::string form = p.size() > 2 ? p[1] : "";
    unsigned bits = bits_of(type);
    bool saturates = row.find(".sat.") != row.npos, relu = row.find(".relu.") != row.npos, wide = form == "wide";
    auto f = operation(op, form, bits, is_signed(type));
    if (!f || (form != "" && form != "lo" && form != "hi" && !wide && !saturates && !relu))
      continue;
    int n = sources_of(op);
    std::string result = wide ? wider(type) : type;
    cases.push_back({row, spelled(row, n), result, type, n > 1 ? type : "", n > 2 ? result : "",
                     [=](uint64_t a, uint64_t b, uint64_t c) {
                       I v = f(integer(type, a), integer(type, b), integer(result, c));
                       if (saturates)
                         v = clamped(v, -(I(1) << 31), (I(1) << 31) - 1);
                       if (relu)
                         v = v < 0 ? 0 : v;
                       return truncated(bits_of(result), v);
                     }});
  }
}

void add_bit_cases(const std::vector<std::string> &rows, std::vector<Case> &cases) {
  for (const std::string &row : rows) {
    std::vector<std::string> p = parts_of(row);
    std::string op = p[0], type = p.back();
    auto add = [&](int n, std::string b, std::string c, std::string d, auto f) {
      cases.push_back({row, spelled(row, n), d, type, b, c, f});
    };
    unsigned bits = type == "pred" ? 1 : isdigit(type.back()) ? bits_of(type) : 32;
    auto bit = [](uint64_t v, unsigned i) { return v >> i & 1; };
    if (op == "and")
      add(2, type, "", type, [](uint64_t a, uint64_t b, uint64_t) { return a & b; });
    else if (op == "or")
      add(2, type, "", type, [](uint64_t a, uint64_t b, uint64_t) { return a | b; });
    else if (op == "xor")
      add(2, type, "", type, [](uint64_t a, uint64_t b, uint64_t) { return a ^ b; });
    else if (op == "not")
      add(1, "", "", type, [=](uint64_t a, uint64_t, uint64_t) { return truncated(bits, ~I(a)); });
    else if (op == "cnot")
      add(1, "", "", type, [](uint64_t a, uint64_t, uint64_t) { return uint64_t(!a); });
    else if (op == "shl")
      add(2, "u32", "", type,
          [=](uint64_t a, uint64_t n, uint64_t) { return n >= bits ? 0 : truncated(bits, I(a) << n); });
    else if (op == "shr")
      add(2, "u32", "", type, [=](uint64_t a, uint64_t n, uint64_t) {
        return truncated(bits, integer(type, a) >> std::min<uint64_t>(n, 100));
      });
    else if (op == "popc")
      add(1, "", "", "u32", [=](uint64_t a, uint64_t, uint64_t) {
        uint64_t n = 0;
        for (unsigned i = 0; i < bits; i++)
          n += bit(a, i);
        return n;
      });
    else if (op == "clz")
      add(1, "", "", "u32", [=](uint64_t a, uint64_t, uint64_t) {
        uint64_t n = 0;
        while (n < bits && !bit(a, unsigned(bits - 1 - n)))
          n++;
        return n;
      });
    else if (op == "brev")
      add(1, "", "", type, [=](uint64_t a, uint64_t, uint64_t) {
        uint64_t r = 0;
        for (unsigned i = 0; i < bits; i++)
          r |= bit(a, i) << (bits - 1 - i);
        return r;
      });
    else if (op == "bfind") {
      bool amount = p[1] == "shiftamt";
      add(1, "", "", "u32", [=](uint64_t a, uint64_t, uint64_t) -> uint64_t {
        I v = integer(type, a);
        for (int i = int(bits) - 1; i >= 0; i--)
          if ((v >> i & 1) != (v < 0))
            return uint64_t(amount ? int(bits) - 1 - i : i);
        return 0xffffffff;
      });
    } else if (op == "bfe") {
      // The manual's pseudo-code, bit by bit.
      add(3, "u32", "u32", type, [=](uint64_t a, uint64_t position, uint64_t length) {
        position &= 255, length &= 255;
        bool sign = is_signed(type) && length && bit(a, unsigned(std::min<uint64_t>(position + length - 1, bits - 1)));
        uint64_t d = 0;
        for (unsigned i = 0; i < bits; i++)
          d |= uint64_t(i < length && position + i < bits ? bit(a, unsigned(position + i)) : sign) << i;
        return d;
      });
    } else if (op == "bfi") {
      cases.push_back(
          {row, row + " D, A, B, C, 9;", type, type, type, "u32", [=](uint64_t a, uint64_t b, uint64_t position) {
             position &= 255;
             for (unsigned i = 0; i < 9 && position + i < bits; i++)
               b = (b & ~(1ull << (position + i))) | bit(a, i) << (position + i);
             return b;
           }});
    } else if (op == "lop3") {
      cases.push_back({row, "lop3.b32 D, A, B, C, 0xca;", "b32", "b32", "b32", "b32",
                       [](uint64_t a, uint64_t b, uint64_t c) { return (a & b) | (~a & c & 0xffffffff); }});
    } else if (op == "shf") {
      bool left = p[1] == "l", wraps = p[2] == "wrap";
      add(3, "b32", "u32", "b32", [=](uint64_t a, uint64_t b, uint64_t n) {
        n = wraps ? n & 31 : std::min<uint64_t>(n, 32);
        uint64_t r = 0;
        for (unsigned i = 0; i < 32; i++) {
          unsigned from = unsigned(left ? 32 + i - n : i + n); // of the 64 bits b:a
          r |= (from < 32 ? bit(a, from) : from < 64 ? bit(b, from - 32) : 0) << i;
        }
        return r;
      });
    } else if (op == "prmt") {
      std::string mode = p.size() > 2 ? p[2] : "";
      cases.push_back({row, spelled(row, 3), "b32", "b32", "b32", "b32", [=](uint64_t a, uint64_t b, uint64_t c) {
                         static const unsigned tables[6][4][4] = {
                             // the manual's tables, for bytes 3, 2, 1, 0
                             {{3, 2, 1, 0}, {4, 3, 2, 1}, {5, 4, 3, 2}, {6, 5, 4, 3}},
                             {{5, 6, 7, 0}, {6, 7, 0, 1}, {7, 0, 1, 2}, {0, 1, 2, 3}},
                             {{0, 0, 0, 0}, {1, 1, 1, 1}, {2, 2, 2, 2}, {3, 3, 3, 3}},
                             {{3, 2, 1, 0}, {3, 2, 1, 1}, {3, 2, 2, 2}, {3, 3, 3, 3}},
                             {{0, 0, 0, 0}, {1, 1, 1, 0}, {2, 2, 1, 0}, {3, 2, 1, 0}},
                             {{1, 0, 1, 0}, {3, 2, 3, 2}, {1, 0, 1, 0}, {3, 2, 3, 2}}};
                         static const char *names[] = {"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"};
                         uint64_t r = 0;
                         for (int i = 0; i < 4; i++) {
                           unsigned select = unsigned(c >> (4 * i)) & 15;
                           for (int m = 0; m < 6; m++)
                             if (mode == names[m])
                               select = tables[m][c & 3][3 - i];
                           uint64_t byte = (select & 4 ? b : a) >> (8 * (select & 3)) & 255;
                           r |= (select & 8 ? (byte >> 7 ? 255 : 0) : byte) << (8 * i);
                         }
                         return r;
                       }});
    } else if (op == "szext") {
      add(2, "u32", "", type, [=](uint64_t a, uint64_t n, uint64_t) -> uint64_t {
        n &= 31;
        I v = I(a & ((1ull << n) - 1));
        return truncated(32, is_signed(type) && n && v >> (n - 1) ? v - (I(1) << n) : v);
      });
    } else if (op == "bmsk")
      add(2, "u32", "", "b32",
          [](uint64_t a, uint64_t n, uint64_t) { return truncated(32, ((I(1) << (n & 31)) - 1) << (a & 31)); });
  }
}

} // namespace gpu_test
