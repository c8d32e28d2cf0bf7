// What the files of text generation share: generate.c drives the calls, decoder.c knows which entries of a model they
// go to, search.c and sample.c choose tokens from logits, and logits.c is what both do to many of these at a time. The
// session is entered once, for the whole of a call.
#ifndef HEDDLE_GENERATE_H
#define HEDDLE_GENERATE_H

#include "runtime/logits.h"
#include "runtime/runtime.h"

#include <math.h>
#include <stdbool.h>

// ---- decoder.c: a model that tells logits of the next token

typedef struct rt_decoder {
  heddle_session *session;
  const heddle_model_desc *model;
  const rt_logit_functions *on_logits;
  int32_t encode;   // entry for the source; -1: decoder only
  int32_t next;     // entry for tokens
  int32_t reorder;  // entry that follows the beams; -1: there is none
  bool beams_apart; // tokens are [B, K] and parents numbers of beams, else both are of rows
  bool positions;   // a call gives the logits of all its tokens, not of the last only
  int32_t batch, beams, rows;
  int64_t vocabulary;
  float *logits;    // after a call: rows x (tokens x) vocabulary
  void *raw;        // as the model gave them, where that is not f32
  int64_t capacity; // elements of both
  int32_t sized_dim;
  int64_t capacity_before; // of that dim, to be put back; sized_dim -1: none
} rt_decoder;

heddle_status rt_decoder_open(rt_decoder *decoder, heddle_session *session);
// The number of texts that these inputs (of `encode`, else of `step`) hold; checks them as the entry will.
heddle_status rt_decoder_batch(const rt_decoder *decoder, const heddle_tensor *inputs, int32_t n, int32_t *batch);
heddle_status rt_decoder_begin(rt_decoder *decoder, int32_t batch, int32_t beams, bool keep_state, int64_t positions);
// The source, each repeated for its beams where the rows of the model are hypotheses.
heddle_status rt_decoder_encode(rt_decoder *decoder, const heddle_tensor *inputs, int32_t n);
// A call with these inputs of the entry for tokens; `tokens` of them per row. Leaves the logits.
heddle_status rt_decoder_call(rt_decoder *decoder, const heddle_tensor *inputs, int32_t n, int64_t tokens);
heddle_status rt_decoder_next(rt_decoder *decoder, const int64_t *tokens); // one per row
heddle_status rt_decoder_follow(rt_decoder *decoder, const int32_t *parents);
void rt_decoder_close(rt_decoder *decoder);

// Inputs that the texts are read from; each text as often as there are beams, where the model's rows are hypotheses.
// Release it also after a failure.
typedef struct rt_repeated {
  const heddle_tensor *tensors;
  heddle_tensor *copies;
  void **owned;
  int32_t n;
} rt_repeated;
heddle_status rt_decoder_repeated(rt_decoder *decoder, const heddle_tensor *inputs, int32_t n, rt_repeated *out);
void rt_repeated_release(rt_repeated *repeated);

// ---- tokens of the model and the options, and what they do to scores

typedef struct rt_rules {
  int64_t start, pad, forced_bos; // -1: none
  const int64_t *ends;            // ascending
  int32_t n_ends;
  const int64_t *forced_ends;
  int32_t n_forced_ends;
  const int64_t *forbidden;
  int32_t n_forbidden;
  const int64_t *phrases; // that must not come up: of each its length, then its tokens
  int32_t n_phrases;      // numbers in `phrases`
  int32_t steps, min_steps, prompt;
  const heddle_tensor *texts; // [sources, tokens]: they begin with the prompts
  int64_t *storage;           // of the lists
} rt_rules;

heddle_status rt_rules_read(rt_rules *rules, const heddle_model_desc *model, const heddle_generate_options *options);
bool rt_is_end(const rt_rules *rules, int64_t token);
// Changes the scores (logits or log-probabilities) of a row for new token number `step`. `tokens`: the row's new ones
// so far; NULL: they stand in `texts`.
void rt_rules_apply(const rt_rules *rules, int32_t source, const int64_t *tokens, int32_t step, float *scores,
                    int64_t vocabulary);

// ---- search.c and sample.c

// Below, at or above 0 as `a` is the worse, equal or the better one. What is no number is the worst.
static inline int rt_compare_scores(float a, float b) {
  bool above = a > b || (isnan(b) && !isnan(a)), below = b > a || (isnan(a) && !isnan(b));
  return above - below;
}

// ---- search.c
typedef struct rt_beams rt_beams;
rt_beams *rt_beams_create(const rt_decoder *decoder, const heddle_generate_options *options,
                          const rt_rules *rules); // NULL: no memory
void rt_beams_free(rt_beams *beams);
// Takes the logits of all rows for new token number `step` (they are changed); gives the next token and the parent of
// every row. False: nothing is left to do.
bool rt_beams_step(rt_beams *beams, int32_t step, float *logits, int64_t vocabulary, int64_t *tokens, int32_t *parents);
// The best finished text of a source or, where none is, the best one: its tokens; returns how many there are.
int32_t rt_beams_result(const rt_beams *beams, int32_t source, int64_t *tokens, float *score);

// ---- sample.c
void rt_philox(uint64_t key, const uint32_t counter[4], uint32_t out[4]);
// Chooses from the logits of a row (they are changed); `room` is 8 * n bytes of scratch.
int64_t rt_sample(const rt_logit_functions *on_logits, float *logits, int64_t n, const heddle_generate_options *options,
                  int32_t step, int32_t row, void *room);

// ---- generate.c

typedef struct rt_generation {
  rt_decoder decoder;
  rt_rules rules;
  heddle_generate_options options;
  const heddle_tensor *inputs;
  int32_t n_inputs;
  const heddle_tensor *prompt; // decoder only
  heddle_tensor *sequences;
  const heddle_tensor *scores;
  int64_t *tokens; // of the rows
  int32_t *parents;
  bool *ended;
  double *sums;
  void *room; // 3 floats per token of the vocabulary
} rt_generation;

heddle_status rt_read_options(const heddle_generate_options *given, heddle_generate_options *all);
// Checks everything that can be checked before the model is called; *columns: tokens of a text with its prompt.
heddle_status rt_generation_prepare(rt_generation *g, heddle_session *session, int64_t *columns);
// The first call of the model: its logits are those of the first new token.
heddle_status rt_generation_begin(rt_generation *g);
void rt_generation_release(rt_generation *g);

bool rt_huge(int64_t rows, int64_t columns); // more elements than a tensor may have
int64_t rt_integer_at(const heddle_tensor *tensor, int64_t i, int64_t j);
void rt_put(const heddle_tensor *tensor, int64_t i, int64_t j, const void *value);
void rt_set_shape(heddle_tensor *tensor, int32_t dtype, int64_t rows, int64_t columns); // dense
heddle_status rt_check_apart(const rt_generation *g, const char *what, const heddle_tensor *room,
                             const heddle_tensor *other);
heddle_status rt_check_here(const char *what, const heddle_tensor *tensor); // in main memory
heddle_status rt_check_room(const char *what, const heddle_tensor *tensor, int32_t dtype, int32_t rank, int64_t rows,
                            int64_t columns);

#endif
