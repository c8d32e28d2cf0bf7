// Independent pieces of work on the threads that this process may use.
#pragma once

#include <functional>

namespace heddle {

/// How many CPUs the process's affinity allows.
int usable_cpus();

/// Calls work(i) for each i in 0 .. count - 1, in order of start, on up to usable_cpus() threads including the
/// caller's; returns when all are done. `work` returns false to stop what has not begun; what it throws stops it, too,
/// and the caller gets it. Where no more threads can be made, those that are there do all the work.
void for_each_parallel(int64_t count, const std::function<bool(int64_t)> &work);

} // namespace heddle
