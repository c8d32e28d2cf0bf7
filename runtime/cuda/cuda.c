// rt_device_api for NVIDIA's GPUs. A model's device holds the primary context, the code and the weights; a session's
// queue is a stream. A call that fails is remembered by the queue, which from then on does nothing until `finish` has
// told why; an error of the device's own stays with the context, so that every later call fails, too.
#include "runtime/cuda/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct device {
  rt_device head;
  const heddle_model_desc *model;
  cu_driver driver;
  cu_device number;
  cu_context context; // NULL: not retained
  cu_module module;
  cu_function *launches;
  cu_address weights;
  cu_address constants; // all of them, one behind the other
  int64_t *constant_at;
} device;

typedef struct queue {
  rt_queue head;
  cu_stream stream;
} queue;

extern const rt_device_api heddle_cuda __attribute__((visibility("hidden")));

static device *of(const rt_queue *q) { return (device *)q->device; }

static cu_address address(const void *at) { return (cu_address)(uintptr_t)at; }

// ---- Failures

static heddle_status status_of(cu_result error) {
  return error == CU_OUT_OF_MEMORY ? HEDDLE_OUT_OF_MEMORY : HEDDLE_DEVICE_FAILED;
}

static heddle_status refuse(const device *d, cu_result error, const char *what) {
  rt_text text = {.length = 0};
  cu_describe(&d->driver, error, &text);
  return rt_fail(status_of(error), "model '%s' on its GPU: %s: %s", d->model->name, what, text.data);
}

// Keeps the first one.
static void note(rt_queue *q, cu_result error, const char *what) {
  if (error == 0 || q->status != HEDDLE_OK)
    return;
  rt_text text = {.length = 0};
  cu_describe(&of(q)->driver, error, &text);
  q->status = status_of(error);
  snprintf(q->fault, sizeof q->fault, "%s: %s", what, text.data);
}

// What gives something back is asked again where it fails: a call may report what went wrong in work before it.
#define TWICE(call) ((call) == 0 || (call) == 0)

static bool push(const device *d, heddle_status *status) {
  cu_result error = 0;
  if (TWICE(error = d->driver.context_push(d->context)))
    return true;
  *status = refuse(d, error, "its context cannot be entered");
  return false;
}

static void pop(const device *d) {
  cu_context popped;
  (void)TWICE(d->driver.context_pop(&popped));
}

// ---- Models

static heddle_status check(const heddle_model_desc *model) {
  cu_driver driver;
  cu_device number;
  heddle_status status = cu_driver_open(&driver, model, &number);
  if (status == HEDDLE_OK)
    cu_driver_close(&driver);
  return status;
}

static heddle_status load_code(device *d) {
  const heddle_device_desc *desc = d->model->device;
  char log[512] = "";
  int options[] = {CU_JIT_ERROR_LOG, CU_JIT_ERROR_LOG_BYTES};
  void *values[] = {log, (void *)(uintptr_t)(sizeof log - 1)};
  cu_result error = d->driver.module_load(&d->module, desc->code, 2, options, values);
  if (error != 0) {
    d->module = NULL;
    size_t length = strcspn(log, "\n");
    char what[700];
    snprintf(what, sizeof what, "the driver does not take its code%s%.*s%s", length ? " (" : "", (int)length, log,
             length ? ")" : "");
    return refuse(d, error, what);
  }
  for (int32_t i = 0; i < desc->n_launches; i++) {
    error = d->driver.module_function(&d->launches[i], d->module, desc->launches[i]);
    if (error != 0)
      return refuse(d, error, desc->launches[i]);
  }
  return HEDDLE_OK;
}

