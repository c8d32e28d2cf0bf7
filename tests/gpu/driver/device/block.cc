// Runs the blocks of a launch (block.h).
#include "tests/gpu/driver/device/block.h"
#include "tests/gpu/driver/isa/common.h"
#include "tests/gpu/driver/settings.h"

#include <algorithm>
#include <mutex>
#include <thread>

namespace ptx {

u32 Block::running_threads() const {
  u32 running = 0;
  for (const Warp &w : warps)
    running += w.done() ? 0 : warp_size;
  return running;
}

void Block::arrive(Warp &warp, const Op &op, u32 id, u32 threads, bool waits) {
  if (id >= 16)
    warp.fault(op, -1, Code::launch_failed, "barrier " + std::to_string(id) + " of 16");
  if (threads % warp_size)
    warp.fault(op, -1, Code::launch_failed, "a barrier of " + std::to_string(threads) + " threads, no multiple of 32");
  Barrier &b = barriers[id];
  if (b.threads && b.expected != threads)
    warp.fault(op, -1, Code::launch_failed,
               "barrier " + std::to_string(id) + " for " + std::to_string(threads) +
                   " threads; others wait at it for " + std::to_string(b.expected));
  b.expected = threads;
  b.threads += warp_size;
  for (u32 u = 0; u < warp_count; u++)
    b.clock[u] = std::max(b.clock[u], warp.clock[u]);
  if (waits)
    b.waiting |= 1u << warp.index, warp.at_barrier = true;
  else
    warp.clock[warp.index]++; // what it does from here on is not ordered
  if (b.threads >= (threads ? threads : running_threads()))
    release(b);
}

void Block::release(Barrier &b) {
  for_lanes(b.waiting, [&](int w) {
    Warp &warp = warps[size_t(w)];
    std::copy_n(b.clock, warp_count, warp.clock);
    warp.clock[w]++;
    warp.at_barrier = false;
    const Op &op = kernel->ops[warp.barrier_op];
    if (op.mode == 1) { // bar.red.popc
      for_lanes(warp.alive, [&](int l) { warp.reg<u32>(op.d)[l] = b.sum; });
    } else if (op.mode > 1) // .and, .or
      warp.set_predicate(op.d, (op.mode == 2 ? b.all : b.any) ? all_lanes : 0, warp.alive);
  });
  b = {};
}

void Block::warp_ended() {
  u32 running = running_threads();
  for (Barrier &b : barriers)
    if (b.threads && !b.expected && b.threads >= running)
      release(b);
}

BlockRunner::BlockRunner(const Kernel &kernel, const LaunchShape &shape, const u8 *parameters) {
  block.kernel = &kernel;
  block.parameters = parameters;
  block.grid = shape.grid, block.size = shape.block;
  block.dynamic_shared = shape.dynamic_shared;
  block.checks = settings().checks;
  block.warp_count = u32((shape.block.count() + warp_size - 1) / warp_size);
  block.last_used.resize(kernel.ops.size());
  block.warps.resize(block.warp_count);
  counted.resize(kernel.ops.size());
  registers.resize(kernel.image.size() * block.warp_count + 64);
  local.resize(u64(kernel.local_bytes) * warp_size * block.warp_count);
  u8 *aligned = registers.data() + (64 - u64(registers.data()) % 64) % 64;
  for (u32 i = 0; i < block.warp_count; i++) {
    Warp &w = block.warps[i];
    w.block = &block;
    w.index = i;
    w.registers = aligned + i * kernel.image.size();
    w.local = local.data() + u64(i) * kernel.local_bytes * warp_size;
    w.counters = counted.data();
  }
}

void BlockRunner::set_specials(Warp &warp) {
  const Dim3 size = block.size, at = block.position, grid = block.grid;
  for (SpecialUse s : block.kernel->specials) {
    if (special_lane_bytes(s.what) == 8) {
      std::fill_n(warp.reg<u64>(s.offset), warp_size, 0);
      continue;
    }
    u32 *r = warp.reg<u32>(s.offset);
    for (u32 l = 0; l < warp_size; l++) {
      u32 t = warp.index * warp_size + l;
      auto value = [&]() -> u32 {
        switch (Special(s.what)) {
        case tid_x:
          return t % size.x;
        case tid_y:
          return t / size.x % size.y;
        case tid_z:
          return t / size.x / size.y;
        case ntid_x:
          return size.x;
        case ntid_y:
          return size.y;
        case ntid_z:
          return size.z;
        case ctaid_x:
          return at.x;
        case ctaid_y:
          return at.y;
        case ctaid_z:
          return at.z;
        case nctaid_x:
          return grid.x;
        case nctaid_y:
          return grid.y;
        case nctaid_z:
          return grid.z;
        case laneid:
          return l;
        case warpid:
          return warp.index;
        case nwarpid:
          return block.warp_count;
        case lanemask_eq:
          return 1u << l;
        case lanemask_lt:
          return (1u << l) - 1;
        case lanemask_le:
          return u32((2ull << l) - 1);
        case lanemask_gt:
          return ~u32((2ull << l) - 1);
        case lanemask_ge:
          return ~((1u << l) - 1);
        case dynamic_smem_size:
          return block.dynamic_shared;
        case total_smem_size:
          return block.kernel->shared_bytes + block.dynamic_shared;
        case nsmid:
        case cluster_one:
          return 1;
        default:
          return 0;
        }
      };
      r[l] = value();
    }
  }
}

void BlockRunner::begin(u64 number) {
  block.position = {u32(number % block.grid.x), u32(number / block.grid.x % block.grid.y),
                    u32(number / block.grid.x / block.grid.y)};
  u64 threads = block.size.count();
  const Kernel &kernel = *block.kernel;
  std::fill(local.begin(), local.end(), 0xcc);
  for (Warp &w : block.warps) {
    u64 mine = std::min<u64>(warp_size, threads - u64(w.index) * warp_size);
    w.alive = mine == warp_size ? all_lanes : (1u << mine) - 1;
    w.groups.assign(1, {0, w.alive, false});
    w.at_barrier = false, w.turn_was_over = false;
    w.jumps = 0, w.carry = 0;
    w.committed_copies.clear(), w.open_copies.clear();
    std::copy(kernel.image.begin(), kernel.image.end(), w.registers);
    set_specials(w);
  }
  for (Barrier &b : block.barriers)
    b = {};
  block.shared.begin(kernel, block.dynamic_shared, block.warps, block.checks);
}

void BlockRunner::deadlock() {
  for (const Warp &w : block.warps)
    if (w.at_barrier) {
      std::string what = "deadlock: this barrier is never complete; here wait warps";
      for (const Warp &other : block.warps)
        if (other.at_barrier && other.barrier_op == w.barrier_op)
          what += " " + std::to_string(other.index);
      for (const Warp &other : block.warps)
        if (other.at_barrier && other.barrier_op != w.barrier_op)
          what += ", warp " + std::to_string(other.index) + " at line " +
                  std::to_string(block.kernel->ops[other.barrier_op].line);
      w.fault(block.kernel->ops[w.barrier_op], -1, Code::launch_failed, what);
    }
  throw Error(Code::launch_failed, "kernel " + block.kernel->name + ": deadlock");
}

void BlockRunner::run(u64 number, bool measure) {
  begin(number);
  block.measure = measure;
  for (;;) {
    bool ran = false, all_done = true;
    for (Warp &w : block.warps) {
      if (w.done() || w.at_barrier)
        continue;
      ran = true;
      ptx::run(w);
      if (w.done())
        block.warp_ended();
    }
    for (const Warp &w : block.warps)
      all_done &= w.done();
    if (all_done)
      return;
    if (!ran)
      deadlock();
  }
}

namespace {

/// Blocks are given out in order, so that of several faults the one of the first block can be told.
struct Work {
  Kernel &kernel;
  const LaunchShape &shape;
  const u8 *parameters;
  u64 blocks, executed; // the latter, spread evenly
  std::atomic<u64> next{0}, limit;
  std::mutex mutex;
  std::exception_ptr failure;

