// The descriptor and the entries of the hand-written model: what the compiler would emit.
#include "fake_model.h"

#include <cmath>
#include <cstring>

namespace fake {

Seen seen;
std::function<int32_t(const heddle_call &)> run_custom;
std::function<int64_t(const int64_t *)> custom_arena, custom_nothing, custom_once;
const uint8_t weights_id[16] = {'f', 'a', 'k', 'e', 1, 2, 3, 4};

namespace {

heddle_extent_desc dim(Dim d) { return {d, 0, 0}; }
heddle_extent_desc fixed(int64_t n) { return {HEDDLE_FIXED, 0, n}; }
heddle_extent_desc computed() { return {HEDDLE_COMPUTED, 0, 0}; }

const heddle_extent_desc extents_bs[] = {dim(B), dim(S)};
const heddle_extent_desc extents_bs4[] = {dim(B), dim(S), fixed(4)};
const heddle_extent_desc extents_b[] = {dim(B)};
const heddle_extent_desc extents_n[] = {dim(N)};
const heddle_extent_desc extents_nn[] = {dim(N), dim(N)};
const heddle_extent_desc extents_4[] = {fixed(4)};
const heddle_extent_desc extents_computed[] = {computed()};

heddle_value_desc value(const char *name, int32_t dtype, int32_t rank, const heddle_extent_desc *extents) {
  return {name, dtype, rank, extents, 0, 0, {0, 0, 0}, 0};
}
heddle_value_desc below(heddle_value_desc value, heddle_extent_desc bound) {
  value.has_below = 1;
  value.below = bound;
  return value;
}
heddle_value_desc optional(heddle_value_desc value, double initial) {
  value.optional = 1;
  value.initial = initial;
  return value;
}

void note(const heddle_call *call, int n_inputs, int n_results) {
  seen.calls++;
  seen.inputs.assign(call->inputs, call->inputs + n_inputs);
  seen.results.assign(call->results, call->results + n_results);
  seen.arena = call->arena;
}

// ---- encode: y[b, s, k] = ids[b, s] * mask[b, s] + bias[k]; total[b] = sum[s](ids[b, s]).
// ids: index(100)[B, S]; mask: i32[B, S] = 1. Needs an arena of 64 bytes for each row, and uses all of it.
const heddle_value_desc encode_inputs[] = {below(value("ids", HEDDLE_T_I32, 2, extents_bs), fixed(100)),
                                           optional(value("mask", HEDDLE_T_I32, 2, extents_bs), 1)};
const heddle_value_desc encode_results[] = {value("y", HEDDLE_T_F32, 3, extents_bs4),
                                            value("total", HEDDLE_T_I32, 1, extents_b)};
void encode_extents(const int64_t *d, int64_t *out) {
  const int64_t all[] = {d[B], d[S], d[B], d[S], d[B], d[S], 4, d[B]};
  memcpy(out, all, sizeof all);
}
int64_t encode_arena(const int64_t *d) { return 64 * d[B] * d[S]; }
int32_t encode_run(const heddle_call *c) {
  note(c, 2, 2);
  auto *ids = static_cast<const int32_t *>(c->inputs[0]), *mask = static_cast<const int32_t *>(c->inputs[1]);
  auto *y = static_cast<float *>(c->results[0]);
  auto *total = static_cast<int32_t *>(c->results[1]);
  float bias[4];
  memcpy(bias, c->weights, sizeof bias);
  memset(c->arena, 0xff, static_cast<size_t>(encode_arena(c->dims)));
  for (int64_t b = 0; b < c->dims[B]; b++) {
    total[b] = 0;
    for (int64_t s = 0; s < c->dims[S]; s++) {
      int64_t i = b * c->dims[S] + s;
      total[b] += ids[i];
      for (int64_t k = 0; k < 4; k++)
        y[i * 4 + k] = static_cast<float>(ids[i] * mask[i]) + bias[k];
    }
  }
  return 0;
}

// ---- spread: y[n] = sum of x[0 .. n] computed as one parallel task per n, with scratch and a nested loop inside.
const heddle_value_desc spread_inputs[] = {value("x", HEDDLE_T_F32, 1, extents_n)};
const heddle_value_desc spread_results[] = {value("y", HEDDLE_T_F32, 1, extents_n)};
void spread_extents(const int64_t *d, int64_t *out) { out[0] = out[1] = d[N]; }
int64_t no_arena(const int64_t *) { return 0; }
struct SpreadClosure {
  const float *x;
  float *y;
  double *products;
};
int product_task(void *, int i, uint8_t *closure) {
  auto *c = reinterpret_cast<SpreadClosure *>(closure);
  c->products[i] = c->x[i];
  return 0;
}
int spread_task(void *session, int n, uint8_t *closure) {
  auto *outer = reinterpret_cast<SpreadClosure *>(closure);
  auto *products = static_cast<double *>(halide_malloc(session, static_cast<size_t>(n + 1) * sizeof(double)));
  auto *unused = halide_malloc(session, 100);
  if (!products || !unused)
    return -11;
  SpreadClosure inner = {outer->x, nullptr, products};
  if (int error =
          halide_do_par_for(session, product_task, 0, n + 1, reinterpret_cast<uint8_t *>(&inner))) // nested: serial
    return error;
  double sum = 0;
  for (int i = 0; i <= n; i++)
    sum += products[i];
  outer->y[n] = static_cast<float>(sum);
  halide_free(session, products); // not in stack order
  halide_free(session, unused);
  return 0;
}
int32_t spread_run(const heddle_call *c) {
  SpreadClosure closure = {static_cast<const float *>(c->inputs[0]), static_cast<float *>(c->results[0]), nullptr};
  void *scratch = halide_malloc(c->context, 1000);
  int error = halide_do_par_for(c->context, spread_task, 0, static_cast<int>(c->dims[N]),
                                reinterpret_cast<uint8_t *>(&closure));
  halide_free(c->context, scratch);
  return error;
}

// ---- types: each result is its input.
const heddle_value_desc types_inputs[] = {
    optional(value("bool", HEDDLE_T_BOOL, 1, extents_n), 1), optional(value("i64", HEDDLE_T_I64, 1, extents_n), -7),
    optional(value("u8", HEDDLE_T_U8, 1, extents_n), 200), optional(value("i8", HEDDLE_T_I8, 1, extents_n), -3),
    value("i32", HEDDLE_T_I32, 1, extents_n)};
const heddle_value_desc types_results[] = {
    value("bool", HEDDLE_T_BOOL, 1, extents_n), value("i64", HEDDLE_T_I64, 1, extents_n),
    value("u8", HEDDLE_T_U8, 1, extents_n), value("i8", HEDDLE_T_I8, 1, extents_n),
    value("i32", HEDDLE_T_I32, 1, extents_n)};
void types_extents(const int64_t *d, int64_t *out) {
  for (int i = 0; i < 10; i++)
    out[i] = d[N];
}
int32_t types_run(const heddle_call *c) {
  const size_t sizes[] = {1, 8, 1, 1, 4};
  for (int i = 0; i < 5; i++)
    memcpy(c->results[i], c->inputs[i], sizes[i] * static_cast<size_t>(c->dims[N]));
  return 0;
}

// ---- window: pairs: f32[N + N] (computed), position: index(N)[B], offset: index(N - 2)[B] = 0 (computed bound),
// square: f32[N, N] = 0.25; last: f32[N - 2] are the last of the pairs; picked[b] = pairs[position[b]].
const heddle_value_desc window_inputs[] = {value("scale", HEDDLE_T_F32, 1, extents_n),
                                           value("pairs", HEDDLE_T_F32, 1, extents_computed),
                                           below(value("position", HEDDLE_T_I32, 1, extents_b), dim(N)),
                                           optional(below(value("offset", HEDDLE_T_I32, 1, extents_b), computed()), 0),
                                           optional(value("square", HEDDLE_T_F32, 2, extents_nn), 0.25)};
const heddle_value_desc window_results[] = {value("last", HEDDLE_T_F32, 1, extents_computed),
                                            value("picked", HEDDLE_T_F32, 1, extents_b)};
void window_extents(const int64_t *d, int64_t *out) {
  const int64_t all[] = {d[N], 2 * d[N], d[B], d[B], d[N], d[N], d[N] - 2, d[B], d[N] - 2};
  memcpy(out, all, sizeof all);
}
int32_t window_run(const heddle_call *c) {
  auto *pairs = static_cast<const float *>(c->inputs[1]);
  auto *position = static_cast<const int32_t *>(c->inputs[2]);
  for (int64_t i = 0; i < c->dims[N] - 2; i++)
    static_cast<float *>(c->results[0])[i] = pairs[c->dims[N] + 2 + i];
  for (int64_t b = 0; b < c->dims[B]; b++)
    static_cast<float *>(c->results[1])[b] = pairs[position[b]];
  return 0;
}

// ---- custom: a test says what happens. One result of rank 0.
const heddle_value_desc custom_results[] = {value("y", HEDDLE_T_F32, 0, nullptr)};
const heddle_value_desc custom_inputs[] = {optional(value("x", HEDDLE_T_F32, 1, extents_n), 0)};
void custom_extents(const int64_t *d, int64_t *out) { out[0] = d[N]; }
int64_t custom_arena_bytes(const int64_t *d) { return custom_arena ? custom_arena(d) : 0; }
int64_t custom_nothing_bytes(const int64_t *d) { return custom_nothing ? custom_nothing(d) : 0; }
// As if it computed something once for each N.
int64_t custom_once_bytes(const int64_t *d) { return custom_once ? custom_once(d) : 0; }
const int32_t custom_once_dims[] = {N};
int32_t custom_run(const heddle_call *c) {
  seen.calls++;
  return run_custom ? run_custom(*c) : 0;
}

// ---- floats: y = x for f32; halves and brains come only from their initial values.
const heddle_value_desc floats_inputs[] = {value("x", HEDDLE_T_F32, 2, extents_bs),
                                           optional(value("f16", HEDDLE_T_F16, 1, extents_4), 0.1),
                                           optional(value("bf16", HEDDLE_T_BF16, 1, extents_4), -0.1),
                                           optional(value("f32", HEDDLE_T_F32, 1, extents_4), 1e-3)};
const heddle_value_desc floats_results[] = {
    value("y", HEDDLE_T_F32, 2, extents_bs), value("f16", HEDDLE_T_F16, 1, extents_4),
    value("bf16", HEDDLE_T_BF16, 1, extents_4), value("f32", HEDDLE_T_F32, 1, extents_4)};
void floats_extents(const int64_t *d, int64_t *out) {
  const int64_t all[] = {d[B], d[S], 4, 4, 4, d[B], d[S], 4, 4, 4};
  memcpy(out, all, sizeof all);
}
int32_t floats_run(const heddle_call *c) {
  note(c, 4, 4);
  memcpy(c->results[0], c->inputs[0], sizeof(float) * static_cast<size_t>(c->dims[B] * c->dims[S]));
  memcpy(c->results[1], c->inputs[1], 8);
  memcpy(c->results[2], c->inputs[2], 8);
  memcpy(c->results[3], c->inputs[3], 16);
  return 0;
}

const heddle_entry_desc entries[] = {
    {"encode", "Rows of numbers.", 2, 2, encode_inputs, encode_results, encode_extents, encode_arena, encode_run, 0, 0,
     nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, 0, 0},
    {"spread", nullptr, 1, 1, spread_inputs, spread_results, spread_extents, no_arena, spread_run, 0, 0, nullptr,
     nullptr, nullptr, nullptr, nullptr, nullptr, 0, 0},
    {"types", "", 5, 5, types_inputs, types_results, types_extents, no_arena, types_run, 0, 0, nullptr, nullptr,
     nullptr, nullptr, nullptr, nullptr, 0, 0},
    {"window", "", 5, 2, window_inputs, window_results, window_extents, no_arena, window_run, 0, 0, nullptr, nullptr,
     nullptr, nullptr, nullptr, nullptr, 0, 0},
    {"custom", "", 1, 1, custom_inputs, custom_results, custom_extents, custom_arena_bytes, custom_run, 0, 0, nullptr,
     nullptr, nullptr, custom_nothing_bytes, custom_once_bytes, custom_once_dims, 1, 0},
    {"floats", "", 4, 4, floats_inputs, floats_results, floats_extents, no_arena, floats_run, 0, 0, nullptr, nullptr,
     nullptr, nullptr, nullptr, nullptr, 0, 0},
};
const heddle_dim_desc dims[] = {{"B", 8}, {"S", 512}, {"N", -1}};

} // namespace
} // namespace fake

