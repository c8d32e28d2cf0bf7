// What a device (a GPU) does for the rest of the runtime. A model whose descriptor names such a table keeps arena,
// states and weights in the device's memory; room.c and call.c go through the table, so that a library for CPUs has
// nothing of it linked in. One implementation: runtime/cuda.
#ifndef HEDDLE_RUNTIME_DEVICE_H
#define HEDDLE_RUNTIME_DEVICE_H

#define HEDDLE_ONLY_TYPES
#include "runtime/abi.h"
#include "runtime/heddle.h"

#include <stdbool.h>
#include <stdint.h>

struct rt_device_api;

// A device with the code, the constants and the weights of one model. Implementations have more behind it.
typedef struct rt_device {
  const struct rt_device_api *api;
  const uint8_t *weights; // where they lie on the device
} rt_device;

// A session's work on a device, done in the order in which it was asked for.
typedef struct rt_queue {
  rt_device *device;
  heddle_status status; // of the first call since `finish` that failed, and why; later ones do nothing
  char fault[512];
} rt_queue;

typedef struct rt_queue_options {
  int32_t graphs; // heddle_session_options
  void *stream;
} rt_queue_options;

typedef struct rt_device_api {
  // Whether this machine can run a model for this kind of device; else a status, and why.
  heddle_status (*check)(const heddle_model_desc *model);
  heddle_status (*open)(const heddle_model_desc *model, const uint8_t *weights, rt_device **device);
  void (*close)(rt_device *device);
  heddle_status (*begin)(rt_device *device, const rt_queue_options *options, rt_queue **queue);
  void (*end)(rt_queue *queue);
  // Memory that nobody has written, aligned to 256 bytes. Where there is no room the caller says for what.
  heddle_status (*get)(rt_device *device, int64_t bytes, void **data);
  void (*give)(rt_device *device, void *data);
  // Memory of this machine that copies need not wait for.
  heddle_status (*get_pinned)(rt_device *device, int64_t bytes, void **data);
  void (*give_pinned)(rt_device *device, void *data);
  // Between these two the calling thread may use the queue.
  heddle_status (*attach)(rt_queue *queue);
  void (*detach)(rt_queue *queue);
  // Between these two lies what a run does, which is much the same whenever the entry's dims are: where this has been
  // seen before, it may be gathered, and done when somebody reads or at the end. Refused: what was gathered isn't done.
  void (*begin_run)(rt_queue *queue, const heddle_entry_desc *entry, const int64_t *dims);
  void (*end_run)(rt_queue *queue, bool refused);
  // What follows does nothing for no bytes. Failures stay with the queue until `finish` tells them.
  void (*fill)(rt_queue *queue, void *to, const void *element, int64_t element_bytes, int64_t count); // 1, 2 or 4
  void (*copy)(rt_queue *queue, void *to, const void *from, int64_t bytes); // between places that don't overlap
  // `rows` copies of `bytes`, at these distances.
  void (*copy_rows)(rt_queue *queue, void *to, int64_t to_pitch, const void *from, int64_t from_pitch, int64_t bytes,
                    int64_t rows);
  void (*write)(rt_queue *queue, void *to, const void *from, int64_t bytes); // `from` lies here, and is free again
  void (*read)(rt_queue *queue, void *to, const void *from, int64_t bytes);  // `to` lies here, and is there
  void (*put)(rt_queue *queue, void *to, const void *value, int64_t bytes);  // the same for a number
  // `bytes` of parameters, laid out as in C.
  // With pinned memory here: `from` must stay as it is until `settle`, `to` is there after `finish`.
  void (*write_later)(rt_queue *queue, void *to, const void *from, int64_t bytes);
  void (*read_later)(rt_queue *queue, void *to, const void *from, int64_t bytes);
  void (*written)(rt_queue *queue); // all that was written so far is what `settle` waits for
  heddle_status (*settle)(rt_queue *queue);
  void (*launch)(rt_queue *queue, int32_t launch, int64_t blocks, int32_t threads, const void *parameters,
                 int64_t bytes);
  void *(*constant)(rt_device *device, int32_t number);
  heddle_status (*finish)(rt_queue *queue); // waits for all
  void *(*stream)(rt_queue *queue);
} rt_device_api;

#endif
