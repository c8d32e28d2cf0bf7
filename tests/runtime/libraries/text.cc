// A hand-written library that generates: its logits are a hash of the source and of all tokens so far, which it keeps
// in states, so that a wrong order of beams or a lost token changes everything after it. FORM chooses how its entries
// look: 1 tokens [B, K], 2 tokens [R], 3 decoder only with the logits of all tokens, 4 of the last one, as `forward`.
#include "runtime/abi.h"

namespace {

constexpr int64_t V = 11;
enum Dim : int32_t { B, S, K, P };
constexpr heddle_extent_desc dim(Dim d) { return {d, 0, 0}; }
constexpr heddle_extent_desc fixed(int64_t n) { return {-1, 0, n}; }
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

// tests/runtime/generate_test.cc has the same hash.
uint32_t extend(uint32_t history, int32_t token) { return history * 31 + uint32_t(token) + 1; }
float logit(uint32_t history, int64_t v) {
  uint32_t x = history ^ (uint32_t(v) + 1) * 0x9E3779B9u;
  x = (x ^ x >> 16) * 0x7feb352du;
  x = (x ^ x >> 15) * 0x846ca68bu;
  x ^= x >> 16;
  return float(x >> 8) / float(1 << 24) * 8 - 4;
}

enum State : int32_t { source, history, seen, cache };
const heddle_extent_desc extents_bs[] = {dim(B), dim(S)}, extents_b[] = {dim(B)}, extents_p[] = {dim(P)};
const int32_t dims_b[] = {B}, dims_bk[] = {B, K}, dims_p[] = {P};
const char *const requirements[] = {"there are no more positions"};

#if FORM == 1 || FORM == 2
// ---- encode(input_ids: i32[B, S], attention_mask: i32[B, S] = 1).  source <- hash of the tokens under the mask
const heddle_value_desc encode_inputs[] = {value("input_ids", HEDDLE_T_I32, 2, extents_bs),
                                           optional(value("attention_mask", HEDDLE_T_I32, 2, extents_bs), 1)};
const heddle_state_use_desc encode_uses[] = {{source, 0, 1, 0}};
void encode_extents(const int64_t *d, int64_t *out) { out[0] = out[2] = d[B], out[1] = out[3] = d[S]; }
int32_t encode_run(const heddle_call *c) {
  for (int64_t b = 0; b < c->dims[B]; b++) {
    uint32_t hash = 0;
    for (int64_t i = b * c->dims[S]; i < (b + 1) * c->dims[S]; i++)
      if (as<int32_t>(c->inputs[1])[i])
        hash = extend(hash, as<int32_t>(c->inputs[0])[i]);
    as<uint32_t>(c->next_states[source])[b] = hash;
  }
  return 0;
}
#endif

#if FORM == 1
const heddle_extent_desc extents_rows[] = {dim(B), dim(K)}, extents_logits[] = {dim(B), dim(K), fixed(V)};
constexpr int32_t rank = 2;
const heddle_extent_desc bound = dim(K);
int64_t beams(const int64_t *d) { return d[K]; }
int64_t put_rows(const int64_t *d, int64_t *out) { return out[0] = d[B], out[1] = d[K], 2; }
#else
const heddle_extent_desc extents_rows[] = {dim(B)}, extents_logits[] = {dim(B), fixed(V)};
constexpr int32_t rank = 1;
const heddle_extent_desc bound = dim(B);
int64_t beams(const int64_t *) { return 1; }
int64_t put_rows(const int64_t *d, int64_t *out) { return out[0] = d[B], 1; }
#endif

// Notes that `tokens` positions are used, in place as a cache would; false: there is no room.
bool use_positions(const heddle_call *c, int64_t tokens) {
  int32_t at = *as<int32_t>(c->states[seen]);
  if (at + tokens > c->dims[P])
    return false;
  for (int64_t t = 0; t < tokens; t++)
    as<float>(c->next_states[cache])[at + t] += 1;
  *as<int32_t>(c->next_states[seen]) = at + int32_t(tokens);
  return true;
}

#if FORM == 1 || FORM == 2
// ---- decode_step(token: index(V)[rows]) -> logits: f32[rows, V]
const heddle_value_desc next_inputs[] = {below(value("token", HEDDLE_T_I32, rank, extents_rows), fixed(V))};
const heddle_value_desc next_results[] = {value("logits", HEDDLE_T_F32, rank + 1, extents_logits)};
const heddle_state_use_desc next_uses[] = {{source, 1, 0, 0}, {history, 1, 1, 0}, {seen, 1, 1, 0}, {cache, 1, 1, 1}};
void next_extents(const int64_t *d, int64_t *out) {
  out += put_rows(d, out);
  out += put_rows(d, out);
  *out = V;
}
int32_t next_run(const heddle_call *c) {
  if (!use_positions(c, 1))
    return 1;
  for (int64_t row = 0; row < c->dims[B] * beams(c->dims); row++) {
    uint32_t hash = extend(as<uint32_t>(c->states[history])[row], as<int32_t>(c->inputs[0])[row]);
    as<uint32_t>(c->next_states[history])[row] = hash;
    hash += as<uint32_t>(c->states[source])[row / beams(c->dims)] * 977;
    for (int64_t v = 0; v < V; v++)
      as<float>(c->results[0])[row * V + v] = logit(hash, v);
  }
  return 0;
}
constexpr const char *next_name = "decode_step";
constexpr int32_t next_n_inputs = 1, next_n_uses = 4;
#else
// ---- step(ids: index(V)[B, S], attention_mask: i32[B, S] = 1) -> logits: f32[B, S, V], or of the last token f32[B, V]
const heddle_extent_desc extents_all[] = {dim(B), dim(S), fixed(V)};
const heddle_value_desc next_inputs[] = {below(value("ids", HEDDLE_T_I32, 2, extents_bs), fixed(V)),
                                         optional(value("attention_mask", HEDDLE_T_I32, 2, extents_bs), 1)};
const heddle_value_desc next_results[] = {FORM == 3 ? value("logits", HEDDLE_T_F32, 3, extents_all)
                                                    : value("logits", HEDDLE_T_F32, 2, extents_logits)};
const heddle_state_use_desc next_uses[] = {{history, 1, 1, 0}, {seen, 1, 1, 0}, {cache, 1, 1, 1}};
void next_extents(const int64_t *d, int64_t *out) {
  out[0] = out[2] = out[4] = d[B], out[1] = out[3] = d[S];
  out[5] = FORM == 3 ? d[S] : V;
  if (FORM == 3)
    out[6] = V;
}
int32_t next_run(const heddle_call *c) {
  if (!use_positions(c, c->dims[S]))
    return 1;
  auto *out = as<float>(c->results[0]);
  for (int64_t b = 0; b < c->dims[B]; b++) {
    uint32_t hash = as<uint32_t>(c->states[history])[b];
    for (int64_t t = 0; t < c->dims[S]; t++) {
      if (as<int32_t>(c->inputs[1])[b * c->dims[S] + t])
        hash = extend(hash, as<int32_t>(c->inputs[0])[b * c->dims[S] + t]);
      for (int64_t v = 0; v < V && (FORM == 3 || t + 1 == c->dims[S]); v++)
        *out++ = logit(hash, v);
    }
    as<uint32_t>(c->next_states[history])[b] = hash;
  }
  return 0;
}
constexpr const char *next_name = FORM == 4 ? "forward" : "step";
constexpr int32_t next_n_inputs = 2, next_n_uses = 3;
#endif

// ---- reorder(from).  history[row] <- history[from[row]]
const heddle_value_desc reorder_inputs[] = {below(value("from", HEDDLE_T_I32, rank, extents_rows), bound)};
const heddle_state_use_desc reorder_uses[] = {{history, 1, 1, 0}};
void reorder_extents(const int64_t *d, int64_t *out) { put_rows(d, out); }
int32_t reorder_run(const heddle_call *c) {
  int64_t k = beams(c->dims);
  for (int64_t row = 0; row < c->dims[B] * k; row++) {
    int64_t from = as<int32_t>(c->inputs[0])[row];
    as<uint32_t>(c->next_states[history])[row] =
        as<uint32_t>(c->states[history])[FORM == 1 ? row / k * k + from : from];
  }
  return 0;
}

const heddle_dim_desc dims[] = {{"B", -1}, {"S", -1}, {"K", -1}, {"POSITIONS", 40}};
const heddle_entry_desc entries[] = {
#if FORM == 1 || FORM == 2
    {"encode", "", 2, 0, encode_inputs, nullptr, encode_extents, no_arena, encode_run, 1, 0, encode_uses, nullptr,
     nullptr},
#endif
    {next_name, "", next_n_inputs, 1, next_inputs, next_results, next_extents, no_arena, next_run, next_n_uses, 1,
     next_uses, requirements, nullptr},
    {"reorder", "", 1, 0, reorder_inputs, nullptr, reorder_extents, no_arena, reorder_run, 1, 0, reorder_uses, nullptr,
     nullptr},
};
const heddle_state_desc states[] = {{"source", HEDDLE_T_I32, 1, extents_b, 0, 1, dims_b, 0, 0, 0, nullptr},
                                    {"history", HEDDLE_T_I32, rank, extents_rows, 1, rank, dims_bk, 0, 0, 0, nullptr},
                                    {"seen", HEDDLE_T_I32, 0, nullptr, 1, 0, nullptr, 0, 0, 0, nullptr},
                                    {"cache", HEDDLE_T_F32, 1, extents_p, 1, 1, dims_p, 0, 0, 0, nullptr}};
void state_extents(const int64_t *d, int64_t *out) {
  *out++ = d[B];
  out += put_rows(d, out);
  *out = d[P];
}
const heddle_token_desc tokens[] = {{"eos_token_id", 0}, {"pad_token_id", 10}, {"decoder_start_token_id", 10}};

} // namespace

extern "C" __attribute__((visibility("hidden")))
const heddle_model_desc heddle_model_descriptor = {HEDDLE_ABI_VERSION,
                                                   0,
                                                   FAKE_NAME,
                                                   "x86-64-v3",
                                                   "0.1.0",
                                                   0,
                                                   {'t', FORM},
                                                   4,
                                                   sizeof entries / sizeof *entries,
                                                   dims,
                                                   entries,
                                                   4,
                                                   sizeof tokens / sizeof *tokens,
                                                   states,
                                                   state_extents,
                                                   tokens};
