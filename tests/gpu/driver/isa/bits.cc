// Logic, shifts, fields of bits.
#include "tests/gpu/driver/isa/lanes.h"

#include <algorithm>

namespace ptx {
namespace {

template <class T> void logic(Table &t, const std::string &type) {
  t.add(lanes("and." + type, [](T a, T b) { return T(a & b); }));
  t.add(lanes("or." + type, [](T a, T b) { return T(a | b); }));
  t.add(lanes("xor." + type, [](T a, T b) { return T(a ^ b); }));
  t.add(lanes("not." + type, [](T a) { return T(~a); }));
  t.add(lanes("cnot." + type, [](T a) { return T(a == 0); }));
  t.add(lanes("shl." + type, [](T a, u32 n) { return n >= 8 * sizeof(T) ? T(0) : T(a << n); }));
}

template <class T> void shift_right(Table &t, const std::string &type) {
  t.add(lanes("shr." + type,
              [](T a, u32 n) { return T(a >> std::min<u32>(n, 8 * sizeof(T) - 1) >> (n >= 8 * sizeof(T))); }));
}

template <class T> u32 highest_bit(T a) { // of what differs from the sign
  using U = std::make_unsigned_t<T>;
  U bits = a < 0 ? U(~U(a)) : U(a);
  return bits ? u32(8 * sizeof(T)) - 1 - u32(std::countl_zero(bits)) : ~0u;
}

template <class T> void fields(Table &t, const std::string &type) {
  using U = std::make_unsigned_t<T>;
  t.add(lanes("bfe." + type, [](T a, u32 position, u32 length) {
    constexpr u32 width = 8 * sizeof(T);
    position &= 255, length &= 255;
    U field = position < width ? U(U(a) >> position) : U(0);
    U mask = length < width ? U((U(1) << length) - 1) : U(~U(0));
    U sign = 0;
    if (std::is_signed_v<T> && length && U(a) >> std::min(position + length - 1, width - 1) & 1)
      sign = U(~U(0));
    U inside = position < width ? U(U(~U(0)) >> position) : U(0); // bits that exist in a
    return T((field & mask & inside) | (sign & ~(mask & inside)));
  }));
  t.add(lanes("bfind." + type, [](T a) { return highest_bit(a); }));
  t.add(lanes("bfind.shiftamt." + type, [](T a) {
    u32 bit = highest_bit(a);
    return bit == ~0u ? bit : u32(8 * sizeof(T)) - 1 - bit;
  }));
}

template <class U> void whole_words(Table &t, const std::string &type) {
  t.add(lanes("popc." + type, [](U a) { return u32(std::popcount(a)); }));
  t.add(lanes("clz." + type, [](U a) { return u32(std::countl_zero(a)); }));
  t.add(lanes("brev." + type, [](U a) {
    U r = 0;
    for (u32 i = 0; i < 8 * sizeof(U); i++)
      r = U(r << 1) | U(a >> i & 1);
    return r;
  }));
}

/// bfi d, a, b, position, length: a's low bits into b.
template <class U> void insert(Warp &warp, const Op &op, Mask mask) {
  const U *a = warp.reg<U>(op.a), *b = warp.reg<U>(op.b);
  const u32 *positions = warp.reg<u32>(op.c), *lengths = warp.reg<u32>(op.q);
  constexpr u32 width = 8 * sizeof(U);
  U results[warp_size];
  for (int l = 0; l < warp_size; l++) {
    u32 position = positions[l] & 255, length = lengths[l] & 255;
    U field = length < width ? U((U(1) << length) - 1) : U(~U(0));
    U place = position < width ? U(field << position) : U(0);
    U moved = position < width ? U(a[l] << position) : U(0);
    results[l] = (b[l] & ~place) | (moved & place);
  }
  store_lanes(warp, op.d, mask, results);
}

template <class U> void decode_insert(Decoder &d, const Instruction &) {
  d.op.d = d.destination(0, sizeof(U));
  d.op.a = d.source(1, sizeof(U)), d.op.b = d.source(2, sizeof(U));
  d.op.c = d.source(3, 4), d.op.q = d.source(4, 4);
}

/// lop3 d, a, b, c, table: bit i of the table is the result where a, b, c are the bits of i.
void any_function(Warp &warp, const Op &op, Mask mask) {
  const u32 *a = warp.reg<u32>(op.a), *b = warp.reg<u32>(op.b), *c = warp.reg<u32>(op.c);
  u32 results[warp_size] = {};
  for (u32 i = 0; i < 8; i++)
    if (op.immediate >> i & 1)
      for (int l = 0; l < warp_size; l++)
        results[l] |= (i & 4 ? a[l] : ~a[l]) & (i & 2 ? b[l] : ~b[l]) & (i & 1 ? c[l] : ~c[l]);
  store_lanes(warp, op.d, mask, results);
}

u64 joined(u32 low, u32 high) { return u64(high) << 32 | low; }

/// prmt: each nibble of the selector names a byte of a and b, or its sign.
u32 permuted(u32 a, u32 b, const u32 (&selectors)[4]) {
  u32 r = 0;
  for (int i = 0; i < 4; i++) {
    u32 byte = u8(joined(a, b) >> (8 * (selectors[i] & 7)));
    if (selectors[i] & 8)
      byte = byte & 128 ? 255 : 0;
    r |= byte << (8 * i);
  }
  return r;
}

template <class F> auto permute_by(F f) {
  return [](u32 a, u32 b, u32 c) {
    u32 selectors[4];
    for (u32 i = 0; i < 4; i++)
      selectors[i] = F{}(c & 3, i);
    return permuted(a, b, selectors);
  };
}

/// Predicates: one mask instead of 32 lanes.
template <class F> struct PredicateFunction {
  static void execute(Warp &warp, const Op &op, Mask mask) {
    warp.set_predicate(op.d, F{}(warp.predicate(op.a), warp.predicate(op.b)), mask);
  }
};
template <class F> Instruction predicates(std::string name, F, size_t sources = 2) {
  return {std::move(name), &PredicateFunction<F>::execute, decode_lanes, Class::predicate,
          std::vector<u8>(1 + sources, 0)};
}

} // namespace

void add_bit_rows(Table &t) {
  logic<u16>(t, "b16"), logic<u32>(t, "b32"), logic<u64>(t, "b64");
  shift_right<u16>(t, "b16"), shift_right<u32>(t, "b32"), shift_right<u64>(t, "b64");
  shift_right<u16>(t, "u16"), shift_right<u32>(t, "u32"), shift_right<u64>(t, "u64");
  shift_right<s16>(t, "s16"), shift_right<s32>(t, "s32"), shift_right<s64>(t, "s64");
  fields<u32>(t, "u32"), fields<s32>(t, "s32"), fields<u64>(t, "u64"), fields<s64>(t, "s64");
  whole_words<u32>(t, "b32"), whole_words<u64>(t, "b64");
  t.add({"bfi.b32", insert<u32>, decode_insert<u32>});
  t.add({"bfi.b64", insert<u64>, decode_insert<u64>});
  t.add(predicates("and.pred", [](Mask a, Mask b) { return a & b; }));
  t.add(predicates("or.pred", [](Mask a, Mask b) { return a | b; }));
  t.add(predicates("xor.pred", [](Mask a, Mask b) { return a ^ b; }));
  t.add(predicates("not.pred", [](Mask a, Mask) { return ~a; }, 1));
  t.add({"lop3.b32", any_function, [](Decoder &d, const Instruction &) {
           d.op.d = d.destination(0, 4);
           d.op.a = d.source(1, 4), d.op.b = d.source(2, 4), d.op.c = d.source(3, 4);
           d.op.immediate = s64(d.number(4));
         }});
  t.add(lanes("shf.l.wrap.b32", [](u32 a, u32 b, u32 n) { return u32(joined(a, b) << (n & 31) >> 32); }));
  t.add(lanes("shf.r.wrap.b32", [](u32 a, u32 b, u32 n) { return u32(joined(a, b) >> (n & 31)); }));
  t.add(lanes("shf.l.clamp.b32", [](u32 a, u32 b, u32 n) { return n >= 32 ? a : u32(joined(a, b) << n >> 32); }));
  t.add(lanes("shf.r.clamp.b32", [](u32 a, u32 b, u32 n) { return u32(joined(a, b) >> std::min(n, 32u)); }));
  t.add(lanes("prmt.b32",
              [](u32 a, u32 b, u32 c) { return permuted(a, b, {c & 15, c >> 4 & 15, c >> 8 & 15, c >> 12 & 15}); }));
  t.add(lanes("prmt.b32.f4e", permute_by([](u32 c, u32 i) { return c + i; })));
  t.add(lanes("prmt.b32.b4e", permute_by([](u32 c, u32 i) { return (c - i) & 7; })));
  t.add(lanes("prmt.b32.rc8", permute_by([](u32 c, u32) { return c; })));
  t.add(lanes("prmt.b32.ecl", permute_by([](u32 c, u32 i) { return std::max(c, i); })));
  t.add(lanes("prmt.b32.ecr", permute_by([](u32 c, u32 i) { return std::min(c, i); })));
  t.add(lanes("prmt.b32.rc16", permute_by([](u32 c, u32 i) { return (c & 1) * 2 + (i & 1); })));
  t.add(lanes("szext.wrap.u32", [](u32 a, u32 n) { return n &= 31, a & ((1u << n) - 1); }));
  t.add(lanes("szext.wrap.s32", [](s32 a, u32 n) { return n &= 31, n ? s32(u32(a) << (32 - n)) >> (32 - n) : 0; }));
  t.add(lanes("bmsk.wrap.b32", [](u32 a, u32 n) { return u32(((1u << (n & 31)) - 1) << (a & 31)); }));
}

} // namespace ptx
