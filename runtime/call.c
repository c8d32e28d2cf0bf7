// A run, step by step: match the tensors, bind dims, check, lay out the arena, stage what cannot be used in place, run
// the entry, copy out. Nothing is written to a result before every check has passed.
#include "runtime/room.h"

static int64_t aligned(int64_t bytes) { return (bytes + RT_ALIGN - 1) / RT_ALIGN * RT_ALIGN; }

static heddle_status null_data(const rt_call *call, const rt_value *value) {
  return rt_wrong(HEDDLE_BAD_TENSOR, call, value, "has no data (NULL)");
}

// Whether kernels can read or write the caller's tensor itself.
static bool is_used_in_place(const rt_value *value, bool is_input, bool on_device) {
  if (!value->given || !rt_usable_in_place(value, on_device))
    return false;
  return !on_device || (value->given->memory == HEDDLE_DEVICE_MEMORY && !(is_input && rt_is_looked_at(value)));
}

// Decides which values are staged, and where; *bytes is what all of them take.
static heddle_status lay_out(rt_call *call, bool on_device, int64_t *bytes) {
  const heddle_entry_desc *e = call->entry;
  int32_t count = e->n_inputs + e->n_results;
  int64_t used = 0;
  for (int32_t v = 0; v < count; v++) {
    rt_value *value = &call->values[v];
    if (value->elements == 0)
      continue;
    if (value->given && !value->given->data)
      return null_data(call, value);
    bool in_place = is_used_in_place(value, v < e->n_inputs, on_device);
    for (int32_t other = 0; v >= e->n_inputs && other < v; other++) { // a result over something that is still needed
      if (!rt_overlap(value->given, call->values[other].given))
        continue;
      in_place = false;
      if (other >= e->n_inputs) {
        rt_text text = {.length = 0};
        rt_append(&text, "overlaps result '%s' in memory; give each room of its own", call->values[other].desc->name);
        return rt_wrong(HEDDLE_BAD_TENSOR, call, value, text.data);
      }
    }
    if (in_place)
      continue;
    value->place = used;
    used += aligned(value->bytes); // at most 2^34 each: no overflow
  }
  *bytes = used;
  return HEDDLE_OK;
}

static heddle_status arena_bytes(const rt_call *call, int64_t *bytes) {
  *bytes = call->entry->arena_bytes(call->dims);
  if (*bytes >= 0)
    return HEDDLE_OK;
  rt_text dims = {.length = 0};
  for (int32_t d = 0; d < call->model->n_dims; d++)
    if (call->bound_by[d] >= 0)
      rt_append(&dims, "%s%s = %lld", dims.length ? ", " : "", call->model->dims[d].name, (long long)call->dims[d]);
  return rt_fail(HEDDLE_OUT_OF_MEMORY,
                 "entry '%s': a tensor inside, or a number that says a place in one, would exceed 2147483647 for %s; "
                 "give smaller inputs",
                 call->entry->name, dims.data);
}

int64_t rt_beyond_limit(const heddle_session *session, int64_t arena, int64_t growth) {
  int64_t bytes = arena > session->arena.bytes ? arena : session->arena.bytes;
  int64_t kept = rt_states_bytes(&session->states) + rt_once_bytes(&session->once);
  if (__builtin_add_overflow(kept, growth, &kept) || __builtin_add_overflow(bytes, kept, &bytes))
    bytes = INT64_MAX;
  return session->memory_limit && bytes > session->memory_limit ? bytes : 0;
}

static heddle_status check_limit(const heddle_session *session, int64_t arena, int64_t growth) {
  int64_t bytes = rt_beyond_limit(session, arena, growth);
  if (!bytes)
    return HEDDLE_OK;
  return rt_fail(HEDDLE_OUT_OF_MEMORY,
                 "entry '%s' needs %lld bytes of memory for these inputs, more than the limit of %lld; give smaller "
                 "inputs or raise memory_limit",
                 session->call.entry->name, (long long)bytes, (long long)session->memory_limit);
}

