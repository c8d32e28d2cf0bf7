// One shared counter deals the pieces out, so that long and short ones balance by themselves.
#include "compiler/emit/artifact/parallel.h"

#include <algorithm>
#include <atomic>
#include <sched.h>
#include <thread>
#include <vector>

namespace heddle {

int usable_cpus() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    return std::max(1, CPU_COUNT(&set));
  return std::max(1u, std::thread::hardware_concurrency());
}

void for_each_parallel(int64_t count, const std::function<bool(int64_t)> &work) {
  std::atomic<int64_t> next = 0;
  auto loop = [&] {
    for (int64_t i; (i = next.fetch_add(1)) < count;)
      if (!work(i))
        next = count;
  };
  std::vector<std::thread> helpers;
  for (int64_t i = 1; i < std::min<int64_t>(usable_cpus(), count); ++i)
    helpers.emplace_back(loop);
  loop();
  for (std::thread &helper : helpers)
    helper.join();
}

} // namespace heddle