static heddle_status upload(device *d, const uint8_t *weights) {
  const heddle_device_desc *desc = d->model->device;
  int64_t bytes = 0;
  for (int32_t i = 0; i < desc->n_constants; i++) {
    d->constant_at[i] = bytes;
    bytes += (desc->constants[i].bytes + 255) / 256 * 256;
  }
  cu_result error = 0;
  if (d->model->weights_bytes) {
    error = d->driver.memory_get(&d->weights, d->model->weights_bytes);
    if (error != 0) {
      char what[128];
      snprintf(what, sizeof what, "there is no room for %llu bytes of weights",
               (unsigned long long)d->model->weights_bytes);
      d->weights = 0;
      return refuse(d, error, what);
    }
    error = d->driver.write(d->weights, weights, d->model->weights_bytes, NULL);
  }
  if (error == 0 && bytes) {
    error = d->driver.memory_get(&d->constants, (size_t)bytes);
    if (error != 0)
      d->constants = 0;
    for (int32_t i = 0; error == 0 && i < desc->n_constants; i++)
      error = d->driver.write(d->constants + (cu_address)d->constant_at[i], desc->constants[i].data,
                              (size_t)desc->constants[i].bytes, NULL);
  }
  if (error == 0)
    error = d->driver.stream_wait(NULL);
  d->head.weights = (const uint8_t *)(uintptr_t)d->weights;
  return error == 0 ? HEDDLE_OK : refuse(d, error, "its weights cannot be brought there");
}

static void close_device(rt_device *head) {
  device *d = (device *)head;
  heddle_status ignored;
  if (d->context && push(d, &ignored)) {
    if (d->weights)
      (void)TWICE(d->driver.memory_free(d->weights));
    if (d->constants)
      (void)TWICE(d->driver.memory_free(d->constants));
    if (d->module)
      (void)TWICE(d->driver.module_unload(d->module));
    pop(d);
  }
  if (d->context)
    (void)TWICE(d->driver.context_release(d->number));
  if (d->driver.library)
    cu_driver_close(&d->driver);
  free(d->launches);
  free(d->constant_at);
  free(d);
}

static heddle_status open_device(const heddle_model_desc *model, const uint8_t *weights, rt_device **out) {
  device *d = calloc(1, sizeof *d);
  if (!d)
    return rt_fail(HEDDLE_OUT_OF_MEMORY, "no memory for a model");
  d->head.api = &heddle_cuda;
  d->model = model;
  d->launches = calloc((size_t)model->device->n_launches + 1, sizeof *d->launches);
  d->constant_at = calloc((size_t)model->device->n_constants + 1, sizeof *d->constant_at);
  heddle_status status = d->launches && d->constant_at ? cu_driver_open(&d->driver, model, &d->number)
                                                       : rt_fail(HEDDLE_OUT_OF_MEMORY, "no memory for a model");
  if (status == HEDDLE_OK) {
    cu_result error = d->driver.context_retain(&d->context, d->number);
    if (error != 0) {
      d->context = NULL;
      status = refuse(d, error, "its context cannot be made");
    }
  }
  if (status == HEDDLE_OK && push(d, &status)) {
    status = load_code(d);
    if (status == HEDDLE_OK)
      status = upload(d, weights);
    pop(d);
  }
  if (status == HEDDLE_OK)
    *out = &d->head;
  else
    close_device(&d->head);
  return status;
}

static void *constant(rt_device *head, int32_t number) {
  device *d = (device *)head;
  return (void *)(uintptr_t)(d->constants + (cu_address)d->constant_at[number]);
}

// ---- Sessions

static heddle_status begin(rt_device *head, rt_queue **out) {
  device *d = (device *)head;
  heddle_status status = HEDDLE_OK;
  queue *q = calloc(1, sizeof *q);
  if (!q)
    return rt_fail(HEDDLE_OUT_OF_MEMORY, "no memory for a session");
  q->head.device = head;
  if (push(d, &status)) {
    // Not after the default stream, which others use: a session waits for its own work only.
    cu_result error = d->driver.stream_create(&q->stream, CU_STREAM_NON_BLOCKING);
    if (error != 0)
      status = refuse(d, error, "no stream can be made");
    pop(d);
  }
  if (status == HEDDLE_OK)
    *out = &q->head;
  else
    free(q);
  return status;
}

static void end(rt_queue *head) {
  device *d = of(head);
  heddle_status ignored;
  if (push(d, &ignored)) {
    (void)TWICE(d->driver.stream_destroy(((queue *)head)->stream));
    pop(d);
  }
  free(head);
}

static heddle_status get(rt_device *head, int64_t bytes, void **data) {
  device *d = (device *)head;
  cu_address at = 0;
  heddle_status status = HEDDLE_OK;
  if (!push(d, &status))
    return status;
  cu_result error = d->driver.memory_get(&at, (size_t)bytes);
  if (error != 0)
    status = refuse(d, error, "it gives no memory");
  else
    *data = (void *)(uintptr_t)at;
  pop(d);
  return status;
}

