// A model as a source of logits: which of its entries take the source, the tokens and the order of the beams, what
// shapes they expect, and the calls to them. docs/generation.md says what a model must have.
#include "runtime/generate.h"

#include <stdlib.h>
#include <string.h>

static int32_t find_entry(const heddle_model_desc *model, const char *name) {
  for (int32_t e = 0; e < model->n_entries; e++)
    if (!strcmp(model->entries[e].name, name))
      return e;
  return -1;
}

static bool is_real(int32_t dtype) { return dtype == HEDDLE_F32 || dtype == HEDDLE_BF16 || dtype == HEDDLE_F16; }

static heddle_status refuse_shape(const heddle_model_desc *model, int32_t entry, const char *wanted) {
  return rt_fail(HEDDLE_UNSUPPORTED, "entry '%s' cannot be used for generation; it must be %s, further inputs optional",
                 model->entries[entry].name, wanted);
}

// Sets `positions` and `beams_apart` from the shapes of the entry for tokens.
static heddle_status check_next(rt_decoder *d) {
  const heddle_entry_desc *e = &d->model->entries[d->next];
  bool good = e->n_inputs >= 1 && e->n_results >= 1 && rt_is_integer(e->inputs[0].dtype) && !e->inputs[0].optional &&
              is_real(e->results[0].dtype);
  for (int32_t i = 1; i < e->n_inputs; i++)
    good &= e->inputs[i].optional != 0;
  int32_t tokens = good ? e->inputs[0].rank : 0, logits = good ? e->results[0].rank : 0;
  for (int32_t i = 0; i < tokens; i++)
    good &= e->inputs[0].extents[i].dim >= 0;
  if (d->encode >= 0) {
    d->beams_apart = tokens == 2;
    if (!good || tokens < 1 || tokens > 2 || logits != tokens + 1)
      return refuse_shape(d->model, d->next, "(token: index(V)[B, K]) -> logits: real[B, K, V], or of [R] -> [R, V]");
  } else {
    d->positions = logits == 3;
    if (!good || tokens != 2 || logits < 2 || logits > 3)
      return refuse_shape(d->model, d->next, "(ids: index(V)[B, T]) -> logits: real[B, T, V], or real[B, V]");
  }
  return HEDDLE_OK;
}

static bool updates_states(const heddle_entry_desc *entry) {
  bool updates = false;
  for (int32_t u = 0; u < entry->n_uses; u++)
    updates |= entry->uses[u].updates;
  return updates;
}

heddle_status rt_decoder_open(rt_decoder *d, heddle_session *session) {
  const heddle_model_desc *model = session->model->desc;
  *d = (rt_decoder){
      .session = session, .model = model, .on_logits = rt_logit_functions_for(model->cpu_features), .sized_dim = -1};
  d->encode = find_entry(model, "encode");
  d->next = find_entry(model, "decode_step");
  d->reorder = find_entry(model, "reorder");
  if (d->next >= 0 && d->encode < 0)
    return rt_fail(HEDDLE_NOT_FOUND, "model '%s' has an entry 'decode_step', but no 'encode'; generation needs both",
                   model->name);
  if (d->next < 0) {
    d->encode = -1;
    d->next = find_entry(model, "step");
  }
  if (d->next < 0) { // what reads a text and remembers it can go on from there, too
    d->next = find_entry(model, "forward");
    if (d->next >= 0 && !updates_states(&model->entries[d->next]))
      d->next = -1;
  }
  if (d->next < 0)
    return rt_fail(HEDDLE_NOT_FOUND,
                   "model '%s' cannot generate: it has neither the entries 'encode' and 'decode_step' nor 'step'",
                   model->name);
  heddle_status status = check_next(d);
  if (status != HEDDLE_OK || d->reorder < 0)
    return status;
  const heddle_entry_desc *e = &model->entries[d->reorder];
  if (e->n_inputs != 1 || !rt_is_integer(e->inputs[0].dtype) || e->inputs[0].rank != (d->beams_apart ? 2 : 1))
    return refuse_shape(model, d->reorder, d->beams_apart ? "(from: index(K)[B, K])" : "(from: index(R)[R])");
  return HEDDLE_OK;
}

