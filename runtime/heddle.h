// The C interface of every library that Heddle makes, and a loader for them. It is one header without a library of
// its own: the runtime is inside each compiled model, reached through one table (`heddle_api_1`) that the functions
// at the end of this file call. C11 or C++, Linux x86-64; link with -ldl where libc still asks for it.
//
//     heddle_model *model;
//     heddle_session *session;
//     if (heddle_open("out/bert", NULL, &model)) { puts(heddle_last_error()); return 1; }
//     heddle_session_create(model, NULL, &session);
//     int64_t ids_shape[] = {1, 7}, out_shape[] = {1, 7, 384};
//     heddle_tensor ids = heddle_dense("input_ids", HEDDLE_I64, my_ids, 2, ids_shape);
//     heddle_tensor out = heddle_dense("last_hidden_state", HEDDLE_F32, my_out, 3, out_shape);
//     if (heddle_run(session, 0, &ids, 1, &out, 1)) puts(heddle_last_error());
//
// Rules that hold for every function:
// - It returns a status. On anything but HEDDLE_OK nothing was changed except that results may be partly written
//   (and states that are updated in place, where a GPU fails while its results are read), and heddle_last_error()
//   of the same thread says in one sentence what was wrong and what to do. Nothing in a library aborts, exits or
//   prints.
// - Threads: a model is immutable and may be used by many threads. A session is one caller's: two calls on one
//   session at the same time are refused with HEDDLE_BUSY. Many sessions of one model may run at once.
// - Memory: tensors belong to the caller. A session keeps one arena and its states and grows them only when a call
//   needs more than any call before; a call no larger than an earlier one allocates nothing.
// - Shapes and counts are in elements, strides and memory in bytes. Tensors hold at most 2^31 - 1 elements.
// - An extent may be 0 (an empty batch): results without elements are left alone, the others are computed.
// - Numerics: while an entry runs, denormal numbers are treated as zero and rounding is to nearest, on all threads;
//   the caller's own floating-point mode is restored afterwards. Results have the same bits for any thread count.
// - Names and texts that a function returns live as long as the model.
#ifndef HEDDLE_H
#define HEDDLE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HEDDLE_API_VERSION 2
#define HEDDLE_RANK 8 // highest rank of a tensor

typedef enum heddle_status {
  HEDDLE_OK = 0,
  HEDDLE_INVALID_ARGUMENT = 1, // the call itself is wrong: a null pointer, a number out of bounds, an object in use
  HEDDLE_NOT_FOUND = 2,        // no entry, input, result or file of that name
  HEDDLE_BAD_TENSOR = 3,       // a tensor or state is missing, given twice, or has the wrong dtype, rank or shape
  HEDDLE_OUT_OF_RANGE = 4,     // an element or a dim is outside the range that the model declares or requires
  HEDDLE_OUT_OF_MEMORY = 5,    // the system, the memory limit or the 2^31 - 1 elements of a tensor do not allow it
  HEDDLE_FILE_ERROR = 6,       // a file cannot be opened or read
  HEDDLE_BAD_WEIGHTS = 7,      // the weights file is damaged, or belongs to another library
  HEDDLE_UNSUPPORTED_CPU = 8,  // the library was compiled for features of a CPU, or a GPU, that this machine lacks
  HEDDLE_UNSUPPORTED = 9,      // this version cannot do it
  HEDDLE_KERNEL_FAILED = 10,   // a kernel reported an error: a fault in Heddle
  HEDDLE_BUSY = 11,            // another thread is inside a call on this session
  HEDDLE_BAD_LIBRARY = 12,     // heddle_open: not a library made by Heddle, or of another interface version
  HEDDLE_DEVICE_FAILED = 13    // a GPU or its driver reported an error
} heddle_status;

typedef enum heddle_dtype {
  HEDDLE_F32 = 0,
  HEDDLE_BF16 = 1, // upper half of an f32
  HEDDLE_F16 = 2,
  HEDDLE_I8 = 3,
  HEDDLE_I32 = 4,
  HEDDLE_BOOL = 5, // one byte, 0 or 1
  HEDDLE_I64 = 6,
  HEDDLE_U8 = 7
} heddle_dtype;

typedef struct heddle_api heddle_api;
typedef struct heddle_model heddle_model;     // weights and entries; shared
typedef struct heddle_session heddle_session; // arena and state; one caller's

// Where the data of a tensor lies.
enum {
  HEDDLE_MAIN_MEMORY = 0,
  HEDDLE_DEVICE_MEMORY = 1 // of the GPU that the model computes on, in its primary context
};

// A tensor of the caller. Element [i0, i1, …] lies at data + i0 * strides[0] + i1 * strides[1] + … bytes; strides of
// inputs may be zero or negative. Dense row-major tensors are used in place where their address is a multiple of an
// element's size (on a GPU: of 64 bytes), all others go through the arena. `data` may be NULL where an extent is 0.
// Tensors on the device are for models that compute there; text generation takes none.
typedef struct heddle_tensor {
  const char *name; // which input or result; NULL: the one at this place in the list
  void *data;
  int32_t dtype; // heddle_dtype
  int32_t rank;
  int64_t shape[HEDDLE_RANK];
  int64_t strides[HEDDLE_RANK];
  int32_t memory; // HEDDLE_MAIN_MEMORY, HEDDLE_DEVICE_MEMORY
  int32_t reserved;
} heddle_tensor;

