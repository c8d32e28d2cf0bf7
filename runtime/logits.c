// What searches do to a row of logits, in vectors of sixteen: in the widest registers that the model's target has, and
// by the same operations in the same order on every CPU, so that the numbers are the same on all of them.
#include "runtime/logits.h"

#include "runtime/cpu_features.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#pragma STDC FP_CONTRACT OFF // multiply-adds would round otherwise where there are any

enum { LANES = 16 };

typedef float vector __attribute__((vector_size(4 * LANES)));
typedef int32_t mask __attribute__((vector_size(4 * LANES)));
typedef double wide __attribute__((vector_size(4 * LANES)));

#define INLINE static inline __attribute__((always_inline))

INLINE vector all(float value) { return (vector){0} + value; }

INLINE vector pick(mask where, vector yes, vector no) { return (vector)((where & (mask)yes) | (~where & (mask)no)); }

// The vector at `i`; lanes beyond the end are -inf.
INLINE vector load(const float *x, int64_t i, int64_t n) {
  vector out = all(-INFINITY);
  memcpy(&out, x + i, n - i < LANES ? (size_t)(n - i) * sizeof *x : sizeof out);
  return out;
}

INLINE void store(float *x, int64_t i, int64_t n, vector value) {
  memcpy(x + i, &value, n - i < LANES ? (size_t)(n - i) * sizeof *x : sizeof value);
}

// No number is never the largest; of nothing else, -inf.
INLINE float largest(const float *x, int64_t n) {
  vector most = all(-INFINITY);
  for (int64_t i = 0; i < n; i += LANES) {
    vector own = load(x, i, n);
    most = pick(own > most, own, most);
  }
  float out = most[0];
  for (int lane = 1; lane < LANES; lane++)
    out = most[lane] > out ? most[lane] : out;
  return out;
}

// exp(x) of x <= 0, within 2 units of its last place; 0 below -87, before denormal numbers begin. x is a multiple of
// ln 2 and a rest of at most half of it, for which eight terms of the power series leave less than 1e-8.
INLINE vector exponential(vector x) {
  const float round = 0x1.8p23f;       // a number from 2^23 to 2^24 has no digits behind the point
  const float ln2_high = 0x1.62e4p-1f; // ln 2 in two parts: whole numbers below 2^8 times the first are exact
  const float ln2_low = 0x1.7f7d1cp-20f;
  vector rounded = x * (float)M_LOG2E + round, power = rounded - round;
  vector rest = x - power * ln2_high - power * ln2_low;
  vector sum = all(1.0f / 5040);
  sum = sum * rest + 1.0f / 720;
  sum = sum * rest + 1.0f / 120;
  sum = sum * rest + 1.0f / 24;
  sum = sum * rest + 1.0f / 6;
  sum = sum * rest + 0.5f;
  sum = sum * rest + 1.0f;
  sum = sum * rest + 1.0f;
  mask exponent = (mask)rounded - (mask)all(round) + 127;
  return pick(x < -87.0f, all(0), sum * (vector)(exponent << 23));
}

// The sum of exp(x - shift). They are put into `out` where that is given; there it is 1 where x is the shift, also an
// infinite one.
INLINE double sum_exponentials(const float *x, int64_t n, float shift, float *out) {
  wide low = {0}, high = {0};
  for (int64_t i = 0; i < n; i += LANES) {
    vector own = load(x, i, n), e = exponential(own - shift);
    if (out) {
      e = pick(own == all(shift), all(1), e);
      store(out, i, n, e);
    }
    for (int64_t lane = n - i; lane < LANES; lane++)
      e[lane] = 0;
    low += __builtin_convertvector(__builtin_shufflevector(e, e, 0, 1, 2, 3, 4, 5, 6, 7), wide);
    high += __builtin_convertvector(__builtin_shufflevector(e, e, 8, 9, 10, 11, 12, 13, 14, 15), wide);
  }
  double sum = 0;
  for (int lane = 0; lane < LANES / 2; lane++)
    sum += low[lane] + high[lane];
  return sum;
}

INLINE void log_softmax(float *x, int64_t n) {
  float most = largest(x, n);
  float shift = most + (float)log(sum_exponentials(x, n, most, NULL));
  for (int64_t i = 0; i < n; i += LANES)
    store(x, i, n, load(x, i, n) - shift);
}

INLINE double log_probability(const float *x, int64_t n, int64_t i) {
  float most = largest(x, n);
  return (double)(x[i] - most) - log(sum_exponentials(x, n, most, NULL));
}

INLINE double exponentials(float *x, int64_t n) { return sum_exponentials(x, n, largest(x, n), x); }

INLINE int64_t next_best(const float *x, int64_t n, int64_t from, float shift, float least) {
  int64_t i = from;
  while (i + LANES <= n && !__builtin_reduce_or(~(load(x, i, n) + shift < least)))
    i += LANES;
  while (i < n && x[i] + shift < least)
    i++;
  return i;
}

INLINE int64_t best(const float *x, int64_t n) {
  float most = largest(x, n);
  int64_t i = 0;
  while (i + LANES <= n && !__builtin_reduce_or(load(x, i, n) == most))
    i += LANES;
  while (i < n && x[i] != most)
    i++;
  return n > 0 && isnan(x[0]) ? 0 : i; // nothing is more than no number
}

// The functions for CPUs that have what `attribute` names.
#define FUNCTIONS(cpu, attribute)                                                                                      \
  attribute static void log_softmax_##cpu(float *x, int64_t n) { log_softmax(x, n); }                                  \
  attribute static double log_probability_##cpu(const float *x, int64_t n, int64_t i) {                                \
    return log_probability(x, n, i);                                                                                   \
  }                                                                                                                    \
  attribute static double exponentials_##cpu(float *x, int64_t n) { return exponentials(x, n); }                       \
  attribute static int64_t next_best_##cpu(const float *x, int64_t n, int64_t from, float shift, float least) {        \
    return next_best(x, n, from, shift, least);                                                                        \
  }                                                                                                                    \
  attribute static int64_t best_##cpu(const float *x, int64_t n) { return best(x, n); }                                \
  static const rt_logit_functions functions_##cpu = {log_softmax_##cpu, log_probability_##cpu, exponentials_##cpu,     \
                                                     next_best_##cpu, best_##cpu};

FUNCTIONS(any, )
FUNCTIONS(avx2, __attribute__((target("avx2"))))
FUNCTIONS(avx512, __attribute__((target("avx512f"))))

const rt_logit_functions *rt_logit_functions_for(uint32_t cpu_features) {
  return cpu_features & HEDDLE_CPU_AVX512 ? &functions_avx512
         : cpu_features & HEDDLE_CPU_AVX2 ? &functions_avx2
                                          : &functions_any;
}