heddle_status rt_decoder_batch(const rt_decoder *d, const heddle_tensor *inputs, int32_t n, int32_t *batch) {
  int32_t entry = d->encode >= 0 ? d->encode : d->next;
  int32_t dim = d->model->entries[d->next].inputs[0].extents[0].dim;
  rt_call *call = &d->session->call;
  heddle_status status = rt_check_inputs(call, entry, inputs, n);
  if (status != HEDDLE_OK)
    return status;
  int64_t size = call->dims[dim];
  if (size < 0)
    return rt_fail(HEDDLE_BAD_TENSOR,
                   "no input of entry '%s' is given that tells %s, the number of texts; give the source",
                   d->model->entries[entry].name, d->model->dims[dim].name);
  if (size > INT32_MAX)
    return rt_fail(HEDDLE_OUT_OF_MEMORY, "entry '%s': %s = %lld is more than 2147483647 texts; give fewer",
                   d->model->entries[entry].name, d->model->dims[dim].name, (long long)size);
  *batch = (int32_t)size;
  return HEDDLE_OK;
}

// The dim for the positions of a cache, where no input of the entries tells it.
static int32_t find_sized_dim(const rt_decoder *d) {
  for (int32_t dim = 0; dim < d->model->n_dims; dim++) {
    const char *name = d->model->dims[dim].name;
    bool told = strcmp(name, "P") != 0 && strcmp(name, "POSITIONS") != 0;
    for (int32_t e = 0; e < d->model->n_entries; e++) {
      if (e != d->encode && e != d->next)
        continue;
      for (int32_t i = 0; i < d->model->entries[e].n_inputs; i++)
        for (int32_t a = 0; a < d->model->entries[e].inputs[i].rank; a++)
          told |= d->model->entries[e].inputs[i].extents[a].dim == dim;
    }
    if (!told)
      return dim;
  }
  return -1;
}

// Forgets what an earlier generation left. States that only other entries update, such as what was trained, stay.
static void forget(rt_decoder *d, int32_t entry) {
  for (int32_t u = 0; entry >= 0 && u < d->model->entries[entry].n_uses; u++) {
    const heddle_state_use_desc *use = &d->model->entries[entry].uses[u];
    if (use->updates)
      rt_state_reset(&d->session->states.list[use->state]);
  }
}

heddle_status rt_decoder_begin(rt_decoder *d, int32_t batch, int32_t beams, bool keep_state, int64_t positions) {
  if (beams > 1 && d->reorder < 0)
    return rt_fail(HEDDLE_NOT_FOUND,
                   "model '%s' has no entry 'reorder', which a search with %d beams needs; use 1 beam", d->model->name,
                   beams);
  const heddle_value_desc *logits = &d->model->entries[d->next].results[0];
  const heddle_extent_desc *vocabulary = &logits->extents[logits->rank - 1];
  int64_t least = vocabulary->dim == HEDDLE_FIXED && vocabulary->value > 0 ? vocabulary->value : 1; // logits of a row
  if (rt_huge((int64_t)batch * beams, least))
    return rt_fail(HEDDLE_OUT_OF_MEMORY, "%d texts with %d beams each are too many", batch, beams);
  d->batch = batch;
  d->beams = beams;
  d->rows = batch * beams;
  if (keep_state)
    return HEDDLE_OK;
  forget(d, d->encode);
  forget(d, d->next);
  forget(d, d->reorder);
  int32_t dim = find_sized_dim(d);
  if (dim < 0)
    return HEDDLE_OK;
  int64_t most = d->model->dims[dim].most;
  d->capacity_before = d->session->states.capacity[dim];
  d->sized_dim = dim;
  d->session->states.capacity[dim] = most >= 0 && positions > most ? most : positions;
  return HEDDLE_OK;
}

void rt_decoder_close(rt_decoder *d) {
  if (d->sized_dim >= 0)
    d->session->states.capacity[d->sized_dim] = d->capacity_before;
  free(d->logits);
  free(d->raw);
}

// ---- Calls

static void copy_axis(uint8_t **to, const heddle_tensor *tensor, const uint8_t *from, int32_t axis, int64_t size,
                      int32_t times) {
  if (axis == tensor->rank) {
    memcpy(*to, from, (size_t)size);
    *to += size;
    return;
  }
  for (int64_t i = 0; i < tensor->shape[axis]; i++)
    for (int32_t k = 0; k < (axis == 0 ? times : 1); k++)
      copy_axis(to, tensor, from + i * tensor->strides[axis], axis + 1, size, times);
}

