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
  *d = (rt_decoder){.session = session, .model = model, .sized_dim = -1};
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

// The size of a dim in the tensors that are given for an entry, or -1.
static int64_t size_in(const heddle_entry_desc *entry, int32_t dim, const heddle_tensor *inputs, int32_t n) {
  for (int32_t i = 0; i < n; i++) {
    const heddle_value_desc *value = NULL;
    for (int32_t v = 0; v < entry->n_inputs; v++)
      if (inputs[i].name ? !strcmp(entry->inputs[v].name, inputs[i].name) : v == i)
        value = &entry->inputs[v];
    for (int32_t axis = 0; value && inputs[i].rank == value->rank && axis < value->rank; axis++)
      if (value->extents[axis].dim == dim)
        return inputs[i].shape[axis];
  }
  return -1;
}

heddle_status rt_decoder_batch(const rt_decoder *d, const heddle_tensor *inputs, int32_t n, int32_t *batch) {
  const heddle_entry_desc *e = &d->model->entries[d->encode >= 0 ? d->encode : d->next];
  int32_t dim = d->model->entries[d->next].inputs[0].extents[0].dim;
  if (n < 0 || (n > 0 && !inputs))
    return rt_fail(HEDDLE_INVALID_ARGUMENT, "the list of inputs is NULL or its length (%d) negative", n);
  int64_t size = size_in(e, dim, inputs, n);
  if (size > INT32_MAX)
    size = -1; // the call will say so
  if (size < 0)
    return rt_fail(HEDDLE_BAD_TENSOR,
                   "no input of entry '%s' is given that tells %s, the number of texts; give the source", e->name,
                   d->model->dims[dim].name);
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

heddle_status rt_decoder_begin(rt_decoder *d, int32_t batch, int32_t beams, bool keep_state, int64_t positions) {
  if (beams > 1 && d->reorder < 0)
    return rt_fail(HEDDLE_NOT_FOUND,
                   "model '%s' has no entry 'reorder', which a search with %d beams needs; use 1 beam", d->model->name,
                   beams);
  if ((int64_t)batch * beams > INT32_MAX)
    return rt_fail(HEDDLE_OUT_OF_MEMORY, "%d texts with %d beams each are too many", batch, beams);
  d->batch = batch;
  d->beams = beams;
  d->rows = batch * beams;
  if (keep_state)
    return HEDDLE_OK;
  heddle_status status = heddle_session_reset(d->session);
  int32_t dim = find_sized_dim(d);
  if (status != HEDDLE_OK || dim < 0)
    return status;
  int64_t most = d->model->dims[dim].most;
  d->capacity_before = d->session->states.capacity[dim];
  d->sized_dim = dim;
  return heddle_session_capacity(d->session, dim, most >= 0 && positions > most ? most : positions);
}

void rt_decoder_close(rt_decoder *d) {
  if (d->sized_dim >= 0)
    heddle_session_capacity(d->session, d->sized_dim, d->capacity_before);
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

bool rt_repeat(const heddle_tensor *tensor, int32_t times, heddle_tensor *copy) {
  int64_t size = rt_dtype_bytes(tensor->dtype), bytes = size;
  *copy = *tensor;
  copy->shape[0] *= times;
  for (int32_t i = tensor->rank - 1; i >= 0; i--) {
    copy->strides[i] = bytes;
    bytes *= copy->shape[i];
  }
  copy->data = aligned_alloc(RT_ALIGN, (size_t)(bytes + RT_ALIGN) / RT_ALIGN * RT_ALIGN);
  uint8_t *to = copy->data;
  if (to && bytes)
    copy_axis(&to, tensor, tensor->data, 0, size, times);
  return to;
}

heddle_status rt_decoder_encode(rt_decoder *d, const heddle_tensor *inputs, int32_t n) {
  if (d->beams_apart || d->beams == 1)
    return heddle_run(d->session, d->encode, inputs, n, NULL, 0);
  const heddle_entry_desc *e = &d->model->entries[d->encode];
  int32_t dim = d->model->entries[d->next].inputs[0].extents[0].dim;
  heddle_tensor *repeated = calloc((size_t)n + 1, sizeof *repeated);
  bool *copied = calloc((size_t)n + 1, sizeof *copied);
  heddle_status status = repeated && copied ? HEDDLE_OK : rt_fail(HEDDLE_OUT_OF_MEMORY, "no memory for the sources");
  for (int32_t i = 0; i < n && status == HEDDLE_OK; i++) {
    repeated[i] = inputs[i];
    if (inputs[i].rank < 1 || inputs[i].rank > HEDDLE_RANK || size_in(e, dim, &inputs[i], 1) != inputs[i].shape[0] ||
        !rt_dtype_bytes(inputs[i].dtype) || !inputs[i].data)
      continue; // not of a text; or wrong, as the call will say
    copied[i] = rt_repeat(&inputs[i], d->beams, &repeated[i]);
    if (!copied[i])
      status = rt_fail(HEDDLE_OUT_OF_MEMORY, "no memory for the sources");
  }
  if (status == HEDDLE_OK)
    status = heddle_run(d->session, d->encode, repeated, n, NULL, 0);
  for (int32_t i = 0; repeated && copied && i < n; i++)
    if (copied[i])
      free(repeated[i].data);
  free(repeated);
  free(copied);
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

heddle_status rt_decoder_call(rt_decoder *d, const heddle_tensor *inputs, int32_t n) {
  heddle_tensor result;
  heddle_status status = heddle_session_result_shapes(d->session, d->next, inputs, n, &result, 1);
  if (status != HEDDLE_OK)
    return status;
  int64_t elements = 1;
  for (int32_t i = 0; i < result.rank; i++)
    elements *= result.shape[i]; // at most 2^31 - 1: the shapes were checked
  bool narrow = result.dtype != HEDDLE_F32;
  d->vocabulary = result.shape[result.rank - 1];
  if (d->vocabulary == 0)
    return rt_fail(HEDDLE_UNSUPPORTED, "entry '%s' has no tokens to choose from", d->model->entries[d->next].name);
  if (!make_room(d, elements, narrow))
    return rt_fail(HEDDLE_OUT_OF_MEMORY, "no memory for %lld logits", (long long)elements);
  result.data = narrow ? d->raw : d->logits;
  status = heddle_run(d->session, d->next, inputs, n, &result, 1);
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
  return rt_decoder_call(d, &tensor, 1);
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
  heddle_status status = heddle_run(d->session, d->reorder, &tensor, 1, NULL, 0);
  free(from);
  return status;
}
