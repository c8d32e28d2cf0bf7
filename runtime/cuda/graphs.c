// Runs as CUDA graphs. The first run of an entry with some dims is done call by call; the second one is written down
// and becomes a graph; from then on the host program runs as ever, what it asks for is compared with what was written
// down, addresses and numbers that differ are told to the graph, and one call launches it all. So nothing that the host
// program decides is ever assumed. Where the device is read in between, the work before that is a graph of its own.
#include "runtime/cuda/cuda.h"

#include <stdlib.h>
#include <string.h>

enum {
  FEWEST = 3,         // things to do that are worth a graph
  MOST_DEVIATIONS = 3 // runs that ask for other things before an entry is done call by call
};

// Work up to where the device is read, or to the end.
typedef struct part {
  cu_work *list;
  int32_t count, capacity;
  uint8_t *parameters;
  size_t bytes, room;
  cu_graph graph;
  cu_exec exec; // NULL: none yet
} part;

typedef struct known_run {
  const heddle_entry_desc *entry; // NULL: nothing is kept here
  int64_t *dims;
  uint64_t used; // when
  int32_t deviations;
  part *parts;
  int32_t n_parts;
} known_run;

struct cu_runs {
  int32_t count;
  uint64_t clock;
  known_run *now; // that is written down or compared; NULL: none
  int32_t part;   // of it, and what was asked for in that
  int32_t at;
  bool deviated;
  known_run list[];
};

cu_runs *cu_runs_create(int32_t most) {
  cu_runs *runs = calloc(1, sizeof *runs + (size_t)most * sizeof *runs->list);
  if (runs)
    runs->count = most;
  return runs;
}

static void no_memory(queue *q) { cu_note(&q->head, CU_OUT_OF_MEMORY, "no memory for a graph of kernels"); }

// What the driver holds; the list stays.
static void drop_graph(queue *q, part *p) {
  const cu_driver *driver = &cu_device_of(&q->head)->driver;
  if (p->exec)
    (void)CU_TWICE(driver->exec_destroy(p->exec));
  if (p->graph)
    (void)CU_TWICE(driver->graph_destroy(p->graph));
  p->exec = NULL;
  p->graph = NULL;
}

static void forget(queue *q, known_run *run) {
  for (int32_t i = 0; i < run->n_parts; i++) {
    drop_graph(q, &run->parts[i]);
    free(run->parts[i].list);
    free(run->parts[i].parameters);
  }
  free(run->parts);
  free(run->dims);
  *run = (known_run){0};
}

void cu_runs_destroy(queue *q) {
  for (int32_t i = 0; q->runs && i < q->runs->count; i++)
    forget(q, &q->runs->list[i]);
  free(q->runs);
  q->runs = NULL;
}

void cu_runs_begin(queue *q, const heddle_entry_desc *entry, const int64_t *dims, int32_t n_dims) {
  cu_runs *runs = q->runs;
  size_t bytes = (size_t)n_dims * sizeof *dims;
  if (!runs || q->head.status != HEDDLE_OK)
    return;
  known_run *oldest = &runs->list[0], *found = NULL;
  for (int32_t i = 0; i < runs->count; i++) {
    known_run *run = &runs->list[i];
    if (run->entry == entry && (bytes == 0 || memcmp(run->dims, dims, bytes) == 0))
      found = run;
    oldest = run->used < oldest->used ? run : oldest;
  }
  if (!found) {
    forget(q, oldest);
    oldest->dims = malloc(bytes + 1);
    if (!oldest->dims) {
      no_memory(q);
      return;
    }
    memcpy(oldest->dims, dims, bytes);
    oldest->entry = entry;
    oldest->used = ++runs->clock;
    return;
  }
  found->used = ++runs->clock;
  if (found->deviations < MOST_DEVIATIONS) {
    runs->now = found;
    runs->part = runs->at = 0;
    runs->deviated = false;
  }
}

// ---- The list

static bool grow(void **items, size_t needed, size_t *room, size_t each) {
  if (needed <= *room)
    return true;
  size_t wanted = *room * 2 > needed ? *room * 2 : needed;
  void *more = realloc(*items, wanted * each);
  if (more) {
    *items = more;
    *room = wanted;
  }
  return more != NULL;
}

