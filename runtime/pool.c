// The thread pool: at most one worker per CPU, pinned to it, for all sessions and all Heddle libraries of a process.
// A caller claims workers that are free, on CPUs other than its own and than those of other callers, and works itself
// in the meantime; what it cannot claim it does alone, so callers never wait for each other. Workers spin for some
// 100 us after a job, then sleep. Pinning matters: an unpinned worker woken by a futex was measured to share the
// waker's CPU for milliseconds, which made two threads slower than one.
//
// Each worker is one state word, which only these transitions change:
//   ABSENT -> STARTING -> IDLE                 a caller starts the thread; REFUSED where the system does not let it
//   IDLE | ASLEEP -> CLAIMED -> ASSIGNED       a caller gives it a job
//   ASSIGNED -> RUNNING -> DONE                the worker does it ...
//   ASSIGNED -> IDLE                           ... or the caller, having finished alone, takes it back
//   RUNNING -> AWAITED -> DONE                 the caller sleeps until it is done
//   DONE -> IDLE -> ASLEEP                     the caller has seen it; the worker has spun long enough
#define _GNU_SOURCE
#include "runtime/runtime.h"

#include <immintrin.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { ABSENT, STARTING, REFUSED, IDLE, ASLEEP, CLAIMED, ASSIGNED, RUNNING, AWAITED, DONE };

// A worker without a job looks for one so long; a caller so long for the last tasks of its workers, longer because,
// woken from sleep, it might land on a worker's CPU.
#define WORKER_SPIN_NS 100000
#define CALLER_SPIN_NS 2000000
#define POLITE_AFTER_NS 20000 // from then on it offers its CPU to others between looks

typedef struct worker {
  _Atomic uint32_t state;
  _Atomic int32_t callers; // computing on this CPU now
  int32_t index;
  void (*body)(void *data, int32_t index);
  void *data;
} __attribute__((aligned(128))) worker;

// Indexed by CPU. A forked child has none of its parent's threads, so it must find zeros here: the kernel sees to that,
// or, where it cannot, a comparison of process numbers.
static _Atomic(worker *) all_workers;
static _Atomic pid_t checked_process;

#define TABLE_BYTES (sizeof(worker) * RT_MOST_CPUS)

