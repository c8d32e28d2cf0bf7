// Integer arithmetic: add to dp4a, with and without carries.
#include "tests/gpu/driver/isa/lanes.h"

#include <algorithm>

namespace ptx {
namespace {

template <class T> using Unsigned = std::make_unsigned_t<T>;
template <class T> struct Wider;
template <> struct Wider<u16> {
  using type = u32;
};
template <> struct Wider<s16> {
  using type = s32;
};
template <> struct Wider<u32> {
  using type = u64;
};
template <> struct Wider<s32> {
  using type = s64;
};
template <> struct Wider<u64> {
  using type = unsigned __int128;
};
template <> struct Wider<s64> {
  using type = __int128;
};

// In 64 bits without sign, where nothing overflows that matters.
template <class T> T low_product(T a, T b) { return T(u64(Unsigned<T>(a)) * u64(Unsigned<T>(b))); }
template <class T> T high_product(T a, T b) {
  using W = typename Wider<T>::type;
  return T(Unsigned<T>((W(a) * W(b)) >> (8 * sizeof(T))));
}
template <class T> T sum(T a, T b) { return T(Unsigned<T>(a) + Unsigned<T>(b)); }

/// Division by zero gives all ones, as devices have it; the least number by -1 gives itself.
template <class T> T quotient(T a, T b) {
  if (b == 0)
    return T(~Unsigned<T>(0));
  if (std::is_signed_v<T> && b == T(-1))
    return T(Unsigned<T>(0) - Unsigned<T>(a));
  return T(a / b);
}
template <class T> T remainder(T a, T b) {
  if (b == 0)
    return a;
  return std::is_signed_v<T> && b == T(-1) ? T(0) : T(a % b);
}

template <class T> void arithmetic(Table &t, const std::string &type) {
  using U = Unsigned<T>;
  t.add(lanes("add." + type, [](T a, T b) { return sum(a, b); }));
  t.add(lanes("sub." + type, [](T a, T b) { return T(U(a) - U(b)); }));
  t.add(lanes("mul.lo." + type, [](T a, T b) { return low_product(a, b); }));
  t.add(lanes("mul.hi." + type, [](T a, T b) { return high_product(a, b); }));
  t.add(lanes("mad.lo." + type, [](T a, T b, T c) { return sum(low_product(a, b), c); }));
  t.add(lanes("mad.hi." + type, [](T a, T b, T c) { return sum(high_product(a, b), c); }));
  t.add(lanes("div." + type, [](T a, T b) { return quotient(a, b); }));
  t.add(lanes("rem." + type, [](T a, T b) { return remainder(a, b); }));
  t.add(lanes("min." + type, [](T a, T b) { return std::min(a, b); }));
  t.add(lanes("max." + type, [](T a, T b) { return std::max(a, b); }));
  t.add(lanes("sad." + type, [](T a, T b, T c) { return T(U(c) + (a < b ? U(b) - U(a) : U(a) - U(b))); }));
  if constexpr (std::is_signed_v<T>) {
    t.add(lanes("neg." + type, [](T a) { return T(U(0) - U(a)); }));
    t.add(lanes("abs." + type, [](T a) { return a < 0 ? T(U(0) - U(a)) : a; }));
  }
  if constexpr (sizeof(T) < 8) {
    using W = typename Wider<T>::type;
    t.add(lanes("mul.wide." + type, [](T a, T b) { return W(W(a) * W(b)); }));
    t.add(lanes("mad.wide." + type, [](T a, T b, W c) { return sum(W(W(a) * W(b)), c); }));
  }
}

template <class T> void arithmetic24(Table &t, const std::string &type) {
  static constexpr auto low24 = [](T a) { return T(Unsigned<T>(a) << 8) >> 8; };
  static constexpr auto product = [](T a, T b) { return u64(s64(low24(a)) * s64(low24(b))); };
  t.add(lanes("mul24.lo." + type, [](T a, T b) { return T(product(a, b)); }));
  t.add(lanes("mul24.hi." + type, [](T a, T b) { return T(product(a, b) >> 16); }));
  t.add(lanes("mad24.lo." + type, [](T a, T b, T c) { return sum(T(product(a, b)), c); }));
  t.add(lanes("mad24.hi." + type, [](T a, T b, T c) { return sum(T(product(a, b) >> 16), c); }));
}

template <class A, class B> void dot_products(Table &t, const std::string &types) {
  static constexpr auto byte = []<class T>(T v, int i) { // of the sign of T
    return std::is_signed_v<T> ? s32(s8(u32(v) >> (8 * i))) : s32(u8(u32(v) >> (8 * i)));
  };
  static constexpr auto half = []<class T>(T v, int i) {
    return std::is_signed_v<T> ? s32(s16(u32(v) >> (16 * i))) : s32(u16(u32(v) >> (16 * i)));
  };
  t.add(lanes("dp4a." + types, [](A a, B b, u32 c) {
    for (int i = 0; i < 4; i++)
      c += u32(byte(a, i) * byte(b, i));
    return c;
  }));
  t.add(lanes("dp2a.lo." + types,
              [](A a, B b, u32 c) { return c + u32(half(a, 0) * byte(b, 0)) + u32(half(a, 1) * byte(b, 1)); }));
  t.add(lanes("dp2a.hi." + types,
              [](A a, B b, u32 c) { return c + u32(half(a, 0) * byte(b, 2)) + u32(half(a, 1) * byte(b, 3)); }));
}

// --- carries: one bit per lane, in Warp::carry. Mode bit 0: it is added; bit 1: it is set.
enum CarryForm { plain, low, high, signed_high };

template <class T, CarryForm form, bool subtract> void carry_lanes(Warp &warp, const Op &op, Mask mask) {
  using W = typename Wider<T>::type;
  using S = std::make_signed_t<T>;
  const T *a = warp.reg<T>(op.a), *b = warp.reg<T>(op.b), *c = warp.reg<T>(op.c);
  T results[warp_size];
  Mask carry = warp.carry;
  for (int l = 0; l < warp_size; l++) {
    T x = form == plain         ? a[l]
          : form == low         ? low_product(a[l], b[l])
          : form == signed_high ? T(high_product(S(a[l]), S(b[l])))
                                : high_product(a[l], b[l]);
    T y = form == plain ? b[l] : c[l];
    T in = T(op.mode & 1 ? carry >> l & 1 : 0);
    W wide = subtract ? W(x) - y - in : W(x) + y + in;
    results[l] = T(wide);
    if (op.mode & 2)
      carry = (carry & ~(1u << l)) | Mask(wide >> (8 * sizeof(T)) & 1) << l;
  }
  warp.carry = (warp.carry & ~mask) | (carry & mask);
  store_lanes(warp, op.d, mask, results);
}

void decode_carry(Decoder &d, const Instruction &row) {
  decode_lanes(d, row);
  std::string_view opcode = d.statement.parts[0];
  d.op.mode = u16((opcode.back() == 'c') | (d.has("cc") ? 2 : 0));
}

template <class T> void carries(Table &t, const std::string &type) {
  std::vector<u8> two(3, sizeof(T)), three(4, sizeof(T));
  for (std::string name : {"add.cc.", "addc.", "addc.cc."})
    t.add({name + type, carry_lanes<T, plain, false>, decode_carry, Class::integer, two});
  for (std::string name : {"sub.cc.", "subc.", "subc.cc."})
    t.add({name + type, carry_lanes<T, plain, true>, decode_carry, Class::integer, two});
  for (std::string name : {"mad.lo.cc.", "madc.lo.", "madc.lo.cc."})
    t.add({name + type, carry_lanes<T, low, false>, decode_carry, Class::integer, three});
  for (std::string name : {"mad.hi.cc.", "madc.hi.", "madc.hi.cc."})
    t.add({name + type, type[0] == 's' ? carry_lanes<T, signed_high, false> : carry_lanes<T, high, false>, decode_carry,
           Class::integer, three});
}

} // namespace

void add_integer_rows(Table &t) {
  arithmetic<u16>(t, "u16"), arithmetic<s16>(t, "s16");
  arithmetic<u32>(t, "u32"), arithmetic<s32>(t, "s32");
  arithmetic<u64>(t, "u64"), arithmetic<s64>(t, "s64");
  arithmetic24<u32>(t, "u32"), arithmetic24<s32>(t, "s32");
  dot_products<u32, u32>(t, "u32.u32"), dot_products<u32, s32>(t, "u32.s32");
  dot_products<s32, u32>(t, "s32.u32"), dot_products<s32, s32>(t, "s32.s32");
  // A carry is the same bit for either sign.
  carries<u32>(t, "u32"), carries<u64>(t, "u64");
  carries<u32>(t, "s32"), carries<u64>(t, "s64");
  t.add(lanes("add.sat.s32", [](s32 a, s32 b) { return s32(std::clamp<s64>(s64(a) + b, INT32_MIN, INT32_MAX)); }));
  t.add(lanes("sub.sat.s32", [](s32 a, s32 b) { return s32(std::clamp<s64>(s64(a) - b, INT32_MIN, INT32_MAX)); }));
  t.add(lanes("min.relu.s32", [](s32 a, s32 b) { return std::max(std::min(a, b), 0); }));
  t.add(lanes("max.relu.s32", [](s32 a, s32 b) { return std::max(std::max(a, b), 0); }));
  t.add(lanes("mad.hi.sat.s32",
              [](s32 a, s32 b, s32 c) { return s32(std::clamp<s64>((s64(a) * b >> 32) + c, INT32_MIN, INT32_MAX)); }));
  static constexpr auto halves = [](u32 a, u32 b, auto f) {
    return u32(u16(f(a, b))) | u32(u16(f(a >> 16, b >> 16))) << 16;
  };
  t.add(lanes("add.u16x2", [](u32 a, u32 b) { return halves(a, b, [](u32 x, u32 y) { return u16(x + y); }); }));
  t.add(lanes("add.s16x2", [](u32 a, u32 b) { return halves(a, b, [](u32 x, u32 y) { return u16(x + y); }); }));
  t.add(lanes("min.u16x2",
              [](u32 a, u32 b) { return halves(a, b, [](u32 x, u32 y) { return std::min(u16(x), u16(y)); }); }));
  t.add(lanes("max.u16x2",
              [](u32 a, u32 b) { return halves(a, b, [](u32 x, u32 y) { return std::max(u16(x), u16(y)); }); }));
  t.add(lanes("min.s16x2",
              [](u32 a, u32 b) { return halves(a, b, [](u32 x, u32 y) { return std::min(s16(x), s16(y)); }); }));
  t.add(lanes("max.s16x2",
              [](u32 a, u32 b) { return halves(a, b, [](u32 x, u32 y) { return std::max(s16(x), s16(y)); }); }));
}

} // namespace ptx