static heddle_status grow_arena(heddle_session *session, int64_t bytes) {
  if (session->arena.map && bytes <= session->arena.bytes)
    return HEDDLE_OK;
  if (session->has_fixed_arena)
    return rt_fail(HEDDLE_OUT_OF_MEMORY,
                   "entry '%s' needs %lld bytes of memory for these inputs, more than the %lld of the session's arena; "
                   "give smaller inputs or a larger arena",
                   session->call.entry->name, (long long)bytes, (long long)session->arena.bytes);
  rt_memory_release(&session->arena); // nothing in it outlives a run, and two at once would be more than is needed
  heddle_status status = rt_room_get(session, &session->arena, bytes);
  if (status == HEDDLE_OUT_OF_MEMORY)
    return rt_fail(HEDDLE_OUT_OF_MEMORY,
                   "entry '%s' needs %lld bytes of memory for these inputs, which the system refuses; give smaller "
                   "inputs",
                   session->call.entry->name, (long long)bytes);
  if (status != HEDDLE_OK)
    return status;
  atomic_fetch_add(&session->scratch.allocations, 1);
  return HEDDLE_OK;
}

// On a device: what kernels keep between their launches.
static heddle_status reserve_kept(heddle_session *session, int64_t bytes) {
  const char *entry = session->call.entry->name;
  if (bytes < 0)
    return rt_fail(
        HEDDLE_OUT_OF_MEMORY,
        "entry '%s': a tensor inside of a kernel would have more than 2147483647 elements; give smaller inputs", entry);
  if (bytes <= session->kept.bytes)
    return HEDDLE_OK;
  rt_memory_release(&session->kept);
  heddle_status status = rt_room_get(session, &session->kept, bytes);
  if (status == HEDDLE_OUT_OF_MEMORY)
    return rt_fail(
        HEDDLE_OUT_OF_MEMORY,
        "entry '%s' needs %lld bytes of the device's memory for the insides of its kernels, which it refuses; "
        "give smaller inputs",
        entry, (long long)bytes);
  if (status != HEDDLE_OK)
    return status;
  atomic_fetch_add(&session->scratch.allocations, 1);
  return HEDDLE_OK;
}

// What kernels need while they run, so that none of them can fail: a call that fails changes no state.
static heddle_status reserve_scratch(heddle_session *session) {
  const rt_call *call = &session->call;
  int64_t bytes = call->entry->scratch_bytes ? call->entry->scratch_bytes(call->dims) : 0;
  if (session->queue)
    return reserve_kept(session, bytes);
  if (rt_scratch_reserve(&session->scratch, bytes))
    return HEDDLE_OK;
  return rt_fail(
      HEDDLE_OUT_OF_MEMORY,
      "entry '%s' needs %lld bytes of memory for the insides of its kernels on each of %d threads, which the "
      "system refuses; give smaller inputs or fewer threads",
      call->entry->name, (long long)bytes, session->threads);
}

// What kernels may read of tensors without elements. The arena will do: nobody looks at the values. The last of no
// places is the one before the first, so as much is readable before the address as behind it.
static heddle_status reserve_nothing(heddle_session *session, const uint8_t **nothing) {
  const rt_call *call = &session->call;
  int64_t bytes = call->entry->nothing_bytes ? call->entry->nothing_bytes(call->dims) : 0;
  int64_t before = (bytes + RT_ALIGN - 1) / RT_ALIGN * RT_ALIGN, all = 2 * before;
  if (bytes < 0)
    return rt_fail(HEDDLE_OUT_OF_MEMORY,
                   "entry '%s': a tensor without elements would have more than 2147483647 of them, were its extents of "
                   "0 extents of 1, and kernels can't address it; give smaller inputs",
                   call->entry->name);
  rt_memory *own = &session->nothing;
  const rt_memory *from = all <= session->arena.bytes ? &session->arena : own;
  if (all <= from->bytes) {
    *nothing = all ? from->data + before : NULL;
    return HEDDLE_OK;
  }
  rt_memory_release(own);
  heddle_status status = HEDDLE_OK;
  if (session->queue)
    status = rt_room_get(session, own, all);
  else if (!rt_memory_get_unwritten(own, all))
    status = HEDDLE_OUT_OF_MEMORY;
  if (status == HEDDLE_OUT_OF_MEMORY)
    return rt_fail(HEDDLE_OUT_OF_MEMORY,
                   "entry '%s' needs %lld bytes of addresses for a tensor without elements, which the system refuses; "
                   "give smaller inputs",
                   call->entry->name, (long long)all);
  if (status != HEDDLE_OK)
    return status;
  atomic_fetch_add(&session->scratch.allocations, 1);
  *nothing = own->data + before;
  return HEDDLE_OK;
}

