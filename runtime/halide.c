// What Halide's kernels call: parallel loops and scratch memory. Their user context is the slot of the thread they run
// on, in their session's scratch; kernels called outside of a session (NULL, as tests do) run serially and allocate
// with malloc.
#include "runtime/runtime.h"

#include <stdlib.h>
#include <xmmintrin.h>

// Round to nearest, no exceptions, denormals are zero on both sides: products with masked weights would otherwise be
// denormal and slow a kernel tenfold.
#define FLOAT_MODE 0x9fc0u

typedef struct parallel_job {
  heddle_session *session;
  rt_task task;
  uint8_t *closure;
  int min;
  int size;
  int threads;
  _Atomic int error;
} parallel_job;

uint32_t rt_float_mode_enter(void) {
  uint32_t before = _mm_getcsr();
  _mm_setcsr(FLOAT_MODE);
  return before;
}

void rt_float_mode_leave(uint32_t before) { _mm_setcsr(before); }

// Does a task, in front of who watches.
static int do_task(const rt_slot *slot, const parallel_job *job, int number) {
  const heddle_session *session = job->session;
  int32_t thread = (int32_t)(slot - session->scratch.slots);
  if (session->task_observer)
    session->task_observer(session->task_observer_context, thread, number, 1);
  int error = job->task((void *)slot, job->min + number, job->closure);
  if (session->task_observer)
    session->task_observer(session->task_observer_context, thread, number, 0);
  return error;
}

static rt_share share_of(rt_slot *slot) { return atomic_load_explicit(&slot->share, memory_order_relaxed); }

static void set_share(rt_slot *slot, rt_share share) {
  atomic_store_explicit(&slot->share, share, memory_order_relaxed);
}

// Leaves `left` of a share that is still as `seen`.
static bool leave(rt_slot *slot, rt_share seen, rt_share left) {
  return atomic_compare_exchange_strong_explicit(&slot->share, &seen, left, memory_order_relaxed, memory_order_relaxed);
}

// Takes tasks of another thread into a share that is empty; false: there are none.
static bool take_share(const parallel_job *job, rt_slot *to) {
  for (;;) {
    rt_slot *from = NULL;
    rt_share seen = {0, 0};
    for (int i = 0; i < job->threads; i++) {
      rt_slot *other = &job->session->scratch.slots[i];
      rt_share share = share_of(other);
      if (rt_share_left(share) > rt_share_left(seen))
        from = other, seen = share;
    }
    if (!from)
      return false;
    rt_share taken = rt_share_taken(seen);
    if (leave(from, seen, (rt_share){seen.first, taken.first})) {
      set_share(to, taken);
      return true;
    }
  }
}

// The next task of a thread; false: all have been begun.
static bool next_task(const parallel_job *job, rt_slot *slot, uint32_t *task) {
  for (;;) {
    rt_share share = share_of(slot);
    if (rt_share_left(share) == 0) {
      if (!take_share(job, slot))
        return false;
    } else if (leave(slot, share, (rt_share){share.first + 1, share.end})) {
      *task = share.first;
      return true;
    }
  }
}

static void take_tasks(void *data, int32_t index) {
  parallel_job *job = data;
  if (index < 0 || index >= job->threads) // custom threads that miscount: others do the tasks
    return;
  uint32_t mode = rt_float_mode_enter();
  rt_slot *slot = &job->session->scratch.slots[index];
  slot->base = slot->used;
  uint32_t task;
  while (!atomic_load_explicit(&job->error, memory_order_relaxed) && next_task(job, slot, &task)) {
    int error = do_task(slot, job, (int)task);
    if (error) // the rest need not begin
      atomic_store_explicit(&job->error, error, memory_order_relaxed);
  }
  slot->base = -1;
  rt_float_mode_leave(mode);
}

int halide_do_par_for(void *user_context, rt_task task, int min, int size, uint8_t *closure) {
  const rt_slot *slot = user_context;
  heddle_session *session = slot ? slot->session : NULL;
  if (!session || slot->base >= 0) { // outside of a run, or in a task
    for (int i = 0; i < size; i++) {
      int error = task(user_context, min + i, closure);
      if (error)
        return error;
    }
    return 0;
  }
  int32_t threads = session->threads < size ? session->threads : size;
  parallel_job job = {
      .session = session, .task = task, .closure = closure, .min = min, .size = size, .threads = threads};
  for (int32_t i = 0; i < threads; i++)
    set_share(&session->scratch.slots[i], rt_share_of(size, threads, i));
  if (threads <= 1) {
    take_tasks(&job, 0);
  } else if (session->has_custom) {
    session->custom.run(session->custom.context, threads, take_tasks, &job);
    take_tasks(&job, 0); // what they have not done
  } else {
    if (!session->prepared) {
      session->pool->prepare(&session->cpus, session->threads);
      session->prepared = true;
    }
    session->pool->run(&session->cpus, threads - 1, take_tasks, &job);
  }
  return atomic_load_explicit(&job.error, memory_order_relaxed);
}

int rt_share_tasks(heddle_session *session, int32_t count, rt_task task, void *closure) {
  int32_t cpu = session->pool ? session->pool->enter() : -1;
  int error = halide_do_par_for(&session->scratch.slots[0], task, 0, count, closure);
  if (session->pool)
    session->pool->leave(cpu);
  return error;
}

// How many threads share the loops of a kernel; in a task, and outside of a run, nobody does.
int32_t heddle_sharing_threads(void *user_context) {
  const rt_slot *slot = user_context;
  return slot && slot->base < 0 ? slot->session->threads : 1;
}

void *halide_malloc(void *user_context, size_t bytes) {
  rt_slot *slot = user_context;
  if (slot)
    return rt_scratch_take(&slot->session->scratch, slot, bytes);
  // Kernels may read a few bytes beside a block.
  uint8_t *block = bytes < SIZE_MAX / 4 ? aligned_alloc(RT_ALIGN, (bytes / RT_ALIGN + 3) * RT_ALIGN) : NULL;
  return block ? block + RT_ALIGN : NULL;
}

void halide_free(void *user_context, void *pointer) {
  if (user_context)
    rt_scratch_give(user_context, pointer);
  else if (pointer)
    free((uint8_t *)pointer - RT_ALIGN);
}