static part *this_part(queue *q) {
  cu_runs *runs = q->runs;
  known_run *run = runs->now;
  if (runs->part < run->n_parts)
    return &run->parts[runs->part];
  part *more = realloc(run->parts, ((size_t)run->n_parts + 1) * sizeof *more);
  if (!more) {
    no_memory(q);
    return NULL;
  }
  run->parts = more;
  more[run->n_parts] = (part){0};
  return &more[run->n_parts++];
}

// Cuts off what a run before this one asked for, and this one doesn't.
static void cut(queue *q, part *p, int32_t count) {
  if (count == p->count)
    return;
  q->runs->deviated |= p->exec != NULL;
  drop_graph(q, p);
  p->count = count;
  p->bytes = 0;
  for (int32_t i = 0; i < count; i++)
    if (p->list[i].kind == CU_LAUNCH)
      p->bytes = p->list[i].launch.parameters + p->list[i].launch.bytes;
}

static bool append(part *p, const cu_work *work, const void *parameters) {
  size_t room = (size_t)p->capacity, at = (p->bytes + 15) / 16 * 16;
  size_t bytes = work->kind == CU_LAUNCH ? work->launch.bytes : 0;
  if (!grow((void **)&p->list, (size_t)p->count + 1, &room, sizeof *p->list))
    return false;
  p->capacity = (int32_t)room;
  if (!grow((void **)&p->parameters, at + bytes, &p->room, 1))
    return false;
  cu_work *added = &p->list[p->count++];
  *added = *work;
  if (work->kind == CU_LAUNCH) {
    added->launch.parameters = at;
    memcpy(p->parameters + at, parameters, bytes);
    p->bytes = at + bytes;
  }
  return true;
}

// Whether the graph's node can do this work; then it is brought up to date in the list.
static bool becomes(part *p, cu_work *known, const cu_work *work, const void *parameters) {
  if (known->kind != work->kind)
    return false;
  switch (work->kind) {
  case CU_LAUNCH:
    if (known->launch.function != work->launch.function || known->launch.bytes != work->launch.bytes)
      return false;
    known->changed |= known->launch.blocks != work->launch.blocks || known->launch.threads != work->launch.threads ||
                      memcmp(p->parameters + known->launch.parameters, parameters, work->launch.bytes) != 0;
    known->launch.blocks = work->launch.blocks;
    known->launch.threads = work->launch.threads;
    memcpy(p->parameters + known->launch.parameters, parameters, work->launch.bytes);
    return true;
  case CU_COPY:
    known->changed |=
        known->copy.to != work->copy.to || known->copy.from != work->copy.from || known->copy.bytes != work->copy.bytes;
    known->copy = work->copy;
    return true;
  case CU_FILL:
    known->changed |= known->fill.to != work->fill.to || known->fill.value != work->fill.value ||
                      known->fill.element_bytes != work->fill.element_bytes || known->fill.count != work->fill.count;
    known->fill = work->fill;
    return true;
  }
  return false;
}

bool cu_runs_take(queue *q, const cu_work *work, const void *parameters) {
  cu_runs *runs = q->runs;
  if (!runs || !runs->now)
    return false;
  part *p = this_part(q);
  if (!p)
    return true; // it is not done at all: the queue has failed
  if (runs->at < p->count && becomes(p, &p->list[runs->at], work, parameters)) {
    runs->at++;
    return true;
  }
  cut(q, p, runs->at);
  runs->deviated |= p->exec != NULL;
  drop_graph(q, p);
  if (append(p, work, parameters))
    runs->at++;
  else
    no_memory(q);
  return true;
}

// ---- The graph

typedef struct node_forms {
  cu_kernel_node kernel;
  void *extra[5];
  size_t bytes;
  cu_copy_3d copy;
  cu_fill_node fill;
} node_forms;