static void give(rt_device *head, void *data) {
  device *d = (device *)head;
  heddle_status ignored;
  if (!push(d, &ignored))
    return;
  (void)TWICE(d->driver.memory_free(address(data)));
  pop(d);
}

static heddle_status attach(rt_queue *q) {
  heddle_status status = HEDDLE_OK;
  push(of(q), &status);
  return status;
}

static void detach(rt_queue *q) { pop(of(q)); }

// ---- Work

static cu_stream stream_of(const rt_queue *q) { return ((const queue *)q)->stream; }

static void fill(rt_queue *q, void *to, const void *element, int64_t element_bytes, int64_t count) {
  if (q->status != HEDDLE_OK || count <= 0)
    return;
  const cu_driver *driver = &of(q)->driver;
  uint32_t word = 0;
  memcpy(&word, element, (size_t)element_bytes);
  cu_result error = element_bytes == 4 ? driver->fill_32(address(to), word, (size_t)count, stream_of(q))
                    : element_bytes == 2
                        ? driver->fill_16(address(to), (unsigned short)word, (size_t)count, stream_of(q))
                        : driver->fill_8(address(to), (unsigned char)word, (size_t)count, stream_of(q));
  note(q, error, "memory cannot be filled");
}

static void copy(rt_queue *q, void *to, const void *from, int64_t bytes) {
  if (q->status == HEDDLE_OK && bytes > 0 && to != from)
    note(q, of(q)->driver.copy(address(to), address(from), (size_t)bytes, stream_of(q)), "memory cannot be copied");
}

static void copy_rows(rt_queue *q, void *to, int64_t to_pitch, const void *from, int64_t from_pitch, int64_t bytes,
                      int64_t rows) {
  if (q->status != HEDDLE_OK || bytes <= 0 || rows <= 0)
    return;
  cu_copy_2d all = {.from_kind = CU_MEMORY_DEVICE,
                    .from = address(from),
                    .from_pitch = (size_t)from_pitch,
                    .to_kind = CU_MEMORY_DEVICE,
                    .to = address(to),
                    .to_pitch = (size_t)to_pitch,
                    .bytes = (size_t)bytes,
                    .rows = (size_t)rows};
  note(q, of(q)->driver.copy_2d(&all, stream_of(q)), "memory cannot be copied");
}

static void write_to(rt_queue *q, void *to, const void *from, int64_t bytes) {
  if (q->status == HEDDLE_OK && bytes > 0)
    note(q, of(q)->driver.write(address(to), from, (size_t)bytes, stream_of(q)), "memory cannot be written");
}

static void read_from(rt_queue *q, void *to, const void *from, int64_t bytes) {
  if (q->status != HEDDLE_OK || bytes <= 0)
    return;
  note(q, of(q)->driver.read(to, address(from), (size_t)bytes, stream_of(q)), "memory cannot be read");
  if (q->status == HEDDLE_OK)
    note(q, of(q)->driver.stream_wait(stream_of(q)), "the GPU's work failed");
}

static void launch(rt_queue *q, int32_t number, int64_t blocks, int32_t threads, void **arguments) {
  if (q->status != HEDDLE_OK || blocks <= 0)
    return;
  const device *d = of(q);
  cu_result error = d->driver.launch(d->launches[number], (unsigned)blocks, 1, 1, (unsigned)threads, 1, 1, 0,
                                     stream_of(q), arguments, NULL);
  note(q, error, d->model->device->launches[number]);
}

static heddle_status finish(rt_queue *q) {
  note(q, of(q)->driver.stream_wait(stream_of(q)), "the GPU's work failed");
  heddle_status status = q->status;
  q->status = HEDDLE_OK;
  return status == HEDDLE_OK ? status : rt_fail(status, "model '%s' on its GPU: %s", of(q)->model->name, q->fault);
}

const rt_device_api heddle_cuda = {.check = check,
                                   .open = open_device,
                                   .close = close_device,
                                   .begin = begin,
                                   .end = end,
                                   .get = get,
                                   .give = give,
                                   .attach = attach,
                                   .detach = detach,
                                   .fill = fill,
                                   .copy = copy,
                                   .copy_rows = copy_rows,
                                   .write = write_to,
                                   .read = read_from,
                                   .launch = launch,
                                   .constant = constant,
                                   .finish = finish};