static worker *workers(void) {
  worker *table = atomic_load_explicit(&all_workers, memory_order_acquire);
  if (!table) {
    worker *fresh = mmap(NULL, TABLE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (fresh == MAP_FAILED)
      return NULL;
    if (madvise(fresh, TABLE_BYTES, MADV_WIPEONFORK) != 0)
      atomic_store(&checked_process, getpid());
    if (atomic_compare_exchange_strong(&all_workers, &table, fresh))
      table = fresh;
    else
      munmap(fresh, TABLE_BYTES);
  }
  pid_t process = atomic_load_explicit(&checked_process, memory_order_relaxed);
  if (process && process != getpid() && atomic_compare_exchange_strong(&checked_process, &process, getpid()))
    memset((void *)table, 0, TABLE_BYTES);
  return table;
}

static bool change(worker *w, uint32_t from, uint32_t to) {
  return atomic_compare_exchange_strong_explicit(&w->state, &from, to, memory_order_acq_rel, memory_order_relaxed);
}

static uint32_t state_of(worker *w) { return atomic_load_explicit(&w->state, memory_order_acquire); }

static void set(worker *w, uint32_t state) { atomic_store_explicit(&w->state, state, memory_order_release); }

static void futex_wait(worker *w, uint32_t state) {
  syscall(SYS_futex, &w->state, FUTEX_WAIT_PRIVATE, state, NULL, NULL, 0);
}

static void futex_wake(worker *w) { syscall(SYS_futex, &w->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0); }

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

// Looks at the state until it is `wanted`: false when the time is up.
static bool spin(worker *w, uint32_t wanted, int64_t limit) {
  int64_t start = 0;
  for (uint32_t round = 0;; round++) {
    if (state_of(w) == wanted)
      return true;
    _mm_pause();
    if (round % 32 == 31) {
      int64_t time = now();
      start = start ? start : time;
      if (time - start > limit)
        return false;
      if (time - start > POLITE_AFTER_NS)
        sched_yield();
    }
  }
}

static void *worker_main(void *argument) {
  worker *w = argument;
  change(w, STARTING, IDLE);
  for (;;) {
    if (!spin(w, ASSIGNED, WORKER_SPIN_NS)) {
      if (change(w, IDLE, ASLEEP)) {
        while (state_of(w) == ASLEEP)
          futex_wait(w, ASLEEP);
      } else { // a caller is between two steps, and perhaps not running
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
      }
    }
    if (!change(w, ASSIGNED, RUNNING))
      continue;
    w->body(w->data, w->index);
    if (atomic_exchange_explicit(&w->state, DONE, memory_order_acq_rel) == AWAITED)
      futex_wake(w);
  }
  return NULL;
}

// Starts the thread of an absent worker. Where the system refuses, it is not asked again.
static void start(worker *w, int cpu) {
  if (state_of(w) != ABSENT || !change(w, ABSENT, STARTING))
    return;
  pthread_attr_t attributes;
  cpu_set_t mask;
  CPU_ZERO(&mask);
  CPU_SET(cpu, &mask);
  sigset_t every, before; // signals are the program's, not ours
  sigfillset(&every);
  pthread_t thread;
  int failed = pthread_attr_init(&attributes);
  if (!failed) {
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setaffinity_np(&attributes, sizeof mask, &mask);
    pthread_sigmask(SIG_SETMASK, &every, &before);
    failed = pthread_create(&thread, &attributes, worker_main, w);
    if (!failed)
      pthread_setname_np(thread, "heddle");
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
  }
  if (failed)
    set(w, REFUSED);
}

static void prepare(const rt_cpus *cpus, int32_t threads) {
  worker *table = workers();
  for (int32_t i = 0; table && i < cpus->count && i < threads; i++)
    start(&table[cpus->cpu[i]], cpus->cpu[i]);
}

static bool claim(worker *w, int32_t index, void (*body)(void *, int32_t), void *data) {
  uint32_t state = state_of(w);
  if ((state != IDLE && state != ASLEEP) || !change(w, state, CLAIMED))
    return false;
  w->index = index;
  w->body = body;
  w->data = data;
  set(w, ASSIGNED);
  if (state == ASLEEP)
    futex_wake(w);
  return true;
}

static void finish(worker *w) {
  if (change(w, ASSIGNED, IDLE)) // it has not begun, and nothing is left to do
    return;
  while (state_of(w) != DONE) {
    if (!spin(w, DONE, CALLER_SPIN_NS) && (change(w, RUNNING, AWAITED) || state_of(w) == AWAITED))
      futex_wait(w, AWAITED);
  }
  set(w, IDLE);
}

static void run(const rt_cpus *cpus, int32_t helpers, void (*body)(void *data, int32_t index), void *data) {
  uint16_t claimed[RT_MOST_CPUS];
  int32_t count = 0;
  worker *table = workers();
  int here = sched_getcpu();
  int32_t core = -1;
  for (int32_t i = 0; i < cpus->count; i++)
    if (cpus->cpu[i] == here)
      core = cpus->core[i];
  // Free workers first; then threads that must be started; then those that share the caller's core.
  for (int32_t round = 0; table && round < 3; round++) {
    for (int32_t i = 0; i < cpus->count && count < helpers; i++) {
      worker *w = &table[cpus->cpu[i]];
      if (cpus->cpu[i] == here || (cpus->core[i] == core) != (round == 2) ||
          atomic_load_explicit(&w->callers, memory_order_relaxed) > 0)
        continue;
      if (round > 0)
        start(w, cpus->cpu[i]); // it will be there for the next job
      if (claim(w, count + 1, body, data))
        claimed[count++] = cpus->cpu[i];
    }
  }
  body(data, 0);
  for (int32_t i = 0; i < count; i++)
    finish(&table[claimed[i]]);
}

static int32_t enter(void) {
  worker *table = workers();
  int cpu = sched_getcpu();
  if (!table || cpu < 0 || cpu >= RT_MOST_CPUS)
    return -1;
  atomic_fetch_add_explicit(&table[cpu].callers, 1, memory_order_relaxed);
  return cpu;
}

static void leave(int32_t cpu) {
  worker *table = workers();
  if (table && cpu >= 0)
    atomic_fetch_sub_explicit(&table[cpu].callers, 1, memory_order_relaxed);
}

static const rt_pool own_pool = {
    .version = RT_POOL_VERSION, .run = run, .prepare = prepare, .enter = enter, .leave = leave};

const void *rt_own_pool(uint32_t version) { return version == RT_POOL_VERSION ? &own_pool : NULL; }
