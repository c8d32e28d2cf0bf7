// Beam search, step for step that of Hugging Face's `generate` (version 4.50 and later), in f32 as there: of the best
// continuations of all beams of a source, those that end become finished texts, ranked by sum / length ** penalty, and
// the best others go on. -1e9 stands for what must not win, and is added as there, because sums round to it.
#include "runtime/generate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NEVER (-1e9f)

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
  heddle_session *session;
  const heddle_generate_options *options;
  const rt_rules *rules;
  const rt_logit_functions *on_logits;
  int32_t batch, width;
  int32_t kept;         // continuations that are looked at per source, at most
  text *texts;          // all of the following, which change places
  text *running, *next; // [batch][width]
  text *finished, *merged;
  bool *open;         // [batch]: a running text may still beat the finished ones
  continuation *best; // [batch][kept]
  int32_t *counts;    // [batch]: how many of these there are
  rank *ranks;        // [batch][kept + width]: of a choice among finished texts and continuations
  int64_t *storage;
};

rt_beams *rt_beams_create(const rt_decoder *decoder, const heddle_generate_options *options, const rt_rules *rules) {
  int32_t batch = decoder->batch;
  int64_t width = options->beams, ends = (int64_t)rules->n_ends + 1;
  int64_t kept = (ends > 2 ? ends : 2) * width, all = width * decoder->vocabulary; // below 2^62, below 2^31
  kept = kept < all ? kept : all;
  size_t texts = 4 * (size_t)batch * (size_t)width, steps = (size_t)rules->steps, tokens, ranks;
  rt_beams *made = width + kept > INT32_MAX || __builtin_mul_overflow(texts, steps, &tokens) || tokens == SIZE_MAX ||
                           __builtin_mul_overflow((size_t)batch, (size_t)(width + kept), &ranks)
                       ? NULL
                       : calloc(1, sizeof *made);
  if (!made)
    return NULL;
  made->session = decoder->session;
  made->options = options;
  made->rules = rules;
  made->on_logits = decoder->on_logits;
  made->batch = batch;
  made->width = (int32_t)width;
  made->kept = (int32_t)kept;
  made->texts = calloc(texts + 1, sizeof *made->texts);
  made->open = calloc((size_t)batch + 1, sizeof *made->open);
  made->best = calloc((size_t)batch * (size_t)kept, sizeof *made->best);
  made->counts = calloc((size_t)batch + 1, sizeof *made->counts);
  made->ranks = calloc(ranks, sizeof *made->ranks);
  made->storage = calloc(tokens + 1, sizeof *made->storage);
  if (!made->texts || !made->open || !made->best || !made->counts || !made->ranks || !made->storage) {
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
  free(beams->counts);
  free(beams->ranks);
  free(beams->storage);
  free(beams);
}

static bool comes_before(const rank *a, const rank *b) {
  int order = rt_compare_scores(a->score, b->score);
  return order > 0 || (order == 0 && a->place < b->place);
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

// One step of a search, whose rows and sources the threads of the session share.
typedef struct step_of_search {
  rt_beams *beams;
  float *logits; // of all rows
  int64_t vocabulary;
  int32_t number;
} step_of_search;

static int score_row(void *user_context, int row, uint8_t *closure) {
  (void)user_context;
  const step_of_search *step = (const step_of_search *)closure;
  const rt_beams *s = step->beams;
  float *scores = step->logits + row * step->vocabulary;
  s->on_logits->log_softmax(scores, step->vocabulary);
  rt_rules_apply(s->rules, row / s->width, s->running[row].tokens, step->number, scores, step->vocabulary);
  return 0;
}

static rank *ranks_of(const rt_beams *s, int32_t source) {
  return s->ranks + (size_t)source * (size_t)(s->kept + s->width);
}

static continuation *best_of(const rt_beams *s, int32_t source) { return s->best + (size_t)source * (size_t)s->kept; }

// The best `kept` continuations of a source, best first, of equals the first.
static int find_best(void *user_context, int source, uint8_t *closure) {
  (void)user_context;
  const step_of_search *step = (const step_of_search *)closure;
  const rt_beams *s = step->beams;
  int64_t n = step->vocabulary, first = (int64_t)source * s->width;
  rank *ranks = ranks_of(s, source);
  int32_t count = 0;
  for (int32_t k = 0; k < s->width; k++) {
    const float *row = step->logits + (first + k) * n;
    float sum = s->running[first + k].score;
    for (int64_t v = 0; v < n; v++) {
      if (count == s->kept) {
        v = s->on_logits->next_best(row, n, v, sum, ranks[0].score);
        if (v == n)
          break;
      }
      rank own = {.score = row[v] + sum, .place = (int32_t)(k * n + v)};
      if (count < s->kept) {
        ranks[count++] = own;
        push_rank(ranks, count);
      } else if (comes_before(&own, &ranks[0])) {
        replace_worst(ranks, count, own);
      }
    }
  }
  qsort(ranks, (size_t)count, sizeof *ranks, compare_ranks);
  continuation *best = best_of(s, source);
  for (int32_t i = 0; i < count; i++) {
    int64_t token = ranks[i].place % n;
    best[i] = (continuation){.score = ranks[i].score,
                             .parent = (int32_t)(ranks[i].place / n),
                             .token = token,
                             .ends = step->number + 1 == s->rules->steps || rt_is_end(s->rules, token)};
  }
  s->counts[source] = count;
  return 0;
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
static void go_on(const rt_beams *s, int32_t source) {
  size_t first = (size_t)source * (size_t)s->width;
  const continuation *best = best_of(s, source);
  rank *ranks = ranks_of(s, source);
  for (int32_t i = 0; i < s->counts[source]; i++)
    ranks[i] = (rank){.score = best[i].score + (best[i].ends ? NEVER : 0), .place = i};
  qsort(ranks, (size_t)s->counts[source], sizeof *ranks, compare_ranks);
  for (int32_t k = 0; k < s->width; k++) {
    const continuation *by = &best[ranks[k].place];
    text *next = &s->next[first + (size_t)k];
    extend(next, &s->running[first + (size_t)by->parent], by, ranks[k].score, false);
    next->parent = by->parent;
  }
}

static bool all_finished(const rt_beams *s, const text *texts) {
  bool all = true;
  for (int32_t k = 0; k < s->width; k++)
    all &= texts[k].finished;
  return all;
}

// Of the finished texts and those of the `width` best continuations that end, the best `width` are kept.
static void finish(const rt_beams *s, int32_t source, int32_t step) {
  size_t first = (size_t)source * (size_t)s->width;
  const text *running = s->running + first, *finished = s->finished + first;
  text *merged = s->merged + first;
  const continuation *best = best_of(s, source);
  rank *ranks = ranks_of(s, source);
  float length = (float)pow(step + 1, s->options->length_penalty);
  bool full = s->options->early_stopping == HEDDLE_STOP_WHEN_FULL && all_finished(s, finished);
  int32_t width = s->width, count = s->counts[source];
  for (int32_t k = 0; k < width; k++)
    ranks[k] = (rank){.score = finished[k].score, .place = k};
  for (int32_t i = 0; i < count; i++) {
    float score = best[i].score / length;
    score += full ? NEVER : 0;
    score += s->open[source] ? 0 : NEVER;
    score += best[i].ends && i < width ? 0 : NEVER;
    ranks[width + i] = (rank){.score = score, .place = width + i};
  }
  qsort(ranks, (size_t)(width + count), sizeof *ranks, compare_ranks);
  for (int32_t k = 0; k < width; k++) {
    int32_t i = ranks[k].place;
    if (i < width) {
      copy_text(&merged[k], &finished[i]);
      continue;
    }
    const continuation *by = &best[i - width];
    extend(&merged[k], &running[by->parent], by, ranks[k].score, by->ends && i - width < width);
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
  step_of_search shared = {.beams = s, .logits = logits, .vocabulary = vocabulary, .number = step};
  rt_share_tasks(s->session, s->batch * s->width, score_row, &shared);
  rt_share_tasks(s->session, s->batch, find_best, &shared);
  for (int32_t b = 0; b < s->batch; b++) {
    for (int32_t i = 0; i < s->counts[b]; i++)
      can_go_on |= !best_of(s, b)[i].ends;
    go_on(s, b);
    finish(s, b, step);
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
  size_t first = (size_t)source * (size_t)s->width;
  bool any = s->finished[first].finished; // none is where the search was stopped early
  const text *best = any ? &s->finished[first] : &s->running[first];
  memcpy(tokens, best->tokens, sizeof(int64_t) * (size_t)best->length);
  *score = any ? best->score : best->score / (float)pow(best->length, s->options->length_penalty);
  return best->length;
}