static uint8_t *pointer_of(const heddle_session *session, const rt_value *value) {
  if (value->elements == 0)
    return session->arena.data; // some valid, aligned address
  return value->place >= 0 ? session->arena.data + value->place : value->given->data;
}

static heddle_status stage_inputs(heddle_session *session) {
  rt_call *call = &session->call;
  for (int32_t i = 0; i < call->entry->n_inputs; i++) {
    rt_value *value = &call->values[i];
    uint8_t *pointer = pointer_of(session, value);
    call->inputs[i] = pointer;
    if (value->elements == 0 || session->queue)
      continue;
    if (!value->given) {
      rt_fill(value->desc->dtype, value->desc->initial, value->elements, pointer);
      continue;
    }
    heddle_status status = rt_stage_in(call, value, value->place >= 0 ? pointer : NULL);
    if (status != HEDDLE_OK)
      return status;
  }
  return session->queue ? rt_transfer_in(session) : HEDDLE_OK;
}

static heddle_status run_kernels(heddle_session *session, int64_t staged, const uint8_t *nothing) {
  rt_call *call = &session->call;
  heddle_call arguments = {.dims = call->dims,
                           .inputs = call->inputs,
                           .results = call->results,
                           .states = session->states.now,
                           .next_states = session->states.next,
                           .weights = session->queue ? session->model->device->weights : session->model->payload,
                           .arena = session->arena.data + staged,
                           .context = &session->scratch.slots[0],
                           .nothing = nothing};
  bool usual = rt_once_give(session, &arguments);
  session->faulted = false;
  int32_t cpu = session->pool ? session->pool->enter() : -1;
  uint32_t mode = rt_float_mode_enter();
  if (usual)
    rt_room_begin_run(session);
  int32_t error = call->entry->run(&arguments);
  rt_room_end_run(session, error > 0);
  heddle_status finished = rt_room_failure(session);
  rt_float_mode_leave(mode);
  if (session->pool)
    session->pool->leave(cpu);
  rt_scratch_settle(&session->scratch);
  rt_once_settle(session, !error && finished == HEDDLE_OK);
  if (finished != HEDDLE_OK)
    return finished;
  if (error == -11 || error == -5) // Halide's codes for an allocation that failed, or would be too large
    return rt_fail(HEDDLE_OUT_OF_MEMORY,
                   "entry '%s': the system has no memory for a kernel's scratch; give smaller inputs",
                   call->entry->name);
  if (error > 0 && error <= call->entry->n_requirements)
    return rt_fail(HEDDLE_OUT_OF_RANGE, "entry '%s': %s", call->entry->name, call->entry->requirements[error - 1]);
  if (error == HEDDLE_OUTSIDE)
    return rt_fail(HEDDLE_OUT_OF_RANGE,
                   "entry '%s': an element or a slice would lie outside of its tensor; please report this",
                   call->entry->name);
  if (error)
    return rt_fail(HEDDLE_KERNEL_FAILED, "entry '%s': a kernel failed with code %d%s%s; please report this",
                   call->entry->name, error, session->faulted ? ": " : "", session->faulted ? session->fault : "");
  return HEDDLE_OK;
}

// Whether a run does more than compute its results.
static bool has_effects(const heddle_entry_desc *entry) {
  bool updates = false;
  for (int32_t u = 0; u < entry->n_uses; u++)
    updates |= entry->uses[u].updates;
  return updates || entry->n_requirements > 0;
}

