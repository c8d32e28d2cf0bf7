// heddle_score: the log-probability of each token of given texts, by the same entries as generation.
#include "runtime/generate.h"

#include <stdlib.h>
#include <string.h>

#define MOST_LOGITS ((int64_t)1 << 24) // of one call, where the texts are cut into several

// The mask that says which tokens are padding, or NULL.
static const heddle_tensor *find_mask(const rt_generation *g) {
  const heddle_entry_desc *e = &g->decoder.model->entries[g->decoder.next];
  for (int32_t k = 0; k < g->n_inputs; k++) {
    const heddle_tensor *mask = &g->inputs[k];
    const char *name = mask->name ? mask->name : e->inputs[k].name; // the inputs were matched
    if (!strcmp(name, "attention_mask") && rt_is_integer(mask->dtype) && mask->rank == 2 &&
        mask->shape[0] == g->prompt->shape[0] && mask->shape[1] == g->prompt->shape[1])
      return mask;
  }
  return NULL;
}

static bool is_text(const heddle_tensor *mask, int64_t row, int64_t i) {
  return !mask || rt_integer_at(mask, row, i) != 0;
}

// A part of the tokens of every input that has as many as the texts.
static void cut(const heddle_tensor *inputs, int32_t n, int64_t tokens, int64_t from, int64_t count,
                heddle_tensor *parts) {
  for (int32_t i = 0; i < n; i++) {
    parts[i] = inputs[i];
    if (inputs[i].data && inputs[i].rank == 2 && inputs[i].shape[1] == tokens) {
      parts[i].data = (uint8_t *)inputs[i].data + from * inputs[i].strides[1];
      parts[i].shape[1] = count;
    }
  }
}

// A model may have an entry that computes just this, all tokens at once.
static heddle_status score_by_entry(const rt_generation *g, int32_t entry, const heddle_tensor *to) {
  heddle_tensor result = *to;
  result.name = NULL;
  return rt_run(g->decoder.session, entry, g->inputs, g->n_inputs, &result, 1);
}

// Decoder only: logits of token i say how probable token i + 1 is.
static heddle_status score_texts(rt_generation *g, const heddle_tensor *to) {
  rt_decoder *d = &g->decoder;
  int64_t tokens = g->prompt->shape[1], chunk = 1;
  const heddle_tensor *mask = find_mask(g);
  const float none = 0;
  heddle_tensor *parts = calloc((size_t)g->n_inputs + 1, sizeof *parts);
  heddle_status status = parts ? HEDDLE_OK : rt_fail(HEDDLE_OUT_OF_MEMORY, "no memory for the texts");
  for (int64_t row = 0; row < d->rows; row++)
    rt_put(to, row, 0, &none);
  for (int64_t from = 0; status == HEDDLE_OK && from + 1 < tokens; from += chunk) {
    if (from > 0 && d->positions) { // the first call has told the size of the vocabulary
      chunk = MOST_LOGITS / (d->vocabulary * d->rows);
      chunk = chunk < 1 ? 1 : chunk > tokens - 1 - from ? tokens - 1 - from : chunk;
    }
    cut(g->inputs, g->n_inputs, tokens, from, chunk, parts);
    status = rt_decoder_call(d, parts, g->n_inputs, chunk);
    for (int64_t row = 0; status == HEDDLE_OK && row < d->rows; row++)
      for (int64_t i = 0; i < chunk; i++) {
        int64_t token = rt_integer_at(g->prompt, row, from + i + 1);
        const float *logits = d->logits + (row * chunk + i) * d->vocabulary;
        bool counts =
            token >= 0 && token < d->vocabulary && is_text(mask, row, from + i) && is_text(mask, row, from + i + 1);
        float value = counts ? (float)d->on_logits->log_probability(logits, d->vocabulary, token) : 0;
        rt_put(to, row, from + i + 1, &value);
      }
  }
  free(parts);
  return status;
}

// Encoder-decoder: the texts are given token by token, after the start token.
static heddle_status score_labels(rt_generation *g, const heddle_tensor *labels, const heddle_tensor *to) {
  rt_decoder *d = &g->decoder;
  heddle_status status = rt_generation_begin(g);
  for (int64_t i = 0; status == HEDDLE_OK && i < labels->shape[1]; i++) {
    if (i > 0)
      status = rt_decoder_next(d, g->tokens);
    for (int64_t row = 0; status == HEDDLE_OK && row < d->rows; row++) {
      int64_t label = rt_integer_at(labels, row, i);
      bool counts = label >= 0 && label < d->vocabulary && label != g->rules.pad;
      float value =
          counts ? (float)d->on_logits->log_probability(d->logits + row * d->vocabulary, d->vocabulary, label) : 0;
      rt_put(to, row, i, &value);
      g->tokens[row] = label >= 0 ? label : g->rules.pad;
    }
  }
  return status;
}

