// Random calls of each function of heddle.h, most of them absurd, against real kernels and a runtime compiled with the
// address and the undefined behaviour sanitizer. Pointers are valid for what they describe, in blocks of just that
// size, and everything else is wild: shapes, strides, ranks, dtypes, counts, names, sizes of structs, dims, saved
// bytes. Each call must answer with a status, and one that is not HEDDLE_OK with a sentence; no kernel may fail; in the
// end the session computes what it did in the beginning.
//     random_calls DIR CALLS [SEED]    so many of each function; the model in DIR is the one that is linked in
#include "wild.h"

#include <array>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>

extern "C" const heddle_api heddle_api_1;
extern "C" uint64_t rt_checksum(const uint8_t *data, uint64_t bytes);

namespace {

std::string folder, weights, kept;
std::vector<std::string> token_names = {"eos_token_id",        "pad_token_id",    "bad_words_ids",
                                        "bad_words_ids.0",     "bad_words_ids.1", "forced_bos_token_id",
                                        "forced_eos_token_id", "bos_token_id",    "decoder_start_token_id"};

// ---- Sessions: a few live ones, with a limit of memory, so that absurd sizes are refused before anything is touched

std::vector<heddle_session *> sessions;
std::vector<char> saved;
heddle_session *any_session() { return one_in(60) ? nullptr : any_of(sessions); }

heddle_session *limited_session(int32_t threads) {
  heddle_session_options options = HEDDLE_INIT(heddle_session_options);
  options.threads = threads;
  options.memory_limit = 64 << 20;
  heddle_session *session = nullptr;
  if (heddle_session_create(model, &options, &session)) {
    printf("no session: %s\n", heddle_last_error());
    exit(1);
  }
  return session;
}

int32_t concurrency(void *context) { return *static_cast<int32_t *>(context); }
void run_backwards(void *, int32_t count, void (*task)(void *, int32_t), void *data) {
  for (int32_t i = count - 1; i >= 0; i--)
    task(data, i);
}
void run_nothing(void *, int32_t, void (*)(void *, int32_t), void *) {}
void watch(void *, const char *, int32_t) {}
void watch_tasks(void *, int32_t, int32_t, int32_t) {}
int32_t listen(void *, int32_t, const int64_t *, int32_t) { return one_in(50); }

heddle_generate_options *generate_options() {
  return sized<heddle_generate_options>([](heddle_generate_options &o) {
    o = heddle_generate_defaults(pick(1, 4));
    if (one_in(2)) { // nothing absurd
      o.beams = pick(1, 3);
      o.flags = o.beams == 1 ? uint32_t(pick(0, 3)) : uint32_t(HEDDLE_KEEP_STATE) * uint32_t(pick(0, 1));
      o.seed = random_bits();
      return;
    }
    if (one_in(12))
      o.steps = wild32();
    if (one_in(8))
      o.min_steps = wild32();
    if (one_in(2))
      o.beams = one_in(12) ? wild32() : pick(1, 4);
    if (one_in(4))
      o.flags = uint32_t(one_in(6) ? wild() : pick(0, 3));
    if (one_in(4))
      o.length_penalty = wild_float();
    if (one_in(4))
      o.early_stopping = wild32();
    if (one_in(4))
      o.temperature = wild_float();
    if (one_in(4))
      o.top_k = wild32();
    if (one_in(4))
      o.top_p = wild_float();
    o.seed = random_bits();
    if (!one_in(3)) {
      int n = one_in(30) ? pick(1000, 3000) : pick(0, 6);
      auto *tokens = reinterpret_cast<heddle_token *>(block(sizeof(heddle_token) * size_t(n)));
      for (int i = 0; i < n; i++)
        tokens[i] = {one_in(50) ? name() : any_of(token_names).c_str(), one_in(4) ? wild() : pick(0, 9)};
      o.tokens = one_in(50) ? nullptr : tokens;
      o.n_tokens = one_in(50) ? -pick(1, INT_MAX) : n;
    }
    if (one_in(4))
      o.listener = listen;
  });
}

/// For what a call fills in: the right shape, found by asking, or something else.
void give_room(heddle_tensor &t) {
  bool fits = t.rank >= 0 && t.rank <= 2;
  int64_t bytes = heddle_dtype_bytes(t.dtype);
  for (int i = 0; fits && i < t.rank; i++)
    fits = t.shape[i] >= 0 && t.shape[i] < 100000 && (bytes *= t.shape[i]) < (1 << 20);
  if (one_in(30) || !fits)
    t.shape[pick(0, 1)] = wild();
  if (one_in(40))
    t.strides[pick(0, 1)] = pick(-64, 64);
  if (one_in(40))
    t.dtype = wild32();
  if (one_in(40))
    t.rank = wild32();
  give_data(t);
}

heddle_tensor *one(const heddle_tensor &t) {
  auto *out = reinterpret_cast<heddle_tensor *>(block(sizeof t));
  memcpy(out, &t, sizeof t);
  return out;
}
template <class T> T *maybe(T *pointer) { return one_in(100) ? nullptr : pointer; }
template <class T> T *number() { return maybe(reinterpret_cast<T *>(block(sizeof(T)))); }

int32_t source_entry() {
  int32_t entry = 0;
  for (const char *wanted : {"encode", "step", "forward"})
    if (heddle_entry_find(model, wanted, &entry) == HEDDLE_OK)
      return entry;
  return entry;
}

// ---- One call of each function

const std::vector<std::pair<const char *, std::function<int()>>> functions = {
    {"heddle_last_error", [] { return heddle_last_error() ? 0 : -1; }},
    {"heddle_status_name", [] { return heddle_status_name(wild32()) ? 0 : -1; }},
    {"heddle_dtype_bytes", [] { return heddle_dtype_bytes(wild32()) >= 0 ? 0 : -1; }},
    {"heddle_dense",
     [] {
       int64_t shape[HEDDLE_RANK];
       for (int64_t &extent : shape)
         extent = wild();
       heddle_dense(name(), wild32(), nullptr, wild32(), shape);
       return 0;
     }},
    {"heddle_generate_defaults", [] { return heddle_generate_defaults(wild32()).beams == 1 ? 0 : -1; }},
    {"heddle_open",
     [] {
       heddle_model *opened = nullptr;
       const char *paths[] = {folder.c_str(), folder.c_str(),    name(),         "", "/",
                              "/dev/null",    "/proc/self/maps", weights.c_str()};
       auto *options = one_in(3) ? nullptr : sized<heddle_model_options>([](heddle_model_options &o) {
         const char *files[] = {weights.c_str(), weights.c_str(), name(), "/dev/null", "/dev/zero", "/", ""};
         o.weights = one_in(4) ? nullptr : files[pick(0, 6)];
         o.flags = uint32_t(one_in(5) ? wild() : pick(0, 1));
       });
       int status = heddle_open(maybe(paths[pick(0, 7)]), options, maybe(&opened));
       if (opened && heddle_close(opened))
         return -1;
       return status;
     }},
    {"heddle_close",
     [] {
       heddle_model *opened = nullptr;
       heddle_model_options options = HEDDLE_INIT(heddle_model_options);
       kept = folder + "/session.saved";
       options.weights = weights.c_str();
       if (one_in(3))
         return int(heddle_close(nullptr));
       if (one_in(3))
         return int(heddle_close(model)); // it has sessions
       int status = heddle_api_1.model_load(&options, &opened);
       return status ? status : int(heddle_close(opened));
     }},
    {"heddle_model_verify", [] { return int(heddle_model_verify(maybe(model))); }},
    {"heddle_model_describe",
     [] { return int(heddle_model_describe(maybe(model), maybe(sized<heddle_model_info>()))); }},
    {"heddle_dim_describe",
     [] { return int(heddle_dim_describe(maybe(model), wild32(), maybe(sized<heddle_dim_info>()))); }},
    {"heddle_entry_describe",
     [] { return int(heddle_entry_describe(maybe(model), wild32(), maybe(sized<heddle_entry_info>()))); }},
    {"heddle_input_describe",
     [] {
       return int(heddle_input_describe(maybe(model), entry_number(), wild32(), maybe(sized<heddle_value_info>())));
     }},
    {"heddle_result_describe",
     [] {
       return int(heddle_result_describe(maybe(model), entry_number(), wild32(), maybe(sized<heddle_value_info>())));
     }},
    {"heddle_state_describe",
     [] { return int(heddle_state_describe(maybe(model), wild32(), maybe(sized<heddle_state_info>()))); }},
    {"heddle_token_describe",
     [] { return int(heddle_token_describe(maybe(model), wild32(), maybe(sized<heddle_token_info>()))); }},
    {"heddle_entry_find", [] { return int(heddle_entry_find(maybe(model), name(), number<int32_t>())); }},
    {"heddle_result_shapes",
     [] {
       int32_t entry = entry_number();
       Dims dims = some_dims();
       List in = list_of(tensors_of(entry, false, dims)), out = list_of(results_room(entry));
       return int(heddle_result_shapes(maybe(model), entry, in.data, in.count, out.data, out.count));
     }},
    {"heddle_memory_needed",
     [] {
       auto *dims = reinterpret_cast<int64_t *>(block(sizeof(int64_t) * size_t(info.n_dims)));
       for (int i = 0; i < info.n_dims; i++)
         dims[i] = one_in(3) ? wild() : pick(0, 9);
       return int(heddle_memory_needed(maybe(model), entry_number(), maybe(dims), number<int64_t>()));
     }},
    {"heddle_session_create",
     [] {
       heddle_threads *custom = nullptr;
       if (one_in(4)) {
         custom = reinterpret_cast<heddle_threads *>(block(sizeof(heddle_threads)));
         auto *offered = reinterpret_cast<int32_t *>(block(sizeof(int32_t)));
         *offered = wild32();
         *custom = {offered, one_in(10) ? nullptr : concurrency,
                    one_in(10)  ? nullptr
                    : one_in(5) ? run_nothing
                                : run_backwards,
                    nullptr};
       }
       auto *options = one_in(5) ? nullptr : sized<heddle_session_options>([=](heddle_session_options &o) {
         o.threads = wild32();
         o.custom = custom;
         o.memory_limit = one_in(3) ? wild() : 64 << 20;
       });
       heddle_session *made = nullptr;
       int status = heddle_session_create(maybe(model), options, maybe(&made));
       if (made && heddle_session_free(made))
         return -1;
       return status;
     }},
    {"heddle_session_free",
     [] {
       if (one_in(3))
         return int(heddle_session_free(nullptr));
       size_t which = size_t(pick(0, int(sessions.size()) - 1));
       int status = heddle_session_free(sessions[which]);
       sessions[which] = limited_session(pick(1, 2));
       return status;
     }},
    {"heddle_session_reset", [] { return int(heddle_session_reset(any_session())); }},
    {"heddle_session_capacity",
     [] {
       int64_t capacity = one_in(4) ? wild() : pick(-1, 12);
       return int(heddle_session_capacity(any_session(), one_in(3) ? wild32() : pick(0, info.n_dims), capacity));
     }},
    {"heddle_session_state",
     [] {
       return int(heddle_session_state(any_session(), one_in(5) ? wild32() : pick(0, info.n_states),
                                       maybe(sized<heddle_state_value>())));
     }},
    {"heddle_session_read_state",
     [] {
       heddle_session *session = any_session();
       int32_t state = one_in(5) ? wild32() : pick(0, info.n_states);
       heddle_state_info what = HEDDLE_INIT(heddle_state_info);
       heddle_state_value value = HEDDLE_INIT(heddle_state_value);
       heddle_tensor to = {};
       if (session && !heddle_state_describe(model, state, &what) && !heddle_session_state(session, state, &value))
         to = heddle_dense(name(), what.dtype, nullptr, what.rank, value.shape);
       give_room(to);
       return int(heddle_session_read_state(session, state, maybe(one(to))));
     }},
    {"heddle_session_write_state",
     [] {
       heddle_session *session = any_session();
       int32_t state = one_in(5) ? wild32() : pick(0, info.n_states);
       heddle_state_info what = HEDDLE_INIT(heddle_state_info);
       heddle_tensor from = {};
       if (!heddle_state_describe(model, state, &what)) {
         int64_t shape[HEDDLE_RANK];
         for (int32_t i = 0; i < what.rank; i++)
           shape[i] = what.extents[i].dim == HEDDLE_FIXED && !one_in(5) ? what.extents[i].value : pick(0, 4);
         from = heddle_dense(name(), one_in(5) ? wild32() : what.dtype, nullptr, what.rank, shape);
       }
       give_room(from);
       return int(heddle_session_write_state(session, state, maybe(one(from))));
     }},
    {"heddle_session_save_file",
     [] {
       heddle_session *session = any_session();
       size_t bytes = 0;
       bool small = !heddle_session_save(session, nullptr, 0, &bytes) && bytes < (1u << 20);
       return int(heddle_session_save_file(session, !small || one_in(4) ? "/dev/null" : maybe(kept.c_str())));
     }},
    {"heddle_session_restore_file",
     [] {
       const char *paths[] = {kept.c_str(), kept.c_str(), weights.c_str(), "/dev/zero", "/", "", nullptr};
       return int(heddle_session_restore_file(any_session(), paths[pick(0, 6)]));
     }},
    {"heddle_session_save_parameters",
     [] { return int(heddle_session_save_parameters(any_session(), maybe("/dev/null"))); }},
    {"heddle_device_get",
     [] {
       void *data = nullptr;
       return int(heddle_device_get(maybe(model), size_t(wild()), maybe(&data)));
     }},
    {"heddle_device_give", [] { return int(heddle_device_give(maybe(model), maybe(static_cast<void *>(&kept)))); }},
    {"heddle_session_stream",
     [] {
       void *stream = nullptr;
       return int(heddle_session_stream(any_session(), maybe(&stream)));
     }},
    {"heddle_session_wait", [] { return int(heddle_session_wait(any_session())); }},
    {"heddle_session_copy",
     [] {
       std::vector<heddle_tensor> from = tensors_of(0, false, some_dims()), to;
       if (from.empty())
         from.push_back(heddle_tensor());
       to = from;
       give_data(to[0]);
       if (one_in(5))
         give_room(to[0]);
       return int(heddle_session_copy(any_session(), maybe(one(to[0])), maybe(one(from[0]))));
     }},
    {"heddle_session_clone",
     [] {
       heddle_session *copy = nullptr;
       int status = heddle_session_clone(any_session(), maybe(&copy));
       if (copy && heddle_session_free(copy))
         return -1;
       return status;
     }},
    {"heddle_session_save",
     [] {
       heddle_session *session = any_session();
       size_t bytes = 0;
       if (heddle_session_save(session, nullptr, 0, &bytes) || bytes > (8u << 20))
         return int(heddle_session_save(session, nullptr, size_t(wild()), number<size_t>()));
       size_t room = one_in(4) ? size_t(pick(0, 2000)) : bytes;
       char *buffer = block(room);
       int status = heddle_session_save(session, buffer, room, maybe(&bytes));
       if (!status && room >= bytes)
         saved.assign(buffer, buffer + bytes);
       return status;
     }},
    {"heddle_session_restore",
     [] {
       size_t bytes = one_in(10) ? size_t(pick(0, int(saved.size()))) : saved.size();
       char *buffer = block(bytes);
       std::copy_n(saved.begin(), bytes, buffer);
       for (int n = one_in(2) ? pick(1, 4) : 0; bytes > 0 && n > 0; n--) {
         size_t at = random_bits() % std::min<size_t>(bytes, one_in(2) ? 256 : bytes);
         if (one_in(2) && at + 8 <= bytes) {
           int64_t word = wild();
           memcpy(buffer + at, &word, 8);
         } else {
           buffer[at] = char(random_bits());
         }
       }
       if (one_in(2) && bytes >= 40) { // damaged on purpose: the checksum is right
         uint64_t length = bytes - 40, sum = rt_checksum(reinterpret_cast<uint8_t *>(buffer) + 40, length);
         memcpy(buffer + 24, &length, 8);
         memcpy(buffer + 32, &sum, 8);
       }
       return int(heddle_session_restore(any_session(), maybe(buffer), bytes));
     }},
    {"heddle_session_memory",
     [] { return int(heddle_session_memory(any_session(), maybe(sized<heddle_memory_info>()))); }},
    {"heddle_session_threads", [] { return int(heddle_session_threads(any_session(), number<int32_t>())); }},
    {"heddle_session_observe",
     [] { return int(heddle_session_observe(any_session(), one_in(2) ? watch : nullptr, nullptr)); }},
    {"heddle_session_observe_tasks",
     [] { return int(heddle_session_observe_tasks(any_session(), one_in(2) ? watch_tasks : nullptr, nullptr)); }},
    {"heddle_run",
     [] {
       int32_t entry = entry_number();
       Dims dims = some_dims();
       List in = list_of(tensors_of(entry, false, dims)), out = list_of(tensors_of(entry, true, dims));
       return int(heddle_run(any_session(), entry, in.data, in.count, out.data, out.count));
     }},
    {"heddle_session_result_shapes",
     [] {
       int32_t entry = entry_number();
       Dims dims = some_dims();
       List in = list_of(tensors_of(entry, false, dims)), out = list_of(results_room(entry));
       return int(heddle_session_result_shapes(any_session(), entry, in.data, in.count, out.data, out.count));
     }},
    {"heddle_run_dense",
     [] {
       // Room for whatever small dims describe; absurd ones must be refused before anything is touched.
       static char *room = static_cast<char *>(
           mmap(nullptr, size_t(1) << 36, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
       auto *dims = reinterpret_cast<int64_t *>(block(sizeof(int64_t) * size_t(info.n_dims)));
       for (int i = 0; i < info.n_dims; i++)
         dims[i] = one_in(12) ? wild() : pick(0, 6);
       auto *inputs = reinterpret_cast<const void **>(block(sizeof(void *) * 64));
       auto *results = reinterpret_cast<void **>(block(sizeof(void *) * 64));
       for (int i = 0; i < 64; i++) {
         inputs[i] = one_in(20) ? nullptr : room;
         results[i] = one_in(8) ? nullptr : room + (size_t(1) << 35) + (size_t(i) << 26);
       }
       return int(heddle_run_dense(any_session(), entry_number(), maybe(dims), maybe(inputs), maybe(results)));
     }},
    {"heddle_generate",
     [] {
       Dims dims = some_dims();
       heddle_session *session = any_session();
       List in = list_of(tensors_of(source_entry(), false, dims));
       heddle_generate_options *options = maybe(generate_options());
       int64_t length = 0;
       heddle_tensor sequences = {};
       int status = heddle_generate(session, options, in.data, in.count, &sequences, &length, nullptr);
       if (!status)
         give_room(sequences);
       heddle_tensor scores = heddle_dense(nullptr, HEDDLE_F32, nullptr, 1, sequences.shape);
       give_room(scores);
       return int(heddle_generate(session, options, in.data, in.count, maybe(one(sequences)), number<int64_t>(),
                                  one_in(2) ? one(scores) : nullptr));
     }},
    {"heddle_score",
     [] {
       Dims dims = some_dims();
       heddle_session *session = any_session();
       int32_t entry = source_entry();
       List in = list_of(tensors_of(entry, false, dims));
       heddle_value_info value = HEDDLE_INIT(heddle_value_info);
       heddle_input_describe(model, entry, 0, &value);
       heddle_tensor *labels = one_in(3) ? nullptr : one(tensor_like(value, one_in(5) ? some_dims() : dims, false));
       heddle_generate_options *options = one_in(4) ? nullptr : generate_options();
       heddle_tensor to = {};
       int status = heddle_score(session, options, in.data, in.count, labels, &to);
       if (!status)
         give_room(to);
       return int(heddle_score(session, options, in.data, in.count, labels, maybe(one(to))));
     }},
};

/// Results of every entry that runs with all dims 2 in a new session, as one number.
uint64_t fingerprint() {
  uint64_t hash = 0xcbf29ce484222325u;
  heddle_session *session = limited_session(2);
  for (int32_t e = 0; e < info.n_entries; e++) {
    heddle_entry_info entry = HEDDLE_INIT(heddle_entry_info);
    heddle_entry_describe(model, e, &entry);
    std::vector<std::vector<int32_t>> data(size_t(entry.n_inputs + entry.n_results), std::vector<int32_t>(1 << 18));
    std::vector<int64_t> dims(size_t(info.n_dims) + 1, 2);
    std::vector<const void *> in;
    std::vector<void *> out;
    for (int i = 0; i < entry.n_inputs; i++)
      in.push_back(data[size_t(i)].data());
    for (int i = 0; i < entry.n_results; i++)
      out.push_back(data[size_t(entry.n_inputs + i)].data());
    int status = heddle_run_dense(session, e, dims.data(), in.data(), out.data());
    hash = (hash ^ uint64_t(status)) * 0x100000001b3u;
    for (int i = 0; !status && i < entry.n_results; i++)
      for (int32_t word : data[size_t(entry.n_inputs + i)])
        hash = (hash ^ uint32_t(word)) * 0x100000001b3u;
  }
  heddle_session_free(session);
  return hash;
}

} // namespace

int main(int count, char **words) {
  if (count < 3)
    return 2;
  folder = words[1];
  int calls = atoi(words[2]);
  uint64_t seed = count > 3 ? strtoull(words[3], nullptr, 10) : 1;
  info = HEDDLE_INIT(heddle_model_info);
  heddle_model_options options = HEDDLE_INIT(heddle_model_options);
  weights = folder + "/" + MODEL_NAME + ".weights";
  options.weights = weights.c_str();
  if (heddle_api_1.model_load(&options, &model) || heddle_model_describe(model, &info)) {
    printf("%s\n", heddle_api_1.last_error());
    return 1;
  }
  for (int32_t e = 0; e < info.n_entries; e++) {
    heddle_entry_info entry = HEDDLE_INIT(heddle_entry_info);
    heddle_entry_describe(model, e, &entry);
    known_names.push_back(entry.name);
    for (int32_t i = 0; i < entry.n_inputs; i++) {
      heddle_value_info value = HEDDLE_INIT(heddle_value_info);
      heddle_input_describe(model, e, i, &value);
      known_names.push_back(value.name);
    }
  }
  sessions = {limited_session(1), limited_session(2), limited_session(1)};
  uint64_t before = fingerprint();
  std::vector<std::array<int, 14>> answers(functions.size());
  printf("%s: %d calls of each of %zu functions, seed %llu\n", folder.c_str(), calls, functions.size(),
         static_cast<unsigned long long>(seed));
  fflush(stdout);
  random_bits.seed(seed);
  for (int round = 0; round < calls; round++)
    for (size_t f = 0; f < functions.size(); f++) {
      int status = functions[f].second();
      bool known = status >= 0 && status <= HEDDLE_BAD_LIBRARY;
      if (!known || status == HEDDLE_KERNEL_FAILED || (status && !*heddle_last_error())) {
        printf("call %d of %s: status %d: %s\n", round, functions[f].first, status, heddle_last_error());
        return 1;
      }
      answers[f][size_t(status)]++;
      blocks.clear();
    }
  for (size_t f = 0; f < functions.size(); f++) {
    printf("%-28s", functions[f].first);
    for (int status = 0; status <= HEDDLE_BAD_LIBRARY; status++)
      if (answers[f][size_t(status)])
        printf(" %s %d", heddle_status_name(status) + 7, answers[f][size_t(status)]);
    printf("\n");
  }
  if (fingerprint() != before) {
    printf("other results than in the beginning\n");
    return 1;
  }
  for (heddle_session *session : sessions)
    heddle_session_free(session);
  return heddle_close(model) != HEDDLE_OK;
}
