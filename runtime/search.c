// Beam search, step for step that of Hugging Face's `generate` (version 4.50 and later), in f32 as there: of the best
// continuations of all beams of a source, those that end become finished texts, ranked by sum / length ** penalty, and
// the best others go on. -1e9 stands for what must not win, and is added as there, because sums round to it.
#include "runtime/generate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NEVER (-1e9f)

void rt_log_softmax(float *x, int64_t n) {
  float largest = -INFINITY;
  for (int64_t i = 0; i < n; i++)
    largest = x[i] > largest ? x[i] : largest;
  double sum = 0;
  for (int64_t i = 0; i < n; i++)
    sum += expf(x[i] - largest);
  float shift = largest + (float)log(sum);
  for (int64_t i = 0; i < n; i++)
    x[i] -= shift;
}

int64_t rt_best(const float *x, int64_t n) {
  int64_t best = 0;
  for (int64_t i = 1; i < n; i++)
    best = x[i] > x[best] ? i : best;
  return best;
}

// A text that is being written, or is finished. `tokens` has room for all steps.
typedef struct text {
  int64_t *tokens;
  int32_t length, parent;
  float score;
  bool finished;
} text;

// A way to go on: beam `parent` with `token`.
typedef struct continuation {
  float score;
  int32_t parent;
  int64_t token;
  bool ends;
} continuation;

struct rt_beams {
  const heddle_generate_options *options;
  const rt_rules *rules;
  int32_t batch, width, kept; // kept: continuations that are looked at per source
  text *texts;                // all of the following, which change places
  text *running, *next;       // [batch][width]
  text *finished, *merged;
  bool *open; // [batch]: a running text may still beat the finished ones
  continuation *best;
  float *scores; // of a choice among finished texts and continuations
  bool *taken;
  int64_t *storage;
};

rt_beams *rt_beams_create(const heddle_generate_options *options, const rt_rules *rules, int32_t batch) {
  rt_beams *made = calloc(1, sizeof *made);
  if (!made)
    return NULL;
  int32_t width = options->beams, ends = rules->n_ends + 1;
  size_t texts = (size_t)batch * (size_t)width, steps = (size_t)rules->steps;
  made->options = options;
  made->rules = rules;
  made->batch = batch;
  made->width = width;
  made->kept = (ends > 2 ? ends : 2) * width;
  made->texts = calloc(4 * texts + 1, sizeof *made->texts);
  made->open = calloc((size_t)batch + 1, sizeof *made->open);
  made->best = calloc((size_t)made->kept, sizeof *made->best);
  made->scores = calloc((size_t)(made->kept + width), sizeof *made->scores);
  made->taken = calloc((size_t)(made->kept + width), sizeof *made->taken);
  made->storage = calloc(4 * texts * steps + 1, sizeof *made->storage);
  if (!made->texts || !made->open || !made->best || !made->scores || !made->taken || !made->storage) {
    rt_beams_free(made);
    return NULL;
  }
  made->running = made->texts;
  made->next = made->running + texts;
  made->finished = made->next + texts;
  made->merged = made->finished + texts;
  for (size_t i = 0; i < 4 * texts; i++)
    made->texts[i] = (text){.tokens = made->storage + i * steps, .score = NEVER};
  for (int32_t b = 0; b < batch; b++) {
    made->open[b] = true;
    made->running[(size_t)b * (size_t)width].score = 0; // at first all beams are equal: only one of them counts
  }
  return made;
}

void rt_beams_free(rt_beams *beams) {
  if (!beams)
    return;
  free(beams->texts);
  free(beams->open);
  free(beams->best);
  free(beams->scores);
  free(beams->taken);
  free(beams->storage);
  free(beams);
}

// The best `kept` continuations of a source, best first, of equals the first.
static int32_t find_best(rt_beams *s, const text *running, const float *scores, int64_t vocabulary) {
  int32_t count = 0;
  for (int32_t k = 0; k < s->width; k++) {
    const float *row = scores + (int64_t)k * vocabulary;
    for (int64_t v = 0; v < vocabulary; v++) {
      float score = row[v] + running[k].score;
      if (count == s->kept && !(score > s->best[count - 1].score))
        continue;
      int32_t at = count < s->kept ? count++ : count - 1;
      for (; at > 0 && score > s->best[at - 1].score; at--)
        s->best[at] = s->best[at - 1];
      s->best[at] = (continuation){.score = score, .parent = k, .token = v};
    }
  }
  return count;
}

static void copy_text(text *to, const text *from) {
  memcpy(to->tokens, from->tokens, sizeof(int64_t) * (size_t)from->length);
  to->length = from->length;
  to->score = from->score;
  to->finished = from->finished;
}

static void extend(text *to, const text *parent, const continuation *by, float score, bool finished) {
  copy_text(to, parent);
  to->tokens[to->length++] = by->token;
  to->score = score;
  to->finished = finished;
}

// The number of the best score that was not taken yet, the first of equals; takes it.
static int32_t take_best(float *scores, bool *taken, int32_t n) {
  int32_t best = -1;
  for (int32_t i = 0; i < n; i++)
    if (!taken[i] && (best < 0 || scores[i] > scores[best]))
      best = i;
  taken[best] = true;
  return best;
}

