// How long a machine with many cores would take for a call, told from what each task of it took on one.
#pragma once

#include "compiler/driver/measure.h"

#include <string>
#include <vector>

namespace heddle {

/// Milliseconds in which so many threads do a loop's tasks by the pool's rule (runtime/share.h), if each takes what it
/// took alone.
double shared_ms(const LoopTime &tasks, int threads);

/// The calls of one kernel.
struct SharedKernel {
  std::string kernel;
  int calls = 0;
  int64_t least_tasks = 0;      // that a call's loops are cut into
  double ms = 0, shared_ms = 0; // of all calls, on one thread and on many
};

/// Kernels in the order of their first calls.
std::vector<SharedKernel> share_among(const std::vector<SharedCallTime> &calls, int threads);

} // namespace heddle
