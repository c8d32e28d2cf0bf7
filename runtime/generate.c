// heddle_generate: what is asked for is checked, then a loop of calls of the model's entries and
// choices of tokens (search.c, sample.c). docs/generation.md says what is computed.
#include "runtime/generate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

heddle_status rt_read_options(const heddle_generate_options *given, heddle_generate_options *all) {
  *all = (heddle_generate_options){.steps = 1, .beams = 1, .length_penalty = 1, .temperature = 1, .top_p = 1};
  heddle_status status = rt_take_options(all, given, sizeof *all);
  if (status != HEDDLE_OK || !given)
    return status;
  bool sample = all->flags & HEDDLE_SAMPLE;
  const char *wrong = NULL;
  if (all->flags & ~(uint32_t)(HEDDLE_SAMPLE | HEDDLE_KEEP_STATE))
    return rt_fail(HEDDLE_UNSUPPORTED, "flags 0x%x of the generation options are not known to this version",
                   all->flags);
  if (all->steps < 1)
    wrong = "steps must be at least 1";
  else if (all->min_steps < 0 || all->min_steps > all->steps)
    wrong = "min_steps must be in 0 .. steps";
  else if (all->beams < 1)
    wrong = "beams must be at least 1";
  else if (all->beams > 1 && sample)
    wrong = "sampling goes with 1 beam";
  else if (!isfinite(all->length_penalty))
    wrong = "length_penalty must be a number";
  else if (all->early_stopping < HEDDLE_STOP_WHEN_WORSE || all->early_stopping > HEDDLE_STOP_NEVER)
    wrong = "early_stopping must be one of HEDDLE_STOP_*";
  else if (sample && !(all->temperature > 0 && isfinite(all->temperature)))
    wrong = "temperature must be above 0";
  else if (sample && all->top_k < 0)
    wrong = "top_k must be at least 0 (all)";
  else if (sample && !(all->top_p >= 0 && all->top_p <= 1))
    wrong = "top_p must be in 0 .. 1";
  return wrong ? rt_fail(HEDDLE_INVALID_ARGUMENT, "generation: %s", wrong) : HEDDLE_OK;
}

// The tensor that the entry `step` takes the texts from.
static const heddle_tensor *find_texts(const rt_decoder *d, const heddle_tensor *inputs, int32_t n) {
  const char *name = d->model->entries[d->next].inputs[0].name;
  for (int32_t i = 0; i < n; i++)
    if (inputs[i].name ? !strcmp(inputs[i].name, name) : i == 0)
      return &inputs[i];
  return NULL;
}

static heddle_status read_texts(const rt_decoder *d, const heddle_tensor *inputs, int32_t n,
                                const heddle_tensor **texts) {
  const heddle_entry_desc *e = &d->model->entries[d->next];
  *texts = find_texts(d, inputs, n);
  if (*texts && (*texts)->rank == 2 && rt_is_integer((*texts)->dtype) && (*texts)->data && (*texts)->shape[1] > 0)
    return HEDDLE_OK;
  return rt_fail(HEDDLE_BAD_TENSOR,
                 "entry '%s', input '%s': must be given as integers [texts, tokens], with a token at "
                 "least",
                 e->name, e->inputs[0].name);
}

heddle_status rt_check_here(const char *what, const heddle_tensor *tensor) {
  if (tensor->memory == HEDDLE_MAIN_MEMORY)
    return HEDDLE_OK;
  return rt_fail(HEDDLE_BAD_TENSOR, "generation: %s must lie in main memory; copy it there", what);
}

bool rt_huge(int64_t rows, int64_t columns) {
  int64_t elements;
  return __builtin_mul_overflow(rows, columns, &elements) || elements > INT32_MAX;
}

int64_t rt_integer_at(const heddle_tensor *tensor, int64_t i, int64_t j) {
  const uint8_t *at = (const uint8_t *)tensor->data + i * tensor->strides[0] + j * tensor->strides[1];
  int64_t wide = 0;
  int32_t word = 0;
  switch (tensor->dtype) {
  case HEDDLE_I64:
    memcpy(&wide, at, sizeof wide);
    return wide;
  case HEDDLE_I32:
    memcpy(&word, at, sizeof word);
    return word;
  case HEDDLE_I8:
    return *(const int8_t *)at;
  default:
    return *at;
  }
}