// Threads of the caller's instead of Heddle's pool. `run` calls task(data, i) for every i in 0 .. count - 1, in any
// order, on any threads, and returns when all have; `concurrency` says how many may run at once (asked once, when the
// session is created); `release` is called once when the session is freed, and may be NULL.
typedef struct heddle_threads {
  void *context;
  int32_t (*concurrency)(void *context);
  void (*run)(void *context, int32_t count, void (*task)(void *data, int32_t index), void *data);
  void (*release)(void *context);
} heddle_threads;

// Large blocks of memory from the caller: `get` gives `bytes` at any address, or NULL (HEDDLE_OUT_OF_MEMORY), `give`
// takes a block back, with the same number; from several threads at once. Small bookkeeping stays malloc's.
typedef struct heddle_allocator {
  void *context;
  void *(*get)(void *context, size_t bytes);
  void (*give)(void *context, void *block, size_t bytes);
} heddle_allocator;

// Watches a session's runs: called on the caller's thread when a kernel begins (begins = 1) and when it has ended (0).
// `kernel` names it: the compiled function, then the definition of the model that it computes.
typedef void (*heddle_observer)(void *context, const char *kernel, int32_t begins);
// Watches the tasks of each loop, from 0: called on the thread that does them, so perhaps on several at once.
typedef void (*heddle_task_observer)(void *context, int32_t thread, int32_t task, int32_t begins);

// Options and infos begin with their own size, set by the caller: HEDDLE_INIT(heddle_session_options) makes one with
// everything else 0. So a program and a library of different versions understand each other.
#ifdef __cplusplus
#define HEDDLE_INIT(type) (::heddle_init<type>())
#else
#define HEDDLE_INIT(type) ((type){.struct_size = sizeof(type)})
#endif

enum {
  // Read the weights into memory of this process instead of mapping their file. A mapped file must not be shortened
  // while the model is in use (SIGBUS): write another one and rename it, as `heddle compile` does.
  HEDDLE_COPY_WEIGHTS = 1
};

typedef struct heddle_model_options {
  size_t struct_size;
  const char *weights; // path of the weights file; NULL: what the library carries, else <name>.weights beside it
  uint32_t flags;      // HEDDLE_COPY_WEIGHTS, or 0
  uint32_t reserved;
  // Instead of a file its bytes in memory, kept until the model is freed; used in place at a 64-byte aligned address.
  const void *image;
  size_t image_bytes;
  // Or a function that fills `to` with the file's bytes from `offset` on and returns 0, called while the model loads.
  int32_t (*read)(void *context, uint64_t offset, void *to, size_t bytes);
  void *read_context;
  const heddle_allocator *allocator; // of weights that are copied; NULL: the system
  const char *target; // of those that the library has code for; NULL: the most demanding one that this machine can run
} heddle_model_options;

typedef struct heddle_session_options {
  size_t struct_size;
  int32_t threads; // at most so many run at once; 0: the cores that affinity and cgroup quota allow
  int32_t graphs;  // on a GPU: of so many entries with their dims the work is kept as a CUDA graph; 0: 8, below 0: none
  const heddle_threads *custom; // NULL: the pool that all Heddle libraries in the process share
  int64_t memory_limit; // bytes of arena, states and what is computed once; a call that needs more is refused. 0: none
  const heddle_allocator *allocator; // of arena, states, scratch and what is computed once; NULL: the system
  void *arena;        // the arena itself, kept until the session is freed; NULL: the session's own, which grows
  size_t arena_bytes; // of it: a call that heddle_memory_needed says needs more, with HEDDLE_ARENA_SPARE, is refused
  // On a GPU: the stream (CUstream, or cudaStream_t) of the device's primary context that work is put into; kept until
  // the session is freed. NULL: the session's own. (The default stream is 1, CU_STREAM_LEGACY.)
  void *stream;
} heddle_session_options;
enum { HEDDLE_ARENA_SPARE = 256 }; // for alignment, and room beside the arena's ends

typedef struct heddle_model_info {
  size_t struct_size;
  const char *name;
  const char *target;   // whose code is used, such as x86-64-v4+vnni
  const char *compiler; // version of Heddle that made it
  uint64_t weights_bytes;
  int32_t n_dims;
  int32_t n_entries;
  int32_t n_states;
  int32_t n_tokens;
  uint64_t build; // tells libraries apart whose code differs: the build id, also in the manifest and the weights file
} heddle_model_info;

typedef struct heddle_dim_info {
  size_t struct_size;
  const char *name;
  int64_t most; // largest allowed value; -1: no bound
} heddle_dim_info;

typedef struct heddle_entry_info {
  size_t struct_size;
  const char *name;
  const char *doc; // the comment above it in the model file; may be empty
  int32_t n_inputs;
  int32_t n_results;
} heddle_entry_info;

enum {
  HEDDLE_FIXED = -1,   // an extent that is always `value`
  HEDDLE_COMPUTED = -2 // an extent computed from dims: ask heddle_result_shapes
};

typedef struct heddle_extent {
  int32_t dim; // number of the dim, or HEDDLE_FIXED, or HEDDLE_COMPUTED
  int32_t reserved;
  int64_t value;
} heddle_extent;

typedef struct heddle_value_info {
  size_t struct_size;
  const char *name;
  int32_t dtype;
  int32_t rank;
  heddle_extent extents[HEDDLE_RANK];
  int32_t optional;  // inputs: may be left out, then every element is `initial`
  int32_t has_below; // inputs: every element must be in 0 .. below - 1
  heddle_extent below;
  double initial;
} heddle_value_info;

