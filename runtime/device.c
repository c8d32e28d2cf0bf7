// What the host program of a model for a device calls. The queue keeps what went wrong: the run ends at once with
// HEDDLE_DEVICE_ERROR, and call.c asks the queue why.
#include "runtime/room.h"
#include "runtime/slice.h"

#include <string.h>

static heddle_session *session_of(void *context) { return ((rt_slot *)context)->session; }

static int32_t state_of(const heddle_session *session) {
  return session->queue->status == HEDDLE_OK ? 0 : HEDDLE_DEVICE_ERROR;
}

int32_t heddle_device_launch(void *context, int32_t launch, int64_t blocks, int32_t threads, const void *parameters,
                             int64_t bytes) {
  heddle_session *session = session_of(context);
  session->queue->device->api->launch(session->queue, launch, blocks, threads, parameters, bytes);
  return state_of(session);
}

int32_t heddle_device_copy(void *context, void *to, const void *from, int64_t bytes) {
  heddle_session *session = session_of(context);
  rt_room_copy(session, to, from, bytes);
  return state_of(session);
}

int32_t heddle_device_put(void *context, void *to, const void *value, int64_t bytes) {
  heddle_session *session = session_of(context);
  session->queue->device->api->put(session->queue, to, value, bytes);
  return state_of(session);
}

int32_t heddle_device_read(void *context, void *to, const void *from, int64_t bytes) {
  heddle_session *session = session_of(context);
  if (from)
    rt_room_read(session, to, from, bytes);
  else
    memset(to, 0, (size_t)bytes); // nobody looks at it
  return state_of(session);
}

int32_t heddle_device_copy_slice(void *context, void *to, const void *from, int64_t element_bytes, int32_t rank,
                                 const int64_t *place) {
  heddle_session *session = session_of(context);
  rt_slice slice;
  if (!rt_slice_of(&slice, element_bytes, rank, place))
    return 1;
  // Neighbours along the last axis that is not copied whole are one call.
  int64_t row = slice.outer > 0 ? slice.counts[slice.outer - 1] : 1;
  for (int64_t i = 0; i < slice.pieces; i += row) {
    int64_t at = rt_slice_place(&slice, i), next = row > 1 ? rt_slice_place(&slice, i + 1) : at;
    session->queue->device->api->copy_rows(session->queue, (uint8_t *)to + at, row > 1 ? next - at : slice.piece,
                                           (const uint8_t *)from + i * slice.piece, slice.piece, slice.piece, row);
  }
  return state_of(session);
}

void *heddle_device_scratch(void *context) { return session_of(context)->kept.data; }

void *heddle_device_constant(void *context, int32_t number) {
  rt_device *device = session_of(context)->queue->device;
  return device->api->constant(device, number);
}
