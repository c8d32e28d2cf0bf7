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

// A score among others, by its place. The better one comes first, of equals that with the lower place.
typedef struct rank {
  float score;
  int32_t place;
} rank;

struct rt_beams {
  const heddle_generate_options *options;
  const rt_rules *rules;
  int32_t batch, width;
  int32_t kept;         // continuations that are looked at per source, at most
  text *texts;          // all of the following, which change places
  text *running, *next; // [batch][width]
  text *finished, *merged;
  bool *open; // [batch]: a running text may still beat the finished ones
  continuation *best;
  rank *ranks; // of a choice among finished texts and continuations
  int64_t *storage;
};

rt_beams *rt_beams_create(const heddle_generate_options *options, const rt_rules *rules, int32_t batch,
                          int64_t vocabulary) {
  int64_t width = options->beams, ends = (int64_t)rules->n_ends + 1;
  int64_t kept = (ends > 2 ? ends : 2) * width, all = width * vocabulary; // below 2^62, below 2^31
  kept = kept < all ? kept : all;
  size_t texts = 4 * (size_t)batch * (size_t)width, steps = (size_t)rules->steps, tokens;
  rt_beams *made = width + kept > INT32_MAX || __builtin_mul_overflow(texts, steps, &tokens) || tokens == SIZE_MAX
                       ? NULL
                       : calloc(1, sizeof *made);
  if (!made)
    return NULL;
  made->options = options;
  made->rules = rules;
  made->batch = batch;
  made->width = (int32_t)width;
  made->kept = (int32_t)kept;
  made->texts = calloc(texts + 1, sizeof *made->texts);
  made->open = calloc((size_t)batch + 1, sizeof *made->open);
  made->best = calloc((size_t)kept, sizeof *made->best);
  made->ranks = calloc((size_t)(kept + width), sizeof *made->ranks);
  made->storage = calloc(tokens + 1, sizeof *made->storage);
  if (!made->texts || !made->open || !made->best || !made->ranks || !made->storage) {
    rt_beams_free(made);
    return NULL;
  }
  texts /= 4;
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
  free(beams->ranks);
  free(beams->storage);
  free(beams);
}

// No number is the worst.
static bool comes_before(const rank *a, const rank *b) {
  bool above = a->score > b->score || (isnan(b->score) && !isnan(a->score));
  bool below = b->score > a->score || (isnan(a->score) && !isnan(b->score));
  return above || (!below && a->place < b->place);
}

static int compare_ranks(const void *a, const void *b) { return comes_before(a, b) ? -1 : comes_before(b, a) ? 1 : 0; }

// Puts the last of the ranks into a heap of those before it, the worst of all on top.
static void push_rank(rank *heap, int32_t count) {
  for (int32_t at = count - 1; at > 0 && comes_before(&heap[(at - 1) / 2], &heap[at]); at = (at - 1) / 2) {
    rank above = heap[(at - 1) / 2];
    heap[(at - 1) / 2] = heap[at];
    heap[at] = above;
  }
}

static void replace_worst(rank *heap, int32_t count, rank by) {
  int32_t at = 0;
  for (int32_t child; (child = 2 * at + 1) < count; at = child) {
    if (child + 1 < count && comes_before(&heap[child], &heap[child + 1]))
      child++;
    if (!comes_before(&by, &heap[child]))
      break;
    heap[at] = heap[child];
  }
  heap[at] = by;
}

// The best `kept` continuations of a source, best first, of equals the first.
static int32_t find_best(rt_beams *s, const text *running, const float *scores, int64_t vocabulary) {
  int32_t count = 0, place = 0;
  for (int32_t k = 0; k < s->width; k++) {
    const float *row = scores + (int64_t)k * vocabulary;
    for (int64_t v = 0; v < vocabulary; v++, place++) {
      rank own = {.score = row[v] + running[k].score, .place = place};
      if (count < s->kept) {
        s->ranks[count++] = own;
        push_rank(s->ranks, count);
      } else if (!(own.score < s->ranks[0].score) && comes_before(&own, &s->ranks[0])) {
        replace_worst(s->ranks, count, own);
      }
    }
  }
  qsort(s->ranks, (size_t)count, sizeof *s->ranks, compare_ranks);
  for (int32_t i = 0; i < count; i++)
    s->best[i] = (continuation){.score = s->ranks[i].score,
                                .parent = (int32_t)(s->ranks[i].place / vocabulary),
                                .token = s->ranks[i].place % vocabulary};
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

// The best `width` continuations that don't end go on.
static void go_on(rt_beams *s, int32_t count, const text *running, text *next) {
  for (int32_t i = 0; i < count; i++)
    s->ranks[i] = (rank){.score = s->best[i].score + (s->best[i].ends ? NEVER : 0), .place = i};
  qsort(s->ranks, (size_t)count, sizeof *s->ranks, compare_ranks);
  for (int32_t k = 0; k < s->width; k++) {
    int32_t i = s->ranks[k].place;
    extend(&next[k], &running[s->best[i].parent], &s->best[i], s->ranks[k].score, false);
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
  for (int32_t k = 0; k < width; k++)
    s->ranks[k] = (rank){.score = finished[k].score, .place = k};
  for (int32_t i = 0; i < count; i++) {
    float score = s->best[i].score / length;
    score += full ? NEVER : 0;
    score += s->open[source] ? 0 : NEVER;
    score += s->best[i].ends && i < width ? 0 : NEVER;
    s->ranks[width + i] = (rank){.score = score, .place = width + i};
  }
  qsort(s->ranks, (size_t)(width + count), sizeof *s->ranks, compare_ranks);
  for (int32_t k = 0; k < width; k++) {
    int32_t i = s->ranks[k].place;
    if (i < width)
      copy_text(&merged[k], &finished[i]);
    else
      extend(&merged[k], &running[s->best[i - width].parent], &s->best[i - width], s->ranks[k].score,
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