// As the driver wants it of a node. `out` must stay where it is.
static void describe(const part *p, const cu_work *work, node_forms *out) {
  switch (work->kind) {
  case CU_LAUNCH:
    out->bytes = work->launch.bytes;
    out->extra[0] = (void *)CU_PARAMETERS;
    out->extra[1] = p->parameters + work->launch.parameters;
    out->extra[2] = (void *)CU_PARAMETER_BYTES;
    out->extra[3] = &out->bytes;
    out->extra[4] = NULL;
    out->kernel = (cu_kernel_node){.function = work->launch.function,
                                   .blocks_x = work->launch.blocks,
                                   .blocks_y = 1,
                                   .blocks_z = 1,
                                   .threads_x = work->launch.threads,
                                   .threads_y = 1,
                                   .threads_z = 1,
                                   .extra = out->extra};
    break;
  case CU_COPY:
    out->copy = (cu_copy_3d){.from_kind = CU_MEMORY_DEVICE,
                             .from = work->copy.from,
                             .from_pitch = work->copy.bytes,
                             .from_height = 1,
                             .to_kind = CU_MEMORY_DEVICE,
                             .to = work->copy.to,
                             .to_pitch = work->copy.bytes,
                             .to_height = 1,
                             .bytes = work->copy.bytes,
                             .rows = 1,
                             .depth = 1};
    break;
  case CU_FILL:
    out->fill = (cu_fill_node){.to = work->fill.to,
                               .pitch = work->fill.element_bytes * work->fill.count,
                               .value = work->fill.value,
                               .element_bytes = work->fill.element_bytes,
                               .count = work->fill.count,
                               .rows = 1};
    break;
  }
}

static cu_result add_node(const device *d, part *p, cu_work *work, const cu_node *before, node_forms *forms) {
  size_t n = before ? 1 : 0;
  describe(p, work, forms);
  work->changed = false;
  switch (work->kind) {
  case CU_LAUNCH:
    return d->driver.graph_kernel(&work->node, p->graph, before, n, &forms->kernel);
  case CU_COPY:
    return d->driver.graph_copy(&work->node, p->graph, before, n, &forms->copy, d->context);
  default:
    return d->driver.graph_fill(&work->node, p->graph, before, n, &forms->fill, d->context);
  }
}

static cu_result build(const device *d, part *p) {
  node_forms forms;
  cu_result error = d->driver.graph_create(&p->graph, 0);
  if (error != 0)
    p->graph = NULL;
  for (int32_t i = 0; error == 0 && i < p->count; i++)
    error = add_node(d, p, &p->list[i], i ? &p->list[i - 1].node : NULL, &forms);
  if (error == 0) {
    error = d->driver.exec_create(&p->exec, p->graph, NULL, NULL, 0);
    if (error != 0)
      p->exec = NULL;
  }
  return error;
}

static cu_result update(const device *d, part *p) {
  node_forms forms;
  cu_result error = 0;
  for (int32_t i = 0; error == 0 && i < p->count; i++) {
    cu_work *work = &p->list[i];
    if (!work->changed)
      continue;
    describe(p, work, &forms);
    error = work->kind == CU_LAUNCH ? d->driver.exec_kernel(p->exec, work->node, &forms.kernel)
            : work->kind == CU_COPY ? d->driver.exec_copy(p->exec, work->node, &forms.copy, d->context)
                                    : d->driver.exec_fill(p->exec, work->node, &forms.fill, d->context);
    work->changed = error != 0;
  }
  return error;
}

void cu_runs_flush(queue *q) {
  cu_runs *runs = q->runs;
  if (!runs || !runs->now)
    return;
  const device *d = cu_device_of(&q->head);
  part *p = this_part(q);
  if (!p)
    return;
  cut(q, p, runs->at);
  runs->part++;
  runs->at = 0;
  if (q->head.status != HEDDLE_OK)
    return;
  if (p->count < FEWEST) {
    for (int32_t i = 0; i < p->count; i++)
      cu_do(q, &p->list[i], p->list[i].kind == CU_LAUNCH ? p->parameters + p->list[i].launch.parameters : NULL);
    return;
  }
  cu_result error = p->exec ? update(d, p) : build(d, p);
  cu_note(&q->head, error, "a graph of kernels cannot be made");
  if (error != 0)
    drop_graph(q, p);
  else
    cu_note(&q->head, d->driver.exec_launch(p->exec, q->stream), "a graph of kernels cannot be launched");
}

void cu_runs_end(queue *q, bool refused) {
  cu_runs *runs = q->runs;
  if (!runs || !runs->now)
    return;
  known_run *run = runs->now;
  if (!refused)
    cu_runs_flush(q);
  runs->now = NULL;
  if (runs->deviated && ++run->deviations >= MOST_DEVIATIONS) // what it does depends on more than its dims
    for (int32_t i = 0; i < run->n_parts; i++)
      drop_graph(q, &run->parts[i]);
}
