// The token ids that generation needs, from the options or the model, and what they force and forbid. The order is that
// of Hugging Face's logits processors: forbidden tokens, no end before its time, a forced first and last token.
#include "runtime/generate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char phrase_prefix[] = "bad_words_ids."; // and a number: the tokens of one phrase, in order

static bool has_name(const heddle_token *tokens, int32_t n, const char *name) {
  for (int32_t i = 0; i < n; i++)
    if (!strcmp(tokens[i].name, name))
      return true;
  return false;
}

// The ids of a name, in order. Returns how many; they go to `ids`, where that is given.
static int32_t find_ids(const heddle_token *tokens, int32_t n, const char *name, int64_t *ids) {
  int32_t count = 0;
  for (int32_t i = 0; i < n; i++) {
    if (strcmp(tokens[i].name, name) != 0)
      continue;
    if (ids)
      ids[count] = tokens[i].id;
    count++;
  }
  return count;
}

static int64_t find_id(const heddle_token *tokens, int32_t n, const char *name, int64_t otherwise) {
  for (int32_t i = 0; i < n; i++)
    if (!strcmp(tokens[i].name, name))
      return tokens[i].id;
  return otherwise;
}

static int compare_ids(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return x < y ? -1 : x > y;
}

// Ascending, each once; returns how many are left.
static int32_t sort_ids(int64_t *ids, int32_t n) {
  int32_t count = 0;
  qsort(ids, (size_t)n, sizeof *ids, compare_ids);
  for (int32_t i = 0; i < n; i++)
    if (i == 0 || ids[i] != ids[count - 1])
      ids[count++] = ids[i];
  return count;
}

// Of every phrase its length, then its ids. Returns how many numbers that is: at most two per token.
static int32_t list_phrases(const heddle_token *tokens, int32_t n, int64_t *to) {
  int32_t count = 0;
  for (int32_t i = 0; i < n; i++)
    if (!strncmp(tokens[i].name, phrase_prefix, sizeof phrase_prefix - 1) && !has_name(tokens, i, tokens[i].name)) {
      int32_t length = find_ids(tokens, n, tokens[i].name, to + count + 1);
      to[count] = length;
      count += 1 + length;
    }
  return count;
}

heddle_status rt_rules_read(rt_rules *rules, const heddle_model_desc *model, const heddle_generate_options *options) {
  *rules = (rt_rules){.steps = options->steps, .min_steps = options->min_steps};
  if (options->n_tokens < 0 || (options->n_tokens > 0 && !options->tokens))
    return rt_fail(HEDDLE_INVALID_ARGUMENT, "the options' list of tokens is NULL or its length (%d) negative",
                   options->n_tokens);
  for (int32_t i = 0; i < options->n_tokens; i++)
    if (!options->tokens[i].name)
      return rt_fail(HEDDLE_INVALID_ARGUMENT, "the options' token %d has no name", i);
  size_t most = (size_t)options->n_tokens + (size_t)model->n_tokens;
  heddle_token *all = malloc(sizeof *all * (most + 1));
  int64_t *at = rules->storage = malloc(sizeof *at * (2 * most + 1));
  if (!all || !at) {
    free(all);
    return rt_fail(HEDDLE_OUT_OF_MEMORY, "no memory for %zu token ids", most);
  }
  int32_t n = options->n_tokens;
  if (n > 0)
    memcpy(all, options->tokens, sizeof *all * (size_t)n);
  for (int32_t i = 0; i < model->n_tokens; i++)
    if (!has_name(all, options->n_tokens, model->tokens[i].name))
      all[n++] = (heddle_token){.name = model->tokens[i].name, .id = model->tokens[i].id};

  int32_t ends = find_ids(all, n, "eos_token_id", at);
  rules->pad = find_id(all, n, "pad_token_id", ends ? at[0] : 0);
  rules->ends = at;
  at += rules->n_ends = sort_ids(at, ends);
  rules->forced_ends = at;
  at += rules->n_forced_ends = find_ids(all, n, "forced_eos_token_id", at);
  rules->forbidden = at;
  at += rules->n_forbidden = find_ids(all, n, "bad_words_ids", at);
  rules->phrases = at;
  rules->n_phrases = list_phrases(all, n, at);
  rules->start = find_id(all, n, "decoder_start_token_id", find_id(all, n, "bos_token_id", -1));
  rules->forced_bos = find_id(all, n, "forced_bos_token_id", -1);
  free(all);
  return HEDDLE_OK;
}

bool rt_is_end(const rt_rules *rules, int64_t token) {
  return rules->n_ends > 0 &&
         bsearch(&token, rules->ends, (size_t)rules->n_ends, sizeof *rules->ends, compare_ids) != NULL;
}

static void force(const int64_t *ids, int32_t n, float *scores, int64_t vocabulary) {
  for (int64_t v = 0; v < vocabulary; v++)
    scores[v] = -INFINITY;
  for (int32_t i = 0; i < n; i++)
    if (ids[i] >= 0 && ids[i] < vocabulary)
      scores[ids[i]] = 0;
}

// Whether the newest tokens of a text are all but the last one of a phrase. `tokens`: its `step` new ones; NULL: they
// stand in `texts`, behind its prompt. As in transformers, a phrase that is longer than the text is not looked at.
static bool comes_up(const rt_rules *rules, const int64_t *phrase, int64_t length, int32_t source,
                     const int64_t *tokens, int32_t step) {
  int64_t place = rules->prompt + step - (length - 1);
  if (place < 1)
    return false;
  for (int64_t i = 0; i + 1 < length; i++, place++) {
    int64_t token =
        tokens && place >= rules->prompt ? tokens[place - rules->prompt] : rt_integer_at(rules->texts, source, place);
    if (token != phrase[i])
      return false;
  }
  return true;
}

void rt_rules_apply(const rt_rules *rules, int32_t source, const int64_t *tokens, int32_t step, float *scores,
                    int64_t vocabulary) {
  for (int32_t i = 0; i < rules->n_forbidden; i++) {
    int64_t id = rules->forbidden[i];
    if (id >= 0 && id < vocabulary && !rt_is_end(rules, id))
      scores[id] = -INFINITY;
  }
  for (int32_t i = 0; i < rules->n_phrases; i += 1 + (int32_t)rules->phrases[i]) {
    int64_t length = rules->phrases[i], last = rules->phrases[i + length];
    if (last >= 0 && last < vocabulary && comes_up(rules, rules->phrases + i + 1, length, source, tokens, step))
      scores[last] = -INFINITY;
  }
  for (int32_t i = 0; step < rules->min_steps && i < rules->n_ends; i++)
    if (rules->ends[i] >= 0 && rules->ends[i] < vocabulary)
      scores[rules->ends[i]] = -INFINITY;
  if (rules->forced_bos >= 0 && rules->prompt + step == 1)
    force(&rules->forced_bos, 1, scores, vocabulary);
  if (rules->n_forced_ends > 0 && step + 1 == rules->steps)
    force(rules->forced_ends, rules->n_forced_ends, scores, vocabulary);
}