void rt_set_shape(heddle_tensor *tensor, int32_t dtype, int64_t rows, int64_t columns) {
  int64_t size = rt_dtype_bytes(dtype);
  tensor->dtype = dtype;
  tensor->rank = 2;
  tensor->shape[0] = rows;
  tensor->shape[1] = columns;
  tensor->strides[0] = columns * size;
  tensor->strides[1] = size;
}

heddle_status rt_check_room(const char *what, const heddle_tensor *tensor, int32_t dtype, int32_t rank, int64_t rows,
                            int64_t columns) {
  const int64_t shape[] = {rows, columns};
  heddle_status status = rt_check_here(what, tensor);
  if (status != HEDDLE_OK)
    return status;
  bool fits = tensor->dtype == dtype && tensor->rank == rank && (tensor->data || rows == 0);
  for (int32_t i = 0; fits && i < rank; i++)
    fits = tensor->shape[i] == shape[i];
  if (fits && rt_elements_overlap(tensor))
    return rt_fail(HEDDLE_BAD_TENSOR,
                   "generation: %s has strides by which its elements overlap; give each room of its own", what);
  if (fits)
    return HEDDLE_OK;
  rt_text text = {.length = 0};
  rt_append_shape(&text, shape, rank);
  return rt_fail(HEDDLE_BAD_TENSOR, "generation: %s must be %s %s, with data", what, rt_dtype_name(dtype), text.data);
}

// Results are written while inputs are still read.
heddle_status rt_check_apart(const rt_generation *g, const char *what, const heddle_tensor *room,
                             const heddle_tensor *other) {
  bool apart = !rt_overlap(room, other);
  for (int32_t i = 0; i < g->n_inputs; i++) {
    const heddle_tensor *input = &g->inputs[i];
    bool may_be_read = input->data && input->rank >= 0 && input->rank <= HEDDLE_RANK; // the entry refuses others
    apart &= !may_be_read || !rt_overlap(room, input);
  }
  return apart
             ? HEDDLE_OK
             : rt_fail(HEDDLE_BAD_TENSOR,
                       "generation: %s overlaps another tensor of the call in memory; give each room of its own", what);
}

void rt_put(const heddle_tensor *tensor, int64_t i, int64_t j, const void *value) {
  memcpy((uint8_t *)tensor->data + i * tensor->strides[0] + (tensor->rank > 1 ? j * tensor->strides[1] : 0), value,
         (size_t)rt_dtype_bytes(tensor->dtype));
}

// ---- Generation

// The first call: its logits are those of the first new token.
heddle_status rt_generation_begin(rt_generation *g) {
  rt_decoder *d = &g->decoder;
  if (d->encode >= 0) {
    heddle_status status = rt_decoder_encode(d, g->inputs, g->n_inputs);
    for (int32_t row = 0; row < d->rows; row++)
      g->tokens[row] = g->rules.start;
    return status == HEDDLE_OK ? rt_decoder_next(d, g->tokens) : status;
  }
  rt_repeated repeated;
  heddle_status status = rt_decoder_repeated(d, g->inputs, g->n_inputs, &repeated);
  if (status == HEDDLE_OK)
    status = rt_decoder_call(d, repeated.tensors, g->n_inputs, g->prompt->shape[1]);
  rt_repeated_release(&repeated);
  return status;
}

// After the first call of `step`: the logits of every row's last token, moved together.
static void keep_last(rt_decoder *d, int64_t tokens) {
  for (int64_t row = 0; d->positions && tokens > 1 && row < d->rows; row++)
    memmove(d->logits + row * d->vocabulary, d->logits + ((row + 1) * tokens - 1) * d->vocabulary,
            sizeof(float) * (size_t)d->vocabulary);
}

// Tells the listener.
static bool is_stopped(const rt_generation *g, int32_t step) {
  const heddle_generate_options *o = &g->options;
  return o->listener && o->listener(o->listener_context, step, g->tokens, g->decoder.rows);
}

