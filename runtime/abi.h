// What generated code and the runtime agree on. The compiler emits one `heddle_model_desc` and, per entry,
// the three functions below; the runtime (linked into the same library) validates a call, binds its dims,
// sizes the arena and calls `run`. Not for users: they see heddle.h.
// compiler/emit/host mirrors these structs field by field; change both and HEDDLE_ABI_VERSION together.
#ifndef HEDDLE_ABI_H
#define HEDDLE_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HEDDLE_ABI_VERSION 12
#define HEDDLE_MAX_RANK 8

// How the runtime hands out scratch: blocks of whole lines, each behind a header.
#define HEDDLE_SCRATCH_LINE 64
#define HEDDLE_SCRATCH_HEADER 128

// Element types, as in heddle.h (`heddle_dtype`) and in the manifest.
enum {
  HEDDLE_T_F32 = 0,
  HEDDLE_T_BF16,
  HEDDLE_T_F16,
  HEDDLE_T_I8,
  HEDDLE_T_I32,
  HEDDLE_T_BOOL,
  HEDDLE_T_I64,
  HEDDLE_T_U8
};

// One extent of an input or result. `dim` >= 0: it is that dim of the model (an input binds it);
// -1: it is `value`; -2: computed from dims by the entry's `extents`.
typedef struct heddle_extent_desc {
  int32_t dim;
  int32_t reserved;
  int64_t value;
} heddle_extent_desc;

typedef struct heddle_value_desc {
  const char *name;
  int32_t dtype; // HEDDLE_T_*: what the kernels read or write
  int32_t rank;
  const heddle_extent_desc *extents; // `rank` of them
  int32_t optional;                  // inputs: may be absent; then every element is `initial`
  int32_t has_below;                 // inputs index(N): every element must lie in 0 .. N - 1
  heddle_extent_desc below;
  double initial;
} heddle_value_desc;

typedef struct heddle_dim_desc {
  const char *name;
  int64_t most; // declared bound, or -1
} heddle_dim_desc;

// A call, as the runtime hands it to an entry. In a model for a device all addresses of tensors, arena and weights are
// the device's; only `dims` lies here. All tensors are dense, row-major, of the dtype in their descriptor. Inputs and
// results are aligned to their elements, all others and those of a device to 64 bytes (states that slide: to their
// rows). The arena is 64-byte aligned and holds arena_bytes(dims) bytes.
typedef struct heddle_call {
  const int64_t *dims;
  const void *const *inputs;
  void *const *results;
  // By number of the state, NULL for those that the entry doesn't use. `states` hold the old values; an update writes
  // to `next_states`, which is the same address where the entry updates in place. After a run that returned 0 the
  // next one is the state's value, so a failed run has changed nothing.
  void *const *states;
  void *const *next_states;
  const uint8_t *weights; // start of the packed weights' payload
  uint8_t *arena;
  void *context; // of the thread that runs it: passed to every kernel as Halide's user context
  // Stands for the tensors without elements that a kernel reads under a condition that never holds: such reads are made
  // all the same, as if every axis had at least one place, and nobody looks at what they give. nothing_bytes(dims)
  // bytes are readable, and as many before them: the last of no places is the one before the first.
  const uint8_t *nothing;
  // What the session keeps of the values that this entry computes once: once_bytes(dims) bytes, 64-byte aligned. Where
  // `once_done` is 0 the run computes them.
  uint8_t *once;
  int64_t once_done;
} heddle_call;

// One state that an entry reads, updates, or both.
typedef struct heddle_state_use_desc {
  int32_t state; // number of it
  // The old value is looked at, be it only to keep the places that an update leaves alone. Where an entry
  // updates without reading, the update is of the whole state and may change its dims.
  int32_t reads;
  int32_t updates;
  int32_t in_place; // updates: writes over the old value, and only over what nobody reads later in this run
} heddle_state_use_desc;