typedef struct heddle_state_info {
  size_t struct_size;
  const char *name;
  int32_t dtype;
  int32_t rank;
  heddle_extent extents[HEDDLE_RANK];
  int32_t has_initial; // else, where it is no parameter, an entry must set it before another reads it
  int32_t parameter_rank;
  double initial;        // of every element
  const char *parameter; // it is a param that entries update, which begins as this tensor of the weights file; or NULL
  int64_t parameter_shape[HEDDLE_RANK]; // in that file, of the same elements
} heddle_state_info;

// What a state holds in a session.
typedef struct heddle_state_value {
  size_t struct_size;
  int32_t is_set; // 0: nothing was written yet, or the session was reset; then what follows is 0
  int32_t writer; // the entry that wrote it last; -1: it was restored
  int64_t shape[HEDDLE_RANK];
  int64_t bytes;
} heddle_state_value;

// A token id that the model's configuration tells, under its name there ("eos_token_id", …).
typedef struct heddle_token_info {
  size_t struct_size;
  const char *name;
  int64_t id;
} heddle_token_info;

// How heddle_generate chooses tokens; heddle_generate_defaults() is where to begin.
enum {
  HEDDLE_SAMPLE = 1,    // at random, by temperature, top_k, top_p and seed, instead of the best
  HEDDLE_KEEP_STATE = 2 // goes on from what the session holds, instead of resetting what earlier texts left in it
};
enum {                        // when a beam search stops looking for better texts; transformers' `early_stopping`
  HEDDLE_STOP_WHEN_WORSE = 0, // False: when the best open text, at its present length, is no better than the finished
  HEDDLE_STOP_WHEN_FULL = 1,  // True: as soon as there are as many finished texts as beams
  HEDDLE_STOP_NEVER = 2       // "never": when no open text can become better at any length
};

typedef struct heddle_token { // one id of a name as in heddle_token_info; replaces all of that name
  const char *name;
  int64_t id;
} heddle_token;

// Told after every step: the new token of each text (of each of its beams, the best first), the pad token where it has
// ended. 0: go on, else the generation ends there, with the best texts so far. The session is busy meanwhile.
typedef int32_t (*heddle_listener)(void *context, int32_t step, const int64_t *tokens, int32_t texts);

typedef struct heddle_generate_options {
  size_t struct_size;
  int32_t steps;     // at most so many new tokens
  int32_t min_steps; // no end token before so many
  int32_t beams;     // 1: greedy, or sampling
  uint32_t flags;    // HEDDLE_SAMPLE, HEDDLE_KEEP_STATE
  float length_penalty;
  int32_t early_stopping; // HEDDLE_STOP_*
  float temperature;      // sampling: divides the logits
  int32_t top_k;          // sampling: only the best so many; 0: all
  float top_p;            // sampling: only the best that have so much of the probability; 1: all
  int32_t n_tokens;
  uint64_t seed;
  const heddle_token *tokens; // ids that the model lacks, or that replace its own
  heddle_listener listener;   // NULL: nobody listens
  void *listener_context;
} heddle_generate_options;

typedef struct heddle_memory_info {
  size_t struct_size;
  int64_t arena_bytes;   // held by this session for values between kernels and for staged tensors
  int64_t scratch_bytes; // held by this session for the insides of kernels, over all threads
  int64_t allocations;   // how often this session has asked the system for memory
  int64_t state_bytes;   // held by this session for its states
  int64_t once_bytes;    // held by this session for what its entries compute once, from weights and sizes alone
} heddle_memory_info;

// The one symbol a library exports beside <name>_*. Later versions only append to it.
struct heddle_api {
  uint32_t size;    // bytes of this table
  uint32_t version; // HEDDLE_API_VERSION
  const char *text; // version of the runtime, such as "0.1.0"

  const char *(*last_error)(void);
  heddle_status (*model_load)(const heddle_model_options *, heddle_model **);
  heddle_status (*model_free)(heddle_model *);
  heddle_status (*model_verify)(const heddle_model *);
  heddle_status (*model_describe)(const heddle_model *, heddle_model_info *);
  heddle_status (*dim_describe)(const heddle_model *, int32_t dim, heddle_dim_info *);
  heddle_status (*entry_describe)(const heddle_model *, int32_t entry, heddle_entry_info *);
  heddle_status (*input_describe)(const heddle_model *, int32_t entry, int32_t input, heddle_value_info *);
  heddle_status (*result_describe)(const heddle_model *, int32_t entry, int32_t result, heddle_value_info *);
  heddle_status (*entry_find)(const heddle_model *, const char *name, int32_t *entry);
  heddle_status (*result_shapes)(const heddle_model *, int32_t entry, const heddle_tensor *inputs, int32_t n_inputs,
                                 heddle_tensor *results, int32_t n_results);
  heddle_status (*memory_needed)(const heddle_model *, int32_t entry, const int64_t *dims, int64_t *bytes);

  heddle_status (*session_create)(heddle_model *, const heddle_session_options *, heddle_session **);
  heddle_status (*session_free)(heddle_session *);
  heddle_status (*session_reset)(heddle_session *);
  heddle_status (*session_clone)(heddle_session *, heddle_session **);
  heddle_status (*session_save)(heddle_session *, void *buffer, size_t capacity, size_t *bytes);
  heddle_status (*session_restore)(heddle_session *, const void *buffer, size_t bytes);
  heddle_status (*session_memory)(const heddle_session *, heddle_memory_info *);
  heddle_status (*session_threads)(const heddle_session *, int32_t *threads);
  heddle_status (*run)(heddle_session *, int32_t entry, const heddle_tensor *inputs, int32_t n_inputs,
                       const heddle_tensor *results, int32_t n_results);
  heddle_status (*run_dense)(heddle_session *, int32_t entry, const int64_t *dims, const void *const *inputs,
                             void *const *results);

