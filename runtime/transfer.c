// Between the caller's tensors and a device. What lies there already is used in place, or copied there where kernels
// can't use it as it is. What lies here goes through pinned memory of the session's, all of a call at once, so that a
// call waits once: at its end. Large dense tensors go as they are, since the driver brings them over as fast. Numbers
// that are converted, or must be in a range, are looked at here, also those that lie on the device.
#include "runtime/room.h"

#include <string.h>

#define MOST_LODGED ((int64_t)4 << 20) // bytes of a tensor that is copied here first without need

static const rt_device_api *api_of(const heddle_session *session) { return session->queue->device->api; }

static int64_t aligned(int64_t bytes) { return (bytes + RT_ALIGN - 1) / RT_ALIGN * RT_ALIGN; }

static bool is_there(const rt_value *value) { return value->given && value->given->memory == HEDDLE_DEVICE_MEMORY; }

static bool is_here(const rt_value *value) { return value->given && value->given->memory == HEDDLE_MAIN_MEMORY; }

static int64_t span_bytes(const heddle_tensor *tensor) {
  uintptr_t first, end;
  rt_span(tensor, &first, &end);
  return (int64_t)(end - first);
}

// ---- Staging memory

static heddle_status grow_staging(heddle_session *session, int64_t bytes) {
  heddle_status status = api_of(session)->settle(session->queue); // what an earlier call has there
  if (status != HEDDLE_OK || bytes <= session->staging.bytes)
    return status;
  rt_memory_release(&session->staging);
  void *data;
  status = api_of(session)->get_pinned(session->queue->device, bytes, &data);
  if (status == HEDDLE_OUT_OF_MEMORY)
    return rt_fail(HEDDLE_OUT_OF_MEMORY,
                   "tensors need %lld bytes of pinned memory on their way to and from the device, which it refuses; "
                   "give tensors on the device, or smaller ones",
                   (long long)bytes);
  if (status != HEDDLE_OK)
    return status;
  session->staging =
      (rt_memory){.data = data, .bytes = bytes, .map = data, .device = session->queue->device, .pinned = true};
  atomic_fetch_add(&session->scratch.allocations, 1);
  return HEDDLE_OK;
}

// How many bytes of staging memory an input or result of a run needs.
static int64_t lodged_bytes(const rt_value *value, bool is_input) {
  if (value->elements == 0 || !value->given || value->place < 0)
    return 0;
  bool looked_at = is_input && rt_is_looked_at(value);
  if (is_there(value))
    return looked_at ? aligned(value->bytes) + span_bytes(value->given) : 0;
  return looked_at || !rt_is_dense(value) || value->bytes <= MOST_LODGED ? value->bytes : 0;
}

static heddle_status lodge(heddle_session *session) {
  rt_call *call = &session->call;
  int64_t bytes = 0, own;
  for (int32_t v = 0; v < call->entry->n_inputs + call->entry->n_results; v++) {
    rt_value *value = &call->values[v];
    own = lodged_bytes(value, v < call->entry->n_inputs);
    value->lodging = own ? bytes : -1;
    if (__builtin_add_overflow(bytes, own, &own) || own > INT64_MAX / 2)
      return rt_wrong(HEDDLE_OUT_OF_MEMORY, call, value, "has strides that reach too far; give a dense tensor");
    bytes = aligned(own);
  }
  return bytes ? grow_staging(session, bytes) : HEDDLE_OK;
}

// ---- On the device

// Between a tensor there, which is not dense or not aligned, and its dense form.
static void copy_there(heddle_session *session, const rt_value *value, uint8_t *dense, bool to_dense) {
  const heddle_tensor *given = value->given;
  int64_t size = rt_dtype_bytes(given->dtype), pitch = size, bytes = size, rows = 1;
  int32_t outer = value->desc->rank; // axes that are walked here
  if (rt_is_dense(value)) {
    bytes = value->bytes;
    outer = 0;
  } else {
    if (outer > 1 && given->strides[outer - 1] == size)
      bytes *= value->shape[--outer];
    rows = value->shape[--outer];
    pitch = given->strides[outer];
  }
  int64_t pieces = value->bytes / (bytes * rows);
  for (int64_t piece = 0; piece < pieces; piece++, dense += bytes * rows) {
    uint8_t *at = given->data;
    int64_t left = piece;
    for (int32_t axis = outer - 1; axis >= 0; axis--) {
      at += left % value->shape[axis] * given->strides[axis];
      left /= value->shape[axis];
    }
    api_of(session)->copy_rows(session->queue, to_dense ? dense : at, to_dense ? bytes : pitch, to_dense ? at : dense,
                               to_dense ? pitch : bytes, bytes, rows);
  }
}

