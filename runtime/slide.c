// States that slide: each call appends rows at the end of an axis and drops as many at its front, as a memory of the
// last tokens does. Every part (the places of the axes before that one) has room for two windows; the window moves on
// by what is appended, and only when it stands at the end of its room is it copied back to the front. With m rows and s
// new ones per call that is one copy of m rows in m / s calls, where a new value would be one in each.
#include "runtime/runtime.h"

#include <string.h>

// Of the shape that the state has in this call.
typedef struct window {
  int64_t parts, rows, row_bytes;
} window;

static window window_of(const rt_state *state) {
  window out = {.parts = 1, .rows = 1, .row_bytes = rt_dtype_bytes(state->desc->dtype)};
  int32_t axis = state->desc->slides - 1;
  for (int32_t i = 0; i < state->desc->rank; i++)
    if (i < axis)
      out.parts *= state->shape[i];
    else if (i == axis)
      out.rows = state->shape[i];
    else
      out.row_bytes *= state->shape[i];
  return out;
}

// Where the window of a part begins in the buffer.
static uint8_t *at(const rt_state *state, int32_t buffer, const window *w, int64_t part, int64_t begin) {
  return (uint8_t *)state->buffers[buffer].data + (part * 2 * w->rows + begin) * w->row_bytes;
}

int64_t rt_state_room(const rt_state *state) { return state->desc->slides ? 2 * state->wanted : state->wanted; }

void *rt_state_value(const rt_state *state, int32_t buffer) {
  if (!state->desc->slides || buffer != state->current)
    return state->buffers[buffer].data;
  window w = window_of(state);
  return at(state, buffer, &w, 0, state->begin);
}

void rt_state_gather(const rt_state *state, void *to) {
  if (!state->desc->slides) {
    memcpy(to, state->buffers[state->current].data, (size_t)state->bytes);
    return;
  }
  window w = window_of(state);
  for (int64_t part = 0; part < w.parts; part++)
    memcpy((uint8_t *)to + part * w.rows * w.row_bytes, at(state, state->current, &w, part, state->begin),
           (size_t)(w.rows * w.row_bytes));
}

void rt_state_scatter(rt_state *state, int32_t buffer, const void *from) {
  if (!state->desc->slides) {
    memcpy(state->buffers[buffer].data, from, (size_t)state->wanted);
    return;
  }
  window w = window_of(state);
  for (int64_t part = 0; part < w.parts; part++)
    memcpy(at(state, buffer, &w, part, 0), (const uint8_t *)from + part * w.rows * w.row_bytes,
           (size_t)(w.rows * w.row_bytes));
}

void rt_state_stage_out(const rt_state *state, const heddle_tensor *to) {
  const heddle_value_desc desc = {.name = state->desc->name, .dtype = state->desc->dtype, .rank = state->desc->rank};
  window w = window_of(state);
  if (!state->desc->slides)
    w = (window){.parts = 1};
  heddle_tensor piece = *to;
  for (int32_t axis = 0; axis < state->desc->slides - 1; axis++)
    piece.shape[axis] = 1;
  for (int64_t part = 0; part < w.parts; part++) {
    int64_t rest = part;
    piece.data = to->data;
    for (int32_t axis = state->desc->slides - 2; axis >= 0; axis--) {
      piece.data = (uint8_t *)piece.data + rest % to->shape[axis] * to->strides[axis];
      rest /= to->shape[axis];
    }
    rt_value value = {.desc = &desc,
                      .given = &piece,
                      .shape = piece.shape,
                      .elements = rt_state_elements(piece.shape, state->desc->rank)};
    rt_stage_out(&value, state->desc->slides ? at(state, state->current, &w, part, state->begin)
                                             : state->buffers[state->current].data);
  }
}

void heddle_slide(void *session, int32_t number, int64_t part, int64_t rows, const void *from) {
  rt_state *state = &((heddle_session *)session)->states.list[number];
  window w = window_of(state);
  if (!state->slid) { // the first part: all move alike
    state->slid = true;
    state->next_begin = rows >= w.rows ? 0 : state->begin + rows;
    if (state->next_begin > w.rows) {
      for (int64_t p = 0; p < w.parts; p++)
        memmove(at(state, state->current, &w, p, 0), at(state, state->current, &w, p, state->begin),
                (size_t)(w.rows * w.row_bytes));
      state->next_begin = rows;
      state->begin = 0;
    }
  }
  int64_t kept = rows < w.rows ? rows : w.rows;
  memcpy(at(state, state->current, &w, part, state->next_begin + w.rows - kept),
         (const uint8_t *)from + (rows - kept) * w.row_bytes, (size_t)(kept * w.row_bytes));
}
