// A hand-written library with session state, in place of generated code. Its entries do the things that a state can
// meet: set wholly, read, appended to in place, permuted through the second buffer, with computed extents, sliding,
// failing.
#include "runtime/abi.h"

#include <cstring>
#include <vector>

namespace {

enum Dim : int32_t { B, S, P, N };
enum State : int32_t { mem, seen, cache, wide, recent };

constexpr heddle_extent_desc dim(Dim d) { return {d, 0, 0}; }

const heddle_extent_desc extents_b[] = {dim(B)}, extents_n[] = {dim(N)};
const heddle_extent_desc extents_bs[] = {dim(B), dim(S)}, extents_bp[] = {dim(B), dim(P)};
const heddle_extent_desc extents_recent[] = {{-1, 0, 2}, {-1, 0, 3}, dim(B)};
const heddle_extent_desc extents_computed[] = {{-2, 0, 0}}, extents_tail[] = {dim(B), {-2, 0, 0}};

constexpr heddle_value_desc value(const char *name, int32_t dtype, int32_t rank, const heddle_extent_desc *extents) {
  return {name, dtype, rank, extents, 0, 0, {0, 0, 0}, 0};
}
constexpr heddle_value_desc below(heddle_value_desc value, heddle_extent_desc bound) {
  value.has_below = 1;
  value.below = bound;
  return value;
}
constexpr heddle_value_desc optional(heddle_value_desc value, double initial) {
  value.optional = 1;
  value.initial = initial;
  return value;
}

template <class T> T *as(void *pointer) { return static_cast<T *>(pointer); }
template <class T> const T *as(const void *pointer) { return static_cast<const T *>(pointer); }
int64_t no_arena(const int64_t *) { return 0; }

// Where `fail` is 1 a kernel reports an error when everything has been written.
const heddle_value_desc fail = optional(value("fail", HEDDLE_T_I32, 0, nullptr), 0);
int32_t finish(const void *fail) { return *as<int32_t>(fail) ? -6 : 0; }

// ---- set(x: f32[B, S], fail) -> total: f32.  mem <- x; seen <- 0
const heddle_value_desc set_inputs[] = {value("x", HEDDLE_T_F32, 2, extents_bs), fail};
const heddle_value_desc set_results[] = {value("total", HEDDLE_T_F32, 0, nullptr)};
const heddle_state_use_desc set_uses[] = {{mem, 0, 1, 0}, {seen, 0, 1, 0}};
void set_extents(const int64_t *d, int64_t *out) { out[0] = d[B], out[1] = d[S]; }
int32_t set_run(const heddle_call *c) {
  float total = 0;
  for (int64_t i = 0; i < c->dims[B] * c->dims[S]; i++)
    total += as<float>(c->next_states[mem])[i] = as<float>(c->inputs[0])[i];
  *as<int32_t>(c->next_states[seen]) = 0;
  *as<float>(c->results[0]) = total;
  return finish(c->inputs[1]);
}

// ---- step(t: f32[B], fail) -> y: f32[B, S], n: i32.  y[b, s] = mem[b, s] + t[b]; n = seen; cache[b, seen] <- t[b] in
// place; seen <- seen + 1. Two requirements.
const heddle_value_desc step_inputs[] = {value("t", HEDDLE_T_F32, 1, extents_b), fail};
const heddle_value_desc step_results[] = {value("y", HEDDLE_T_F32, 2, extents_bs),
                                          value("n", HEDDLE_T_I32, 0, nullptr)};
const heddle_state_use_desc step_uses[] = {{mem, 1, 0, 0}, {seen, 1, 1, 0}, {cache, 1, 1, 1}};
const char *const step_requirements[] = {"the cache is full", "every t must be at least 0"};
void step_extents(const int64_t *d, int64_t *out) { out[0] = d[B], out[1] = d[B], out[2] = d[S]; }
int32_t step_run(const heddle_call *c) {
  auto *t = as<float>(c->inputs[0]);
  int32_t at = *as<int32_t>(c->states[seen]);
  if (c->states[cache] != c->next_states[cache])
    return -1;
  if (at >= c->dims[P])
    return 1;
  for (int64_t b = 0; b < c->dims[B]; b++)
    if (t[b] < 0)
      return 2;
  for (int64_t b = 0; b < c->dims[B]; b++) {
    for (int64_t s = 0; s < c->dims[S]; s++)
      as<float>(c->results[0])[b * c->dims[S] + s] = as<float>(c->states[mem])[b * c->dims[S] + s] + t[b];
    as<float>(c->next_states[cache])[b * c->dims[P] + at] = t[b];
  }
  *as<int32_t>(c->results[1]) = at;
  *as<int32_t>(c->next_states[seen]) = at + 1;
  return finish(c->inputs[1]);
}

// ---- peek() -> c: f32[B, P].  c = cache
const heddle_value_desc peek_results[] = {value("c", HEDDLE_T_F32, 2, extents_bp)};
const heddle_state_use_desc peek_uses[] = {{cache, 1, 0, 0}};
void peek_extents(const int64_t *d, int64_t *out) { out[0] = d[B], out[1] = d[P]; }
int32_t peek_run(const heddle_call *c) {
  memcpy(c->results[0], c->states[cache], sizeof(float) * size_t(c->dims[B] * c->dims[P]));
  return 0;
}

// ---- swap(from: index(B)[B]).  cache[b, p] <- cache[from[b], p]
const heddle_value_desc swap_inputs[] = {below(value("from", HEDDLE_T_I32, 1, extents_b), dim(B))};
const heddle_state_use_desc swap_uses[] = {{cache, 1, 1, 0}};
void swap_extents(const int64_t *d, int64_t *out) { out[0] = d[B]; }
int32_t swap_run(const heddle_call *c) {
  int64_t row = c->dims[P];
  for (int64_t b = 0; b < c->dims[B]; b++)
    memcpy(as<float>(c->next_states[cache]) + b * row, as<float>(c->states[cache]) + as<int32_t>(c->inputs[0])[b] * row,
           sizeof(float) * size_t(row));
  return 0;
}

// ---- widen(x: i32[N]) -> old: i32[2 * N].  old = wide; wide[i] <- wide[i] + x[i % N]
const heddle_value_desc widen_inputs[] = {value("x", HEDDLE_T_I32, 1, extents_n)};
const heddle_value_desc widen_results[] = {value("old", HEDDLE_T_I32, 1, extents_computed)};
const heddle_state_use_desc widen_uses[] = {{wide, 1, 1, 0}};
void widen_extents(const int64_t *d, int64_t *out) { out[0] = d[N], out[1] = 2 * d[N]; }
int32_t widen_run(const heddle_call *c) {
  for (int64_t i = 0; i < 2 * c->dims[N]; i++) {
    int32_t old = as<int32_t>(c->states[wide])[i];
    as<int32_t>(c->results[0])[i] = old;
    as<int32_t>(c->next_states[wide])[i] = old + as<int32_t>(c->inputs[0])[i % c->dims[N]];
  }
  return 0;
}

// ---- tail() -> y: f32[B, S + P].  Rows of mem, then of cache.
const heddle_value_desc tail_results[] = {value("y", HEDDLE_T_F32, 2, extents_tail)};
const heddle_state_use_desc tail_uses[] = {{mem, 1, 0, 0}, {cache, 1, 0, 0}};
void tail_extents(const int64_t *d, int64_t *out) { out[0] = d[B], out[1] = d[S] + d[P]; }
int32_t tail_run(const heddle_call *c) {
  auto *y = as<float>(c->results[0]);
  for (int64_t b = 0; b < c->dims[B]; b++)
    for (int64_t i = 0; i < c->dims[S] + c->dims[P]; i++)
      *y++ = i < c->dims[S] ? as<float>(c->states[mem])[b * c->dims[S] + i]
                            : as<float>(c->states[cache])[b * c->dims[P] + i - c->dims[S]];
  return 0;
}

// ---- push(x: f32[B, S]) -> first: f32[B].  first = recent[1, 0]; recent slides, its parts take the columns of x and
// of x + 100.
const heddle_value_desc push_inputs[] = {value("x", HEDDLE_T_F32, 2, extents_bs)};
const heddle_value_desc push_results[] = {value("first", HEDDLE_T_F32, 1, extents_b)};
const heddle_state_use_desc push_uses[] = {{recent, 1, 1, 1}};
void push_extents(const int64_t *d, int64_t *out) { out[0] = d[B], out[1] = d[S], out[2] = d[B]; }
int32_t push_run(const heddle_call *c) {
  int64_t columns = c->dims[B], rows = c->dims[S];
  memcpy(c->results[0], as<float>(c->states[recent]) + 3 * columns, sizeof(float) * size_t(columns));
  std::vector<float> fresh(size_t(columns * rows));
  for (int part = 0; part < 2; part++) {
    for (int64_t i = 0; i < columns * rows; i++)
      fresh[size_t(i)] = as<float>(c->inputs[0])[i % columns * rows + i / columns] + 100.0f * float(part);
    if (!heddle_slide(c->context, recent, part, 1, rows, fresh.data()))
      return HEDDLE_OUTSIDE;
  }
  return 0;
}

const heddle_dim_desc dims[] = {{"B", 8}, {"S", 32}, {"P", 16}, {"N", -1}};
const heddle_entry_desc entries[] = {
    {"set", "", 2, 1, set_inputs, set_results, set_extents, no_arena, set_run, 2, 0, set_uses, nullptr, nullptr},
    {"step", "", 2, 2, step_inputs, step_results, step_extents, no_arena, step_run, 3, 2, step_uses, step_requirements,
     nullptr},
    {"peek", "", 0, 1, nullptr, peek_results, peek_extents, no_arena, peek_run, 1, 0, peek_uses, nullptr, nullptr},
    {"swap", "", 1, 0, swap_inputs, nullptr, swap_extents, no_arena, swap_run, 1, 0, swap_uses, nullptr, nullptr},
    {"widen", "", 1, 1, widen_inputs, widen_results, widen_extents, no_arena, widen_run, 1, 0, widen_uses, nullptr,
     nullptr},
    {"tail", "", 0, 1, nullptr, tail_results, tail_extents, no_arena, tail_run, 2, 0, tail_uses, nullptr, nullptr},
    {"push", "", 1, 1, push_inputs, push_results, push_extents, no_arena, push_run, 1, 0, push_uses, nullptr, nullptr},
};

const int32_t dims_b[] = {B}, dims_bs[] = {B, S}, dims_bp[] = {B, P}, dims_n[] = {N};
const heddle_state_desc states[] = {{"mem", HEDDLE_T_F32, 2, extents_bs, 0, 2, dims_bs, 0, 0, 0, nullptr},
                                    {"seen", HEDDLE_T_I32, 0, nullptr, 1, 0, nullptr, 0, 0, 1000, nullptr},
                                    {"cache", HEDDLE_T_F32, 2, extents_bp, 1, 2, dims_bp, 0.5, 0, 0, nullptr},
                                    {"wide", HEDDLE_T_I32, 1, extents_computed, 1, 1, dims_n, 0, 0, 0, nullptr},
                                    {"recent", HEDDLE_T_F32, 3, extents_recent, 1, 1, dims_b, -1, 2, 0, nullptr}};
void state_extents(const int64_t *d, int64_t *out) {
  const int64_t all[] = {d[B], d[S], d[B], d[P], 2 * d[N], 2, 3, d[B]};
  memcpy(out, all, sizeof all);
}

} // namespace

extern "C" __attribute__((visibility("hidden"))) const heddle_model_desc heddle_model_descriptor = {
    HEDDLE_ABI_VERSION, 0,      FAKE_NAME, "x86-64-v3", "0.1.0", 0, {FAKE_ID}, 4, 7, dims, entries, 5, 0, states,
    state_extents,      nullptr};
