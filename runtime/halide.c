// What Halide's kernels call: parallel loops and scratch memory. Their user context is the slot of the thread they run
// on, in their session's scratch; kernels called outside of a session (NULL, as tests do) run serially and allocate
// with malloc.
#include "runtime/runtime.h"
#include "runtime/share.h"

#include <stdlib.h>
#include <xmmintrin.h>

// Round to nearest, no exceptions, denormals are zero on both sides: products with masked weights would otherwise be
// denormal and slow a kernel tenfold.
#define FLOAT_MODE 0x9fc0u

typedef int (*halide_task)(void *user_context, int index, uint8_t *closure);

typedef struct parallel_job {
  heddle_session *session;
  halide_task task;
  uint8_t *closure;
  int min;
  int size;
  int threads;
  _Atomic int64_t next;
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

static void take_tasks(void *data, int32_t index) {
  parallel_job *job = data;
  if (index < 0 || index >= job->session->threads) // custom threads that miscount: others do the tasks
    return;
  uint32_t mode = rt_float_mode_enter();
  rt_slot *slot = &job->session->scratch.slots[index];
  slot->base = slot->used;
  for (;;) {
    int64_t left = job->size - atomic_load_explicit(&job->next, memory_order_relaxed);
    int64_t run = rt_tasks_at_once(left, job->threads);
    int64_t first = left > 0 ? atomic_fetch_add_explicit(&job->next, run, memory_order_relaxed) : job->size;
    if (first >= job->size)
      break;
    int64_t end = run < job->size - first ? first + run : job->size;
    for (int64_t i = first; i < end; i++) {
      int error = do_task(slot, job, (int)i);
      if (error) {
        atomic_store_explicit(&job->error, error, memory_order_relaxed);
        atomic_store_explicit(&job->next, job->size, memory_order_relaxed); // the rest need not begin
        break;
      }
    }
  }
  slot->base = -1;
  rt_float_mode_leave(mode);
}

int halide_do_par_for(void *user_context, halide_task task, int min, int size, uint8_t *closure) {
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
