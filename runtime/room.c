// Where a session has a queue, its memory is the device's.
#include "runtime/room.h"

#include <string.h>

static const rt_device_api *api_of(const heddle_session *session) { return session->queue->device->api; }

heddle_status rt_room_get(heddle_session *session, rt_memory *memory, int64_t bytes) {
  if (!session->queue)
    return rt_memory_get(memory, bytes, &session->allocator) ? HEDDLE_OK : HEDDLE_OUT_OF_MEMORY;
  *memory = (rt_memory){0};
  if (bytes <= 0)
    bytes = RT_ALIGN;
  void *data;
  heddle_status status = api_of(session)->get(session->queue->device, bytes, &data);
  if (status != HEDDLE_OK)
    return status;
  *memory = (rt_memory){.data = data, .bytes = bytes, .map = data, .device = session->queue->device};
  rt_room_clear(session, memory);
  status = rt_room_failure(session);
  if (status != HEDDLE_OK)
    rt_memory_release(memory);
  return status;
}

void rt_room_clear(heddle_session *session, rt_memory *memory) {
  static const uint8_t zero[4];
  if (!session->queue)
    rt_memory_clear(memory);
  else if (memory->bytes % 4 == 0)
    api_of(session)->fill(session->queue, memory->data, zero, 4, memory->bytes / 4);
  else
    api_of(session)->fill(session->queue, memory->data, zero, 1, memory->bytes);
}

void rt_room_fill(heddle_session *session, void *to, int32_t dtype, double value, int64_t elements) {
  if (!session->queue) {
    rt_fill(dtype, value, elements, to);
    return;
  }
  uint8_t element[8];
  rt_fill(dtype, value, 1, element);
  api_of(session)->fill(session->queue, to, element, rt_dtype_bytes(dtype), elements);
}

void rt_room_write(heddle_session *session, void *to, const void *from, int64_t bytes) {
  if (session->queue)
    api_of(session)->write(session->queue, to, from, bytes);
  else if (bytes > 0)
    memcpy(to, from, (size_t)bytes);
}

void rt_room_read(heddle_session *session, void *to, const void *from, int64_t bytes) {
  if (session->queue)
    api_of(session)->read(session->queue, to, from, bytes);
  else if (bytes > 0)
    memcpy(to, from, (size_t)bytes);
}

void rt_room_copy(heddle_session *session, void *to, const void *from, int64_t bytes) {
  if (session->queue)
    api_of(session)->copy(session->queue, to, from, bytes);
  else if (bytes > 0)
    memcpy(to, from, (size_t)bytes);
}

void rt_room_move_down(heddle_session *session, uint8_t *to, int64_t by, int64_t bytes) {
  if (!session->queue) {
    memmove(to, to + by, (size_t)bytes);
    return;
  }
  for (int64_t at = 0; at < bytes; at += by) // pieces that don't overlap, one after the other
    api_of(session)->copy(session->queue, to + at, to + at + by, bytes - at < by ? bytes - at : by);
}

void rt_room_begin_run(heddle_session *session) {
  if (session->queue)
    api_of(session)->begin_run(session->queue, session->call.entry, session->call.dims);
}

void rt_room_end_run(heddle_session *session, bool refused) {
  if (session->queue)
    api_of(session)->end_run(session->queue, refused);
}

heddle_status rt_room_finish(heddle_session *session) {
  return session->queue ? api_of(session)->finish(session->queue) : HEDDLE_OK;
}

heddle_status rt_room_failure(heddle_session *session) {
  return session->queue && session->queue->status != HEDDLE_OK ? rt_room_finish(session) : HEDDLE_OK;
}