// What lies there, read to `at`: as a tensor that lies here.
static heddle_status read_span(heddle_session *session, const heddle_tensor *there, uint8_t *at, heddle_tensor *here) {
  uintptr_t first, end;
  rt_span(there, &first, &end);
  rt_room_read(session, at, (const void *)first, (int64_t)(end - first));
  *here = *there;
  here->data = at + ((uintptr_t)there->data - first);
  here->memory = HEDDLE_MAIN_MEMORY;
  return rt_room_failure(session);
}

// ---- Inputs

static heddle_status bring(heddle_session *session, rt_value *value, void *to) {
  if (value->elements == 0)
    return HEDDLE_OK;
  if (!value->given) {
    rt_room_fill(session, to, value->desc->dtype, value->desc->initial, value->elements);
    return HEDDLE_OK;
  }
  if (value->place < 0)
    return HEDDLE_OK; // used where it is
  if (is_there(value) && value->lodging < 0) {
    copy_there(session, value, to, true);
    return HEDDLE_OK;
  }
  if (value->lodging < 0) {
    rt_room_write(session, to, value->given->data, value->bytes);
    return HEDDLE_OK;
  }
  uint8_t *at = session->staging.data + value->lodging;
  const heddle_tensor *given = value->given;
  heddle_tensor here;
  heddle_status status = HEDDLE_OK;
  if (is_there(value)) {
    status = read_span(session, given, at + aligned(value->bytes), &here);
    value->given = &here;
  }
  if (status == HEDDLE_OK)
    status = rt_stage_in(&session->call, value, at);
  value->given = given;
  if (status == HEDDLE_OK)
    api_of(session)->write_later(session->queue, to, at, value->bytes);
  return status;
}

heddle_status rt_transfer_in(heddle_session *session) {
  rt_call *call = &session->call;
  heddle_status status = lodge(session);
  for (int32_t i = 0; status == HEDDLE_OK && i < call->entry->n_inputs; i++)
    status = bring(session, &call->values[i], (void *)call->inputs[i]);
  if (status == HEDDLE_OK && session->stream)
    api_of(session)->written(session->queue);
  return status;
}

// ---- Results

// Whether a call must not return before its work is done.
static bool must_wait(const heddle_session *session) {
  const rt_call *call = &session->call;
  bool here = !session->stream;
  for (int32_t v = 0; v < call->entry->n_inputs + call->entry->n_results; v++) {
    const rt_value *value = &call->values[v];
    bool is_input = v < call->entry->n_inputs;
    here |= value->elements && is_here(value) && (!is_input || value->lodging < 0);
  }
  return here;
}

heddle_status rt_transfer_out(heddle_session *session) {
  rt_call *call = &session->call;
  rt_value *results = call->values + call->entry->n_inputs;
  for (int32_t r = 0; r < call->entry->n_results; r++) {
    rt_value *value = &results[r];
    if (value->elements == 0 || !value->given || value->place < 0)
      continue;
    if (is_there(value))
      copy_there(session, value, call->results[r], false);
    else if (value->lodging >= 0)
      api_of(session)->read_later(session->queue, session->staging.data + value->lodging, call->results[r],
                                  value->bytes);
    else
      rt_room_read(session, value->given->data, call->results[r], value->bytes);
  }
  heddle_status status = must_wait(session) ? rt_room_finish(session) : rt_room_failure(session);
  for (int32_t r = 0; status == HEDDLE_OK && r < call->entry->n_results; r++)
    if (results[r].elements && is_here(&results[r]) && results[r].lodging >= 0)
      rt_stage_out(&results[r], session->staging.data + results[r].lodging);
  return status;
}

// ---- States

heddle_status rt_transfer_state_out(heddle_session *session, const rt_value *value, const void *from) {
  heddle_status status = HEDDLE_OK;
  if (is_there(value)) {
    copy_there(session, value, (uint8_t *)from, false);
  } else if (rt_is_dense(value)) {
    rt_room_read(session, value->given->data, from, value->bytes);
  } else {
    status = grow_staging(session, value->bytes);
    if (status == HEDDLE_OK)
      rt_room_read(session, session->staging.data, from, value->bytes);
    if (status == HEDDLE_OK && session->queue->status == HEDDLE_OK)
      rt_stage_out(value, session->staging.data);
  }
  heddle_status done = rt_room_finish(session);
  return status != HEDDLE_OK ? status : done;
}

heddle_status rt_transfer_state_in(heddle_session *session, const rt_value *value, void *to) {
  if (is_there(value))
    copy_there(session, value, to, true);
  else
    rt_room_write(session, to, value->given->data, value->bytes);
  return rt_room_finish(session);
}

heddle_status rt_transfer_look(heddle_session *session, const rt_value *value, heddle_tensor *here) {
  heddle_status status = grow_staging(session, span_bytes(value->given));
  return status == HEDDLE_OK ? read_span(session, value->given, session->staging.data, here) : status;
}

// ---- What programs do with memory of a device

static heddle_status no_device(const heddle_model *model) {
  return rt_fail(HEDDLE_UNSUPPORTED, "model '%s' computes on the CPU: it has no memory of a device and no streams",
                 model->desc->name);
}

