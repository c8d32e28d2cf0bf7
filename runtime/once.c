// What entries compute once in a session, from weights and some dims alone. Each entry has memory of its own, so that
// entries which are called in turn don't make each other begin anew.
#include "runtime/room.h"

#include <stdlib.h>

bool rt_once_allocate(rt_once *once, const heddle_model_desc *model) {
  int32_t dims = 0;
  for (int32_t e = 0; e < model->n_entries; e++)
    dims += model->entries[e].n_once_dims;
  *once = (rt_once){.count = model->n_entries};
  once->list = calloc((size_t)model->n_entries + 1, sizeof *once->list);
  once->dims = calloc((size_t)dims + 1, sizeof *once->dims);
  if (!once->list || !once->dims)
    return false;
  for (int32_t e = 0, at = 0; e < model->n_entries; at += model->entries[e++].n_once_dims)
    once->list[e].dims = once->dims + at;
  return true;
}

void rt_once_release(rt_once *once) {
  for (int32_t e = 0; once->list && e < once->count; e++)
    rt_memory_release(&once->list[e].memory);
  free(once->list);
  free(once->dims);
  *once = (rt_once){0};
}

int64_t rt_once_bytes(const rt_once *once) {
  int64_t bytes = 0;
  for (int32_t e = 0; e < once->count; e++)
    bytes += once->list[e].memory.bytes;
  return bytes;
}

static rt_kept *kept_of(heddle_session *session) {
  return &session->once.list[session->call.entry - session->call.model->entries];
}

/// Whether this call finds what an earlier one has computed.
static bool is_there(const rt_kept *kept, const rt_call *call) {
  bool there = kept->done;
  for (int32_t d = 0; there && d < call->entry->n_once_dims; d++)
    there = kept->dims[d] == call->dims[call->entry->once_dims[d]];
  return there;
}

int64_t rt_once_growth(heddle_session *session) {
  const rt_call *call = &session->call;
  if (!call->entry->once_bytes || is_there(kept_of(session), call))
    return 0;
  int64_t bytes = call->entry->once_bytes(call->dims), held = kept_of(session)->memory.bytes;
  return bytes > held ? bytes - held : 0;
}

heddle_status rt_once_prepare(heddle_session *session) {
  const rt_call *call = &session->call;
  const heddle_entry_desc *entry = call->entry;
  if (!entry->once_bytes)
    return HEDDLE_OK;
  rt_kept *kept = kept_of(session);
  if (is_there(kept, call))
    return HEDDLE_OK;
  kept->done = false;
  int64_t bytes = entry->once_bytes(call->dims);
  if (bytes <= kept->memory.bytes)
    return HEDDLE_OK;
  rt_memory_release(&kept->memory);
  heddle_status status = rt_room_get(session, &kept->memory, bytes);
  if (status == HEDDLE_OUT_OF_MEMORY)
    return rt_fail(HEDDLE_OUT_OF_MEMORY,
                   "entry '%s' needs %lld bytes of memory for what it computes once for these sizes, which the system "
                   "refuses; give smaller inputs",
                   entry->name, (long long)bytes);
  if (status != HEDDLE_OK)
    return status;
  atomic_fetch_add(&session->scratch.allocations, 1);
  return HEDDLE_OK;
}

bool rt_once_give(heddle_session *session, heddle_call *arguments) {
  if (!session->call.entry->once_bytes)
    return true;
  const rt_kept *kept = kept_of(session);
  arguments->once = kept->memory.data ? kept->memory.data : arguments->arena; // of no bytes: some aligned address
  arguments->once_done = kept->done;
  return kept->done;
}

void rt_once_settle(heddle_session *session, bool succeeded) {
  const rt_call *call = &session->call;
  if (!call->entry->once_bytes || !succeeded)
    return; // what was done before is still there, and what wasn't, isn't
  rt_kept *kept = kept_of(session);
  kept->done = true;
  for (int32_t d = 0; d < call->entry->n_once_dims; d++)
    kept->dims[d] = call->dims[call->entry->once_dims[d]];
}
