// Memory of a session, which lies here or on its model's device, and what is done with it. Nothing here is needed for
// kernels of CPUs, which use their memory as it is.
#ifndef HEDDLE_RUNTIME_ROOM_H
#define HEDDLE_RUNTIME_ROOM_H

#include "runtime/runtime.h"

// Zeroed; rt_memory_release gives it back. Else nothing is held: HEDDLE_OUT_OF_MEMORY, where the caller says for what,
// or another status, which has its message.
heddle_status rt_room_get(heddle_session *session, rt_memory *memory, int64_t bytes);
void rt_room_clear(heddle_session *session, rt_memory *memory); // all zero again
void rt_room_fill(heddle_session *session, void *to, int32_t dtype, double value, int64_t elements);

// Of a device, these fail later: rt_room_finish tells.
void rt_room_write(heddle_session *session, void *to, const void *from, int64_t bytes); // `from` lies here
void rt_room_read(heddle_session *session, void *to, const void *from, int64_t bytes);  // `to` lies here
void rt_room_copy(heddle_session *session, void *to, const void *from, int64_t bytes);
void rt_room_move_down(heddle_session *session, uint8_t *to, int64_t by, int64_t bytes); // from to + by
void rt_room_begin_run(heddle_session *session); // rt_device_api says what these are for
void rt_room_end_run(heddle_session *session, bool refused);
heddle_status rt_room_finish(heddle_session *session);
heddle_status rt_room_failure(heddle_session *session); // the same, without waiting for what has not failed so far

// ---- transfer.c: a run's inputs and results on a device, in this order
// From the caller's tensors to call->inputs, where these are places in the arena.
heddle_status rt_transfer_in(heddle_session *session);
// From call->results to the caller's tensors; waits where somebody here will look at them. Then the run has succeeded.
heddle_status rt_transfer_out(heddle_session *session);

// Between a state's value, on a device, and a tensor of the caller's.
heddle_status rt_transfer_state_out(heddle_session *session, const rt_value *value, const void *from);
heddle_status rt_transfer_state_in(heddle_session *session, const rt_value *value, void *to);
// The bytes of a tensor of the caller's that lies on the device, here until the next transfer.
heddle_status rt_transfer_look(heddle_session *session, const rt_value *value, heddle_tensor *here);

#endif
