// What programs do with a session's states between calls: reset, look at, write, copy, save and restore. A saved state
// is a header with the library's id and a checksum, then per state whether it is set, its dims and its value; all of it
// is checked before a session takes it over.
#include "runtime/room.h"

#include <string.h>

#define SAVED_MAGIC RT_SAVED_MAGIC "2" // with the version of the format
#define SAVED_ALIGN 8

typedef struct saved_header {
  char magic[8];
  uint8_t id[16];    // weights_id of the library
  uint64_t bytes;    // behind this header
  uint64_t checksum; // of them
} saved_header;

static int64_t padded(int64_t bytes) { return (bytes + SAVED_ALIGN - 1) / SAVED_ALIGN * SAVED_ALIGN; }

// Of one state: is it set, its dims, its value.
static int64_t record_bytes(const rt_state *state) {
  int64_t words = 1 + (state->holds == RT_VALUE ? state->desc->n_dims : 0);
  return words * (int64_t)sizeof(int64_t) + (state->holds == RT_VALUE ? padded(state->bytes) : 0);
}

// The dims of the model are scratch.
void rt_state_shape(heddle_session *session, const rt_state *state, const int64_t *dims) {
  rt_call *call = &session->call;
  memset(call->dims, 0, sizeof(int64_t) * (size_t)call->model->n_dims);
  for (int32_t i = 0; i < state->desc->n_dims; i++)
    call->dims[state->desc->dims[i]] = dims[i];
  call->model->state_extents(call->dims, session->states.extents);
}

heddle_status heddle_session_reset(heddle_session *session) {
  if (!session)
    return rt_null("session");
  heddle_status status = rt_session_enter(session);
  if (status != HEDDLE_OK)
    return status;
  rt_states_reset(&session->states);
  return rt_session_leave(session, HEDDLE_OK);
}

static heddle_status check_capacity(const heddle_session *session, int32_t dim, int64_t capacity) {
  const heddle_model_desc *model = session->model->desc;
  if (dim < 0 || dim >= model->n_dims)
    return rt_fail(HEDDLE_INVALID_ARGUMENT, "there is no dim number %d; model '%s' has %d", dim, model->name,
                   model->n_dims);
  const heddle_dim_desc *desc = &model->dims[dim];
  if (capacity < -1 || capacity > rt_most_of(desc))
    return rt_fail(HEDDLE_OUT_OF_RANGE, "the capacity %s = %lld is not in 0 .. %lld, as the model allows", desc->name,
                   (long long)capacity, (long long)rt_most_of(desc));
  return HEDDLE_OK;
}

heddle_status heddle_session_capacity(heddle_session *session, int32_t dim, int64_t capacity) {
  if (!session)
    return rt_null("session");
  heddle_status status = check_capacity(session, dim, capacity);
  if (status == HEDDLE_OK)
    status = rt_session_enter(session);
  if (status != HEDDLE_OK)
    return status;
  session->states.capacity[dim] = capacity;
  return rt_session_leave(session, HEDDLE_OK);
}

static heddle_status check_state(const heddle_session *session, int32_t state) {
  if (state < 0 || state >= session->states.count)
    return rt_fail(HEDDLE_INVALID_ARGUMENT, "there is no state number %d; model '%s' has %d", state,
                   session->model->desc->name, session->states.count);
  return HEDDLE_OK;
}

heddle_status heddle_session_state(heddle_session *session, int32_t number, heddle_state_value *value) {
  if (!session || !value)
    return rt_null(session ? "value" : "session");
  heddle_status status = check_state(session, number);
  if (status == HEDDLE_OK)
    status = rt_session_enter(session);
  if (status != HEDDLE_OK)
    return status;
  const rt_state *state = &session->states.list[number];
  heddle_state_value all = {.is_set = state->holds == RT_VALUE};
  if (all.is_set) {
    all.writer = state->writer;
    all.bytes = state->bytes;
    rt_state_shape(session, state, state->dims);
    memcpy(all.shape, state->shape, sizeof(int64_t) * (size_t)state->desc->rank);
  }
  return rt_session_leave(session, rt_give_info(value, &all, sizeof all));
}

