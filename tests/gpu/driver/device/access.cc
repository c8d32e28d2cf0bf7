// From addresses to pointers (access.h).
#include "tests/gpu/driver/device/access.h"
#include "tests/gpu/driver/device/memory.h"

#include <algorithm>

namespace ptx {

static void read_addresses(Warp &warp, u32 from, bool narrow, s64 offset, u64 *addresses) {
  if (narrow) {
    const u32 *r = warp.reg<u32>(from);
    for (int l = 0; l < warp_size; l++)
      addresses[l] = u64(r[l]) + u64(offset);
  } else {
    const u64 *r = warp.reg<u64>(from);
    for (int l = 0; l < warp_size; l++)
      addresses[l] = r[l] + u64(offset);
  }
}

void lane_addresses(Warp &warp, const Op &op, u64 *addresses) {
  read_addresses(warp, op.a, op.address32, op.offset, addresses);
}

void second_addresses(Warp &warp, const Op &op, u64 *addresses) {
  read_addresses(warp, op.b, op.second_address32, op.second_offset, addresses);
}

Space space_of(u64 address) {
  switch (address / window_size) {
  case 1:
    return Space::shared;
  case 2:
    return Space::local;
  case 3:
    return Space::param;
  default:
    return Space::global;
  }
}

/// Passes over the 32 banks of 4 bytes: the largest number of different words in one bank. Wide accesses are made in
/// phases of 128 bytes, each a pass at least.
void measure_passes(const u64 *addresses, Mask lanes, u32 width, u64 &cost, u64 &ideal) {
  u32 phases = width > 4 ? width / 4 : 1, per_phase = warp_size / phases;
  for (u32 first = 0; first < warp_size; first += per_phase) {
    Mask mine = lanes & (per_phase == 32 ? all_lanes : ((1u << per_phase) - 1) << first);
    if (!mine)
      continue;
    u64 words[32][32]; // of each bank, the different words
    u32 used[32] = {}, worst = 0;
    for_lanes(mine, [&](int l) {
      for (u64 w = addresses[l] / 4; w <= (addresses[l] + width - 1) / 4; w++) {
        u32 bank = w % 32, i = 0;
        while (i < used[bank] && words[bank][i] != w)
          i++;
        if (i == used[bank])
          words[bank][used[bank]++] = w;
        worst = std::max(worst, used[bank]);
      }
    });
    cost += worst, ideal++;
  }
}

namespace {

u64 window_of(Space space) {
  return space == Space::shared  ? shared_window
         : space == Space::local ? local_window
         : space == Space::param ? param_window
                                 : 0;
}

/// Sectors of 32 bytes that the lanes touch; ideal: as many as their distinct bytes fill.
void measure_global(Warp &warp, const Op &op, Mask lanes, const Access &access, u32 width) {
  Counter &c = warp.counters[op.index];
  c.requests++;
  if (access.consecutive) {
    u64 first = access.address[0], last = access.address[warp_size - 1] + width - 1;
    c.cost += (last >> 5) - (first >> 5) + 1;
    c.ideal += width; // 32 lanes of so many bytes, in sectors of 32
    return;
  }
  if (access.uniform) {
    c.cost++, c.ideal++; // aligned, and no wider than a sector
    return;
  }
  u64 addresses[warp_size], sectors[warp_size * 2];
  u32 n = 0;
  for_lanes(lanes, [&](int l) { addresses[n++] = access.address[l]; });
  std::sort(addresses, addresses + n);
  n = u32(std::unique(addresses, addresses + n) - addresses);
  u32 count = 0;
  for (u32 i = 0; i < n; i++)
    for (u64 s = addresses[i] >> 5; s <= (addresses[i] + width - 1) >> 5; s++)
      if (!count || sectors[count - 1] != s)
        sectors[count++] = s;
  c.cost += count;
  c.ideal += (n * width + 31) / 32;
}

void measure_shared(Warp &warp, const Op &op, Mask lanes, const Access &access, u32 width) {
  Counter &c = warp.counters[op.index];
  c.requests++;
  if (access.consecutive && access.address[0] % 4 == 0) {
    u32 phases = width > 4 ? width / 4 : 1;
    c.cost += phases, c.ideal += phases;
    return;
  }
  if (access.uniform && width <= 4) {
    c.cost++, c.ideal++;
    return;
  }
  measure_passes(access.address, lanes, width, c.cost, c.ideal);
}

void reach_shared(Warp &warp, const Op &op, Mask lanes, u32 width, Purpose purpose, Access &access) {
  Block &block = *warp.block;
  block.shared.check(warp, op, lanes, access, width, purpose);
  for (int l = 0; l < warp_size; l++)
    access.host[l] = block.shared.data() + access.address[l];
  if (block.measure)
    measure_shared(warp, op, lanes, access, width);
}

void reach_local(Warp &warp, const Op &op, Mask lanes, u32 width, Access &access) {
  access.consecutive = access.uniform = false; // each lane has its own frame
  u64 frame = warp.block->kernel->local_bytes;
  for_lanes(lanes, [&](int l) {
    u64 a = access.address[l];
    if (a + width > frame || a > frame)
      warp.fault(op, l, Code::illegal_address,
                 "access of " + std::to_string(width) + " bytes at " + hex(a) + " of the " + std::to_string(frame) +
                     " bytes of local memory");
    if (a & (width - 1))
      warp.fault(op, l, Code::misaligned_address, "misaligned access of local memory at " + hex(a));
  });
  for (int l = 0; l < warp_size; l++)
    access.host[l] = warp.local + u64(l) * frame + access.address[l];
}

void reach_parameters(Warp &warp, const Op &op, Mask lanes, u32 width, Purpose purpose, Access &access) {
  const Block &block = *warp.block;
  for_lanes(lanes, [&](int l) {
    u64 a = access.address[l];
    if (purpose != Purpose::read || a > block.kernel->parameter_bytes || a + width > block.kernel->parameter_bytes)
      warp.fault(op, l, Code::illegal_address, "access to the kernel's parameters at " + hex(a));
  });
  for (int l = 0; l < warp_size; l++)
    access.host[l] = const_cast<u8 *>(block.parameters) + access.address[l];
}

/// The bytes of these lanes may be read, or are from now on written. One lane at a time: the lanes may lie in
/// several allocations, and the first that is wrong is named.
void check_global_lane(Warp &warp, const Op &op, int l, u32 width, Purpose purpose, Access &access) {
  u64 a = access.address[l];
  std::string what = (purpose == Purpose::read ? "read of " : "write of ") + std::to_string(width) + " bytes at ";
  Allocation *allocation = device_memory().find(a);
  if (!allocation || !allocation->holds(a, width))
    warp.fault(op, l, Code::illegal_address, what + device_memory().describe(a));
  if (purpose != Purpose::read && allocation->read_only)
    warp.fault(op, l, Code::illegal_address, what + device_memory().describe(a) + ": it is constant");
  u64 at = a - allocation->base;
  if (warp.block->checks) {
    if (purpose != Purpose::write && memchr(&allocation->written[at], 0, width))
      warp.fault(op, l, Code::launch_failed, what + device_memory().describe(a) + ", which nobody has written");
    if (purpose != Purpose::read)
      allocation->write(at, width);
  }
  access.host[l] = allocation->data + at;
}

void reach_global(Warp &warp, const Op &op, Mask lanes, u32 width, Purpose purpose, Access &access) {
  Block &block = *warp.block;
  const u64 *a = access.address;
  u64 lowest = ~0ull, highest = 0, low = 0;
  for (int l = 0; l < warp_size; l++)
    lowest = std::min(lowest, a[l]), highest = std::max(highest, a[l]), low |= a[l];
  if (low & (width - 1)) [[unlikely]]
    for_lanes(lanes, [&](int l) {
      if (a[l] & (width - 1))
        warp.fault(op, l, Code::misaligned_address,
                   "misaligned access of " + std::to_string(width) + " bytes at " + device_memory().describe(a[l]));
    });
  Allocation *&last = block.last_used[op.index];
  if (!last || lowest < last->base || highest >= last->end())
    last = device_memory().find(lowest);
  bool easy = last && highest >= lowest && last->holds(lowest, highest - lowest + width) &&
              !(purpose != Purpose::read && last->read_only);
  if (easy && block.checks) {
    u8 *written = last->written.get() - last->base;
    if (access.consecutive) {
      if (purpose != Purpose::write && memchr(written + lowest, 0, warp_size * width)) [[unlikely]]
        easy = false;
      if (purpose != Purpose::read)
        memset(written + lowest, 1, warp_size * width);
    } else {
      if (purpose != Purpose::write)
        for (int l = 0; l < warp_size; l++) {
          u64 all = ~0ull;
          for (u32 i = 0; i < width; i++)
            all &= written[a[l] + i];
          easy &= all & 1;
        }
      if (purpose != Purpose::read && easy)
        for_lanes(lanes, [&](int l) { memset(written + a[l], 1, width); });
    }
  }
  if (easy) {
    u8 *host = last->data - last->base;
    for (int l = 0; l < warp_size; l++)
      access.host[l] = host + a[l];
  } else {
    for_lanes(lanes, [&](int l) { check_global_lane(warp, op, l, width, purpose, access); });
    for_lanes(~lanes, [&](int l) { access.host[l] = access.host[first_lane(lanes)]; });
  }
  if (block.measure && op.space != Space::constant)
    measure_global(warp, op, lanes, access, width);
}

} // namespace

void reach(Warp &warp, const Op &op, Mask lanes, u32 width, Purpose purpose, Access &access) {
  u64 *a = access.address;
  int first = first_lane(lanes);
  if (lanes != all_lanes)
    for (int l = 0; l < warp_size; l++)
      a[l] = lanes >> l & 1 ? a[l] : a[first];
  access.space = op.space;
  if (op.space == Space::generic) {
    access.space = space_of(a[first]);
    if (u64 window = window_of(access.space))
      for (int l = 0; l < warp_size; l++)
        a[l] -= window;
    // Lanes in different spaces: the addresses of some are far outside of this one, and a fault.
  }
  u64 off = 0, differ = 0;
  for (int l = 0; l < warp_size; l++)
    off |= a[l] ^ (a[0] + u64(l) * width), differ |= a[l] ^ a[0];
  access.consecutive = off == 0;
  access.uniform = differ == 0;
  switch (access.space) {
  case Space::shared:
    return reach_shared(warp, op, lanes, width, purpose, access);
  case Space::local:
    return reach_local(warp, op, lanes, width, access);
  case Space::param:
    return reach_parameters(warp, op, lanes, width, purpose, access);
  default:
    return reach_global(warp, op, lanes, width, purpose, access);
  }
}

} // namespace ptx
