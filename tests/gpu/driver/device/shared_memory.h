// The shared memory of a block, with what is known of each granule (the smallest access of the kernel): who wrote it
// and when, and when each warp read it last. From these, and from the vector clocks of the warps, follows for each
// access whether it is ordered with the earlier ones, whatever the barriers are (FastTrack: Flanagan, Freund 2009).
#pragma once

#include "tests/gpu/driver/device/warp.h"

#include <vector>

namespace ptx {

/// Addresses of an access by the lanes of a warp. Lanes that don't take part have the address of one that does.
struct Access {
  alignas(64) u64 address[warp_size];
  u8 *host[warp_size];
  Space space = Space::global;
  bool consecutive = false; // all lanes, one behind the other
  bool uniform = false;     // one address for all lanes
};

enum class Purpose : u8 { read, write, atomic };

class SharedMemory {
public:
  /// A block of this kernel begins: everything before is over, nothing has been written.
  void begin(const Kernel &kernel, u32 dynamic_bytes, std::vector<Warp> &warps, bool checks);

  u8 *data() { return bytes.data(); }
  u32 size() const { return extent; }

  /// Bounds, alignment, what was never written, races. The access's addresses are offsets here.
  void check(Warp &warp, const Op &op, Mask lanes, const Access &access, u32 width, Purpose purpose);
  void check_range(Warp &warp, const Op &op, int lane, u64 address, u32 width, Purpose purpose);

  /// A copy to these bytes has been issued: until it is complete, nobody may touch them.
  void begin_copy(Warp &warp, const Op &op, int lane, u64 address, u32 width);
  /// It has been waited for by this warp.
  void end_copy(Warp &warp, const Op &op, int lane, u64 address, u32 width);

private:
  void check_bounds(Warp &warp, const Op &op, Mask lanes, const Access &access, u32 width);
  void read(Warp &warp, const Op &op, int lane, u64 from, u64 to, bool others_wrote);
  void write(Warp &warp, const Op &op, int lane, u64 from, u64 to, bool others_wrote, Mask readers, u32 flag);
  bool others_wrote(const Warp &warp) const;
  Mask others_read(const Warp &warp) const;
  [[noreturn]] void race(Warp &warp, const Op &op, int lane, u64 granule, bool writes);
  [[noreturn]] void no_value(Warp &warp, const Op &op, int lane, u64 granule);
  std::string writer(u64 granule) const;

  // What a granule's tag says; above these: the clock of the write and its warp.
  enum : u32 { never = 0, in_flight = 1, red_zone = 2, atomic_flag = 32, first_tag = 64 };
  static u32 tag_warp(u32 tag) { return tag & 31; }
  static u32 tag_clock(u32 tag) { return tag >> 6; }

  const Kernel *kernel = nullptr;
  std::vector<Warp> *warps = nullptr;
  std::vector<u8> bytes;
  u32 extent = 0;
  u32 shift = 0; // of a granule
  bool checks = true;
  std::vector<u32> tags, origins;                            // origin: instruction and lane that wrote
  std::vector<std::vector<u32>> read_clock;                  // of each warp, for each granule
  u32 last_write[max_warps] = {}, last_read[max_warps] = {}; // clocks
  u32 latest_clock = 0;
};

} // namespace ptx