typedef struct heddle_entry_desc {
  const char *name;
  const char *doc;
  int32_t n_inputs;
  int32_t n_results;
  const heddle_value_desc *inputs;
  const heddle_value_desc *results;
  // Extents of all inputs, then of all results, concatenated; then the bounds of the inputs whose `below` is
  // computed (dim == -2), in order.
  void (*extents)(const int64_t *dims, int64_t *out);
  // Bytes of arena that `run` needs for these dims; -1 where a tensor would exceed 2^31 - 1 elements.
  int64_t (*arena_bytes)(const int64_t *dims);
  // 0; or the code of the kernel that failed (Halide's error codes, negative); or 1 + the number of the requirement
  // that doesn't hold, or of what would lie outside of a tensor: these have their messages among them. Requirements
  // that need only dims are tested before any kernel, and all of them before anything is written to a state in place.
  int32_t (*run)(const heddle_call *call);
  int32_t n_uses;
  int32_t n_requirements;
  const heddle_state_use_desc *uses; // each state at most once
  const char *const *requirements;   // what is told to the user where one doesn't hold
  // Bytes of scratch, headers included, that a thread holds at once in a kernel of `run` for these dims, at most. NULL:
  // not known; then, and where a kernel needs more, halide_malloc asks the system. On a device: what a kernel keeps
  // between its launches, at most; -1: a tensor in it would exceed 2^31 - 1 elements.
  int64_t (*scratch_bytes)(const int64_t *dims);
  // Bytes that must be readable at heddle_call.nothing, and before it; -1: more than kernels can address. NULL: none.
  int64_t (*nothing_bytes)(const int64_t *dims);
  // Bytes of what is computed once, from weights and the dims of `once_dims`, and again where one of these differs.
  // NULL: nothing is.
  int64_t (*once_bytes)(const int64_t *dims);
  const int32_t *once_dims; // numbers of dims, ascending
  int32_t n_once_dims;
  uint32_t signature; // that the caller of a typed function must tell
} heddle_entry_desc;

// A tensor of the weights file that a session has as a state, in its own copy: row-major at `offset` of the payload.
typedef struct heddle_parameter_desc {
  const char *name; // in the weights file that the model was compiled with, as is its shape
  int64_t offset;
  const int64_t *shape;
  int32_t rank;
  int32_t reserved;
} heddle_parameter_desc;

// Session state. Its dims are bound by the entry that updates it wholly; a state with an initial value that was not
// updated yet has those of the call's inputs and, where these don't tell, the declared bounds (dim P <= 1024).
typedef struct heddle_state_desc {
  const char *name;
  int32_t dtype;
  int32_t rank;
  const heddle_extent_desc *extents;
  int32_t has_initial; // 0: must be updated before it is read
  int32_t n_dims;
  const int32_t *dims; // numbers of the dims that its extents depend on, ascending
  double initial;      // of every element
  // 1 + the axis along which it slides, or 0. A call appends rows at the end of that axis and drops as many at its
  // front, at all places of the axes before it (the parts) alike.
  int32_t slides;
  int32_t below; // index(N): every element lies in 0 .. N - 1, and a saved value is refused that doesn't; else 0
  const heddle_parameter_desc *parameter; // as which it begins (then it has no dims); NULL: as `initial`
} heddle_state_desc;

// A token id that the model's config.json tells, under its name there: "pad_token_id", "eos_token_id" (several: given
// several times), "decoder_start_token_id", "bad_words_ids" (those of one token), "bad_words_ids.0", "bad_words_ids.1",
// … (the tokens of one phrase each), …
typedef struct heddle_token_desc {
  const char *name;
  int64_t id;
} heddle_token_desc;

// Of `run`: a part of a tensor would lie outside of it, which neither requirement nor proof has excluded. Halide's
// codes are small.
#define HEDDLE_OUTSIDE (-1000)

// What generated code may call beside the halide_* hooks: the functions of heddle.h under their own names (compile
// with HEDDLE_ONLY_TYPES to see the types alone). The typed function of an entry is one call of
//   int32_t heddle_run_typed(session, entry, uint32_t signature, const int64_t *dims, const void *const *inputs,
//                            void *const *results)
// with dims in the model's order, and the library exports `heddle_api_1`, which the linker must be told to keep
// (--undefined=heddle_api_1): it pulls the rest of the runtime out of its archive. Generated code that needs the table
// refers to it by its hidden name, `heddle_table`: the exported one may be bound to another library's.

typedef struct heddle_model_desc {
  uint32_t abi_version;
  uint32_t cpu_features; // that the kernels were compiled for: HEDDLE_CPU_* of cpu_features.h
  const char *name;
  const char *target;     // as given to --target, `native` resolved
  const char *compiler;   // version of the compiler
  uint64_t weights_bytes; // payload size of the weights file
  uint8_t weights_id[16]; // must equal the id in the weights file's header
  int32_t n_dims;
  int32_t n_entries;
  const heddle_dim_desc *dims;
  const heddle_entry_desc *entries;
  int32_t n_states;
  int32_t n_tokens;
  const heddle_state_desc *states;
  // Extents of all states, concatenated; only those are looked at whose dims are known. NULL where n_states is 0.
  void (*state_extents)(const int64_t *dims, int64_t *out);
  const heddle_token_desc *tokens;
  uint64_t build;       // of this compilation, as in the weights file's header
  const void *embedded; // the whole weights file, where the library carries it; aligned to 64 bytes. Else NULL
  uint64_t embedded_bytes;
  // The same model compiled for a target that asks less of the machine, or NULL. Such models differ in what computes:
  // interface, weights file and build are the same, and each has the offsets of its own weights in that file.
  const struct heddle_model_desc *lower;
  const struct heddle_device_desc *device; // NULL: the CPU computes
} heddle_model_desc;