const void *rt_state_now(heddle_session *session, const rt_state *state) {
  if (state->holds != RT_VALUE && !state->desc->parameter)
    return NULL;
  rt_state_shape(session, state, state->dims);
  return state->holds == RT_VALUE ? rt_state_value(state) : rt_parameter(session, state->desc->parameter);
}

// Whether a tensor of the caller's is like the state, of state->shape. what: "the tensor to copy it to".
static heddle_status check_like(const heddle_session *session, const rt_state *state, const heddle_tensor *given,
                                const char *what) {
  const char *misplaced = rt_misplaced(session->model->desc, given);
  if (misplaced)
    return rt_fail(HEDDLE_BAD_TENSOR, "state '%s': %s %s", state->desc->name, what, misplaced);
  size_t shape_bytes = sizeof(int64_t) * (size_t)state->desc->rank;
  if (given->dtype == state->desc->dtype && given->rank == state->desc->rank &&
      memcmp(given->shape, state->shape, shape_bytes) == 0)
    return HEDDLE_OK;
  rt_text text = {.length = 0};
  rt_append_shape(&text, state->shape, state->desc->rank);
  rt_append(&text, ", but %s is %s ", what, rt_dtype_name(given->dtype));
  rt_append_shape(&text, given->shape, given->rank < 0 ? 0 : given->rank);
  return rt_fail(HEDDLE_BAD_TENSOR, "state '%s' is %s %s", state->desc->name, rt_dtype_name(state->desc->dtype),
                 text.data);
}

static heddle_status read_state(heddle_session *session, const rt_state *state, const heddle_tensor *to) {
  const void *now = rt_state_now(session, state);
  if (!now)
    return rt_fail(HEDDLE_BAD_TENSOR, "state '%s' has no value yet", state->desc->name);
  heddle_status status = check_like(session, state, to, "the tensor to copy it to");
  if (status != HEDDLE_OK)
    return status;
  const heddle_value_desc desc = {.name = state->desc->name, .dtype = state->desc->dtype, .rank = state->desc->rank};
  rt_value value = {.desc = &desc,
                    .given = to,
                    .shape = state->shape,
                    .elements = rt_state_elements(state->shape, state->desc->rank)};
  value.bytes = value.elements * rt_dtype_bytes(desc.dtype);
  if (value.elements && !to->data)
    return rt_null("data of the tensor to copy a state to");
  if (!value.elements)
    return HEDDLE_OK;
  if (session->queue)
    return rt_transfer_state_out(session, &value, now);
  rt_stage_out(&value, now);
  return HEDDLE_OK;
}

heddle_status heddle_session_read_state(heddle_session *session, int32_t state, const heddle_tensor *to) {
  if (!session || !to)
    return rt_null(session ? "to" : "session");
  heddle_status status = check_state(session, state);
  if (status == HEDDLE_OK)
    status = rt_session_enter(session);
  if (status != HEDDLE_OK)
    return status;
  return rt_session_leave(session, read_state(session, &session->states.list[state], to));
}

// ---- Write, clone, save and restore

// Makes room for `bytes` in the buffer that doesn't hold the value.
static heddle_status make_room(heddle_session *session, rt_state *state, int64_t bytes) {
  state->wanted = bytes;
  int64_t all = rt_beyond_limit(session, 0, rt_state_growth(state, 1 - state->current));
  if (all)
    return rt_fail(HEDDLE_OUT_OF_MEMORY,
                   "state '%s': the session would hold %lld bytes, more than the limit of %lld; raise memory_limit",
                   state->desc->name, (long long)all, (long long)session->memory_limit);
  return rt_state_grow(session, state, 1 - state->current);
}

