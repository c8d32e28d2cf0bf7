#include "compiler/driver/many_cores.h"

#include "runtime/share.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>

namespace heddle {

double shared_ms(const LoopTime &tasks, int threads) {
  int64_t count = int64_t(tasks.size()), sharing = std::min<int64_t>(threads, count);
  std::vector<rt_share> shares;
  using Free = std::pair<double, int64_t>; // when a thread will be, and its number
  std::priority_queue<Free, std::vector<Free>, std::greater<>> free;
  for (int64_t i = 0; i < sharing; ++i) {
    shares.push_back(rt_share_of(count, sharing, i));
    free.emplace(0, i);
  }
  double end = 0;
  while (!free.empty()) {
    auto [now, thread] = free.top();
    free.pop();
    rt_share &own = shares[thread];
    if (rt_share_left(own) == 0) {
      rt_share &other = *std::ranges::max_element(shares, {}, rt_share_left);
      if (rt_share_left(other) == 0)
        continue;
      own = rt_share_taken(other);
      other.end = own.first;
    }
    double done = now + tasks[own.first++];
    end = std::max(end, done);
    free.emplace(done, thread);
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