// The rest of a run, once dims are bound.
static heddle_status run_bound(heddle_session *session) {
  rt_call *call = &session->call;
  int32_t n_inputs = call->entry->n_inputs, n_results = call->entry->n_results;
  int64_t staged, inside, states;
  const uint8_t *nothing;
  heddle_status status = rt_check_results(call);
  if (status == HEDDLE_OK)
    status = lay_out(call, session->queue != NULL, &staged);
  if (status == HEDDLE_OK)
    status = arena_bytes(call, &inside);
  if (status == HEDDLE_OK)
    status = rt_states_plan(session, &states);
  if (status == HEDDLE_OK && __builtin_add_overflow(staged, inside, &inside))
    inside = INT64_MAX;
  if (status == HEDDLE_OK && __builtin_add_overflow(states, rt_once_growth(session), &states))
    states = INT64_MAX;
  if (status == HEDDLE_OK)
    status = check_limit(session, inside, states);
  if (status == HEDDLE_OK)
    status = grow_arena(session, inside);
  if (status == HEDDLE_OK)
    status = rt_once_prepare(session);
  if (status == HEDDLE_OK)
    status = reserve_scratch(session);
  if (status == HEDDLE_OK)
    status = reserve_nothing(session, &nothing);
  if (status == HEDDLE_OK)
    status = stage_inputs(session);
  if (status == HEDDLE_OK)
    status = rt_states_prepare(session);
  if (status != HEDDLE_OK)
    return status;
  bool empty = n_results > 0 && !has_effects(call->entry);
  for (int32_t r = 0; r < n_results; r++) {
    rt_value *value = &call->values[n_inputs + r];
    empty &= value->elements == 0;
    call->results[r] = pointer_of(session, value);
  }
  if (empty) // nothing to compute
    return rt_room_finish(session);
  status = run_kernels(session, staged, nothing);
  if (status == HEDDLE_OK && session->queue)
    status = rt_transfer_out(session);
  if (status == HEDDLE_OK)
    rt_states_commit(session);
  for (int32_t r = 0; status == HEDDLE_OK && !session->queue && r < n_results; r++) {
    rt_value *value = &call->values[n_inputs + r];
    if (value->given && value->place >= 0)
      rt_stage_out(value, call->results[r]);
  }
  return status;
}

static heddle_status begin(heddle_session *session, int32_t entry) {
  if (!session)
    return rt_null("session");
  heddle_status status = rt_check_entry(session->model, entry);
  return status == HEDDLE_OK ? rt_session_enter(session) : status;
}

heddle_status rt_run(heddle_session *session, int32_t entry, const heddle_tensor *inputs, int32_t n_inputs,
                     const heddle_tensor *results, int32_t n_results) {
  rt_call_begin(&session->call, entry);
  heddle_status status = rt_match(&session->call, inputs, n_inputs, results, n_results);
  if (status == HEDDLE_OK)
    status = rt_bind_from_inputs(&session->call);
  return status == HEDDLE_OK ? run_bound(session) : status;
}

heddle_status heddle_run(heddle_session *session, int32_t entry, const heddle_tensor *inputs, int32_t n_inputs,
                         const heddle_tensor *results, int32_t n_results) {
  heddle_status status = begin(session, entry);
  if (status != HEDDLE_OK)
    return status;
  return rt_session_leave(session, rt_run(session, entry, inputs, n_inputs, results, n_results));
}

static heddle_tensor dense_tensor(const rt_value *value, const void *data) {
  heddle_tensor tensor = {
      .name = value->desc->name, .data = (void *)data, .dtype = value->desc->dtype, .rank = value->desc->rank};
  int64_t stride = rt_dtype_bytes(tensor.dtype);
  for (int32_t i = tensor.rank - 1; i >= 0; i--) {
    tensor.shape[i] = value->shape[i];
    tensor.strides[i] = stride;
    stride = (int64_t)((uint64_t)stride * (uint64_t)value->shape[i]); // an empty tensor may have any other extent
  }
  return tensor;
}

heddle_status heddle_run_dense(heddle_session *session, int32_t entry, const int64_t *dims, const void *const *inputs,
                               void *const *results) {
  heddle_status status = begin(session, entry);
  if (status != HEDDLE_OK)
    return status;
  rt_call *call = &session->call;
  rt_call_begin(call, entry);
  int32_t n_inputs = call->entry->n_inputs, n_results = call->entry->n_results;
  if ((!dims && call->model->n_dims) || (!inputs && n_inputs) || (!results && n_results))
    return rt_session_leave(
        session, rt_fail(HEDDLE_INVALID_ARGUMENT, "entry '%s': dims, inputs or results is NULL", call->entry->name));
  status = rt_bind_from_dims(call, dims);
  for (int32_t v = 0; status == HEDDLE_OK && v < n_inputs + n_results; v++) {
    rt_value *value = &call->values[v];
    const void *data = v < n_inputs ? inputs[v] : results[v - n_inputs];
    if (!data && v < n_inputs && !value->desc->optional && value->elements)
      status = null_data(call, value);
    call->tensors[v] = dense_tensor(value, data);
    value->given = data ? &call->tensors[v] : NULL;
  }
  if (status == HEDDLE_OK)
    status = run_bound(session);
  return rt_session_leave(session, status);
}

