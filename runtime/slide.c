// States that slide: each call appends rows at the end of an axis and drops as many at its front, as a memory of the
// last tokens does. The value lies in a buffer with room for one more part (the rows at one place of the axes before),
// and moves on by as many rows as are appended: what a part drops is then where the part before it appends. Only at the
// end of its room is the value copied back to the front. With m rows and s new ones per call that is one copy in m / s
// calls, where a new value would be one in each.
#include "runtime/room.h"

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

int64_t rt_state_room(const rt_state *state) {
  if (!state->desc->slides)
    return state->wanted;
  window w = window_of(state);
  return state->wanted + w.rows * w.row_bytes;
}

void *rt_state_value(const rt_state *state) { return (uint8_t *)state->buffers[state->current].data + state->begin; }

// A device may put off what a run asks for. Where the value begins is noted when the move can't be left out any more,
// whatever becomes of the run.
static bool move_to_front(heddle_session *session, rt_state *state, window w) {
  rt_room_end_run(session, false);
  rt_room_move_down(session, state->buffers[state->current].data, state->begin, w.parts * w.rows * w.row_bytes);
  if (session->queue && session->queue->status != HEDDLE_OK)
    return false;
  state->begin = 0;
  return true;
}

int32_t heddle_slide(void *context, int32_t number, int64_t part, int64_t parts, int64_t rows, const void *from) {
  heddle_session *session = ((const rt_slot *)context)->session;
  rt_state *state = &session->states.list[number];
  window w = window_of(state);
  if (part < 0 || parts < 0 || rows < 0 || parts > w.parts || part > w.parts - parts)
    return 0;
  if (!state->slid) { // the first parts: all move alike
    state->slid = true;
    int64_t on = rows < w.rows ? rows * w.row_bytes : 0;
    if (state->begin + on > w.rows * w.row_bytes && !move_to_front(session, state, w))
      return 1; // the device has failed, as the end of the run will tell
    state->next_begin = state->begin + on;
  }
  uint8_t *data = (uint8_t *)state->buffers[state->current].data + state->next_begin;
  int64_t kept = rows < w.rows ? rows : w.rows;
  for (int64_t i = 0; kept > 0 && i < parts; i++) // of no rows there may be no address
    rt_room_copy(session, data + ((part + i + 1) * w.rows - kept) * w.row_bytes,
                 (const uint8_t *)from + ((i + 1) * rows - kept) * w.row_bytes, kept * w.row_bytes);
  return 1;
}
