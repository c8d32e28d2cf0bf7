// How the tasks of a loop are shared out among threads: one rule, for those who do it and for those who foretell it.
#pragma once

#include <stdint.h>

// How many of the tasks that are left a thread takes at once. Runs of neighbours while there are many, since what a
// task fetches ahead is for the same thread, then ever fewer, so that all threads end together.
static inline int64_t rt_tasks_at_once(int64_t left, int64_t threads) {
  return left > 4 * threads ? left / (2 * threads) : 1;
}