// Greedy search and sampling: each text for itself.
static heddle_status choose_each(rt_generation *g, int64_t prompt, int64_t *length) {
  rt_decoder *d = &g->decoder;
  for (int32_t step = 0;; step++) {
    bool all_ended = true;
    for (int32_t row = 0; row < d->rows; row++) {
      float *logits = d->logits + row * d->vocabulary;
      int64_t token = g->rules.pad;
      if (!g->ended[row]) {
        float *changed = g->room;
        memcpy(changed, logits, sizeof(float) * (size_t)d->vocabulary);
        rt_rules_apply(&g->rules, row, NULL, step, changed, d->vocabulary);
        token = g->options.flags & HEDDLE_SAMPLE
                    ? rt_sample(d->on_logits, changed, d->vocabulary, &g->options, step, row, changed + d->vocabulary)
                    : d->on_logits->best(changed, d->vocabulary);
        if (g->scores)
          g->sums[row] += d->on_logits->log_probability(logits, d->vocabulary, token);
        g->ended[row] = rt_is_end(&g->rules, token);
      }
      g->tokens[row] = token;
      rt_put(g->sequences, row, prompt + step, &token);
      all_ended &= g->ended[row];
    }
    *length = prompt + step + 1;
    bool stopped = is_stopped(g, step);
    if (all_ended || stopped || step + 1 == g->options.steps)
      break;
    heddle_status status = rt_decoder_next(d, g->tokens);
    if (status != HEDDLE_OK)
      return status;
  }
  for (int32_t row = 0; g->scores && row < d->rows; row++) {
    float sum = (float)g->sums[row];
    rt_put(g->scores, row, 0, &sum);
  }
  return HEDDLE_OK;
}

static heddle_status search_beams(rt_generation *g, int64_t prompt, int64_t *length) {
  rt_decoder *d = &g->decoder;
  rt_beams *beams = rt_beams_create(d, &g->options, &g->rules);
  int64_t *text = malloc(sizeof(int64_t) * (size_t)g->options.steps);
  heddle_status status = beams && text ? HEDDLE_OK : rt_fail(HEDDLE_OUT_OF_MEMORY, "no memory for %d beams", d->rows);
  for (int32_t step = 0; status == HEDDLE_OK; step++) {
    bool go_on = rt_beams_step(beams, step, d->logits, d->vocabulary, g->tokens, g->parents);
    if (is_stopped(g, step) || !go_on)
      break;
    status = rt_decoder_follow(d, g->parents);
    if (status == HEDDLE_OK)
      status = rt_decoder_next(d, g->tokens);
  }
  for (int32_t b = 0; status == HEDDLE_OK && b < d->batch; b++) {
    float score;
    int32_t tokens = rt_beams_result(beams, b, text, &score);
    for (int32_t i = 0; i < tokens; i++)
      rt_put(g->sequences, b, prompt + i, &text[i]);
    *length = prompt + tokens > *length ? prompt + tokens : *length;
    if (g->scores)
      rt_put(g->scores, b, 0, &score);
  }
  rt_beams_free(beams);
  free(text);
  return status;
}

static heddle_status generate(rt_generation *g, int64_t *length) {
  rt_decoder *d = &g->decoder;
  int64_t prompt = g->prompt ? g->prompt->shape[1] : 1;
  heddle_status status = rt_generation_begin(g);
  if (status != HEDDLE_OK)
    return status;
  keep_last(d, prompt);
  g->room = malloc(3 * sizeof(float) * (size_t)d->vocabulary);
  if (!g->room)
    return rt_fail(HEDDLE_OUT_OF_MEMORY, "no memory for %lld logits", (long long)d->vocabulary);
  for (int32_t row = 0; row < d->batch; row++)
    for (int64_t i = 0; i < prompt + g->options.steps; i++) {
      int64_t token = i >= prompt ? g->rules.pad : g->prompt ? rt_integer_at(g->prompt, row, i) : g->rules.start;
      rt_put(g->sequences, row, i, &token);
    }
  *length = prompt;
  g->rules.texts = g->sequences;
  return d->beams > 1 ? search_beams(g, prompt, length) : choose_each(g, prompt, length);
}

