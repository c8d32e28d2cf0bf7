// Instructions that the lanes of a warp execute together: shuffles, votes, reductions, and who is there.
#include "tests/gpu/driver/isa/lanes.h"

#include <algorithm>

namespace ptx {
namespace {

enum Shuffle : u16 { up, down, butterfly, index };

/// The lane that lane l reads, by the PTX manual's formulas, and whether it is in range.
int shuffle_source(u16 mode, int l, u32 b, u32 c, bool &in_range) {
  int offset = int(b & 31), segment = int(c >> 8 & 31), clamp = int(c & 31);
  int most = (l & segment) | (clamp & ~segment), least = l & segment, j;
  switch (mode) {
  case up:
    j = l - offset, in_range = j >= most;
    break;
  case down:
    j = l + offset, in_range = j <= most;
    break;
  case butterfly:
    j = l ^ offset, in_range = j <= most;
    break;
  default:
    j = least | (offset & ~segment), in_range = j <= most;
    break;
  }
  return in_range ? j : l;
}

void shuffle(Warp &warp, const Op &op, Mask mask) {
  const u32 *a = warp.reg<u32>(op.a), *b = warp.reg<u32>(op.b), *c = warp.reg<u32>(op.list[0]);
  u32 results[warp_size] = {};
  Mask in_range = 0;
  for_lanes(mask, [&](int l) {
    bool inside = false;
    int j = shuffle_source(op.mode, l, b[l], c[l], inside);
    if (!(mask >> j & 1))
      warp.fault(op, l, Code::launch_failed, "shuffle from lane " + std::to_string(j) + ", which doesn't take part");
    results[l] = a[j];
    in_range |= Mask(inside) << l;
  });
  store_lanes(warp, op.d, mask, results);
  if (op.flag)
    warp.set_predicate(op.q, in_range, mask);
}

void members(Decoder &d, size_t at) {
  d.op.flow = Flow::warp_sync;
  d.op.c = d.source(at, 4);
}

/// d or d|p
void decode_destination_pair(Decoder &d, unsigned bytes) {
  d.op.d = d.destination(0, bytes);
  if (d.operand(0).second.empty())
    return;
  Operand p = d.operand(0);
  p.text = p.second;
  d.op.flag = true;
  d.op.q = d.destination(p, 0);
}

void decode_shuffle(Decoder &d, const Instruction &row) {
  decode_destination_pair(d, 4);
  d.op.a = d.source(1, 4), d.op.b = d.source(2, 4);
  d.list({d.source(3, 4)});
  members(d, 4);
  d.op.mode = d.has("up") ? up : d.has("down") ? down : d.has("bfly") ? butterfly : index;
}

enum Vote : u16 { vote_any, vote_all, vote_uniform, vote_ballot };

void vote(Warp &warp, const Op &op, Mask mask) {
  Mask p = (op.flag ? ~warp.predicate(op.a) : warp.predicate(op.a)) & mask;
  if (op.mode == vote_ballot) {
    for_lanes(mask, [&](int l) { warp.reg<u32>(op.d)[l] = p; });
    return;
  }
  bool result = op.mode == vote_any ? p != 0 : op.mode == vote_all ? p == mask : p == mask || p == 0;
  warp.set_predicate(op.d, result ? all_lanes : 0, mask);
}

void decode_vote(Decoder &d, const Instruction &row) {
  d.op.mode = d.has("ballot") ? vote_ballot : d.has("any") ? vote_any : d.has("all") ? vote_all : vote_uniform;
  d.op.d = d.destination(0, d.op.mode == vote_ballot ? 4 : 0);
  d.op.a = d.predicate(d.operand(1), d.op.flag);
  members(d, 2);
}

template <class T, class F> void reduce(Warp &warp, const Op &op, Mask mask) {
  const T *a = warp.reg<T>(op.a);
  T result = a[first_lane(mask)];
  for_lanes(mask & (mask - 1), [&](int l) { result = F{}(result, a[l]); });
  for_lanes(mask, [&](int l) { warp.reg<T>(op.d)[l] = result; });
}

void decode_reduce(Decoder &d, const Instruction &) {
  d.op.d = d.destination(0, 4), d.op.a = d.source(1, 4);
  members(d, 2);
}

/// match.any: the members that hold the same value; match.all: all of them, if all do.
template <class T, bool all> void match(Warp &warp, const Op &op, Mask mask) {
  const T *a = warp.reg<T>(op.a);
  Mask equal_to_all = mask;
  for_lanes(mask, [&](int l) {
    Mask same = 0;
    for_lanes(mask, [&](int j) { same |= Mask(a[j] == a[l]) << j; });
    if (same != mask)
      equal_to_all = 0;
    warp.reg<u32>(op.d)[l] = same;
  });
  if (!all)
    return;
  for_lanes(mask, [&](int l) { warp.reg<u32>(op.d)[l] = equal_to_all; });
  if (op.flag)
    warp.set_predicate(op.q, equal_to_all ? all_lanes : 0, mask);
}

template <unsigned bytes> void decode_match(Decoder &d, const Instruction &) {
  decode_destination_pair(d, 4);
  d.op.a = d.source(1, bytes);
  members(d, 2);
}

void who_is_active(Warp &warp, const Op &op, Mask mask) {
  for_lanes(mask, [&](int l) { warp.reg<u32>(op.d)[l] = mask; });
}

/// elect d|p, members: p holds in the lowest one.
void elect(Warp &warp, const Op &op, Mask mask) {
  for_lanes(mask, [&](int l) { warp.reg<u32>(op.d)[l] = u32(first_lane(mask)); });
  if (op.flag)
    warp.set_predicate(op.q, 1u << first_lane(mask), mask);
}

} // namespace

void add_warp_rows(Table &t) {
  auto row = [&](const std::string &name, Execute execute, Decode decode) {
    t.add({name, execute, decode, Class::shuffle});
  };
  for (std::string mode : {"up", "down", "bfly", "idx"})
    row("shfl.sync." + mode + ".b32", shuffle, decode_shuffle);
  for (std::string mode : {"any.pred", "all.pred", "uni.pred", "ballot.b32"})
    row("vote.sync." + mode, vote, decode_vote);
  // .uni is an operation here, not a hint.
  t.family("vote", [](const Statement &s) { return std::string(s.opcode); });
  row("redux.sync.add.u32", reduce<u32, decltype([](u32 a, u32 b) { return a + b; })>, decode_reduce);
  row("redux.sync.add.s32", reduce<u32, decltype([](u32 a, u32 b) { return a + b; })>, decode_reduce);
  row("redux.sync.min.u32", reduce<u32, decltype([](u32 a, u32 b) { return std::min(a, b); })>, decode_reduce);
  row("redux.sync.max.u32", reduce<u32, decltype([](u32 a, u32 b) { return std::max(a, b); })>, decode_reduce);
  row("redux.sync.min.s32", reduce<s32, decltype([](s32 a, s32 b) { return std::min(a, b); })>, decode_reduce);
  row("redux.sync.max.s32", reduce<s32, decltype([](s32 a, s32 b) { return std::max(a, b); })>, decode_reduce);
  row("redux.sync.and.b32", reduce<u32, decltype([](u32 a, u32 b) { return a & b; })>, decode_reduce);
  row("redux.sync.or.b32", reduce<u32, decltype([](u32 a, u32 b) { return a | b; })>, decode_reduce);
  row("redux.sync.xor.b32", reduce<u32, decltype([](u32 a, u32 b) { return a ^ b; })>, decode_reduce);
  row("match.any.sync.b32", match<u32, false>, decode_match<4>);
  row("match.any.sync.b64", match<u64, false>, decode_match<8>);
  row("match.all.sync.b32", match<u32, true>, decode_match<4>);
  row("match.all.sync.b64", match<u64, true>, decode_match<8>);
  row("activemask.b32", who_is_active, [](Decoder &d, const Instruction &) {
    d.op.flow = Flow::gather;
    d.op.d = d.destination(0, 4);
  });
  row("elect.sync", elect, [](Decoder &d, const Instruction &) {
    decode_destination_pair(d, 4);
    members(d, 1);
  });
  t.add({"bar.warp.sync", execute_nothing, [](Decoder &d, const Instruction &) { members(d, 0); }, Class::barrier});
}

} // namespace ptx
