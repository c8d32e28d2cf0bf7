// Session state. A state has two buffers: the one that holds its value, and the one that the next update is written to;
// after a run that succeeded they change places, so a failed run changes nothing. Entries that update a state in
// place need only the first. Buffers are made at the first use, as large as it needs, and grow only when a use needs
// more. Dims that no input tells come from here: a state keeps those that it was last written with.
#include "runtime/room.h"

#include <stdlib.h>

bool rt_states_allocate(rt_states *states, const heddle_model_desc *model) {
  size_t n = (size_t)model->n_states, dims = 0, extents = 0;
  for (size_t s = 0; s < n; s++) {
    dims += 2 * (size_t)model->states[s].n_dims;
    extents += (size_t)model->states[s].rank;
  }
  states->count = model->n_states;
  states->list = calloc(n + 1, sizeof *states->list); // calloc may return NULL for no bytes: hence + 1
  states->dims = calloc(dims + 1, sizeof *states->dims);
  states->extents = calloc(extents + 1, sizeof *states->extents);
  states->now = calloc(n + 1, sizeof *states->now);
  states->next = calloc(n + 1, sizeof *states->next);
  states->capacity = calloc((size_t)model->n_dims + 1, sizeof *states->capacity);
  if (!states->list || !states->dims || !states->extents || !states->now || !states->next || !states->capacity)
    return false;
  int64_t *at = states->dims, *shape = states->extents;
  for (size_t s = 0; s < n; s++) {
    states->list[s] = (rt_state){.desc = &model->states[s], .dims = at, .shape = shape, .writer = -1};
    states->list[s].saved_dims = at + model->states[s].n_dims;
    at += 2 * model->states[s].n_dims;
    shape += model->states[s].rank;
  }
  for (int32_t d = 0; d < model->n_dims; d++)
    states->capacity[d] = -1;
  return true;
}

void rt_states_release(rt_states *states) {
  for (int32_t s = 0; states->list && s < states->count; s++) {
    rt_memory_release(&states->list[s].buffers[0]);
    rt_memory_release(&states->list[s].buffers[1]);
  }
  free(states->list);
  free(states->dims);
  free(states->extents);
  free(states->now);
  free(states->next);
  free(states->capacity);
}

void rt_state_reset(rt_state *state) { state->holds = RT_NOTHING; }

void rt_states_reset(rt_states *states) {
  for (int32_t s = 0; s < states->count; s++)
    rt_state_reset(&states->list[s]);
}

int64_t rt_states_bytes(const rt_states *states) {
  int64_t bytes = 0;
  for (int32_t s = 0; s < states->count; s++)
    bytes += states->list[s].buffers[0].bytes + states->list[s].buffers[1].bytes;
  return bytes;
}

// ---- Dims

// The entry that updates a state without needing its value, to be named in a message.
static const char *setter_of(const heddle_model_desc *model, int32_t state) {
  for (int32_t e = 0; e < model->n_entries; e++)
    for (int32_t u = 0; u < model->entries[e].n_uses; u++) {
      const heddle_state_use_desc *use = &model->entries[e].uses[u];
      if (use->state == state && use->updates && !use->reads)
        return model->entries[e].name;
    }
  return NULL;
}

static heddle_status refuse_unset(const rt_call *call, int32_t state) {
  const char *setter = setter_of(call->model, state);
  return rt_fail(HEDDLE_BAD_TENSOR, "entry '%s' reads state '%s', which has no value yet%s%s%s", call->entry->name,
                 call->model->states[state].name, setter ? "; run entry '" : "", setter ? setter : "",
                 setter ? "' first" : "");
}

static heddle_status refuse_dim(const rt_call *call, int32_t number, int32_t dim, int64_t held) {
  const rt_state *state = &call->states->list[number];
  const char *name = call->model->dims[dim].name;
  int32_t by = call->bound_by[dim];
  rt_text text = {.length = 0};
  if (by >= 0)
    rt_append(&text, "in input '%s'", call->values[by].desc->name);
  else if (by == RT_BOUND_BY_CALLER)
    rt_append(&text, "in this call");
  else
    rt_append(&text, "in state '%s'", call->model->states[RT_BOUND_BY_STATE(by)].name);
  rt_text since = {.length = 0};
  if (state->writer >= 0)
    rt_append(&since, " since entry '%s'", call->model->entries[state->writer].name);
  return rt_fail(HEDDLE_BAD_TENSOR,
                 "entry '%s', state '%s': holds %s = %lld%s, but %s = %lld %s; reset the session, or keep to what it "
                 "holds",
                 call->entry->name, state->desc->name, name, (long long)held, since.data, name,
                 (long long)call->dims[dim], text.data);
}

