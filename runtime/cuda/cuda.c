// rt_device_api for NVIDIA's GPUs. A model's device holds the primary context, the code and the weights; a session's
// queue is a stream. A call that fails is remembered by the queue, which from then on does nothing until `finish` has
// told why; an error of the device's own stays with the context, so that every later call fails, too.
#include "runtime/cuda/cuda.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const rt_device_api heddle_cuda __attribute__((visibility("hidden")));

enum { USUAL_GRAPHS = 8, COPY_THREADS = 256 };

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

void cu_note(rt_queue *q, cu_result error, const char *what) {
  if (error == 0 || q->status != HEDDLE_OK)
    return;
  rt_text text = {.length = 0};
  cu_describe(&cu_device_of(q)->driver, error, &text);
  q->status = status_of(error);
  snprintf(q->fault, sizeof q->fault, "%s: %s", what, text.data);
}

static bool push(const device *d, heddle_status *status) {
  cu_result error = 0;
  if (CU_TWICE(error = d->driver.context_push(d->context)))
    return true;
  *status = refuse(d, error, "its context cannot be entered");
  return false;
}

static void pop(const device *d) {
  cu_context popped;
  (void)CU_TWICE(d->driver.context_pop(&popped));
}

// ---- Models

static heddle_status check(const heddle_model_desc *model) {
  cu_driver driver;
  cu_device number;
  int capability;
  heddle_status status = cu_driver_open(&driver, model, &number, &capability);
  if (status == HEDDLE_OK)
    cu_driver_close(&driver);
  return status;
}

// Machine code is for one generation of devices, and an older driver may not take it: then there is the PTX.
static bool load_binary(device *d) {
  const heddle_device_desc *desc = d->model->device;
  bool fits = desc->binary && d->capability / 10 == desc->architecture / 10;
  if (fits && d->driver.module_load(&d->module, desc->binary, 0, NULL, NULL) == 0)
    return true;
  d->module = NULL;
  return false;
}

static heddle_status load_code(device *d) {
  const heddle_device_desc *desc = d->model->device;
  char log[512] = "";
  int options[] = {CU_JIT_ERROR_LOG, CU_JIT_ERROR_LOG_BYTES};
  void *values[] = {log, (void *)(uintptr_t)(sizeof log - 1)};
  cu_result error = load_binary(d) ? 0 : d->driver.module_load(&d->module, desc->code, 2, options, values);
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
  error = d->driver.module_load(&d->own, cu_own_kernels, 0, NULL, NULL);
  if (error != 0)
    d->own = NULL;
  else
    error = d->driver.module_function(&d->copy_rows, d->own, "heddle_copy_rows");
  return error == 0 ? HEDDLE_OK : refuse(d, error, "the driver does not take the runtime's own kernels");
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
      (void)CU_TWICE(d->driver.memory_free(d->weights));
    if (d->constants)
      (void)CU_TWICE(d->driver.memory_free(d->constants));
    if (d->module)
      (void)CU_TWICE(d->driver.module_unload(d->module));
    if (d->own)
      (void)CU_TWICE(d->driver.module_unload(d->own));
    pop(d);
  }
  if (d->context)
    (void)CU_TWICE(d->driver.context_release(d->number));
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
  heddle_status status = d->launches && d->constant_at ? cu_driver_open(&d->driver, model, &d->number, &d->capability)
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

static heddle_status begin(rt_device *head, const rt_queue_options *options, rt_queue **out) {
  device *d = (device *)head;
  heddle_status status = HEDDLE_OK;
  queue *q = calloc(1, sizeof *q);
  if (!q)
    return rt_fail(HEDDLE_OUT_OF_MEMORY, "no memory for a session");
  q->head.device = head;
  int32_t graphs = options->graphs ? options->graphs : USUAL_GRAPHS;
  if (graphs > 0) {
    q->runs = cu_runs_create(graphs);
    if (!q->runs)
      status = rt_fail(HEDDLE_OUT_OF_MEMORY, "no memory for a session");
  }
  q->stream = options->stream;
  q->is_callers = options->stream != NULL;
  if (status == HEDDLE_OK && !q->is_callers && push(d, &status)) {
    // Not after the default stream, which others use: a session waits for its own work only.
    cu_result error = d->driver.stream_create(&q->stream, CU_STREAM_NON_BLOCKING);
    if (error != 0)
      status = refuse(d, error, "no stream can be made");
    pop(d);
  }
  if (status == HEDDLE_OK)
    *out = &q->head;
  else {
    cu_runs_destroy(q);
    free(q);
  }
  return status;
}

