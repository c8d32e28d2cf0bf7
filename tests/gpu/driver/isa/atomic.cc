// atom and red. On global memory they are atomic for the threads that execute blocks, too.
#include "tests/gpu/driver/device/access.h"
#include "tests/gpu/driver/isa/floats.h"
#include "tests/gpu/driver/isa/lanes.h"

#include <algorithm>
#include <atomic>

namespace ptx {
namespace {

/// New value of a place from its old one and the operands. T is what it is computed in, one of Bits<sizeof(T)>.
template <class T, class F> void atomic(Warp &warp, const Op &op, Mask mask) {
  using B = Bits<sizeof(T)>;
  using L = Lane<T>;
  Access access;
  lane_addresses(warp, op, access.address);
  reach(warp, op, mask, sizeof(T), Purpose::atomic, access);
  for_lanes(mask, [&](int l) {
    T b = from_lane<T>(warp.reg<L>(op.b)[l]), c = from_lane<T>(warp.reg<L>(op.c)[l]);
    std::atomic_ref<B> place(*reinterpret_cast<B *>(access.host[l]));
    B old = place.load(std::memory_order_relaxed);
    while (!place.compare_exchange_weak(old, std::bit_cast<B>(F{}(std::bit_cast<T>(old), b, c))))
      ;
    warp.reg<L>(op.d)[l] = old;
  });
}

/// atom d, [a], b, c; red [a], b.
void decode(Decoder &d, const Instruction &row) {
  bool reduction = d.statement.parts[0] == "red";
  size_t at = reduction ? 0 : 1;
  unsigned bytes = type_named(split(row.name, '.').back()).bits == 64 ? 8 : 4;
  d.space_of_modifiers();
  d.address(at);
  d.op.d = reduction ? d.builder.new_register(bytes) : d.destination(0, bytes);
  d.op.b = d.source(at + 1, bytes);
  d.op.c = d.count() > at + 2 && d.statement.has("cas") ? d.source(at + 2, bytes) : d.op.b;
  d.uses_shared(type_named(split(row.name, '.').back()).bytes());
}

/// "atom.add.f32", of red, too.
std::string key(const Statement &s) {
  for (std::string_view operation : {"add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas"})
    if (s.has(operation) && !s.has("v2") && !s.has("v4") && !s.has("async"))
      return "atom." + std::string(operation) + "." + std::string(s.parts.back());
  return "";
}

template <class T, class F> void row(Table &t, const char *operation, const std::string &type, F) {
  t.add({"atom." + std::string(operation) + "." + type, atomic<T, F>, decode, Class::atomic});
}

template <class T> void integers(Table &t, const std::string &type) {
  using U = std::make_unsigned_t<T>;
  row<T>(t, "add", type, [](T old, T b, T) { return T(U(old) + U(b)); });
  row<T>(t, "min", type, [](T old, T b, T) { return std::min(old, b); });
  row<T>(t, "max", type, [](T old, T b, T) { return std::max(old, b); });
}

template <class U> void bits(Table &t, const std::string &type) {
  row<U>(t, "and", type, [](U old, U b, U) { return U(old & b); });
  row<U>(t, "or", type, [](U old, U b, U) { return U(old | b); });
  row<U>(t, "xor", type, [](U old, U b, U) { return U(old ^ b); });
  row<U>(t, "exch", type, [](U, U b, U) { return b; });
  row<U>(t, "cas", type, [](U old, U b, U c) { return old == b ? c : old; });
}

template <class T> T sum(T a, T b) {
  if constexpr (sizeof(T) >= 4)
    return a + b;
  else if constexpr (std::is_same_v<T, bf16>)
    return to_bf16(float(a) + float(b));
  else
    return T(float(a) + float(b));
}

} // namespace

void add_atomic_rows(Table &t) {
  t.family("atom", key);
  t.family("red", key);
  integers<u32>(t, "u32"), integers<s32>(t, "s32"), integers<u64>(t, "u64"), integers<s64>(t, "s64");
  bits<u32>(t, "b32"), bits<u64>(t, "b64");
  row<u16>(t, "cas", "b16", [](u16 old, u16 b, u16 c) { return old == b ? c : old; });
  row<u32>(t, "inc", "u32", [](u32 old, u32 b, u32) { return old >= b ? 0 : old + 1; });
  row<u32>(t, "dec", "u32", [](u32 old, u32 b, u32) { return old == 0 || old > b ? b : old - 1; });
  row<float>(t, "add", "f32", [](float old, float b, float) { return sum(old, b); });
  row<double>(t, "add", "f64", [](double old, double b, double) { return sum(old, b); });
  row<f16>(t, "add", "f16", [](f16 old, f16 b, f16) { return sum(old, b); });
  row<bf16>(t, "add", "bf16", [](bf16 old, bf16 b, bf16) { return sum(old, b); });
  row<Two<f16>>(t, "add", "f16x2",
                [](Two<f16> o, Two<f16> b, Two<f16>) { return Two<f16>{sum(o.low, b.low), sum(o.high, b.high)}; });
  row<Two<bf16>>(t, "add", "bf16x2",
                 [](Two<bf16> o, Two<bf16> b, Two<bf16>) { return Two<bf16>{sum(o.low, b.low), sum(o.high, b.high)}; });
}

} // namespace ptx