#ifndef FAKE_NAME
#define FAKE_NAME "fake"
#endif
#ifndef FAKE_FEATURES
#define FAKE_FEATURES 0
#endif
#ifndef FAKE_ABI
#define FAKE_ABI HEDDLE_ABI_VERSION
#endif

namespace {
constexpr heddle_model_desc descriptor(uint32_t features, const char *target, const heddle_model_desc *lower) {
  return {FAKE_ABI,
          features,
          FAKE_NAME,
          target,
          "0.1.0",
          fake::weights_bytes,
          {'f', 'a', 'k', 'e', 1, 2, 3, 4},
          fake::n_dims,
          fake::n_entries,
          fake::dims,
          fake::entries,
          0,
          0,
          nullptr,
          nullptr,
          nullptr,
          0,
          nullptr,
          0,
          lower,
          nullptr};
}
#ifdef FAKE_TARGETS // the first one that this machine can run is `here`; `beneath` could run, too
constexpr heddle_model_desc beneath = descriptor(0, "beneath", nullptr), here = descriptor(0, "here", &beneath),
                            above = descriptor(0x40000000, "above", &here);
#define FAKE_LOWER &above
#else
#define FAKE_LOWER nullptr
#endif
} // namespace

extern "C" __attribute__((visibility("hidden"))) const heddle_model_desc heddle_model_descriptor =
    descriptor(FAKE_FEATURES, "x86-64-v3", FAKE_LOWER);