// Makes what was copied to the other buffer the value.
static void take_over(rt_state *state, int32_t writer, const int64_t *dims) {
  state->current = 1 - state->current;
  state->zero[state->current] = false;
  state->holds = RT_VALUE;
  state->writer = writer;
  state->begin = 0;
  state->bytes = state->wanted;
  memcpy(state->dims, dims, sizeof(int64_t) * (size_t)state->desc->n_dims);
}

// Whether all elements are values that a state of this type can have: kernels look up rows by an index(N), unasked.
static bool is_of_type(const heddle_state_desc *desc, const uint8_t *value, int64_t elements) {
  if (desc->dtype == HEDDLE_T_BOOL)
    for (int64_t i = 0; i < elements; i++)
      if (value[i] > 1)
        return false;
  for (int64_t i = 0; desc->below > 0 && i < elements; i++) {
    int32_t element;
    memcpy(&element, value + i * (int64_t)sizeof element, sizeof element);
    if (element < 0 || element >= desc->below)
      return false;
  }
  return true;
}

static heddle_status write_state(heddle_session *session, rt_state *state, const heddle_tensor *from) {
  if (state->desc->n_dims > 0)
    return rt_fail(HEDDLE_UNSUPPORTED,
                   "state '%s' has dims that calls tell, so that only they write it; restore a saved session",
                   state->desc->name);
  rt_state_shape(session, state, state->dims);
  heddle_status status = check_like(session, state, from, "the tensor to write");
  if (status != HEDDLE_OK)
    return status;
  int64_t elements = rt_state_elements(state->shape, state->desc->rank);
  const heddle_value_desc desc = {.name = state->desc->name, .dtype = state->desc->dtype, .rank = state->desc->rank};
  rt_value value = {.desc = &desc, .given = from, .shape = state->shape, .elements = elements};
  if (elements && !from->data)
    return rt_null("data of the tensor to write to a state");
  if (!rt_is_dense(&value))
    return rt_fail(HEDDLE_BAD_TENSOR, "state '%s': the tensor to write is not dense; copy it", desc.name);
  value.bytes = elements * rt_dtype_bytes(desc.dtype);
  heddle_tensor here = *from;
  if (from->memory == HEDDLE_DEVICE_MEMORY && elements && (desc.dtype == HEDDLE_T_BOOL || state->desc->below > 0))
    status = rt_transfer_look(session, &value, &here);
  if (status != HEDDLE_OK)
    return status;
  if (here.memory == HEDDLE_MAIN_MEMORY && !is_of_type(state->desc, here.data, elements))
    return rt_fail(HEDDLE_OUT_OF_RANGE, "state '%s': the tensor to write has elements that the state can't have",
                   desc.name);
  status = make_room(session, state, value.bytes);
  if (status != HEDDLE_OK)
    return status;
  uint8_t *to = state->buffers[1 - state->current].data;
  if (session->queue && elements)
    status = rt_transfer_state_in(session, &value, to);
  else if (elements)
    memcpy(to, from->data, (size_t)value.bytes);
  if (status == HEDDLE_OK)
    take_over(state, -1, state->dims);
  return status;
}

heddle_status heddle_session_write_state(heddle_session *session, int32_t state, const heddle_tensor *from) {
  if (!session || !from)
    return rt_null(session ? "from" : "session");
  heddle_status status = check_state(session, state);
  if (status == HEDDLE_OK)
    status = rt_session_enter(session);
  if (status != HEDDLE_OK)
    return status;
  return rt_session_leave(session, write_state(session, &session->states.list[state], from));
}

static heddle_status copy_states(heddle_session *to, const heddle_session *from) {
  memcpy(to->states.capacity, from->states.capacity, sizeof(int64_t) * (size_t)from->model->desc->n_dims);
  for (int32_t s = 0; s < from->states.count; s++) {
    const rt_state *state = &from->states.list[s];
    rt_state *copy = &to->states.list[s];
    if (state->holds != RT_VALUE)
      continue;
    rt_state_shape(to, copy, state->dims);
    heddle_status status = make_room(to, copy, state->bytes);
    if (status != HEDDLE_OK)
      return status;
    rt_room_copy(to, copy->buffers[1 - copy->current].data, rt_state_value(state), state->bytes);
    take_over(copy, state->writer, state->dims);
  }
  return rt_room_finish(to);
}