// What a model for a device (a GPU) has beside the rest.
typedef struct heddle_device_desc {
  const struct rt_device_api *api; // of the runtime's part for that kind of device, which is linked in because of this
  int32_t architecture;            // that the code is for: CUDA's compute capability, ten times
  int32_t driver;                  // least version that takes it, as the driver gives its own
  int32_t n_launches;
  int32_t n_constants;
  const char *code;            // PTX, ending in 0
  const char *const *launches; // names of the code's kernels
  const struct heddle_constant_desc *constants;
  const void *binary; // the same as machine code, for that capability and later ones of its generation; NULL: none
  int64_t binary_bytes;
} heddle_device_desc;

// Data of the library that kernels read.
typedef struct heddle_constant_desc {
  const void *data;
  int64_t bytes;
} heddle_constant_desc;

// In the runtime, called by `run` of a model for a device: all return 0 or HEDDLE_DEVICE_ERROR, and then the session
// knows why. Work is done in the order of the calls. `blocks` may be any number: of none nothing is launched.
#define HEDDLE_DEVICE_ERROR (-1001)
// `parameters` are those of the kernel as a struct in C would have them, `bytes` up to the end of the last one.
int32_t heddle_device_launch(void *context, int32_t launch, int64_t blocks, int32_t threads, const void *parameters,
                             int64_t bytes);
int32_t heddle_device_copy(void *context, void *to, const void *from, int64_t bytes);
int32_t heddle_device_put(void *context, void *to, const void *value, int64_t bytes); // a number that lies here
int32_t heddle_device_read(void *context, void *to, const void *from, int64_t bytes); // `to` lies here; waits
// As heddle_copy_slice, with 1 for places that are not those of `to`.
int32_t heddle_device_copy_slice(void *context, void *to, const void *from, int64_t element_bytes, int32_t rank,
                                 const int64_t *place);
void *heddle_device_scratch(void *context);                  // scratch_bytes(dims) of them
void *heddle_device_constant(void *context, int32_t number); // where that constant lies

// In the runtime. `run` calls it before (begins = 1) and after (0) every kernel; it tells the session's observer.
void heddle_kernel_event(void *context, const char *kernel, int32_t begins);

// In the runtime. Copies a dense tensor into another one, dense too, of `rank` axes: `place` holds the extents of `to`,
// then the offset along each of its axes, then how many places of each axis are written. 0, and nothing is copied,
// where these are not places of `to`.
int32_t heddle_copy_slice(void *to, const void *from, int64_t element_bytes, int32_t rank, const int64_t *place);

// In the runtime. Appends `rows` rows to each of `parts` parts of a state that slides, from number `part` on; called
// for all of them, with the same `rows`, when nobody looks at the state any more. `from` is dense: [parts, rows, …].
// 0 where the state has no such parts.
int32_t heddle_slide(void *context, int32_t state, int64_t part, int64_t parts, int64_t rows, const void *from);

// In the runtime. Sorts `count` rows by their numbers, 0 .. `below` - 1, HEDDLE_MOST_GROUPS of them at most, into
// `tiles` tiles of `height` rows of one number: compiler/ir/heddle.td says of `heddle.group` what is written.
#define HEDDLE_MOST_GROUPS 256
void heddle_group(const int32_t *numbers, int64_t count, int64_t below, int64_t tiles, int64_t height, int32_t *rows,
                  int32_t *of_tiles, int32_t *places);

// Emitted by the compiler, hidden in the library: the model for its most demanding target.
extern const heddle_model_desc heddle_model_descriptor;

// A model that is linked into a program tells of its pool by an ELF note of this name and type, the pool's version: no
// linker option is needed for it to be seen. It holds the distance from itself to `rt_own_pool`, 64 bits.
#define HEDDLE_POOL_NOTE "Heddle"
#define HEDDLE_POOL_NOTE_TYPE 1

// The weights file: this header, then (at payload_offset) the payload, then nothing.
#define HEDDLE_WEIGHTS_MAGIC "HEDDLEW1"
typedef struct heddle_weights_header {
  char magic[8];
  uint32_t version;        // 1
  uint32_t header_bytes;   // sizeof(heddle_weights_header)
  uint64_t payload_offset; // a multiple of 4096
  uint64_t payload_bytes;
  uint8_t id[16];    // of layout and library, not of content
  uint64_t checksum; // XXH64 of the payload with seed 0, checked by `heddle check DIR`
  uint64_t build;    // of the library: the descriptor's, and the linker's build id of a shared one
} heddle_weights_header;

#ifdef __cplusplus
}
#endif
#endif