// A dense copy with every index of the first axis `times` times.
static heddle_status repeat(const heddle_tensor *tensor, int32_t times, heddle_tensor *copy) {
  int64_t size = rt_dtype_bytes(tensor->dtype), bytes = size;
  int64_t shape[HEDDLE_RANK];
  memcpy(shape, tensor->shape, sizeof shape);
  bool huge = __builtin_mul_overflow(shape[0], times, &shape[0]);
  int64_t elements = huge ? -1 : rt_state_elements(shape, tensor->rank);
  if (elements < 0)
    return rt_fail(HEDDLE_OUT_OF_MEMORY,
                   "generation: an input that is repeated for %d beams would have more than "
                   "2147483647 elements; give fewer texts or beams",
                   times);
  *copy = *tensor;
  memcpy(copy->shape, shape, sizeof shape);
  for (int32_t i = tensor->rank - 1; elements > 0 && i >= 0; i--) {
    copy->strides[i] = bytes;
    bytes *= shape[i];
  }
  copy->data = aligned_alloc(RT_ALIGN, (size_t)(elements * size + RT_ALIGN) / RT_ALIGN * RT_ALIGN);
  uint8_t *to = copy->data;
  if (!to)
    return rt_fail(HEDDLE_OUT_OF_MEMORY, "no memory for %lld elements of an input, repeated for %d beams",
                   (long long)elements, times);
  if (elements)
    copy_axis(&to, tensor, tensor->data, 0, size, times);
  return HEDDLE_OK;
}

// What is told of the input that is given at this place of a list, or NULL.
static const heddle_value_desc *described(const heddle_entry_desc *entry, const heddle_tensor *inputs, int32_t i) {
  for (int32_t v = 0; v < entry->n_inputs; v++)
    if (inputs[i].name ? !strcmp(entry->inputs[v].name, inputs[i].name) : v == i)
      return &entry->inputs[v];
  return NULL;
}

heddle_status rt_decoder_repeated(rt_decoder *d, const heddle_tensor *inputs, int32_t n, rt_repeated *out) {
  *out = (rt_repeated){.tensors = inputs};
  if (d->beams == 1 || (d->encode >= 0 && d->beams_apart))
    return HEDDLE_OK;
  const heddle_entry_desc *e = &d->model->entries[d->encode >= 0 ? d->encode : d->next];
  int32_t dim = d->model->entries[d->next].inputs[0].extents[0].dim;
  heddle_tensor *all = out->copies = calloc((size_t)n + 1, sizeof *all);
  out->owned = calloc((size_t)n + 1, sizeof *out->owned);
  heddle_status status = HEDDLE_OK;
  if (!all || !out->owned)
    status = rt_fail(HEDDLE_OUT_OF_MEMORY, "no memory for %d inputs", n);
  for (int32_t i = 0; i < n && status == HEDDLE_OK; i++) {
    const heddle_value_desc *value = described(e, inputs, i);
    all[i] = inputs[i];
    if (!value || value->rank == 0 || value->extents[0].dim != dim || !inputs[i].data)
      continue; // not of a text; or without data, as the call will say
    status = repeat(&inputs[i], d->beams, &all[i]);
    out->owned[i] = status == HEDDLE_OK ? all[i].data : NULL;
  }
  out->n = n;
  out->tensors = all;
  return status;
}

void rt_repeated_release(rt_repeated *repeated) {
  for (int32_t i = 0; repeated->owned && i < repeated->n; i++)
    free(repeated->owned[i]);
  free(repeated->owned);
  free(repeated->copies);
}

heddle_status rt_decoder_encode(rt_decoder *d, const heddle_tensor *inputs, int32_t n) {
  rt_repeated repeated;
  heddle_status status = rt_decoder_repeated(d, inputs, n, &repeated);
  if (status == HEDDLE_OK)
    status = rt_run(d->session, d->encode, repeated.tensors, n, NULL, 0);
  rt_repeated_release(&repeated);
  return status;
}

static float from_f16(uint16_t half) {
  uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31, fraction = half & 1023;
  float small = (float)fraction * 0x1p-24f; // denormal, or zero
  uint32_t bits = exponent == 31 ? 0x7f800000u | fraction << 13 : (exponent + 112) << 23 | fraction << 13;
  if (exponent == 0)
    memcpy(&bits, &small, sizeof bits);
  bits |= sign;
  float out;
  memcpy(&out, &bits, sizeof out);
  return out;
}

static void widen(float *to, const uint16_t *from, int64_t n, int32_t dtype) {
  for (int64_t i = 0; i < n; i++) {
    uint32_t bits = (uint32_t)from[i] << 16;
    if (dtype == HEDDLE_F16)
      to[i] = from_f16(from[i]);
    else
      memcpy(&to[i], &bits, sizeof bits);
  }
}