  void run() {
    BlockRunner runner(kernel, shape, parameters);
    unsigned sample = settings().sample;
    for (u64 b; (b = next++) < limit;) {
      try {
        runner.run(b * blocks / executed, sample && b % sample == 0);
      } catch (...) {
        std::lock_guard lock(mutex);
        if (b < limit) {
          limit = b;
          failure = std::current_exception();
        }
        break;
      }
    }
    std::lock_guard lock(mutex);
    for (size_t i = 0; i < kernel.counters.size(); i++)
      kernel.counters[i] += runner.counters()[i];
  }
};

} // namespace

void launch(Kernel &kernel, const LaunchShape &shape, const u8 *parameters) {
  u64 blocks = shape.grid.count(), executed = settings().blocks ? std::min<u64>(settings().blocks, blocks) : blocks;
  Work work{kernel, shape, parameters, blocks, executed, {}, executed, {}, {}};
  kernel.launches++, kernel.blocks += blocks, kernel.executed += executed;
  unsigned threads = settings().threads ? settings().threads : std::max(1u, std::thread::hardware_concurrency());
  // A thread costs some 20 us: worth it only where there is work for it.
  constexpr u64 threads_worth_a_worker = 2048;
  threads = unsigned(std::min<u64>({threads, executed, 1 + executed * shape.block.count() / threads_worth_a_worker}));
  std::vector<std::thread> helpers;
  for (unsigned i = 1; i < threads; i++)
    helpers.emplace_back([&] { work.run(); });
  work.run();
  for (std::thread &t : helpers)
    t.join();
  if (work.failure)
    std::rethrow_exception(work.failure);
}

} // namespace ptx
