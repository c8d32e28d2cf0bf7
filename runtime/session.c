// Sessions: one caller's arena, scratch, threads and states (state.c, saved.c). Everything that a run needs for
// its bookkeeping is allocated here, so that a run allocates only when it needs a larger arena.
#include "runtime/runtime.h"

#include <stdlib.h>
#include <string.h>

static heddle_status choose_threads(heddle_session *session, const heddle_session_options *options) {
  if (options->threads < 0)
    return rt_fail(HEDDLE_INVALID_ARGUMENT, "threads is %d; give a number of threads, or 0 for all cores",
                   options->threads);
  session->asked_threads = options->threads;
  if (options->custom) {
    if (!options->custom->concurrency || !options->custom->run)
      return rt_fail(HEDDLE_INVALID_ARGUMENT, "custom threads need both callbacks `concurrency` and `run`");
    int32_t offered = options->custom->concurrency(options->custom->context);
    if (offered < 1)
      return rt_fail(HEDDLE_INVALID_ARGUMENT, "the callback `concurrency` returned %d; it must be at least 1", offered);
    session->custom = *options->custom;
    session->has_custom = true;
    session->threads = options->threads && options->threads < offered ? options->threads : offered;
    if (session->threads > RT_MOST_CPUS)
      session->threads = RT_MOST_CPUS;
    return HEDDLE_OK;
  }
  rt_cpus_allowed(&session->cpus);
  session->pool = rt_find_pool();
  if (!session->pool)
    return rt_fail(HEDDLE_OUT_OF_MEMORY, "no memory to find the thread pool of this process");
  if (options->threads) {
    session->threads = options->threads < session->cpus.count ? options->threads : session->cpus.count;
  } else {
    int32_t quota = rt_cgroup_cpus("/proc/self/cgroup", "/sys/fs/cgroup");
    session->threads = quota && quota < session->cpus.cores ? quota : session->cpus.cores;
  }
  return HEDDLE_OK;
}

// Takes the caller's memory for an arena, between room to read beside its ends.
static heddle_status take_arena(heddle_session *session, const heddle_session_options *options) {
  heddle_status status = rt_take_allocator(&session->allocator, options->allocator);
  session->scratch.from = &session->allocator;
  if (status != HEDDLE_OK || !options->arena)
    return status;
  if (session->model->device)
    return rt_fail(HEDDLE_UNSUPPORTED,
                   "model '%s' computes on a GPU, whose memory the arena would have to be; leave it out",
                   session->model->desc->name);
  if (options->arena_bytes < HEDDLE_ARENA_SPARE || options->arena_bytes > PTRDIFF_MAX)
    return rt_fail(HEDDLE_INVALID_ARGUMENT, "arena_bytes is %zu; give what heddle_memory_needed says and %d more",
                   options->arena_bytes, HEDDLE_ARENA_SPARE);
  uintptr_t first = ((uintptr_t)options->arena + 2 * RT_ALIGN - 1) / RT_ALIGN * RT_ALIGN;
  session->arena = (rt_memory){
      .data = (uint8_t *)first, .bytes = (int64_t)(options->arena_bytes - HEDDLE_ARENA_SPARE), .map = options->arena};
  session->has_fixed_arena = true;
  return HEDDLE_OK;
}

static heddle_status allocate(heddle_session *session, const heddle_session_options *options) {
  if (options->stream && !session->model->device)
    return rt_fail(HEDDLE_UNSUPPORTED, "model '%s' computes on the CPU, which has no streams; leave `stream` out",
                   session->model->desc->name);
  session->scratch.count = session->threads;
  session->scratch.slots = aligned_alloc(_Alignof(rt_slot), sizeof(rt_slot) * (size_t)session->threads);
  for (int32_t i = 0; session->scratch.slots && i < session->threads; i++)
    session->scratch.slots[i] = (rt_slot){.session = session, .base = -1};
  if (!session->scratch.slots || !rt_call_allocate(&session->call, session->model->desc) ||
      !rt_states_allocate(&session->states, session->model->desc) ||
      !rt_once_allocate(&session->once, session->model->desc))
    return rt_fail(HEDDLE_OUT_OF_MEMORY, "no memory for a session with %d threads", session->threads);
  session->call.states = &session->states;
  rt_device *device = session->model->device;
  rt_queue_options of_queue = {.graphs = options->graphs, .stream = options->stream};
  return device ? device->api->begin(device, &of_queue, &session->queue) : HEDDLE_OK;
}

// Puts `first` and what follows it back on the model's list.
static void put_freed(heddle_model *model, heddle_session *first) {
  heddle_session *last = first;
  while (last->next_freed)
    last = last->next_freed;
  heddle_session *head = atomic_load(&model->freed);
  do
    last->next_freed = head;
  while (!atomic_compare_exchange_weak(&model->freed, &head, first));
}

// A session of zeros, in the place of a freed one where there is one; NULL: no memory. It is refused until it is idle.
static heddle_session *new_session(heddle_model *model) {
  heddle_session *made = atomic_exchange(&model->freed, NULL); // all of them: nobody else sees the list meanwhile
  if (!made)
    made = calloc(1, sizeof *made);
  else if (made->next_freed)
    put_freed(model, made->next_freed);
  if (!made)
    return NULL;
  atomic_store(&made->use, RT_FREED);
  made->next_freed = NULL;
  size_t kept = offsetof(heddle_session, threads);
  memset((char *)made + kept, 0, sizeof *made - kept);
  made->head.api = &heddle_table;
  made->model = model;
  return made;
}

void rt_sessions_release(heddle_model *model) {
  for (heddle_session *session = atomic_load(&model->freed); session;) {
    heddle_session *next = session->next_freed;
    free(session);
    session = next;
  }
}

