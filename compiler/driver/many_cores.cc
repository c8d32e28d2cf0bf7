#include "compiler/driver/many_cores.h"

#include "runtime/share.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>

namespace heddle {

double shared_ms(const LoopTime &tasks, int threads) {
  int64_t count = int64_t(tasks.size()), sharing = std::min<int64_t>(threads, count);
  std::priority_queue<double, std::vector<double>, std::greater<>> free; // when each thread will be
  for (int64_t i = 0; i < sharing; ++i)
    free.push(0);
  double end = 0;
  for (int64_t next = 0; next < count;) {
    int64_t run = std::min(rt_tasks_at_once(count - next, sharing), count - next);
    double done = std::accumulate(tasks.begin() + next, tasks.begin() + next + run, free.top());
    free.pop();
    free.push(done);
    end = std::max(end, done);
    next += run;
  }
  return end;
}

std::vector<SharedKernel> share_among(const std::vector<SharedCallTime> &calls, int threads) {
  std::vector<SharedKernel> out;
  for (const SharedCallTime &call : calls) {
    auto found = std::ranges::find(out, call.kernel, &SharedKernel::kernel);
    if (found == out.end())
      found = out.insert(out.end(), {call.kernel});
    double in_loops = 0, shared = 0;
    int64_t tasks = 1; // of the loop that takes longest
    double longest = 0;
    for (const LoopTime &loop : call.loops) {
      double alone = std::accumulate(loop.begin(), loop.end(), 0.0);
      in_loops += alone;
      shared += shared_ms(loop, threads);
      if (alone > longest)
        longest = alone, tasks = int64_t(loop.size());
    }
    ++found->calls;
    found->least_tasks = found->least_tasks ? std::min(found->least_tasks, tasks) : tasks;
    // The call and its tasks were at their best in different runs, so that the tasks may add up to more.
    double all = std::max(call.ms, in_loops);
    found->ms += all;
    found->shared_ms += all - in_loops + shared;
  }
  return out;
}

} // namespace heddle