// Dims that are still unknown: a state that was never written is as large as its capacity.
static heddle_status choose_dims(rt_call *call) {
  const heddle_entry_desc *e = call->entry;
  for (int32_t u = 0; u < e->n_uses; u++) {
    int32_t number = e->uses[u].state;
    const heddle_state_desc *desc = &call->model->states[number];
    for (int32_t i = 0; i < desc->n_dims; i++) {
      int32_t dim = desc->dims[i];
      if (call->bound_by[dim] != RT_UNBOUND)
        continue;
      int64_t size = call->states->capacity[dim] >= 0 ? call->states->capacity[dim] : call->model->dims[dim].most;
      if (!e->uses[u].reads || !desc->has_initial || size < 0)
        return rt_fail(HEDDLE_BAD_TENSOR,
                       "entry '%s', state '%s': has dim %s, which no given input tells; give the optional inputs that "
                       "have it%s",
                       e->name, desc->name, call->model->dims[dim].name,
                       e->uses[u].reads && desc->has_initial ? ", or its size with heddle_session_capacity" : "");
      call->dims[dim] = size;
      call->bound_by[dim] = RT_BOUND_BY_STATE(number);
    }
  }
  return HEDDLE_OK;
}

heddle_status rt_states_bind(rt_call *call) {
  const heddle_entry_desc *e = call->entry;
  for (int32_t u = 0; call->states && u < e->n_uses; u++) { // what is held, before what may be chosen
    int32_t number = e->uses[u].state;
    const rt_state *state = &call->states->list[number];
    if (!e->uses[u].reads)
      continue;
    if (state->holds != RT_VALUE) {
      if (!state->desc->has_initial)
        return refuse_unset(call, number);
      continue;
    }
    for (int32_t i = 0; i < state->desc->n_dims; i++) {
      int32_t dim = state->desc->dims[i];
      if (call->bound_by[dim] == RT_UNBOUND) {
        call->dims[dim] = state->dims[i];
        call->bound_by[dim] = RT_BOUND_BY_STATE(number);
      } else if (call->dims[dim] != state->dims[i]) {
        return refuse_dim(call, number, dim, state->dims[i]);
      }
    }
  }
  return call->states ? choose_dims(call) : HEDDLE_OK;
}

// ---- Memory of a call

static bool same_dims(const rt_state *state, const int64_t *dims) {
  for (int32_t i = 0; i < state->desc->n_dims; i++)
    if (state->dims[i] != dims[state->desc->dims[i]])
      return false;
  return true;
}

static void note_dims(rt_state *state, const int64_t *dims) {
  for (int32_t i = 0; i < state->desc->n_dims; i++)
    state->dims[i] = dims[state->desc->dims[i]];
}

// Elements of a state of that shape, or -1.
int64_t rt_state_elements(const int64_t *shape, int32_t rank) {
  int64_t elements = 1;
  bool empty = false, huge = false;
  for (int32_t i = 0; i < rank; i++) {
    if (shape[i] < 0)
      return -1;
    empty |= shape[i] == 0;
    huge |= __builtin_mul_overflow(elements, shape[i], &elements);
  }
  return empty ? 0 : huge || elements > INT32_MAX ? -1 : elements;
}

// Which buffers a use needs: that with the old value, and the one it writes to (the same: in place).
static void buffers_of(const heddle_state_use_desc *use, rt_state *state, int32_t *old, int32_t *next) {
  *old = use->reads ? state->current : -1;
  *next = !use->updates ? -1 : use->in_place && use->reads ? state->current : 1 - state->current;
}

int64_t rt_state_growth(const rt_state *state, int32_t buffer) {
  if (buffer < 0)
    return 0;
  int64_t held = state->buffers[buffer].bytes, bytes = rt_state_room(state);
  return state->buffers[buffer].map && bytes <= held ? 0 : (bytes > 0 ? bytes : RT_ALIGN) - held;
}

heddle_status rt_states_plan(heddle_session *session, int64_t *growth) {
  rt_call *call = &session->call;
  const heddle_entry_desc *e = call->entry;
  *growth = 0;
  if (e->n_uses == 0)
    return HEDDLE_OK;
  call->model->state_extents(call->dims, session->states.extents);
  for (int32_t u = 0; u < e->n_uses; u++) {
    rt_state *state = &session->states.list[e->uses[u].state];
    int64_t elements = rt_state_elements(state->shape, state->desc->rank);
    if (elements < 0) {
      rt_text text = {.length = 0};
      rt_append_shape(&text, state->shape, state->desc->rank);
      return rt_fail(HEDDLE_OUT_OF_MEMORY,
                     "entry '%s', state '%s': would have the shape %s, and a tensor has at most 2147483647 elements; "
                     "give smaller inputs, or a smaller heddle_session_capacity",
                     e->name, state->desc->name, text.data);
    }
    state->wanted = elements * rt_dtype_bytes(state->desc->dtype);
    int32_t old, next;
    buffers_of(&e->uses[u], state, &old, &next);
    *growth += rt_state_growth(state, old) + (next != old ? rt_state_growth(state, next) : 0);
  }
  return HEDDLE_OK;
}