static void destroy(heddle_session *session) {
  rt_memory_release(&session->kept);
  rt_memory_release(&session->staging);
  if (session->scratch.slots)
    rt_scratch_release(&session->scratch);
  free(session->scratch.slots);
  rt_call_release(&session->call);
  rt_states_release(&session->states);
  rt_once_release(&session->once);
  if (!session->has_fixed_arena)
    rt_memory_release(&session->arena);
  rt_memory_release(&session->nothing);
  if (session->queue)
    session->queue->device->api->end(session->queue);
  atomic_store(&session->use, RT_FREED);
  put_freed(session->model, session);
}

heddle_status heddle_session_create(heddle_model *model, const heddle_session_options *options,
                                    heddle_session **session) {
  if (!model || !session)
    return rt_null(model ? "session" : "model");
  heddle_session_options all = {0};
  heddle_status status = rt_take_options(&all, options, sizeof all);
  if (status != HEDDLE_OK)
    return status;
  if (all.memory_limit < 0)
    return rt_fail(HEDDLE_INVALID_ARGUMENT, "memory_limit is %lld; give bytes, or 0 for no limit",
                   (long long)all.memory_limit);
  heddle_session *made = new_session(model);
  if (!made)
    return rt_fail(HEDDLE_OUT_OF_MEMORY, "no memory for a session");
  made->memory_limit = all.memory_limit;
  made->graphs = all.graphs;
  made->stream = all.stream;
  atomic_init(&made->scratch.allocations, 1); // itself
  status = take_arena(made, &all);
  if (status == HEDDLE_OK)
    status = choose_threads(made, &all);
  if (status == HEDDLE_OK)
    status = allocate(made, &all);
  if (status != HEDDLE_OK) {
    destroy(made); // the custom threads stay the caller's: no release
    return status;
  }
  atomic_fetch_add(&model->sessions, 1);
  atomic_store(&made->use, RT_IDLE);
  *session = made;
  return HEDDLE_OK;
}

// Takes an idle session; the two say what is wrong where it is none.
static heddle_status claim(heddle_session *session, const char *if_running, const char *if_freed) {
  int32_t use = RT_IDLE;
  if (atomic_compare_exchange_strong(&session->use, &use, RT_RUNNING))
    return HEDDLE_OK;
  return use == RT_FREED ? rt_fail(HEDDLE_INVALID_ARGUMENT, "%s", if_freed) : rt_fail(HEDDLE_BUSY, "%s", if_running);
}

heddle_status rt_session_enter(heddle_session *session) {
  heddle_status status =
      claim(session, "the session is running in another thread; give each thread a session of its own",
            "the session was freed");
  if (status != HEDDLE_OK)
    return status;
  status = session->queue ? session->queue->device->api->attach(session->queue) : HEDDLE_OK;
  if (status != HEDDLE_OK)
    atomic_store_explicit(&session->use, RT_IDLE, memory_order_release);
  return status;
}

heddle_status rt_session_leave(heddle_session *session, heddle_status status) {
  if (session->queue)
    session->queue->device->api->detach(session->queue);
  atomic_store_explicit(&session->use, RT_IDLE, memory_order_release);
  return status;
}

heddle_status heddle_session_free(heddle_session *session) {
  if (!session)
    return HEDDLE_OK;
  heddle_status status = claim(session, "the session is running in another thread; free it when that call has returned",
                               "the session was freed already");
  if (status != HEDDLE_OK)
    return status;
  if (session->has_custom && session->custom.release)
    session->custom.release(session->custom.context);
  heddle_model *model = session->model;
  destroy(session);
  atomic_fetch_sub(&model->sessions, 1); // last: the model may be freed from here on
  return HEDDLE_OK;
}

heddle_status heddle_session_memory(const heddle_session *session, heddle_memory_info *info) {
  if (!session || !info)
    return rt_null(session ? "info" : "session");
  heddle_session *entered = (heddle_session *)session; // all that it changes is whether it is busy
  heddle_status status = rt_session_enter(entered);
  if (status != HEDDLE_OK)
    return status;
  heddle_memory_info all = {.arena_bytes = session->arena.bytes,
                            .allocations = atomic_load(&session->scratch.allocations),
                            .state_bytes = rt_states_bytes(&session->states),
                            .once_bytes = rt_once_bytes(&session->once)};
  for (int32_t i = 0; i < session->scratch.count; i++)
    all.scratch_bytes += session->scratch.slots[i].slab.bytes;
  return rt_session_leave(entered, rt_give_info(info, &all, sizeof all));
}

heddle_status heddle_session_observe(heddle_session *session, heddle_observer observer, void *context) {
  if (!session)
    return rt_null("session");
  heddle_status status = rt_session_enter(session);
  if (status != HEDDLE_OK)
    return status;
  session->observer = observer;
  session->observer_context = context;
  return rt_session_leave(session, HEDDLE_OK);
}

heddle_status heddle_session_observe_tasks(heddle_session *session, heddle_task_observer observer, void *context) {
  if (!session)
    return rt_null("session");
  heddle_status status = rt_session_enter(session);
  if (status != HEDDLE_OK)
    return status;
  session->task_observer = observer;
  session->task_observer_context = context;
  return rt_session_leave(session, HEDDLE_OK);
}

void heddle_kernel_event(void *context, const char *kernel, int32_t begins) {
  const heddle_session *watched = ((const rt_slot *)context)->session;
  if (watched->observer)
    watched->observer(watched->observer_context, kernel, begins);
}

heddle_status heddle_session_threads(const heddle_session *session, int32_t *threads) {
  if (!session || !threads)
    return rt_null(session ? "threads" : "session");
  *threads = session->threads;
  return HEDDLE_OK;
}
