// A warp: 32 lanes with their registers, and where each of them is in the program. Lanes at the same instruction are
// a group. The group that is furthest behind runs; groups that meet become one. LLVM may put a join that has a barrier
// before the blocks that lead to it, so "furthest behind" alone would let lanes pass it apart: at an instruction that
// all lanes of a set execute together, a group waits until the set is complete.
#pragma once

#include "tests/gpu/driver/fault.h"
#include "tests/gpu/driver/program.h"

#include <bit>
#include <vector>

namespace ptx {

struct Block;

/// A copy to shared memory that runs beside the program (cp.async). It is made when it is waited for, the latest
/// moment that is allowed.
struct PendingCopy {
  u32 lane = 0, op = 0;
  u64 to = 0, from = 0;
  u32 bytes = 0, from_bytes = 0; // the rest is filled with zeros
};

struct Group {
  u32 pc = 0;
  Mask lanes = 0;
  bool parked = false;
};

struct Warp {
  Block *block = nullptr;
  u8 *registers = nullptr;
  u8 *local = nullptr; // local_bytes for each lane
  u32 index = 0;
  Mask alive = 0, carry = 0;
  std::vector<Group> groups;
  Counter *counters = nullptr;
  s64 jumps_left = 0; // until others get their turn
  u64 jumps = 0;
  bool turn_was_over = false;
  bool at_barrier = false;
  u32 barrier_op = 0;
  // How far each warp of the block had come when this one last synchronised with it (a vector clock): an access of
  // warp u at its clock c happened before everything that this warp does now if and only if c <= clock[u].
  u32 clock[max_warps] = {};
  std::vector<std::vector<PendingCopy>> committed_copies;
  std::vector<PendingCopy> open_copies;

  template <class T> T *reg(u32 offset) { return reinterpret_cast<T *>(registers + offset); }
  Mask &predicate(u32 offset) { return *reg<Mask>(offset); }
  void set_predicate(u32 offset, Mask value, Mask lanes) {
    Mask &p = predicate(offset);
    p = (p & ~lanes) | (value & lanes);
  }
  bool done() const { return groups.empty(); }

  /// Throws: kernel, line of the PTX, block, thread, and what was wrong. Lane -1: the warp as a whole.
  [[noreturn]] void fault(const Op &op, int lane, Code code, const std::string &what) const;
};

inline int first_lane(Mask lanes) { return std::countr_zero(lanes); }

/// Calls f(lane) for each lane of the mask.
template <class F> inline void for_lanes(Mask lanes, F f) {
  for (; lanes; lanes &= lanes - 1)
    f(first_lane(lanes));
}

/// Until the warp has ended, waits at a barrier of the block, or has had its turn.
void run(Warp &warp);

} // namespace ptx