// The best `width` continuations that don't end go on.
static void go_on(rt_beams *s, int32_t count, const text *running, text *next) {
  memset(s->taken, 0, (size_t)count * sizeof *s->taken);
  for (int32_t i = 0; i < count; i++)
    s->scores[i] = s->best[i].score + (s->best[i].ends ? NEVER : 0);
  for (int32_t k = 0; k < s->width; k++) {
    int32_t i = take_best(s->scores, s->taken, count);
    extend(&next[k], &running[s->best[i].parent], &s->best[i], s->scores[i], false);
    next[k].parent = s->best[i].parent;
  }
}

static bool all_finished(const rt_beams *s, const text *texts) {
  bool all = true;
  for (int32_t k = 0; k < s->width; k++)
    all &= texts[k].finished;
  return all;
}

// Of the finished texts and those of the `width` best continuations that end, the best `width` are kept.
static void finish(rt_beams *s, int32_t source, int32_t step, int32_t count, const text *running, const text *finished,
                   text *merged) {
  float length = (float)pow(step + 1, s->options->length_penalty);
  bool full = s->options->early_stopping == HEDDLE_STOP_WHEN_FULL && all_finished(s, finished);
  int32_t width = s->width;
  memset(s->taken, 0, (size_t)(width + count) * sizeof *s->taken);
  for (int32_t k = 0; k < width; k++)
    s->scores[k] = finished[k].score;
  for (int32_t i = 0; i < count; i++) {
    float score = s->best[i].score / length;
    score += full ? NEVER : 0;
    score += s->open[source] ? 0 : NEVER;
    score += s->best[i].ends && i < width ? 0 : NEVER;
    s->scores[width + i] = score;
  }
  for (int32_t k = 0; k < width; k++) {
    int32_t i = take_best(s->scores, s->taken, width + count);
    if (i < width)
      copy_text(&merged[k], &finished[i]);
    else
      extend(&merged[k], &running[s->best[i - width].parent], &s->best[i - width], s->scores[i],
             s->best[i - width].ends && i - width < width);
  }
}

// Whether the best running text, at its present length (or, never to stop early, at the most favourable one), would
// beat one of the finished ones.
static bool may_improve(const rt_beams *s, int32_t step, const text *running, const text *finished) {
  int32_t length = step + 1;
  if (s->options->early_stopping == HEDDLE_STOP_NEVER && s->options->length_penalty > 0)
    length = s->rules->steps;
  float best = running[0].score / (float)pow(length, s->options->length_penalty), worst = finished[0].score;
  bool may = false;
  for (int32_t k = 1; k < s->width; k++)
    worst = finished[k].score < worst ? finished[k].score : worst;
  for (int32_t k = 0; k < s->width; k++)
    may |= best > (finished[k].finished ? worst : NEVER);
  return may;
}

static void swap(text **a, text **b) {
  text *kept = *a;
  *a = *b;
  *b = kept;
}

bool rt_beams_step(rt_beams *s, int32_t step, float *logits, int64_t vocabulary, int64_t *tokens, int32_t *parents) {
  bool any_open = false, any_full = true, can_go_on = false;
  for (int32_t row = 0; row < s->batch * s->width; row++) {
    rt_log_softmax(logits + row * vocabulary, vocabulary);
    rt_rules_apply(s->rules, row / s->width, s->running[row].tokens, step, logits + row * vocabulary, vocabulary);
  }
  for (int32_t b = 0; b < s->batch; b++) {
    size_t first = (size_t)b * (size_t)s->width;
    int32_t count = find_best(s, s->running + first, logits + (int64_t)first * vocabulary, vocabulary);
    for (int32_t i = 0; i < count; i++) {
      s->best[i].ends = step + 1 == s->rules->steps || rt_is_end(s->rules, s->best[i].token);
      can_go_on |= !s->best[i].ends;
    }
    go_on(s, count, s->running + first, s->next + first);
    finish(s, b, step, count, s->running + first, s->finished + first, s->merged + first);
  }
  swap(&s->running, &s->next);
  swap(&s->finished, &s->merged);
  for (int32_t b = 0; b < s->batch; b++) {
    const text *running = s->running + (size_t)b * (size_t)s->width;
    const text *finished = s->finished + (size_t)b * (size_t)s->width;
    s->open[b] = s->open[b] && may_improve(s, step, running, finished);
    any_open |= s->open[b];
    any_full &= all_finished(s, finished);
    for (int32_t k = 0; k < s->width; k++) {
      tokens[b * s->width + k] = running[k].tokens[running[k].length - 1];
      parents[b * s->width + k] = running[k].parent;
    }
  }
  return any_open && can_go_on && !(any_full && s->options->early_stopping == HEDDLE_STOP_WHEN_FULL);
}

int32_t rt_beams_result(const rt_beams *s, int32_t source, int64_t *tokens, float *score) {
  const text *best = s->finished + (size_t)source * (size_t)s->width;
  memcpy(tokens, best->tokens, sizeof(int64_t) * (size_t)best->length);
  *score = best->score;
  return best->length;
}
