// Shared memory and its checks (shared_memory.h).
#include "tests/gpu/driver/device/shared_memory.h"
#include "tests/gpu/driver/device/block.h"

#include <algorithm>
#include <cstring>

namespace ptx {

void SharedMemory::begin(const Kernel &k, u32 dynamic_bytes, std::vector<Warp> &block_warps, bool check) {
  kernel = &k, warps = &block_warps, checks = check;
  extent = k.shared_extent + dynamic_bytes;
  shift = u32(std::countr_zero(k.shared_granule));
  bytes.resize(extent + 16);
  memset(bytes.data(), 0xcb, bytes.size());
  u64 granules = (u64(extent) >> shift) + 2;
  tags.assign(granules, never);
  origins.resize(granules);
  // Between variables, and between the last one and the dynamic part.
  u32 end = 0;
  auto zone = [&](u32 from, u32 to) {
    for (u64 g = (u64(from) + k.shared_granule - 1) >> shift; g < u64(to) >> shift; g++)
      tags[g] = red_zone;
  };
  for (Range variable : k.shared_variables) {
    zone(end, variable.begin);
    end = variable.end;
  }
  zone(end, k.shared_extent);

  for (Warp &w : block_warps)
    for (u32 u = 0; u < max_warps; u++)
      latest_clock = std::max(latest_clock, w.clock[u]);
  bool restart = latest_clock > 1u << 25 || read_clock.size() < block_warps.size() || read_clock[0].size() < granules;
  if (restart) {
    latest_clock = 1;
    read_clock.assign(std::max(block_warps.size(), read_clock.size()), std::vector<u32>(granules));
    std::fill(std::begin(last_write), std::end(last_write), 0);
    std::fill(std::begin(last_read), std::end(last_read), 0);
  }
  for (Warp &w : block_warps) {
    std::fill(std::begin(w.clock), std::end(w.clock), latest_clock);
    w.clock[w.index]++;
  }
}

std::string SharedMemory::writer(u64 granule) const {
  u32 origin = origins[granule];
  return "warp " + std::to_string(tag_warp(tags[granule])) + " wrote at PTX line " +
         std::to_string(kernel->ops[origin >> 5].line);
}

void SharedMemory::race(Warp &warp, const Op &op, int lane, u64 granule, bool writes) {
  std::string what = "race on shared memory at " + hex(granule << shift) + ": warp " + std::to_string(warp.index) +
                     (writes ? " writes" : " reads") + " here what ";
  u32 tag = tags[granule];
  if (tag >= first_tag && tag_warp(tag) != warp.index && tag_clock(tag) > warp.clock[tag_warp(tag)])
    what += writer(granule);
  else
    for (const Warp &u : *warps)
      if (u.index != warp.index && read_clock[u.index][granule] > warp.clock[u.index]) {
        what += "warp " + std::to_string(u.index) + " reads";
        break;
      }
  warp.fault(op, lane, Code::launch_failed, what + ", with no barrier between");
}

void SharedMemory::no_value(Warp &warp, const Op &op, int lane, u64 granule) {
  std::string at = hex(granule << shift);
  if (tags[granule] == red_zone)
    warp.fault(op, lane, Code::illegal_address, "shared memory at " + at + " is between two variables");
  if (tags[granule] == in_flight)
    warp.fault(op, lane, Code::launch_failed,
               "shared memory at " + at + " is being copied to by the cp.async at PTX line " +
                   std::to_string(kernel->ops[origins[granule] >> 5].line) + ", which was not waited for");
  warp.fault(op, lane, Code::launch_failed, "read of shared memory at " + at + " that nobody has written");
}

bool SharedMemory::others_wrote(const Warp &warp) const {
  for (u32 u = 0; u < warps->size(); u++)
    if (u != warp.index && last_write[u] > warp.clock[u])
      return true;
  return false;
}

Mask SharedMemory::others_read(const Warp &warp) const {
  Mask readers = 0;
  for (u32 u = 0; u < warps->size(); u++)
    readers |= Mask(u != warp.index && last_read[u] > warp.clock[u]) << u;
  return readers;
}

void SharedMemory::read(Warp &warp, const Op &op, int lane, u64 from, u64 to, bool others) {
  u32 now = warp.clock[warp.index];
  u32 *clocks = read_clock[warp.index].data();
  u32 lowest = ~0u;
  for (u64 g = from; g < to; g++) {
    lowest = std::min(lowest, tags[g]);
    clocks[g] = now;
  }
  if (lowest < first_tag) [[unlikely]]
    for (u64 g = from; g < to; g++)
      if (tags[g] < first_tag)
        no_value(warp, op, lane, g);
  if (others)
    for (u64 g = from; g < to; g++)
      if (u32 u = tag_warp(tags[g]); tag_clock(tags[g]) > warp.clock[u] && u != warp.index)
        race(warp, op, lane, g, false);
}

void SharedMemory::write(Warp &warp, const Op &op, int lane, u64 from, u64 to, bool others, Mask readers, u32 flag) {
  u32 tag = warp.clock[warp.index] << 6 | flag | warp.index;
  u32 reserved = 0;
  for (u64 g = from; g < to; g++)
    reserved |= u32(tags[g] == red_zone) | u32(tags[g] == in_flight);
  if (reserved) [[unlikely]]
    for (u64 g = from; g < to; g++)
      if (tags[g] == red_zone || tags[g] == in_flight)
        no_value(warp, op, lane, g);
  if (others)
    for (u64 g = from; g < to; g++)
      if (u32 t = tags[g], u = tag_warp(t);
          t >= first_tag && u != warp.index && tag_clock(t) > warp.clock[u] && !(flag & t))
        race(warp, op, lane, g, true);
  for_lanes(readers, [&](int u) {
    for (u64 g = from; g < to; g++)
      if (read_clock[size_t(u)][g] > warp.clock[u])
        race(warp, op, lane, g, true);
  });
  for (u64 g = from; g < to; g++) {
    tags[g] = tag;
    origins[g] = op.index << 5 | u32(lane);
  }
}

void SharedMemory::check_bounds(Warp &warp, const Op &op, Mask lanes, const Access &access, u32 width) {
  u64 highest = 0, low = 0;
  for (int l = 0; l < warp_size; l++)
    highest = std::max(highest, access.address[l]), low |= access.address[l];
  if (highest + width > extent || highest + width < highest) [[unlikely]]
    for_lanes(lanes, [&](int l) {
      u64 a = access.address[l];
      if (a > extent || a + width > extent)
        warp.fault(op, l, Code::illegal_address,
                   "access of " + std::to_string(width) + " bytes at " + hex(a) + " of the block's " +
                       std::to_string(extent) + " bytes of shared memory");
    });
  if (low & (width - 1)) [[unlikely]]
    for_lanes(lanes, [&](int l) {
      if (access.address[l] & (width - 1))
        warp.fault(op, l, Code::misaligned_address,
                   "misaligned access of " + std::to_string(width) + " bytes of shared memory at " +
                       hex(access.address[l]));
    });
}

void SharedMemory::check(Warp &warp, const Op &op, Mask lanes, const Access &access, u32 width, Purpose purpose) {
  check_bounds(warp, op, lanes, access, width);
  if (!checks)
    return;
  bool wrote = others_wrote(warp);
  u32 now = warp.clock[warp.index];
  auto each = [&](auto range) {
    if (access.consecutive) {
      u64 last = access.address[warp_size - 1] + width - 1;
      range(0, access.address[0] >> shift, (last >> shift) + 1);
      return;
    }
    u64 done_from = ~0ull; // neighbours often share an address
    for_lanes(lanes, [&](int l) {
      u64 from = access.address[l] >> shift;
      if (from != done_from)
        range(l, from, ((access.address[l] + width - 1) >> shift) + 1);
      done_from = from;
    });
  };
  if (purpose == Purpose::read) {
    last_read[warp.index] = now;
    each([&](int l, u64 from, u64 to) { read(warp, op, l, from, to, wrote); });
    return;
  }
  Mask readers = others_read(warp);
  last_write[warp.index] = now;
  u32 flag = purpose == Purpose::atomic ? u32(atomic_flag) : 0;
  each([&](int l, u64 from, u64 to) {
    if (flag)
      for (u64 g = from; g < to; g++)
        if (tags[g] == never)
          no_value(warp, op, l, g);
    write(warp, op, l, from, to, wrote, readers, flag);
  });
}

void SharedMemory::check_range(Warp &warp, const Op &op, int lane, u64 address, u32 width, Purpose purpose) {
  Access access;
  for (u64 &a : access.address)
    a = address;
  check(warp, op, 1u << lane, access, width, purpose);
}

void SharedMemory::begin_copy(Warp &warp, const Op &op, int lane, u64 address, u32 width) {
  check_range(warp, op, lane, address, width, Purpose::write);
  if (checks)
    for (u64 g = address >> shift; g <= (address + width - 1) >> shift; g++)
      tags[g] = in_flight;
}

void SharedMemory::end_copy(Warp &warp, const Op &op, int lane, u64 address, u32 width) {
  if (!checks)
    return;
  last_write[warp.index] = warp.clock[warp.index];
  for (u64 g = address >> shift; g <= (address + width - 1) >> shift; g++) {
    tags[g] = warp.clock[warp.index] << 6 | warp.index;
    origins[g] = op.index << 5 | u32(lane);
  }
}

} // namespace ptx