heddle_status heddle_run_typed(heddle_session *session, int32_t entry, uint32_t signature, const int64_t *dims,
                               const void *const *inputs, void *const *results) {
  if (!session)
    return rt_null("session");
  if (session->head.api != &heddle_table)
    return rt_fail(HEDDLE_INVALID_ARGUMENT, "the session is one of another library");
  const heddle_model_desc *model = session->model->desc;
  if (entry < 0 || entry >= model->n_entries || model->entries[entry].signature != signature)
    return rt_fail(
        HEDDLE_INVALID_ARGUMENT,
        "model '%s' has other entries than the header that the program was compiled with; compile the program "
        "with the header beside this library",
        model->name);
  return heddle_run_dense(session, entry, dims, inputs, results);
}

heddle_status rt_result_shapes(rt_call *call, int32_t entry, const heddle_tensor *inputs, int32_t n_inputs,
                               heddle_tensor *results, int32_t n_results) {
  rt_call_begin(call, entry);
  const heddle_entry_desc *e = call->entry;
  if (n_results < 0 || n_results > e->n_results || (n_results && !results))
    return rt_fail(HEDDLE_INVALID_ARGUMENT, "entry '%s' has %d results; %d were asked for", e->name, e->n_results,
                   n_results);
  heddle_status status = rt_match(call, inputs, n_inputs, NULL, 0);
  if (status == HEDDLE_OK)
    status = rt_bind_from_inputs(call);
  for (int32_t r = 0; status == HEDDLE_OK && r < n_results; r++)
    results[r] = dense_tensor(&call->values[e->n_inputs + r], NULL);
  return status;
}

heddle_status heddle_result_shapes(const heddle_model *model, int32_t entry, const heddle_tensor *inputs,
                                   int32_t n_inputs, heddle_tensor *results, int32_t n_results) {
  if (!model)
    return rt_null("model");
  heddle_status status = rt_check_entry(model, entry);
  if (status != HEDDLE_OK)
    return status;
  rt_call call = {0};
  if (rt_call_allocate(&call, model->desc)) {
    status = rt_result_shapes(&call, entry, inputs, n_inputs, results, n_results);
  } else {
    status = rt_fail(HEDDLE_OUT_OF_MEMORY, "no memory for the shapes of entry '%s'", model->desc->entries[entry].name);
  }
  rt_call_release(&call);
  return status;
}

heddle_status heddle_session_result_shapes(heddle_session *session, int32_t entry, const heddle_tensor *inputs,
                                           int32_t n_inputs, heddle_tensor *results, int32_t n_results) {
  heddle_status status = begin(session, entry);
  if (status != HEDDLE_OK)
    return status;
  return rt_session_leave(session, rt_result_shapes(&session->call, entry, inputs, n_inputs, results, n_results));
}

heddle_status heddle_memory_needed(const heddle_model *model, int32_t entry, const int64_t *dims, int64_t *bytes) {
  if (!model || !dims || !bytes)
    return rt_null(!model ? "model" : !dims ? "dims" : "bytes");
  heddle_status status = rt_check_entry(model, entry);
  if (status != HEDDLE_OK)
    return status;
  rt_call call = {0};
  if (rt_call_allocate(&call, model->desc)) {
    rt_call_begin(&call, entry);
    status = rt_bind_from_dims(&call, dims);
    int64_t needed;
    if (status == HEDDLE_OK)
      status = arena_bytes(&call, &needed);
    if (status == HEDDLE_OK)
      *bytes = needed;
  } else {
    status = rt_fail(HEDDLE_OUT_OF_MEMORY, "no memory to look at entry '%s'", model->desc->entries[entry].name);
  }
  rt_call_release(&call);
  return status;
}