heddle_status heddle_session_clone(heddle_session *session, heddle_session **copy) {
  if (!session || !copy)
    return rt_null(session ? "copy" : "session");
  if (session->has_custom)
    return rt_fail(HEDDLE_UNSUPPORTED, "a session with custom threads cannot be cloned; create another one");
  if (session->has_fixed_arena)
    return rt_fail(HEDDLE_UNSUPPORTED, "a session with an arena of the caller's cannot be cloned; create another one");
  heddle_session_options options = {.struct_size = sizeof options,
                                    .threads = session->asked_threads,
                                    .graphs = session->graphs,
                                    .stream = session->stream,
                                    .memory_limit = session->memory_limit,
                                    .allocator = session->allocator.get ? &session->allocator : NULL};
  heddle_session *made;
  heddle_status status = rt_session_enter(session);
  if (status != HEDDLE_OK)
    return status;
  status = heddle_session_create(session->model, &options, &made);
  if (status != HEDDLE_OK)
    return rt_session_leave(session, status);
  status = rt_room_finish(session); // the copy's stream may be another one
  if (status == HEDDLE_OK)
    status = copy_states(made, session);
  if (status == HEDDLE_OK)
    *copy = made;
  else
    heddle_session_free(made);
  return rt_session_leave(session, status);
}

static heddle_status save(heddle_session *session, uint8_t *buffer, size_t capacity, size_t *bytes) {
  int64_t all = sizeof(saved_header);
  for (int32_t s = 0; s < session->states.count; s++)
    all += record_bytes(&session->states.list[s]);
  *bytes = (size_t)all;
  if (!buffer)
    return HEDDLE_OK;
  if (capacity < *bytes)
    return rt_fail(HEDDLE_INVALID_ARGUMENT, "the buffer has %zu bytes, the saved state needs %zu", capacity, *bytes);
  uint8_t *at = buffer + sizeof(saved_header);
  for (int32_t s = 0; s < session->states.count; s++) {
    const rt_state *state = &session->states.list[s];
    int64_t is_set = state->holds == RT_VALUE;
    memcpy(at, &is_set, sizeof is_set);
    at += sizeof is_set;
    if (!is_set)
      continue;
    size_t dims = sizeof(int64_t) * (size_t)state->desc->n_dims;
    memcpy(at, state->dims, dims);
    at += dims;
    memset(at, 0, (size_t)padded(state->bytes));
    rt_room_read(session, at, rt_state_value(state), state->bytes);
    at += padded(state->bytes);
  }
  heddle_status status = rt_room_finish(session);
  if (status != HEDDLE_OK)
    return status;
  saved_header header = {.bytes = *bytes - sizeof header};
  memcpy(header.magic, SAVED_MAGIC, sizeof header.magic);
  memcpy(header.id, session->model->desc->weights_id, sizeof header.id);
  header.checksum = rt_checksum(buffer + sizeof header, header.bytes);
  memcpy(buffer, &header, sizeof header);
  return HEDDLE_OK;
}

heddle_status heddle_session_save(heddle_session *session, void *buffer, size_t capacity, size_t *bytes) {
  if (!session || !bytes)
    return rt_null(session ? "bytes" : "session");
  heddle_status status = rt_session_enter(session);
  if (status != HEDDLE_OK)
    return status;
  return rt_session_leave(session, save(session, buffer, capacity, bytes));
}

static heddle_status refuse_saved(void) {
  return rt_fail(HEDDLE_INVALID_ARGUMENT, "the buffer does not hold a saved session, or it is damaged");
}

// One state of a saved session: its dims, bytes and value in the buffer.
typedef struct record {
  int64_t is_set;
  const uint8_t *dims, *value;
} record;

