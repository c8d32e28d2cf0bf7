// A session without a model: threads and scratch for one kernel that is called by itself, as the tuner does to time it.
// No library refers to this file, so none has it but those that are made for that.
#include "runtime/runtime.h"

#include <stdlib.h>

#define SHOWN __attribute__((visibility("default")))

// What the kernel takes for its user context; NULL: no memory. `threads` 0: one per core.
SHOWN void *rt_alone_open(int32_t threads);
// Calls a kernel with its arguments behind the context, and returns what it returns.
SHOWN int rt_alone_call(void *context, int (*kernel)(void **arguments), void **arguments);
SHOWN void rt_alone_close(void *context);

void rt_alone_close(void *context) {
  heddle_session *session = context ? ((rt_slot *)context)->session : NULL;
  if (!session)
    return;
  rt_scratch_release(&session->scratch);
  free(session->scratch.slots);
  free(session);
}

void *rt_alone_open(int32_t threads) {
  heddle_session *session = calloc(1, sizeof *session);
  if (!session)
    return NULL;
  rt_cpus_allowed(&session->cpus);
  session->pool = rt_find_pool();
  session->threads = threads > 0 && threads < session->cpus.count ? threads
                     : threads > 0                                ? session->cpus.count
                                                                  : session->cpus.cores;
  session->scratch.from = &session->allocator;
  session->scratch.count = session->threads;
  session->scratch.slots = aligned_alloc(_Alignof(rt_slot), sizeof(rt_slot) * (size_t)session->threads);
  if (!session->pool || !session->scratch.slots) {
    free(session->scratch.slots);
    free(session);
    return NULL;
  }
  for (int32_t i = 0; i < session->threads; i++)
    session->scratch.slots[i] = (rt_slot){.session = session, .base = -1};
  return session->scratch.slots;
}

int rt_alone_call(void *context, int (*kernel)(void **arguments), void **arguments) {
  heddle_session *session = ((rt_slot *)context)->session;
  int32_t cpu = session->pool->enter();
  uint32_t mode = rt_float_mode_enter();
  int status = kernel(arguments);
  rt_float_mode_leave(mode);
  session->pool->leave(cpu);
  rt_scratch_settle(&session->scratch);
  return status;
}