heddle_status heddle_device_get(heddle_model *model, size_t bytes, void **data) {
  if (!model || !data)
    return rt_null(model ? "data" : "model");
  if (!model->device)
    return no_device(model);
  if (bytes > INT64_MAX)
    return rt_fail(HEDDLE_OUT_OF_MEMORY, "no device has %zu bytes of memory", bytes);
  return model->device->api->get(model->device, bytes ? (int64_t)bytes : 1, data);
}

heddle_status heddle_device_give(heddle_model *model, void *data) {
  if (!model)
    return rt_null("model");
  if (!model->device)
    return no_device(model);
  if (data)
    model->device->api->give(model->device, data);
  return HEDDLE_OK;
}

heddle_status heddle_session_stream(const heddle_session *session, void **stream) {
  if (!session || !stream)
    return rt_null(session ? "stream" : "session");
  heddle_session *entered = (heddle_session *)session;
  heddle_status status = rt_session_enter(entered);
  if (status != HEDDLE_OK)
    return status;
  if (!session->queue)
    return rt_session_leave(entered, no_device(session->model));
  *stream = api_of(session)->stream(session->queue);
  return rt_session_leave(entered, HEDDLE_OK);
}

heddle_status heddle_session_wait(heddle_session *session) {
  if (!session)
    return rt_null("session");
  heddle_status status = rt_session_enter(session);
  return status == HEDDLE_OK ? rt_session_leave(session, rt_room_finish(session)) : status;
}

static heddle_status wrong_tensor(const char *which, const char *what) {
  return rt_fail(HEDDLE_BAD_TENSOR, "the tensor to copy %s %s", which, what);
}

// *bytes: of the tensor, which is dense.
static heddle_status check_copied(const heddle_session *session, const heddle_tensor *tensor, const char *which,
                                  int64_t *bytes) {
  const char *misplaced = rt_misplaced(session->model->desc, tensor);
  if (misplaced)
    return wrong_tensor(which, misplaced);
  if (tensor->rank < 0 || tensor->rank > HEDDLE_RANK || !rt_dtype_bytes(tensor->dtype))
    return wrong_tensor(which, "has a rank or a dtype that there isn't");
  int64_t shape[HEDDLE_RANK], elements = rt_state_elements(tensor->shape, tensor->rank);
  memcpy(shape, tensor->shape, sizeof shape);
  if (elements < 0)
    return wrong_tensor(which, "has an extent below 0, or more than 2147483647 elements");
  const heddle_value_desc desc = {.dtype = tensor->dtype, .rank = tensor->rank};
  const rt_value value = {.desc = &desc, .given = tensor, .shape = shape, .elements = elements};
  if (elements && !rt_is_dense(&value))
    return wrong_tensor(which, "is not dense; copy it");
  if (elements && !tensor->data)
    return wrong_tensor(which, "has no data (NULL)");
  *bytes = elements * rt_dtype_bytes(tensor->dtype);
  return HEDDLE_OK;
}

static heddle_status copy(heddle_session *session, const heddle_tensor *to, const heddle_tensor *from) {
  int64_t bytes, same;
  heddle_status status = check_copied(session, from, "from", &bytes);
  if (status == HEDDLE_OK)
    status = check_copied(session, to, "to", &same);
  if (status != HEDDLE_OK)
    return status;
  if (to->dtype != from->dtype || to->rank != from->rank ||
      memcmp(to->shape, from->shape, sizeof(int64_t) * (size_t)to->rank) != 0)
    return wrong_tensor("to", "has another dtype or shape than the one to copy from");
  bool to_device = to->memory == HEDDLE_DEVICE_MEMORY, from_device = from->memory == HEDDLE_DEVICE_MEMORY;
  if (bytes == 0)
    return HEDDLE_OK;
  if (!to_device && !from_device) {
    memmove(to->data, from->data, (size_t)bytes);
    return HEDDLE_OK;
  }
  if (!to_device)
    rt_room_read(session, to->data, from->data, bytes);
  else if (!from_device)
    rt_room_write(session, to->data, from->data, bytes);
  else if (rt_overlap(to, from) && to->data != from->data)
    return wrong_tensor("to", "overlaps the one to copy from");
  else
    rt_room_copy(session, to->data, from->data, bytes);
  bool wait = !session->stream || !to_device || !from_device || session->queue->status != HEDDLE_OK;
  return wait ? rt_room_finish(session) : HEDDLE_OK;
}

heddle_status heddle_session_copy(heddle_session *session, const heddle_tensor *to, const heddle_tensor *from) {
  if (!session || !to || !from)
    return rt_null(!session ? "session" : to ? "from" : "to");
  heddle_status status = rt_session_enter(session);
  return status == HEDDLE_OK ? rt_session_leave(session, copy(session, to, from)) : status;
}
