// Sampling: temperature, top-k, top-p, and a random number that belongs to (seed, step, row) alone.
#include "runtime/generate.h"

#include <math.h>
#include <stdlib.h>

// Philox4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. Ten rounds, each
// of two multiplications to 64 bits.
void rt_philox(uint64_t key, const uint32_t counter[4], uint32_t out[4]) {
  uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
  for (int i = 0; i < 4; i++)
    out[i] = counter[i];
  for (int round = 0; round < 10; round++) {
    uint64_t a = 0xD2511F53ull * out[0], b = 0xCD9E8D57ull * out[2];
    uint32_t next[4] = {(uint32_t)(b >> 32) ^ out[1] ^ k0, (uint32_t)b, (uint32_t)(a >> 32) ^ out[3] ^ k1, (uint32_t)a};
    for (int i = 0; i < 4; i++)
      out[i] = next[i];
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
}

// A heap of the k best scores seen so far, the worst of them on top.
static void sift(float *heap, int32_t k, int32_t at) {
  for (;;) {
    int32_t child = 2 * at + 1;
    if (child >= k)
      return;
    if (child + 1 < k && heap[child + 1] < heap[child])
      child++;
    if (heap[at] <= heap[child])
      return;
    float swapped = heap[at];
    heap[at] = heap[child];
    heap[child] = swapped;
    at = child;
  }
}

// Scores below the k-th best become -inf; `heap` has room for k.
static void keep_best(float *x, int64_t n, int32_t k, float *heap) {
  if (k <= 0 || k >= n)
    return;
  for (int32_t i = 0; i < k; i++)
    heap[i] = x[i];
  for (int32_t i = k / 2; i-- > 0;)
    sift(heap, k, i);
  for (int64_t i = k; i < n; i++) {
    if (x[i] > heap[0]) {
      heap[0] = x[i];
      sift(heap, k, 0);
    }
  }
  for (int64_t i = 0; i < n; i++)
    x[i] = x[i] < heap[0] ? -INFINITY : x[i];
}

typedef struct candidate {
  float probability;
  int32_t token;
} candidate;

// The least probable first, what is no number before all; of equals the later one.
static int compare(const void *a, const void *b) {
  const candidate *x = a, *y = b;
  int order = rt_compare_scores(x->probability, y->probability);
  return order != 0 ? order : x->token > y->token ? -1 : 1;
}

// Drops the least probable tokens that together have no more than `rest` of the probability; `list` has room for n.
static void keep_probable(float *p, int64_t n, double rest, candidate *list) {
  double dropped = 0;
  int64_t count = 0;
  float small = (float)(rest / (double)n); // that all of them may have together: dropped without sorting
  for (int64_t i = 0; i < n; i++) {
    if (p[i] < small)
      dropped += p[i];
    else
      list[count++] = (candidate){p[i], (int32_t)i};
    p[i] = p[i] < small ? 0 : p[i];
  }
  qsort(list, (size_t)count, sizeof *list, compare);
  for (int64_t i = 0; i + 1 < count; i++) { // one stays
    dropped += list[i].probability;
    if (dropped > rest)
      return;
    p[list[i].token] = 0;
  }
}

int64_t rt_sample(const rt_logit_functions *on_logits, float *logits, int64_t n, const heddle_generate_options *options,
                  int32_t step, int32_t row, void *room) {
  float *x = logits;
  if (options->temperature != 1)
    for (int64_t i = 0; i < n; i++)
      x[i] /= options->temperature;
  keep_best(x, n, options->top_k, room);
  double total = on_logits->exponentials(x, n);
  if (options->top_p < 1) {
    keep_probable(x, n, total * (1 - (double)options->top_p), room);
    total = 0;
    for (int64_t i = 0; i < n; i++)
      total += x[i];
  }
  const uint32_t counter[4] = {(uint32_t)step, (uint32_t)row, 0, 0};
  uint32_t random[4];
  rt_philox(options->seed, counter, random);
  double wanted = total * (random[0] / 0x1p32), sum = 0;
  int64_t chosen = 0;
  for (int64_t i = 0; i < n; i++) {
    if (x[i] > 0) {
      sum += x[i];
      chosen = i;
      if (sum > wanted)
        break;
    }
  }
  return chosen;
}
