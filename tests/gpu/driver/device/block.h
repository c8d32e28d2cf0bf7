// A block while it runs: its warps, its shared memory, its barriers. One worker thread executes it; warps take turns.
#pragma once

#include "tests/gpu/driver/device/shared_memory.h"

namespace ptx {

struct LaunchShape {
  Dim3 grid, block;
  u32 dynamic_shared = 0;
};

/// bar.sync, bar.arrive, bar.red.
struct Barrier {
  u32 threads = 0;  // that have arrived
  u32 expected = 0; // 0: all of the block
  Mask waiting = 0; // warps
  u32 clock[max_warps] = {};
  u32 sum = 0; // bar.red: lanes whose predicate holds
  bool all = true, any = false;
};

struct Mbarrier;

struct Block {
  const Kernel *kernel = nullptr;
  const u8 *parameters = nullptr;
  Dim3 grid, size, position;
  u32 dynamic_shared = 0;
  u32 warp_count = 0;
  bool checks = true;  // uninitialised reads, races
  bool measure = true; // sectors and bank conflicts
  std::vector<Warp> warps;
  SharedMemory shared;
  Barrier barriers[16];
  std::vector<Allocation *> last_used; // for each op: where its last access lay

  /// A warp comes to a barrier: it waits unless it is the last one or doesn't want to (bar.arrive).
  void arrive(Warp &warp, const Op &op, u32 id, u32 threads, bool waits);
  /// A warp has ended: it may have been the last one that others waited for.
  void warp_ended();

private:
  void release(Barrier &barrier);
  u32 running_threads() const;
};

/// What one worker needs, for all the blocks that it executes.
class BlockRunner {
public:
  BlockRunner(const Kernel &kernel, const LaunchShape &shape, const u8 *parameters);
  /// Throws Error where the block has a fault.
  void run(u64 number, bool measure);
  const std::vector<Counter> &counters() const { return counted; }

private:
  void begin(u64 number);
  void set_specials(Warp &warp);
  [[noreturn]] void deadlock();

  Block block;
  std::vector<u8> registers, local;
  std::vector<Counter> counted;
};

/// Executes all blocks on several threads. Throws the fault of the first block that has one.
void launch(Kernel &kernel, const LaunchShape &shape, const u8 *parameters);

} // namespace ptx