  // Between the libraries of one process: the thread pool of this library, or NULL where it is of another version.
  const void *(*pool)(uint32_t version);

  heddle_status (*session_observe)(heddle_session *, heddle_observer observer, void *context);

  heddle_status (*state_describe)(const heddle_model *, int32_t state, heddle_state_info *);
  heddle_status (*token_describe)(const heddle_model *, int32_t token, heddle_token_info *);
  heddle_status (*session_capacity)(heddle_session *, int32_t dim, int64_t capacity);
  heddle_status (*session_state)(heddle_session *, int32_t state, heddle_state_value *);
  heddle_status (*session_read_state)(heddle_session *, int32_t state, const heddle_tensor *to);
  heddle_status (*session_result_shapes)(heddle_session *, int32_t entry, const heddle_tensor *inputs, int32_t n_inputs,
                                         heddle_tensor *results, int32_t n_results);
  heddle_status (*generate)(heddle_session *, const heddle_generate_options *, const heddle_tensor *inputs,
                            int32_t n_inputs, heddle_tensor *sequences, int64_t *length, const heddle_tensor *scores);
  heddle_status (*score)(heddle_session *, const heddle_generate_options *, const heddle_tensor *inputs,
                         int32_t n_inputs, const heddle_tensor *labels, heddle_tensor *log_probabilities);

  heddle_status (*session_write_state)(heddle_session *, int32_t state, const heddle_tensor *from);
  heddle_status (*session_save_file)(heddle_session *, const char *path);
  heddle_status (*session_restore_file)(heddle_session *, const char *path);
  heddle_status (*session_save_parameters)(heddle_session *, const char *path);

  heddle_status (*device_get)(heddle_model *, size_t bytes, void **data);
  heddle_status (*device_give)(heddle_model *, void *data);
  heddle_status (*session_stream)(const heddle_session *, void **stream);
  heddle_status (*session_wait)(heddle_session *);
  heddle_status (*session_copy)(heddle_session *, const heddle_tensor *to, const heddle_tensor *from);

  heddle_status (*session_observe_tasks)(heddle_session *, heddle_task_observer observer, void *context);

  // run_dense for the typed functions of a header: `signature` tells whether it is this model's header.
  heddle_status (*run_typed)(heddle_session *, int32_t entry, uint32_t signature, const int64_t *dims,
                             const void *const *inputs, void *const *results);
};

// How every heddle_model and heddle_session begins; the rest of them is the library's own.
typedef struct heddle_head {
  const heddle_api *api;
  void *library; // models opened by heddle_open: the dlopen handle
} heddle_head;

#ifdef __cplusplus
} // extern "C"

template <class T> inline T heddle_init() {
  T value = T();
  value.struct_size = sizeof(T);
  return value;
}
#endif

#if !defined(HEDDLE_ONLY_TYPES)
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

// ---- Errors ----

// The loader's own message and a copy of the last one of any library, of each thread and for the whole program. They
// are no thread-local variables: glibc ends the process where memory for those of a plugin is gone.
typedef struct heddle_message {
  uintptr_t thread; // 0: nobody's. When all are taken, threads share the last one
  long number;      // the system's, which no later thread has, unlike `thread`
  char text[1024];
} heddle_message;
__attribute__((weak, visibility("hidden"))) heddle_message heddle_messages[1024];

#if !defined(__cplusplus) && !defined(__USE_MISC)
long syscall(long number, ...); // of unistd.h, where only standard C was asked for
#endif
static inline char *heddle_error_text(void) {
  const uintptr_t self = (uintptr_t)pthread_self();
  heddle_message *at = heddle_messages;
  for (uintptr_t owner = 0; at < heddle_messages + 1023; at++, owner = 0)
    if (__atomic_compare_exchange_n(&at->thread, &owner, self, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE) || owner == self)
      break;
  const long number = syscall(SYS_gettid);
  at->text[0] = at->number == number ? at->text[0] : '\0';
  at->number = number;
  return at->text;
}

// What went wrong in this thread's last failed call, in one sentence; never NULL.
static inline const char *heddle_last_error(void) { return heddle_error_text(); }

// The name of a status, such as "HEDDLE_OUT_OF_RANGE".
static inline const char *heddle_status_name(int32_t status) {
  static const char *const names[] = {"HEDDLE_OK",          "HEDDLE_INVALID_ARGUMENT", "HEDDLE_NOT_FOUND",
                                      "HEDDLE_BAD_TENSOR",  "HEDDLE_OUT_OF_RANGE",     "HEDDLE_OUT_OF_MEMORY",
                                      "HEDDLE_FILE_ERROR",  "HEDDLE_BAD_WEIGHTS",      "HEDDLE_UNSUPPORTED_CPU",
                                      "HEDDLE_UNSUPPORTED", "HEDDLE_KERNEL_FAILED",    "HEDDLE_BUSY",
                                      "HEDDLE_BAD_LIBRARY", "HEDDLE_DEVICE_FAILED"};
  return (uint32_t)status < sizeof names / sizeof *names ? names[status] : "unknown status";
}

static inline heddle_status heddle_pass_on(const heddle_api *api, heddle_status status) {
  if (status != HEDDLE_OK)
    snprintf(heddle_error_text(), sizeof heddle_messages->text, "%s", api->last_error());
  return status;
}

static inline heddle_status heddle_fail(heddle_status status, const char *what, const char *path, const char *why) {
  snprintf(heddle_error_text(), sizeof heddle_messages->text, what, path, why);
  return status;
}