// Checks everything that can be checked before the model is called.
heddle_status rt_generation_prepare(rt_generation *g, heddle_session *session, int64_t *columns) {
  rt_decoder *d = &g->decoder;
  int32_t batch = 0;
  heddle_status status = rt_decoder_open(d, session);
  for (int32_t i = 0; status == HEDDLE_OK && g->inputs && i < g->n_inputs; i++)
    status = rt_check_here(g->inputs[i].name ? g->inputs[i].name : "an input", &g->inputs[i]);
  if (status == HEDDLE_OK)
    status = rt_rules_read(&g->rules, d->model, &g->options);
  if (status == HEDDLE_OK)
    status = rt_decoder_batch(d, g->inputs, g->n_inputs, &batch);
  if (status == HEDDLE_OK && d->encode < 0)
    status = read_texts(d, g->inputs, g->n_inputs, &g->prompt);
  if (status == HEDDLE_OK && d->encode >= 0 && g->rules.start < 0)
    status = rt_fail(HEDDLE_INVALID_ARGUMENT,
                     "model '%s' does not tell decoder_start_token_id; give it in the options' tokens", d->model->name);
  if (status != HEDDLE_OK)
    return status;
  d->batch = batch;
  int64_t prompt = g->prompt ? g->prompt->shape[1] : 1;
  if (prompt > INT32_MAX - g->options.steps || rt_huge(batch, prompt + g->options.steps))
    return rt_fail(HEDDLE_OUT_OF_MEMORY,
                   "generation: %d texts of %lld and %d more tokens are more than 2147483647 tokens; give fewer", batch,
                   (long long)prompt, g->options.steps);
  *columns = prompt + g->options.steps;
  g->rules.prompt = (int32_t)prompt;
  return HEDDLE_OK;
}

void rt_generation_release(rt_generation *g) {
  rt_decoder_close(&g->decoder);
  free(g->rules.storage);
  free(g->tokens);
  free(g->parents);
  free(g->ended);
  free(g->sums);
  free(g->room);
}

static heddle_status run(rt_generation *g, heddle_session *session, int64_t *length) {
  int64_t columns;
  heddle_status status = rt_generation_prepare(g, session, &columns);
  if (status != HEDDLE_OK)
    return status;
  rt_decoder *d = &g->decoder;
  int32_t batch = d->batch;
  const heddle_tensor *room = g->sequences;
  if (!room->data && (batch > 0 || room->rank != 2 || room->shape[0] != 0 || room->shape[1] != columns)) {
    rt_set_shape(g->sequences, HEDDLE_I64, batch, columns);
    return HEDDLE_OK;
  }
  status = rt_check_room("sequences", g->sequences, HEDDLE_I64, 2, batch, columns);
  if (status == HEDDLE_OK && g->scores)
    status = rt_check_room("scores", g->scores, HEDDLE_F32, 1, batch, 0);
  if (status == HEDDLE_OK)
    status = rt_check_apart(g, "sequences", g->sequences, g->scores);
  if (status == HEDDLE_OK && g->scores)
    status = rt_check_apart(g, "scores", g->scores, NULL);
  if (status == HEDDLE_OK)
    status = rt_decoder_begin(d, batch, g->options.beams, g->options.flags & HEDDLE_KEEP_STATE, columns);
  if (status != HEDDLE_OK)
    return status;
  if (batch == 0) {
    *length = columns - g->options.steps;
    return HEDDLE_OK;
  }
  size_t rows = (size_t)d->rows;
  g->tokens = malloc(sizeof *g->tokens * rows);
  g->parents = malloc(sizeof *g->parents * rows);
  g->ended = calloc(rows, sizeof *g->ended);
  g->sums = calloc(rows, sizeof *g->sums);
  if (!g->tokens || !g->parents || !g->ended || !g->sums)
    return rt_fail(HEDDLE_OUT_OF_MEMORY, "no memory for %zu texts", rows);
  return generate(g, length);
}

heddle_status heddle_generate(heddle_session *session, const heddle_generate_options *options,
                              const heddle_tensor *inputs, int32_t n_inputs, heddle_tensor *sequences, int64_t *length,
                              const heddle_tensor *scores) {
  if (!session || !options || !sequences || !length)
    return rt_null(!session ? "session" : !options ? "options" : !sequences ? "sequences" : "length");
  rt_generation g = {.inputs = inputs, .n_inputs = n_inputs, .sequences = sequences, .scores = scores};
  g.decoder.sized_dim = -1;
  heddle_status status = rt_read_options(options, &g.options);
  if (status == HEDDLE_OK)
    status = rt_session_enter(session);
  if (status != HEDDLE_OK)
    return status;
  uint32_t mode = rt_float_mode_enter(); // a host that traps exceptions is none of the search's
  status = run(&g, session, length);
  rt_float_mode_leave(mode);
  rt_generation_release(&g);
  return rt_session_leave(session, status);
}