static bool make_room(rt_decoder *d, int64_t elements, bool narrow) {
  if (elements > d->capacity) {
    size_t bytes = ((size_t)elements * sizeof(float) + RT_ALIGN) / RT_ALIGN * RT_ALIGN;
    free(d->logits);
    free(d->raw);
    d->raw = NULL;
    d->logits = aligned_alloc(RT_ALIGN, bytes);
    d->capacity = d->logits ? elements : 0;
  }
  if (narrow && !d->raw)
    d->raw = aligned_alloc(RT_ALIGN, ((size_t)d->capacity * 2 + RT_ALIGN) / RT_ALIGN * RT_ALIGN);
  return d->logits && (!narrow || d->raw);
}

heddle_status rt_decoder_call(rt_decoder *d, const heddle_tensor *inputs, int32_t n, int64_t tokens) {
  heddle_tensor result;
  heddle_status status = rt_result_shapes(&d->session->call, d->next, inputs, n, &result, 1);
  if (status != HEDDLE_OK)
    return status;
  int64_t rows = 1, expected = d->positions ? d->rows * tokens : d->rows; // both below 2^31
  for (int32_t i = 0; i < result.rank - 1; i++)
    rows *= result.shape[i]; // at most 2^31 - 1, as all products here: the shapes were checked
  bool narrow = result.dtype != HEDDLE_F32;
  int64_t before = d->vocabulary;
  d->vocabulary = result.shape[result.rank - 1];
  if (before && d->vocabulary != before)
    return rt_fail(HEDDLE_UNSUPPORTED, "entry '%s' gives logits for %lld tokens after logits for %lld",
                   d->model->entries[d->next].name, (long long)d->vocabulary, (long long)before);
  int64_t elements = rows * d->vocabulary;
  if (rows != expected && d->vocabulary != 0)
    return rt_fail(HEDDLE_UNSUPPORTED,
                   "entry '%s' gives %lld rows of logits for %lld tokens of %d texts; generation needs %lld",
                   d->model->entries[d->next].name, (long long)rows, (long long)tokens, d->rows, (long long)expected);
  if (d->vocabulary == 0)
    return rt_fail(HEDDLE_UNSUPPORTED, "entry '%s' has no tokens to choose from", d->model->entries[d->next].name);
  if (!make_room(d, elements, narrow))
    return rt_fail(HEDDLE_OUT_OF_MEMORY, "no memory for %lld logits", (long long)elements);
  result.data = narrow ? d->raw : d->logits;
  status = rt_run(d->session, d->next, inputs, n, &result, 1);
  if (status == HEDDLE_OK && narrow)
    widen(d->logits, d->raw, elements, result.dtype);
  return status;
}

heddle_status rt_decoder_next(rt_decoder *d, const int64_t *tokens) {
  const heddle_value_desc *input = &d->model->entries[d->next].inputs[0];
  heddle_tensor tensor = {.name = input->name, .data = (void *)tokens, .dtype = HEDDLE_I64, .rank = input->rank};
  tensor.shape[0] = d->beams_apart ? d->batch : d->rows;
  tensor.shape[1] = d->beams_apart ? d->beams : 1; // decoder only: one token of each row
  tensor.strides[0] = (int64_t)sizeof(int64_t) * (input->rank == 2 ? tensor.shape[1] : 1);
  tensor.strides[1] = sizeof(int64_t);
  return rt_decoder_call(d, &tensor, 1, 1);
}

heddle_status rt_decoder_follow(rt_decoder *d, const int32_t *parents) {
  bool in_order = true;
  for (int32_t row = 0; row < d->rows; row++)
    in_order &= parents[row] == row % d->beams;
  if (in_order)
    return HEDDLE_OK;
  int32_t *from = malloc(sizeof(int32_t) * (size_t)d->rows);
  if (!from)
    return rt_fail(HEDDLE_OUT_OF_MEMORY, "no memory for the order of %d beams", d->rows);
  for (int32_t row = 0; row < d->rows; row++)
    from[row] = parents[row] + (d->beams_apart ? 0 : row / d->beams * d->beams);
  heddle_tensor tensor = {.data = from, .dtype = HEDDLE_I32, .rank = d->beams_apart ? 2 : 1};
  tensor.shape[0] = d->beams_apart ? d->batch : d->rows;
  tensor.shape[1] = d->beams;
  tensor.strides[0] = (int64_t)sizeof(int32_t) * (d->beams_apart ? d->beams : 1);
  tensor.strides[1] = sizeof(int32_t);
  heddle_status status = rt_run(d->session, d->reorder, &tensor, 1, NULL, 0);
  free(from);
  return status;
}