// Calls a function of the table that `object` (a model or a session, not NULL) belongs to.
#define HEDDLE_CALL(object, function, ...)                                                                             \
  (!(object) ? heddle_fail(HEDDLE_INVALID_ARGUMENT, "%s: the model or session is NULL%s", "heddle_" #function, "")     \
             : heddle_pass_on(((const heddle_head *)(object))->api,                                                    \
                              ((const heddle_head *)(object))->api->function(__VA_ARGS__)))

// ---- Models ----

// `path` written so that no other file was ever loaded under the same text: the loader takes a text that it knows for
// the library that it has, although the file may have been replaced since. Slashes and "./" in front of the name spell
// the bits of a number that the file alone has while it is loaded, or kept by somebody.
static inline void heddle_spell(const char *path, char *out) {
  struct stat file;
  size_t folder = (size_t)(strrchr(path, '/') + 1 - path), at = folder;
  memcpy(out, path, folder);
  if (stat(path, &file) == 0) {
    uint64_t key = (uint64_t)file.st_ino * 0x9E3779B185EBCA87u ^ (uint64_t)file.st_dev * 0xC2B2AE3D27D4EB4Fu ^
                   (uint64_t)file.st_mtime * 0x165667B19E3779F9u ^ (uint64_t)file.st_size << 32;
    for (int bit = 0; bit < 64; bit++) {
      if (key >> bit & 1)
        out[at++] = '.';
      out[at++] = '/';
    }
  }
  strcpy(out + at, path + folder);
}

// Whether a file has all bytes that its first ones promise: the table of sections is the last thing in a library. The
// loader maps one that was cut off, as by a copy that was ended, and a read behind its end kills the process.
static inline int heddle_is_whole(const char *library, uint64_t bytes) {
  unsigned char head[64];
  FILE *file = fopen(library, "rb");
  size_t count = file ? fread(head, 1, sizeof head, file) : 0;
  if (file)
    fclose(file);
  if (count < sizeof head || memcmp(head, "\177ELF\2\1", 6)) // of 64 bits, little-endian; dlopen says what else it is
    return 1;
  uint64_t table;
  uint16_t sections[2]; // bytes of each, how many
  memcpy(&table, head + 40, sizeof table);
  memcpy(sections, head + 58, sizeof sections);
  return table <= bytes && (uint64_t)sections[0] * sections[1] <= bytes - table;
}

// Loads the library at `path`, which is an artifact folder that `heddle compile` wrote, or a lib<name>.so in one.
// *model is set on success only. A library that was compiled anew into the same folder is loaded beside the one that is
// in use.
// HEDDLE_FILE_ERROR, HEDDLE_BAD_LIBRARY, and what heddle_model_load returns.
static inline heddle_status heddle_open(const char *path, const heddle_model_options *options, heddle_model **model) {
  if (!path || !model)
    return heddle_fail(HEDDLE_INVALID_ARGUMENT, "heddle_open: %s is NULL%s", path ? "model" : "path", "");
  char library[4096], weights[4096], spelled[4096];
  size_t length = strlen(path);
  if (length + 500 > sizeof library)
    return heddle_fail(HEDDLE_FILE_ERROR, "%.200s…: the path is too long%s", path, "");
  memcpy(library, path, length + 1);
  DIR *folder = opendir(path);
  if (folder) { // the one lib<name>.so in it
    int found = 0;
    for (struct dirent *file; (file = readdir(folder));) {
      size_t n = strlen(file->d_name);
      if (n > 6 && !strncmp(file->d_name, "lib", 3) && !strcmp(file->d_name + n - 3, ".so")) {
        snprintf(library, sizeof library, "%s/%s", path, file->d_name);
        found++;
      }
    }
    closedir(folder);
    if (found != 1)
      return heddle_fail(HEDDLE_FILE_ERROR, "%s: %s", path,
                         found ? "holds several lib*.so; name the one to open"
                               : "holds no lib*.so; give a folder that `heddle compile` wrote");
  }
  // dlopen searches the system's folders where a name has no slash; ours is a file.
  if (!strchr(library, '/')) {
    memmove(library + 2, library, strlen(library) + 1);
    memcpy(library, "./", 2);
  }
  struct stat is;
  int is_there = stat(library, &is) == 0;
  if (is_there && !S_ISREG(is.st_mode)) // dlopen would wait for a FIFO's writer
    return heddle_fail(HEDDLE_FILE_ERROR, "%s: is not a regular file%s", library, "");
  if (is_there && !heddle_is_whole(library, (uint64_t)is.st_size))
    return heddle_fail(HEDDLE_FILE_ERROR, "%s: is truncated; copy or compile it again%s", library, "");
  heddle_spell(library, spelled);
  void *handle = dlopen(spelled, RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char *why = dlerror();
    if (why && !strncmp(why, spelled, strlen(spelled))) { // as the caller wrote it
      snprintf(weights, sizeof weights, "%s%s", library, why + strlen(spelled));
      why = weights;
    }
    return heddle_fail(HEDDLE_FILE_ERROR, "%s: cannot be loaded: %s", library, why ? why : "unknown reason");
  }
  const heddle_api *api = (const heddle_api *)dlsym(handle, "heddle_api_1");
  if (!api || api->version != HEDDLE_API_VERSION || api->size < sizeof(heddle_api)) {
    dlclose(handle);
    return heddle_fail(HEDDLE_BAD_LIBRARY, "%s: %s", library,
                       api ? "made by an incompatible version of Heddle; compile the model again"
                           : "is not a library made by Heddle");
  }
  heddle_model_options all;
  memset(&all, 0, sizeof all);
  if (options && (options->struct_size < sizeof(size_t) || options->struct_size % sizeof(size_t))) {
    dlclose(handle);
    return heddle_fail(HEDDLE_INVALID_ARGUMENT,
                       "%s: struct_size of the options is wrong%s; set it to the size of the "
                       "struct",
                       library, "");
  }
  if (options)
    memcpy(&all, options, options->struct_size < sizeof all ? options->struct_size : sizeof all);
  all.struct_size = sizeof all;
  heddle_status status = heddle_pass_on(api, api->model_load(&all, model));
  if (status != HEDDLE_OK)
    dlclose(handle);
  else
    ((heddle_head *)*model)->library = handle;
  return status;
}

// Frees a model and unloads its library. Its sessions must be freed first (HEDDLE_INVALID_ARGUMENT otherwise).
// NULL is allowed.
static inline heddle_status heddle_close(heddle_model *model) {
  if (!model)
    return HEDDLE_OK;
  const heddle_api *api = ((heddle_head *)model)->api;
  void *library = ((heddle_head *)model)->library;
  heddle_status status = heddle_pass_on(api, api->model_free(model));
  if (status == HEDDLE_OK && library)
    dlclose(library);
  return status;
}

// Reads all weights and compares them with the file's checksum: HEDDLE_BAD_WEIGHTS where they differ. Loading checks
// the header and the size only.
static inline heddle_status heddle_model_verify(const heddle_model *model) {
  return HEDDLE_CALL(model, model_verify, model);
}

// ---- What a model offers. Numbers count from 0; infos are filled up to their struct_size. ----

static inline heddle_status heddle_model_describe(const heddle_model *model, heddle_model_info *info) {
  return HEDDLE_CALL(model, model_describe, model, info);
}
static inline heddle_status heddle_dim_describe(const heddle_model *model, int32_t dim, heddle_dim_info *info) {
  return HEDDLE_CALL(model, dim_describe, model, dim, info);
}
static inline heddle_status heddle_entry_describe(const heddle_model *model, int32_t entry, heddle_entry_info *info) {
  return HEDDLE_CALL(model, entry_describe, model, entry, info);
}
static inline heddle_status heddle_input_describe(const heddle_model *model, int32_t entry, int32_t input,
                                                  heddle_value_info *info) {
  return HEDDLE_CALL(model, input_describe, model, entry, input, info);
}
static inline heddle_status heddle_result_describe(const heddle_model *model, int32_t entry, int32_t result,
                                                   heddle_value_info *info) {
  return HEDDLE_CALL(model, result_describe, model, entry, result, info);
}

static inline heddle_status heddle_state_describe(const heddle_model *model, int32_t state, heddle_state_info *info) {
  return HEDDLE_CALL(model, state_describe, model, state, info);
}
// Token number 0 .. n_tokens - 1. A name comes several times where the configuration lists several ids.
static inline heddle_status heddle_token_describe(const heddle_model *model, int32_t token, heddle_token_info *info) {
  return HEDDLE_CALL(model, token_describe, model, token, info);
}

// The number of the entry called `name`; NULL: of the only entry, or of `forward`. HEDDLE_NOT_FOUND lists all.
static inline heddle_status heddle_entry_find(const heddle_model *model, const char *name, int32_t *entry) {
  return HEDDLE_CALL(model, entry_find, model, name, entry);
}

// Shapes of the results for inputs of these shapes, whose data is not looked at. results[i] becomes result i of the
// entry, dense, without data; n_results may be less than the entry has. Shapes that depend on what a session holds are
// asked of it: heddle_session_result_shapes.
static inline heddle_status heddle_result_shapes(const heddle_model *model, int32_t entry, const heddle_tensor *inputs,
                                                 int32_t n_inputs, heddle_tensor *results, int32_t n_results) {
  return HEDDLE_CALL(model, result_shapes, model, entry, inputs, n_inputs, results, n_results);
}

// Bytes of arena that a call takes whose tensors are all used in place (heddle_tensor); dims as in heddle_run_dense.
// Tensors that must be staged come on top with their own size.
static inline heddle_status heddle_memory_needed(const heddle_model *model, int32_t entry, const int64_t *dims,
                                                 int64_t *bytes) {
  return HEDDLE_CALL(model, memory_needed, model, entry, dims, bytes);
}

// ---- Sessions ----

// A session allocates its bookkeeping here and its arena at the first run. `options` may be NULL.
static inline heddle_status heddle_session_create(heddle_model *model, const heddle_session_options *options,
                                                  heddle_session **session) {
  return HEDDLE_CALL(model, session_create, model, options, session);
}

// NULL is allowed. Later calls with a freed session are refused (HEDDLE_INVALID_ARGUMENT) until another session of the
// model takes its place, or the model is freed.
static inline heddle_status heddle_session_free(heddle_session *session) {
  if (!session)
    return HEDDLE_OK;
  const heddle_api *api = ((heddle_head *)session)->api;
  return heddle_pass_on(api, api->session_free(session));
}

// ---- State ----
//
// What a model keeps between calls (a memory, a cache, a recurrent state) is declared in its file and lives in the
// session. An entry reads the values that earlier calls left and writes new ones, which hold from the end of a call
// that succeeded: a call that fails changes no state. A state keeps the dims that it was last written with, and they
// are the dims of later calls that read it: a call whose inputs say otherwise is refused (HEDDLE_BAD_TENSOR), and so
// is one that reads a state that has neither a value nor an initial value. A state with an initial value that was not
// written yet takes the dims of the call; one that no input tells (the positions of a cache) is its capacity.
// Memory for states is allocated when they are first used; repeated calls allocate nothing.

// Forgets all states: they are as in a new session, parameters those of the weights file. Their memory stays.
static inline heddle_status heddle_session_reset(heddle_session *session) {
  return HEDDLE_CALL(session, session_reset, session);
}

// How large a dim is in states that no one has written yet, where no input tells: by default its declared bound
// (`dim P <= 1024`), which it may not exceed; -1 makes it so again. For the states that are set it changes nothing.
static inline heddle_status heddle_session_capacity(heddle_session *session, int32_t dim, int64_t capacity) {
  return HEDDLE_CALL(session, session_capacity, session, dim, capacity);
}

// What a state holds now, and a copy of its value into `to`, which must have its dtype and shape.
static inline heddle_status heddle_session_state(heddle_session *session, int32_t state, heddle_state_value *value) {
  return HEDDLE_CALL(session, session_state, session, state, value);
}
static inline heddle_status heddle_session_read_state(heddle_session *session, int32_t state, const heddle_tensor *to) {
  return HEDDLE_CALL(session, session_read_state, session, state, to);
}

// Gives a state the value `from`, dense and of its dtype and shape, from which the next call goes on. Only states
// without dims can be written (else HEDDLE_UNSUPPORTED): parameters, and what an optimiser keeps for them.
static inline heddle_status heddle_session_write_state(heddle_session *session, int32_t state,
                                                       const heddle_tensor *from) {
  return HEDDLE_CALL(session, session_write_state, session, state, from);
}

// A second session with the same options and a copy of the state. HEDDLE_UNSUPPORTED: the session has custom threads,
// whose `release` would be called twice, or an arena of the caller's.
static inline heddle_status heddle_session_clone(heddle_session *session, heddle_session **copy) {
  return HEDDLE_CALL(session, session_clone, session, copy);
}

// Writes the state into buffer and its size to *bytes; with buffer == NULL only tells the size. The saved state fits
// sessions of the same library only: heddle_session_restore refuses that of another, and one that was damaged, and then
// leaves the session as it was.
static inline heddle_status heddle_session_save(heddle_session *session, void *buffer, size_t capacity, size_t *bytes) {
  return HEDDLE_CALL(session, session_save, session, buffer, capacity, bytes);
}
static inline heddle_status heddle_session_restore(heddle_session *session, const void *buffer, size_t bytes) {
  return HEDDLE_CALL(session, session_restore, session, buffer, bytes);
}

// The same in a file. It is written beside `path` and takes its name when it is complete and on the disk: whatever ends
// the process, there is the file of before or the new one, whole.
static inline heddle_status heddle_session_save_file(heddle_session *session, const char *path) {
  return HEDDLE_CALL(session, session_save_file, session, path);
}
static inline heddle_status heddle_session_restore_file(heddle_session *session, const char *path) {
  return HEDDLE_CALL(session, session_restore_file, session, path);
}

static inline heddle_status heddle_session_memory(const heddle_session *session, heddle_memory_info *info) {
  return HEDDLE_CALL(session, session_memory, session, info);
}

// How many threads, the caller's included, a run uses at most.
static inline heddle_status heddle_session_threads(const heddle_session *session, int32_t *threads) {
  return HEDDLE_CALL(session, session_threads, session, threads);
}

// From the next run on `observer` is told of every kernel; NULL ends that. For profilers: it must not use the session.
static inline heddle_status heddle_session_observe(heddle_session *session, heddle_observer observer, void *context) {
  return HEDDLE_CALL(session, session_observe, session, observer, context);
}

// The same of every task on the CPU.
static inline heddle_status heddle_session_observe_tasks(heddle_session *session, heddle_task_observer observer,
                                                         void *context) {
  return HEDDLE_CALL(session, session_observe_tasks, session, observer, context);
}

// ---- Parameters ----
//
// A param that some entry updates (`w <- …`) is a state of the session that begins as the tensor `parameter` of the
// weights file, which is never written: heddle_state_describe tells name and shape there. heddle_session_read_state and
// heddle_session_write_state read and write it, the first also where nothing was written yet.

// Writes all parameters as they are now to a safetensors file under these names and shapes, from which `heddle compile
// --weights` and other programs go on; as heddle_session_save_file, whole or not at all. HEDDLE_NOT_FOUND: there are
// none.
static inline heddle_status heddle_session_save_parameters(heddle_session *session, const char *path) {
  return HEDDLE_CALL(session, session_save_parameters, session, path);
}

// ---- Running ----

// Runs an entry. Inputs and results are found by name, or by place where the name is NULL; dims follow from the
// shapes of the inputs. Optional inputs may be left out (their `initial` is used), and so may results.
// Integer and bool inputs may be given as I8, I32, I64, U8 or BOOL: every value must fit the model's own type.
// Floating-point dtypes must match, and so must those of results.
static inline heddle_status heddle_run(heddle_session *session, int32_t entry, const heddle_tensor *inputs,
                                       int32_t n_inputs, const heddle_tensor *results, int32_t n_results) {
  return HEDDLE_CALL(session, run, session, entry, inputs, n_inputs, results, n_results);
}

// Shapes that heddle_run will give the results for these inputs, as heddle_result_shapes, with the session's states.
static inline heddle_status heddle_session_result_shapes(heddle_session *session, int32_t entry,
                                                         const heddle_tensor *inputs, int32_t n_inputs,
                                                         heddle_tensor *results, int32_t n_results) {
  return HEDDLE_CALL(session, session_result_shapes, session, entry, inputs, n_inputs, results, n_results);
}

// The same where all tensors are dense and of the model's own dtypes: dims[i] is dim i of the model (those that the
// entry does not use, or that only its states tell, are ignored), inputs[i] and results[i] are the data of input and
// result i; NULL: left out.
static inline heddle_status heddle_run_dense(heddle_session *session, int32_t entry, const int64_t *dims,
                                             const void *const *inputs, void *const *results) {
  return HEDDLE_CALL(session, run_dense, session, entry, dims, inputs, results);
}

// ---- Tensors on a GPU ----
//
// A model for a GPU takes inputs and results there as they are: dense and aligned ones without a copy, others by way of
// the arena. In a session with a stream of the caller's a call is work like any other in that stream: it returns when
// its work is in there, and does not wait, unless a tensor lies in main memory or the entry needs numbers of the
// device's data: an input of whole numbers with a range, a counter in a state, a requirement. In a session with a
// stream of its own the inputs must be there when the call is made, and the results are there when it returns. What
// fails in work that nobody has waited for is told by a later call. With a model for CPUs: HEDDLE_UNSUPPORTED.

// Memory of the device, aligned to 256 bytes; given back by heddle_device_give, which waits for work in progress.
static inline heddle_status heddle_device_get(heddle_model *model, size_t bytes, void **data) {
  return HEDDLE_CALL(model, device_get, model, bytes, data);
}
static inline heddle_status heddle_device_give(heddle_model *model, void *data) {
  return HEDDLE_CALL(model, device_give, model, data);
}

// The stream (CUstream) that a session's work is put into.
static inline heddle_status heddle_session_stream(const heddle_session *session, void **stream) {
  return HEDDLE_CALL(session, session_stream, session, stream);
}

// Waits for the session's work. With a model for CPUs there is none left.
static inline heddle_status heddle_session_wait(heddle_session *session) {
  return HEDDLE_CALL(session, session_wait, session);
}

// Copies between dense tensors of the same dtype and shape, wherever they lie, behind the session's work; it is done
// when the call returns, between two places on the device when the session's stream has come so far.
static inline heddle_status heddle_session_copy(heddle_session *session, const heddle_tensor *to,
                                                const heddle_tensor *from) {
  return HEDDLE_CALL(session, session_copy, session, to, from);
}

// ---- Generating text ----

static inline heddle_generate_options heddle_generate_defaults(int32_t steps) {
  heddle_generate_options options = HEDDLE_INIT(heddle_generate_options);
  options.steps = steps;
  options.beams = 1;
  options.length_penalty = options.temperature = options.top_p = 1;
  return options;
}

// Writes texts with a model that has the entries for it: `encode` and `decode_step`, or `step`, and for several beams
// `reorder` (docs/generation.md). `inputs` are those of `encode`, or the prompt: those of `step`. `sequences` is I64
// [texts, prompt + steps] of the caller's (the prompt of an encoder-decoder is the start token): the texts, then the
// pad token; the first *length columns say all. `scores`, F32 [texts] or NULL: the log-probability of each text, of a
// beam search divided by length ** length_penalty. With sequences->data == NULL only its dtype, shape and strides are
// set. It allocates working memory for the call. What fails between its calls of the model leaves the states as these
// have made them. HEDDLE_NOT_FOUND or HEDDLE_UNSUPPORTED: the model has no such entries.
static inline heddle_status heddle_generate(heddle_session *session, const heddle_generate_options *options,
                                            const heddle_tensor *inputs, int32_t n_inputs, heddle_tensor *sequences,
                                            int64_t *length, const heddle_tensor *scores) {
  return HEDDLE_CALL(session, generate, session, options, inputs, n_inputs, sequences, length, scores);
}

// The log-probability of each token of texts, given those before it. Decoder only: `inputs` are those of `step`, the
// texts first; `labels` is NULL; 0 at the first token. Encoder-decoder: `inputs` are those of `encode`, `labels` the
// texts, of any integer dtype; pad and negative labels count as 0. `log_probabilities` is F32 [texts, tokens]; with
// data == NULL only its dtype, shape and strides are set. `options` may be NULL; of them `tokens` and `flags` are
// looked at.
static inline heddle_status heddle_score(heddle_session *session, const heddle_generate_options *options,
                                         const heddle_tensor *inputs, int32_t n_inputs, const heddle_tensor *labels,
                                         heddle_tensor *log_probabilities) {
  return HEDDLE_CALL(session, score, session, options, inputs, n_inputs, labels, log_probabilities);
}

// Bytes of one element; 0 for a number that is no dtype.
static inline int64_t heddle_dtype_bytes(int32_t dtype) {
  static const unsigned char bytes[] = {4, 2, 2, 1, 4, 1, 8, 1};
  return (uint32_t)dtype < sizeof bytes ? bytes[dtype] : 0;
}

// A dense row-major tensor. A rank above HEDDLE_RANK is kept, and refused by the call that gets it.
static inline heddle_tensor heddle_dense(const char *name, int32_t dtype, void *data, int32_t rank,
                                         const int64_t *shape) {
  heddle_tensor tensor;
  memset(&tensor, 0, sizeof tensor);
  tensor.name = name;
  tensor.data = data;
  tensor.dtype = dtype;
  tensor.rank = rank;
  int64_t stride = heddle_dtype_bytes(dtype);
  for (int32_t i = rank < HEDDLE_RANK ? rank : HEDDLE_RANK; i > 0; i--) {
    tensor.shape[i - 1] = shape[i - 1];
    tensor.strides[i - 1] = stride;
    stride = (int64_t)((uint64_t)stride * (uint64_t)shape[i - 1]); // no overflow trap: the call checks sizes
  }
  return tensor;
}

#endif // HEDDLE_ONLY_TYPES
#endif // HEDDLE_H
