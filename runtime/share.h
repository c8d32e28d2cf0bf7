// How the tasks of a loop are shared out among threads: one rule, for those who do it and for those who foretell it.
// Each thread begins with a share of neighbouring tasks, the same part of every loop, since kernels' tasks go along
// rows: what a kernel reads was then written by the same thread, and lies in its core's cache. A thread without tasks
// takes half of the largest share that is left.
#pragma once

#include <stdint.h>

// Tasks that nobody has begun, from `first` on, before `end`.
typedef struct rt_share {
  uint32_t first, end;
} rt_share;

static inline uint32_t rt_share_left(rt_share share) { return share.end - share.first; }

static inline rt_share rt_share_of(int64_t tasks, int64_t threads, int64_t thread) {
  rt_share share = {(uint32_t)(tasks * thread / threads), (uint32_t)(tasks * (thread + 1) / threads)};
  return share;
}

// What is taken of another's share: of the end, as its owner goes on at the front.
static inline rt_share rt_share_taken(rt_share from) {
  rt_share taken = {from.end - (rt_share_left(from) + 1) / 2, from.end};
  return taken;
}