static heddle_status run_score(rt_generation *g, heddle_session *session, const heddle_tensor *labels,
                               heddle_tensor *to) {
  int64_t columns;
  heddle_status status = rt_generation_prepare(g, session, &columns);
  if (status != HEDDLE_OK)
    return status;
  rt_decoder *d = &g->decoder;
  if (labels)
    status = rt_check_here("the labels", labels);
  if (status != HEDDLE_OK)
    return status;
  if (d->encode >= 0 && (!labels || labels->rank != 2 || !rt_is_integer(labels->dtype) ||
                         labels->shape[0] != d->batch || (!labels->data && d->batch)))
    return rt_fail(HEDDLE_BAD_TENSOR, "the labels must be integers [%d, tokens]", d->batch);
  const heddle_tensor *texts = d->encode >= 0 ? labels : g->prompt;
  if (texts->shape[1] < 0 || texts->shape[1] >= INT32_MAX || rt_huge(d->batch, texts->shape[1]))
    return rt_fail(HEDDLE_BAD_TENSOR, "%d texts of %lld tokens are more than 2147483647 tokens; give fewer", d->batch,
                   (long long)texts->shape[1]);
  if (!to->data && (d->batch > 0 || to->rank != 2 || to->shape[0] != 0 || to->shape[1] != texts->shape[1])) {
    rt_set_shape(to, HEDDLE_F32, d->batch, texts->shape[1]);
    return HEDDLE_OK;
  }
  status = rt_check_room("the log-probabilities", to, HEDDLE_F32, 2, d->batch, texts->shape[1]);
  if (status == HEDDLE_OK)
    status = rt_check_apart(g, "the log-probabilities", to, d->encode >= 0 ? labels : NULL);
  int32_t whole = -1;
  if (d->encode < 0 && !(g->options.flags & HEDDLE_KEEP_STATE) && d->batch > 0 &&
      heddle_entry_find(session->model, "log_probabilities", &whole) != HEDDLE_OK)
    whole = -1;
  if (status == HEDDLE_OK && whole >= 0)
    return score_by_entry(g, whole, to);
  if (status == HEDDLE_OK)
    status = rt_decoder_begin(d, d->batch, 1, g->options.flags & HEDDLE_KEEP_STATE, texts->shape[1] + 1);
  if (status != HEDDLE_OK || d->batch == 0 || texts->shape[1] == 0)
    return status;
  g->tokens = malloc(sizeof *g->tokens * (size_t)d->rows);
  if (!g->tokens)
    return rt_fail(HEDDLE_OUT_OF_MEMORY, "no memory for %d texts", d->rows);
  return d->encode >= 0 ? score_labels(g, labels, to) : score_texts(g, to);
}

heddle_status heddle_score(heddle_session *session, const heddle_generate_options *options, const heddle_tensor *inputs,
                           int32_t n_inputs, const heddle_tensor *labels, heddle_tensor *log_probabilities) {
  if (!session || !log_probabilities)
    return rt_null(session ? "log_probabilities" : "session");
  rt_generation g = {.inputs = inputs, .n_inputs = n_inputs};
  g.decoder.sized_dim = -1;
  heddle_generate_options all = {.struct_size = 0};
  heddle_status status = rt_read_options(NULL, &g.options);
  if (status == HEDDLE_OK)
    status = rt_take_options(&all, options, sizeof all);
  g.options.flags = all.flags & HEDDLE_KEEP_STATE; // only these matter here
  g.options.tokens = all.tokens;
  g.options.n_tokens = all.n_tokens;
  if (status == HEDDLE_OK)
    status = rt_session_enter(session);
  if (status != HEDDLE_OK)
    return status;
  uint32_t mode = rt_float_mode_enter(); // a host that traps exceptions is none of the search's
  status = run_score(&g, session, labels, log_probabilities);
  rt_float_mode_leave(mode);
  rt_generation_release(&g);
  return rt_session_leave(session, status);
}
