// The token ids that generation needs, from the options or the model, and what they force and forbid. The order is that
// of Hugging Face's logits processors: forbidden tokens, no end before its time, a forced first and last token.
#include "runtime/generate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Ids of a name: those of the options, else those of the model. Returns how many; those that fit go to `ids`.
static int32_t find_ids(const heddle_model_desc *model, const heddle_generate_options *options, const char *name,
                        int64_t *ids) {
  int32_t count = 0;
  for (int32_t i = 0; i < options->n_tokens; i++) {
    if (options->tokens[i].name && !strcmp(options->tokens[i].name, name)) {
      if (ids)
        ids[count] = options->tokens[i].id;
      count++;
    }
  }
  for (int32_t i = 0, own = count; own == 0 && i < model->n_tokens; i++) {
    if (!strcmp(model->tokens[i].name, name)) {
      if (ids)
        ids[count] = model->tokens[i].id;
      count++;
    }
  }
  return count;
}

static int64_t find_id(const heddle_model_desc *model, const heddle_generate_options *options, const char *name,
                       int64_t otherwise) {
  int64_t *ids = malloc(sizeof *ids * ((size_t)find_ids(model, options, name, NULL) + 1));
  int64_t id = ids && find_ids(model, options, name, ids) ? ids[0] : otherwise;
  free(ids);
  return id;
}

heddle_status rt_rules_read(rt_rules *rules, const heddle_model_desc *model, const heddle_generate_options *options) {
  *rules = (rt_rules){.steps = options->steps, .min_steps = options->min_steps};
  if (options->n_tokens < 0 || (options->n_tokens > 0 && !options->tokens))
    return rt_fail(HEDDLE_INVALID_ARGUMENT, "the options' list of tokens is NULL or its length (%d) negative",
                   options->n_tokens);
  const char *const lists[] = {"eos_token_id", "forced_eos_token_id", "bad_words_ids"};
  int32_t counts[3], all = 0;
  for (int i = 0; i < 3; i++)
    all += counts[i] = find_ids(model, options, lists[i], NULL);
  int64_t *at = rules->storage = malloc(sizeof *at * ((size_t)all + 1));
  if (!at)
    return rt_fail(HEDDLE_OUT_OF_MEMORY, "no memory for %d token ids", all);
  const int64_t **to[] = {&rules->ends, &rules->forced_ends, &rules->forbidden};
  for (int i = 0; i < 3; i++) {
    *to[i] = at;
    find_ids(model, options, lists[i], at);
    at += counts[i];
  }
  rules->n_ends = counts[0];
  rules->n_forced_ends = counts[1];
  rules->n_forbidden = counts[2];
  rules->start = find_id(model, options, "decoder_start_token_id", find_id(model, options, "bos_token_id", -1));
  rules->pad = find_id(model, options, "pad_token_id", rules->n_ends ? rules->ends[0] : 0);
  rules->forced_bos = find_id(model, options, "forced_bos_token_id", -1);
  return HEDDLE_OK;
}

bool rt_is_end(const rt_rules *rules, int64_t token) {
  for (int32_t i = 0; i < rules->n_ends; i++)
    if (rules->ends[i] == token)
      return true;
  return false;
}

static void force(const int64_t *ids, int32_t n, float *scores, int64_t vocabulary) {
  for (int64_t v = 0; v < vocabulary; v++)
    scores[v] = -INFINITY;
  for (int32_t i = 0; i < n; i++)
    if (ids[i] >= 0 && ids[i] < vocabulary)
      scores[ids[i]] = 0;
}

void rt_rules_apply(const rt_rules *rules, int32_t step, float *scores, int64_t vocabulary) {
  for (int32_t i = 0; i < rules->n_forbidden; i++) {
    int64_t id = rules->forbidden[i];
    if (id >= 0 && id < vocabulary && !rt_is_end(rules, id))
      scores[id] = -INFINITY;
  }
  for (int32_t i = 0; step < rules->min_steps && i < rules->n_ends; i++)
    if (rules->ends[i] >= 0 && rules->ends[i] < vocabulary)
      scores[rules->ends[i]] = -INFINITY;
  if (rules->forced_bos >= 0 && rules->prompt + step == 1)
    force(&rules->forced_bos, 1, scores, vocabulary);
  if (rules->n_forced_ends > 0 && step + 1 == rules->steps)
    force(rules->forced_ends, rules->n_forced_ends, scores, vocabulary);
}
