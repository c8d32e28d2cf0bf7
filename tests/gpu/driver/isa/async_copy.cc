// cp.async: copies from global to shared memory that run beside the program. A copy is made when it is waited for;
// until then nobody may touch where it goes (SharedMemory::begin_copy).
#include "tests/gpu/driver/device/access.h"
#include "tests/gpu/driver/device/memory.h"
#include "tests/gpu/driver/isa/lanes.h"

#include <algorithm>

namespace ptx {
namespace {

void copy(Warp &warp, const Op &op, Mask mask) {
  Access from;
  u64 to[warp_size];
  lane_addresses(warp, op, to);
  second_addresses(warp, op, from.address);
  const u32 *sizes = warp.reg<u32>(op.c);
  Mask skipped = op.flag ? warp.predicate(op.q) : 0; // .ignore-src
  auto bytes_of = [&](int l) { return skipped >> l & 1 ? 0u : sizes[l]; };
  u32 width = u32(op.immediate);
  Mask whole = 0;
  for_lanes(mask, [&](int l) {
    if (bytes_of(l) > width)
      warp.fault(op, l, Code::launch_failed,
                 "cp.async of " + std::to_string(bytes_of(l)) + " of " + std::to_string(width) + " bytes");
    whole |= Mask(bytes_of(l) == width) << l;
  });
  Op source = op;
  source.space = Space::global;
  u64 addresses[warp_size];
  memcpy(addresses, from.address, sizeof addresses); // reach() changes those of other lanes
  if (whole)
    reach(warp, source, whole, width, Purpose::read, from);
  for_lanes(mask, [&](int l) {
    u32 bytes = bytes_of(l);
    if (bytes && bytes < width) {
      Access one;
      for (u32 i = 0; i < bytes; i++) { // any number of them, so byte by byte
        std::fill_n(one.address, warp_size, addresses[l] + i);
        reach(warp, source, 1u << l, 1, Purpose::read, one);
      }
    }
    to[l] = space_of(to[l]) == Space::shared ? to[l] - shared_window : to[l];
    warp.block->shared.begin_copy(warp, op, l, to[l], width);
    warp.open_copies.push_back({u32(l), op.index, to[l], addresses[l], width, bytes});
  });
  if (warp.block->measure) {
    Counter &c = warp.counters[op.index];
    c.stores++;
    measure_passes(to, mask, width, c.store_cost, c.store_ideal);
  }
}

void complete(Warp &warp, const std::vector<PendingCopy> &copies) {
  SharedMemory &shared = warp.block->shared;
  for (const PendingCopy &c : copies) {
    const Op &op = warp.block->kernel->ops[c.op];
    memset(shared.data() + c.to, 0, c.bytes);
    if (c.from_bytes) {
      const Allocation *a = device_memory().find(c.from);
      memcpy(shared.data() + c.to, a->data + (c.from - a->base), c.from_bytes);
    }
    shared.end_copy(warp, op, int(c.lane), c.to, c.bytes);
  }
}

void commit(Warp &warp, const Op &, Mask) {
  warp.committed_copies.push_back(std::move(warp.open_copies));
  warp.open_copies.clear();
}

/// All but the last `immediate` groups.
void wait_group(Warp &warp, const Op &op, Mask) {
  auto &groups = warp.committed_copies;
  size_t keep = size_t(op.immediate);
  while (groups.size() > keep) {
    complete(warp, groups.front());
    groups.erase(groups.begin());
  }
}

void wait_all(Warp &warp, const Op &op, Mask mask) {
  commit(warp, op, mask);
  wait_group(warp, op, mask);
}

/// cp.async.cg.shared.global [to], [from], 16 {, bytes or ignore-source}
void decode_copy(Decoder &d, const Instruction &) {
  d.op.space = Space::shared;
  d.address(0);
  d.address(1, true);
  d.op.immediate = s64(d.number(2));
  if (d.op.immediate != 4 && d.op.immediate != 8 && d.op.immediate != 16)
    malformed(d.statement.line, "cp.async of " + std::to_string(d.op.immediate) + " bytes");
  d.op.c = d.builder.constant(u64(d.op.immediate), 4);
  if (d.has("L2::cache_hint"))
    throw Unsupported{"cache policies"};
  if (d.count() > 3) {
    d.op.flag = d.register_type(d.operand(3)).kind == 'p';
    if (d.op.flag)
      d.op.q = d.source(3, 0);
    else
      d.op.c = d.source(3, 4);
  }
  d.uses_shared(unsigned(d.op.immediate));
}

std::string key(const Statement &s) {
  if (s.has("bulk") || s.has("mbarrier"))
    return std::string(s.opcode);
  for (std::string_view part : {"ca", "cg", "commit_group", "wait_group", "wait_all"})
    if (s.has(part))
      return "cp.async." + std::string(part);
  return "";
}

} // namespace

void add_async_copy_rows(Table &t) {
  t.family("cp", key);
  auto row = [&](const char *name, Execute execute, Decode decode) {
    t.add({name, execute, decode, Class::async_copy});
  };
  row("cp.async.ca", copy, decode_copy);
  row("cp.async.cg", copy, decode_copy);
  row("cp.async.commit_group", commit, [](Decoder &, const Instruction &) {});
  row("cp.async.wait_group", wait_group, [](Decoder &d, const Instruction &) { d.op.immediate = s64(d.number(0)); });
  row("cp.async.wait_all", wait_all, [](Decoder &, const Instruction &) {});
}

} // namespace ptx