// Reads the next record, and what the state must be for it into state->wanted.
static bool read_record(heddle_session *session, rt_state *state, const uint8_t **at, int64_t *left, record *out) {
  const heddle_model_desc *model = session->model->desc;
  int64_t dims_bytes = (int64_t)sizeof(int64_t) * state->desc->n_dims;
  if (*left < (int64_t)sizeof(int64_t))
    return false;
  memcpy(&out->is_set, *at, sizeof out->is_set);
  *at += sizeof(int64_t);
  *left -= (int64_t)sizeof(int64_t);
  if (out->is_set != 1)
    return out->is_set == 0;
  if (*left < dims_bytes)
    return false;
  out->dims = *at;
  for (int32_t i = 0; i < state->desc->n_dims; i++) {
    int64_t dim;
    memcpy(&dim, *at + i * (int64_t)sizeof dim, sizeof dim);
    if (dim < 0 || dim > rt_most_of(&model->dims[state->desc->dims[i]]))
      return false;
    state->saved_dims[i] = dim;
  }
  rt_state_shape(session, state, state->saved_dims);
  int64_t elements = rt_state_elements(state->shape, state->desc->rank);
  state->wanted = elements * rt_dtype_bytes(state->desc->dtype);
  *at += dims_bytes;
  *left -= dims_bytes;
  if (elements < 0 || padded(state->wanted) > *left)
    return false;
  out->value = *at;
  if (!is_of_type(state->desc, out->value, elements))
    return false;
  *at += padded(state->wanted);
  *left -= padded(state->wanted);
  return true;
}

static heddle_status restore(heddle_session *session, const uint8_t *buffer, size_t bytes) {
  const heddle_model_desc *model = session->model->desc;
  saved_header header;
  if (bytes < sizeof header)
    return refuse_saved();
  memcpy(&header, buffer, sizeof header);
  if (memcmp(header.magic, SAVED_MAGIC, sizeof header.magic - 1) != 0)
    return refuse_saved();
  if (header.magic[7] != SAVED_MAGIC[7])
    return rt_fail(HEDDLE_INVALID_ARGUMENT, "the saved session is of another version of Heddle's format");
  if (memcmp(header.id, model->weights_id, sizeof header.id) != 0)
    return rt_fail(HEDDLE_INVALID_ARGUMENT, "the saved session belongs to another library than '%s'", model->name);
  buffer += sizeof header;
  if (header.bytes != bytes - sizeof header || header.checksum != rt_checksum(buffer, header.bytes))
    return refuse_saved();
  // First all that can fail: rooms, then what is written to them. Then the change.
  for (int pass = 0; pass < 3; pass++) {
    const uint8_t *at = buffer;
    int64_t left = (int64_t)header.bytes;
    for (int32_t s = 0; s < session->states.count; s++) {
      rt_state *state = &session->states.list[s];
      record saved;
      if (!read_record(session, state, &at, &left, &saved))
        return refuse_saved();
      if (pass == 0 && saved.is_set) {
        heddle_status status = make_room(session, state, state->wanted);
        if (status != HEDDLE_OK)
          return status;
      } else if (pass == 1 && saved.is_set) {
        rt_room_write(session, state->buffers[1 - state->current].data, saved.value, state->wanted);
      } else if (pass == 2 && saved.is_set) {
        take_over(state, -1, state->saved_dims);
      } else if (pass == 2) {
        state->holds = RT_NOTHING;
      }
    }
    if (left != 0)
      return refuse_saved();
    heddle_status status = pass == 1 ? rt_room_finish(session) : HEDDLE_OK;
    if (status != HEDDLE_OK)
      return status;
  }
  return HEDDLE_OK;
}

heddle_status heddle_session_restore(heddle_session *session, const void *buffer, size_t bytes) {
  if (!session || !buffer)
    return rt_null(session ? "buffer" : "session");
  heddle_status status = rt_session_enter(session);
  if (status != HEDDLE_OK)
    return status;
  return rt_session_leave(session, restore(session, buffer, bytes));
}
