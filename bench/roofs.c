// The two roofs of this machine for a number of threads: float32 multiply-adds from registers, and bytes read
// from memory. `roofs THREADS` prints GFLOP/s and GB/s, each the best of a few short tries.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#if defined(__AVX512F__)
typedef float vec __attribute__((vector_size(64)));
typedef uint64_t words __attribute__((vector_size(64)));
#else
typedef float vec __attribute__((vector_size(32)));
typedef uint64_t words __attribute__((vector_size(32)));
#endif
enum {
  LANES = sizeof(vec) / sizeof(float),
  CHAINS = 12,
  PLACES = 4, // that are read at a time
  TURNS = 1000000,
  TRIES = 4,
  BUFFER = 128 << 20,
  HUGE_PAGE = 2 << 20,
  MAX_THREADS = 256
};

static int cpus[MAX_THREADS], threads;
static pthread_barrier_t barrier;
static double flops_best, bytes_best;
static volatile float sink;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}

static float multiply_adds(void) {
  vec sum[CHAINS], a, b;
  for (int c = 0; c < CHAINS; ++c)
    for (int i = 0; i < LANES; ++i)
      sum[c][i] = c; // else compilers see that all are the same
  for (int i = 0; i < LANES; ++i)
    a[i] = 1.0f - 1e-7f, b[i] = 1e-7f;
  for (int turn = 0; turn < TURNS; ++turn) {
    for (int c = 0; c < CHAINS; ++c)
      sum[c] = sum[c] * a + b;
    __asm__ volatile("" : "+v"(a), "+v"(b)); // nothing is hoisted or folded
  }
  float total = 0;
  for (int c = 0; c < CHAINS; ++c)
    for (int i = 0; i < LANES; ++i)
      total += sum[c][i];
  return total;
}

// From several places a core's prefetchers bring more than from one.
static uint64_t stream(const uint64_t *from) {
  words sums[PLACES] = {0};
  size_t each = BUFFER / sizeof *sums / PLACES;
  for (size_t i = 0; i < each; ++i)
    for (int place = 0; place < PLACES; ++place)
      sums[place] += ((const words *)from)[place * each + i];
  uint64_t total = 0;
  for (int place = 0; place < PLACES; ++place)
    for (size_t i = 0; i < sizeof *sums / sizeof total; ++i)
      total += sums[place][i];
  return total;
}

static void *work(void *argument) {
  int number = (int)(intptr_t)argument;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpus[number], &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
  uint64_t *buffer = aligned_alloc(HUGE_PAGE, BUFFER);
  if (!buffer)
    abort();
  madvise(buffer, BUFFER, MADV_HUGEPAGE);
  memset(buffer, 1, BUFFER);
  for (int try = 0; try < TRIES; ++try) {
    pthread_barrier_wait(&barrier);
    double start = now();
    sink = multiply_adds();
    pthread_barrier_wait(&barrier);
    double flops = 2.0 * LANES * CHAINS * TURNS * threads / (now() - start) * 1e-9;
    pthread_barrier_wait(&barrier);
    start = now();
    sink = (float)stream(buffer);
    pthread_barrier_wait(&barrier);
    double bytes = (double)BUFFER * threads / (now() - start) * 1e-9;
    if (number == 0) {
      flops_best = flops > flops_best ? flops : flops_best;
      bytes_best = bytes > bytes_best ? bytes : bytes_best;
    }
  }
  free(buffer);
  return NULL;
}

int main(int argc, char **argv) {
  threads = argc > 1 ? atoi(argv[1]) : 1;
  cpu_set_t set;
  sched_getaffinity(0, sizeof set, &set);
  int found = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE && found < MAX_THREADS; ++cpu)
    if (CPU_ISSET(cpu, &set))
      cpus[found++] = cpu;
  if (threads < 1 || threads > found) {
    fprintf(stderr, "roofs: %d CPUs may be used\n", found);
    return 2;
  }
  pthread_barrier_init(&barrier, NULL, threads);
  pthread_t handles[MAX_THREADS];
  for (int i = 1; i < threads; ++i)
    pthread_create(&handles[i], NULL, work, (void *)(intptr_t)i);
  work((void *)0);
  for (int i = 1; i < threads; ++i)
    pthread_join(handles[i], NULL);
  printf("%.1f %.2f\n", flops_best, bytes_best);
  return 0;
}
