// What the files of the runtime for NVIDIA's GPUs share: a model's device, a session's queue, and the graphs in which a
// queue keeps work that is done again and again.
#ifndef HEDDLE_RUNTIME_CUDA_H
#define HEDDLE_RUNTIME_CUDA_H

#include "runtime/cuda/driver.h"

typedef struct device {
  rt_device head;
  const heddle_model_desc *model;
  cu_driver driver;
  cu_device number;
  int capability;     // ten times
  cu_context context; // NULL: not retained
  cu_module module;
  cu_function *launches;
  cu_module own; // of kernels.c
  cu_function copy_rows;
  cu_address weights;
  cu_address constants; // all of them, one behind the other
  int64_t *constant_at;
} device;

// A thing that the device is asked to do, as the calls of the driver want it.
typedef enum cu_kind { CU_LAUNCH, CU_COPY, CU_FILL } cu_kind;
typedef struct cu_work {
  cu_kind kind;
  bool changed; // since the graph was last told
  cu_node node;
  union {
    struct {
      cu_function function;
      unsigned blocks, threads;
      const char *name;
      size_t parameters, bytes; // where they lie in the list's `parameters`
    } launch;
    struct {
      cu_address to, from;
      size_t bytes;
    } copy;
    struct {
      cu_address to;
      unsigned value, element_bytes;
      size_t count;
    } fill;
  };
} cu_work;

typedef struct cu_runs cu_runs; // graphs.c

typedef struct queue {
  rt_queue head;
  cu_stream stream;
  bool is_callers;                                       // the stream
  cu_runs *runs;                                         // NULL: no graphs
  cu_event written;                                      // NULL: not needed yet
  enum { CU_NOTHING, CU_UNMARKED, CU_MARKED } in_flight; // from pinned memory; marked: `written` is behind it
} queue;

static inline device *cu_device_of(const rt_queue *q) { return (device *)q->device; }

// Keeps the first one that fails.
void cu_note(rt_queue *q, cu_result error, const char *what);

// Does it now, in the queue's stream. `parameters`: of a launch.
void cu_do(queue *q, const cu_work *work, const void *parameters);

// What gives something back is asked again where it fails: a call may report what went wrong in work before it.
#define CU_TWICE(call) ((call) == 0 || (call) == 0)

// ---- graphs.c: what a run asks for, between begin and end, is done in order, at the latest by cu_runs_flush
cu_runs *cu_runs_create(int32_t most); // NULL: no memory
void cu_runs_destroy(queue *q);
void cu_runs_begin(queue *q, const heddle_entry_desc *entry, const int64_t *dims, int32_t n_dims);
bool cu_runs_take(queue *q, const cu_work *work, const void *parameters); // false: it is to be done now
void cu_runs_flush(queue *q);
void cu_runs_end(queue *q, bool refused); // refused: what was not done yet isn't

// ---- kernels.c: the runtime's own
extern const char cu_own_kernels[] __attribute__((visibility("hidden"))); // PTX

#endif