// The value in the buffer, if there is one, is not kept: it is either dead or of the same size.
heddle_status rt_state_grow(heddle_session *session, rt_state *state, int32_t buffer) {
  if (buffer < 0 || rt_state_growth(state, buffer) == 0)
    return HEDDLE_OK;
  rt_memory_release(&state->buffers[buffer]);
  if (buffer == state->current)
    state->holds = RT_NOTHING;
  heddle_status status = rt_room_get(session, &state->buffers[buffer], rt_state_room(state));
  if (status == HEDDLE_OUT_OF_MEMORY)
    return rt_fail(HEDDLE_OUT_OF_MEMORY,
                   "state '%s' needs %lld bytes of memory, which the system refuses; give smaller inputs, or a smaller "
                   "heddle_session_capacity",
                   state->desc->name, (long long)rt_state_room(state));
  if (status != HEDDLE_OK)
    return status;
  state->zero[buffer] = true;
  atomic_fetch_add(&session->scratch.allocations, 1);
  return HEDDLE_OK;
}

const uint8_t *rt_parameter(const heddle_session *session, const heddle_parameter_desc *parameter) {
  return (session->queue ? session->model->device->weights : session->model->payload) + parameter->offset;
}

static void write_initial(heddle_session *session, rt_state *state) {
  rt_memory *memory = &state->buffers[state->current];
  if (state->desc->parameter) {
    const uint8_t *from = rt_parameter(session, state->desc->parameter);
    rt_room_copy(session, memory->data, from, state->wanted);
    if (!session->queue)
      rt_weights_copied(session->model, from, state->wanted);
  } else if (state->desc->initial == 0) { // every dtype's zero is all bits zero
    rt_room_clear(session, memory);
  } else {
    int64_t elements = rt_state_room(state) / rt_dtype_bytes(state->desc->dtype);
    rt_room_fill(session, memory->data, state->desc->dtype, state->desc->initial, elements);
  }
}

// What a device has not done is not noted as done: a later call would read what lay there before.
static heddle_status fill_initial(heddle_session *session, rt_state *state) {
  bool *zero = &state->zero[state->current], is_zero = !state->desc->parameter && state->desc->initial == 0;
  state->begin = 0;
  state->holds = RT_NOTHING;
  if (!*zero || !is_zero) {
    *zero = false;
    write_initial(session, state);
  }
  heddle_status status = rt_room_failure(session);
  if (status != HEDDLE_OK)
    return status;
  *zero = is_zero;
  note_dims(state, session->call.dims);
  state->holds = RT_INITIAL;
  return HEDDLE_OK;
}

heddle_status rt_states_prepare(heddle_session *session) {
  rt_call *call = &session->call;
  const heddle_entry_desc *e = call->entry;
  for (int32_t u = 0; u < e->n_uses; u++) {
    int32_t number = e->uses[u].state, old, next;
    rt_state *state = &session->states.list[number];
    buffers_of(&e->uses[u], state, &old, &next);
    heddle_status status = rt_state_grow(session, state, old);
    if (status == HEDDLE_OK && next != old)
      status = rt_state_grow(session, state, next);
    bool initial = old >= 0 && state->holds != RT_VALUE;
    if (status == HEDDLE_OK && initial && !(state->holds == RT_INITIAL && same_dims(state, call->dims)))
      status = fill_initial(session, state);
    if (status != HEDDLE_OK)
      return status;
    if (next >= 0)
      state->zero[next] = false;
    if (next >= 0 && next == old && state->holds == RT_INITIAL)
      state->holds = RT_NOTHING; // until the run has succeeded
    state->slid = false;
    void *now = old < 0 ? NULL : rt_state_value(state), *other = next < 0 ? NULL : state->buffers[next].data;
    session->states.next[number] = next == old ? now : other;
    session->states.now[number] = now ? now : other;
  }
  return HEDDLE_OK;
}

void rt_states_commit(heddle_session *session) {
  rt_call *call = &session->call;
  const heddle_entry_desc *e = call->entry;
  for (int32_t u = 0; u < e->n_uses; u++) {
    rt_state *state = &session->states.list[e->uses[u].state];
    int32_t old, next;
    buffers_of(&e->uses[u], state, &old, &next);
    if (next < 0)
      continue;
    state->current = next;
    if (state->slid)
      state->begin = state->next_begin;
    state->holds = RT_VALUE;
    state->bytes = state->wanted;
    state->writer = (int32_t)(e - call->model->entries);
    note_dims(state, call->dims);
  }
}
