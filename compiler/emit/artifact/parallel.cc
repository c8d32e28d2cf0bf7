// One shared counter deals the pieces out, so that long and short ones balance by themselves.
#include "compiler/emit/artifact/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <sched.h>
#include <system_error>
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
  std::mutex mutex;
  std::exception_ptr thrown; // by a thread, where it would end the process
  auto loop = [&] {
    try {
      for (int64_t i; (i = next.fetch_add(1)) < count;)
        if (!work(i))
          next = count;
    } catch (...) {
      std::lock_guard lock(mutex);
      thrown = std::current_exception();
      next = count;
    }
  };
  std::vector<std::thread> helpers;
  try {
    for (int64_t i = 1; i < std::min<int64_t>(usable_cpus(), count); ++i)
      helpers.emplace_back(loop);
  } catch (const std::system_error &) { // no memory for its stack, or too many threads run: those that are there do it
  }
  loop();
  for (std::thread &helper : helpers)
    helper.join();
  if (thrown)
    std::rethrow_exception(thrown);
}

} // namespace heddle