static void end(rt_queue *head) {
  device *d = cu_device_of(head);
  heddle_status ignored;
  if (push(d, &ignored)) {
    queue *q = (queue *)head;
    if (q->written)
      (void)CU_TWICE(d->driver.event_destroy(q->written));
    if (!q->is_callers)
      (void)CU_TWICE(d->driver.stream_destroy(q->stream));
    cu_runs_destroy(q);
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
  (void)CU_TWICE(d->driver.memory_free(address(data)));
  pop(d);
}

static heddle_status get_pinned(rt_device *head, int64_t bytes, void **data) {
  device *d = (device *)head;
  heddle_status status = HEDDLE_OK;
  if (!push(d, &status))
    return status;
  cu_result error = d->driver.pinned_get(data, (size_t)bytes, 0);
  if (error != 0)
    status = refuse(d, error, "it gives no pinned memory");
  pop(d);
  return status;
}

static void give_pinned(rt_device *head, void *data) {
  device *d = (device *)head;
  heddle_status ignored;
  if (!push(d, &ignored))
    return;
  (void)CU_TWICE(d->driver.pinned_free(data));
  pop(d);
}

static heddle_status attach(rt_queue *q) {
  heddle_status status = HEDDLE_OK;
  push(cu_device_of(q), &status);
  return status;
}

static void detach(rt_queue *q) { pop(cu_device_of(q)); }

// ---- Work

static cu_stream stream_of(const rt_queue *q) { return ((const queue *)q)->stream; }

static void fill_now(queue *q, const cu_work *work) {
  const cu_driver *driver = &cu_device_of(&q->head)->driver;
  cu_address to = work->fill.to;
  unsigned value = work->fill.value;
  cu_result error = work->fill.element_bytes == 4 ? driver->fill_32(to, value, work->fill.count, q->stream)
                    : work->fill.element_bytes == 2
                        ? driver->fill_16(to, (unsigned short)value, work->fill.count, q->stream)
                        : driver->fill_8(to, (unsigned char)value, work->fill.count, q->stream);
  cu_note(&q->head, error, "memory cannot be filled");
}

static void launch_now(queue *q, const cu_work *work, const void *parameters) {
  size_t bytes = work->launch.bytes;
  void *extra[] = {(void *)CU_PARAMETERS, (void *)parameters, (void *)CU_PARAMETER_BYTES, &bytes, NULL};
  cu_result error = cu_device_of(&q->head)->driver.launch(work->launch.function, work->launch.blocks, 1, 1,
                                                          work->launch.threads, 1, 1, 0, q->stream, NULL, extra);
  cu_note(&q->head, error, work->launch.name);
}

void cu_do(queue *q, const cu_work *work, const void *parameters) {
  if (q->head.status != HEDDLE_OK)
    return;
  if (work->kind == CU_LAUNCH)
    launch_now(q, work, parameters);
  else if (work->kind == CU_FILL)
    fill_now(q, work);
  else
    cu_note(&q->head, cu_device_of(&q->head)->driver.copy(work->copy.to, work->copy.from, work->copy.bytes, q->stream),
            "memory cannot be copied");
}

static void ask(rt_queue *head, const cu_work *work, const void *parameters) {
  queue *q = (queue *)head;
  if (head->status == HEDDLE_OK && !cu_runs_take(q, work, parameters))
    cu_do(q, work, parameters);
}

static void begin_run(rt_queue *q, const heddle_entry_desc *entry, const int64_t *dims) {
  cu_runs_begin((queue *)q, entry, dims, cu_device_of(q)->model->n_dims);
}

static void end_run(rt_queue *q, bool refused) { cu_runs_end((queue *)q, refused); }

static void fill(rt_queue *q, void *to, const void *element, int64_t element_bytes, int64_t count) {
  uint32_t value = 0;
  memcpy(&value, element, (size_t)element_bytes);
  if (count > 0)
    ask(q,
        &(cu_work){.kind = CU_FILL,
                   .fill = {.to = address(to),
                            .value = value,
                            .element_bytes = (unsigned)element_bytes,
                            .count = (size_t)count}},
        NULL);
}

// Not a copy from here: the value goes with the call, or with a graph.
static void put(rt_queue *q, void *to, const void *value, int64_t bytes) {
  for (int64_t at = 0, part; at < bytes; at += part) {
    part = bytes - at >= 4 ? 4 : bytes - at >= 2 ? 2 : 1;
    fill(q, (uint8_t *)to + at, (const uint8_t *)value + at, part, 1);
  }
}

static void copy(rt_queue *q, void *to, const void *from, int64_t bytes) {
  if (bytes > 0 && to != from)
    ask(q, &(cu_work){.kind = CU_COPY, .copy = {.to = address(to), .from = address(from), .bytes = (size_t)bytes}},
        NULL);
}

static unsigned blocks_of(int64_t items, int32_t each) { return (unsigned)((items + each - 1) / each); }

static void copy_rows(rt_queue *q, void *to, int64_t to_pitch, const void *from, int64_t from_pitch, int64_t bytes,
                      int64_t rows) {
  if (bytes <= 0 || rows <= 0)
    return;
  if (rows == 1) {
    copy(q, to, from, bytes);
    return;
  }
  uint64_t all = address(to) | address(from) | (uint64_t)to_pitch | (uint64_t)from_pitch | (uint64_t)bytes;
  uint32_t width = all % 16 == 0 ? 16 : all % 4 == 0 ? 4 : 1;
  struct {
    uint64_t to, to_pitch, from, from_pitch;
    uint32_t units, count, width;
  } parameters = {address(to),
                  (uint64_t)to_pitch,
                  address(from),
                  (uint64_t)from_pitch,
                  (uint32_t)(bytes / width),
                  (uint32_t)(bytes / width * rows),
                  width};
  ask(q,
      &(cu_work){.kind = CU_LAUNCH,
                 .launch = {.function = cu_device_of(q)->copy_rows,
                            .blocks = blocks_of(bytes / width * rows, COPY_THREADS),
                            .threads = COPY_THREADS,
                            .name = "heddle_copy_rows",
                            .bytes = offsetof(__typeof__(parameters), width) + sizeof width}},
      &parameters);
}

static void write_now(rt_queue *q, void *to, const void *from, int64_t bytes) {
  if (q->status == HEDDLE_OK && bytes > 0)
    cu_note(q, cu_device_of(q)->driver.write(address(to), from, (size_t)bytes, stream_of(q)),
            "memory cannot be written");
}

static void read_from(rt_queue *q, void *to, const void *from, int64_t bytes) {
  if (bytes > 0)
    cu_runs_flush((queue *)q);
  if (q->status != HEDDLE_OK || bytes <= 0)
    return;
  cu_note(q, cu_device_of(q)->driver.read(to, address(from), (size_t)bytes, stream_of(q)), "memory cannot be read");
  if (q->status == HEDDLE_OK)
    cu_note(q, cu_device_of(q)->driver.stream_wait(stream_of(q)), "the GPU's work failed");
}

static void write_later(rt_queue *q, void *to, const void *from, int64_t bytes) {
  if (q->status != HEDDLE_OK || bytes <= 0)
    return;
  ((queue *)q)->in_flight = CU_UNMARKED;
  cu_note(q, cu_device_of(q)->driver.write(address(to), from, (size_t)bytes, stream_of(q)), "memory cannot be written");
}

static void read_later(rt_queue *q, void *to, const void *from, int64_t bytes) {
  if (q->status == HEDDLE_OK && bytes > 0)
    cu_note(q, cu_device_of(q)->driver.read(to, address(from), (size_t)bytes, stream_of(q)), "memory cannot be read");
}

static void written(rt_queue *head) {
  queue *q = (queue *)head;
  const cu_driver *driver = &cu_device_of(head)->driver;
  if (q->in_flight == CU_NOTHING || head->status != HEDDLE_OK)
    return;
  cu_result error = q->written ? 0 : driver->event_create(&q->written, CU_EVENT_NO_TIMING);
  if (error != 0)
    q->written = NULL;
  else
    error = driver->event_record(q->written, q->stream);
  if (error == 0)
    q->in_flight = CU_MARKED;
  cu_note(head, error, "an event cannot be recorded");
}

static heddle_status finish(rt_queue *q);

static heddle_status settle(rt_queue *head) {
  queue *q = (queue *)head;
  if (q->in_flight == CU_NOTHING)
    return HEDDLE_OK;
  if (q->in_flight == CU_UNMARKED)
    return finish(head);
  cu_note(head, cu_device_of(head)->driver.event_wait(q->written), "the GPU's work failed");
  q->in_flight = CU_NOTHING;
  return head->status == HEDDLE_OK ? HEDDLE_OK : finish(head);
}

static void *stream(rt_queue *q) { return stream_of(q); }

static void launch(rt_queue *q, int32_t number, int64_t blocks, int32_t threads, const void *parameters,
                   int64_t bytes) {
  const device *d = cu_device_of(q);
  if (blocks > 0)
    ask(q,
        &(cu_work){.kind = CU_LAUNCH,
                   .launch = {.function = d->launches[number],
                              .blocks = (unsigned)blocks,
                              .threads = (unsigned)threads,
                              .name = d->model->device->launches[number],
                              .bytes = (size_t)bytes}},
        parameters);
}

static heddle_status finish(rt_queue *q) {
  cu_note(q, cu_device_of(q)->driver.stream_wait(stream_of(q)), "the GPU's work failed");
  ((queue *)q)->in_flight = CU_NOTHING;
  heddle_status status = q->status;
  q->status = HEDDLE_OK;
  return status == HEDDLE_OK ? status
                             : rt_fail(status, "model '%s' on its GPU: %s", cu_device_of(q)->model->name, q->fault);
}

const rt_device_api heddle_cuda = {.check = check,
                                   .open = open_device,
                                   .close = close_device,
                                   .begin = begin,
                                   .end = end,
                                   .get = get,
                                   .give = give,
                                   .get_pinned = get_pinned,
                                   .give_pinned = give_pinned,
                                   .attach = attach,
                                   .detach = detach,
                                   .begin_run = begin_run,
                                   .end_run = end_run,
                                   .fill = fill,
                                   .copy = copy,
                                   .copy_rows = copy_rows,
                                   .write = write_now,
                                   .put = put,
                                   .read = read_from,
                                   .write_later = write_later,
                                   .read_later = read_later,
                                   .written = written,
                                   .settle = settle,
                                   .stream = stream,
                                   .launch = launch,
                                   .constant = constant,
                                   .finish = finish};
