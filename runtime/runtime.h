// What the files of the runtime share: the objects behind heddle.h and the functions between files, all hidden in
// the finished library. Files depend on each other downwards: api, call, bind, session, model on the one side;
// halide, scratch, pool, memory, status below them, which need no model and can be linked without one.
#ifndef HEDDLE_RUNTIME_H
#define HEDDLE_RUNTIME_H

#define HEDDLE_ONLY_TYPES
#include "runtime/abi.h"
#include "runtime/device.h"
#include "runtime/heddle.h"
#include "runtime/share.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RT_VERSION "0.1.0"
#define RT_ALIGN 64
#define RT_MESSAGE 1024

// ---- status.c: one message per thread, and lists built up inside a message
const char *rt_last_error(void);
heddle_status rt_fail(heddle_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

heddle_status rt_null(const char *what);

typedef struct rt_text { // a bounded string
  char data[256];
  size_t length;
} rt_text;
void rt_append(rt_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void rt_append_shape(rt_text *text, const int64_t *shape, int32_t rank);
void rt_append_range(rt_text *text, int64_t low, int64_t high); // what an element must be
const char *rt_dtype_name(int32_t dtype);
int64_t rt_dtype_bytes(int32_t dtype); // 0: no such dtype

// ---- memory.c: memory from the system, 64-byte aligned, with a readable margin of 64 bytes on both sides
typedef struct rt_memory {
  uint8_t *data; // NULL while bytes == 0
  int64_t bytes;
  void *map;
  size_t mapped;
  heddle_allocator from; // without `get`: the system, or the caller's memory that is not given back
  rt_device *device;     // or else its memory (room.c)
  bool pinned;           // this machine's, got from the device, which reaches it without help
} rt_memory;
// Zeroed; false: refused, nothing is held. `from` may lack `get`: then the system gives it.
bool rt_memory_get(rt_memory *memory, int64_t bytes, const heddle_allocator *from);
// Zeros to be read: addresses of the system's that no memory is behind.
bool rt_memory_get_unwritten(rt_memory *memory, int64_t bytes);
void rt_memory_clear(rt_memory *memory); // all zero again; large blocks of the system's give their pages back
void rt_memory_release(rt_memory *memory);
heddle_status rt_take_allocator(heddle_allocator *to, const heddle_allocator *from); // from: the caller's, or NULL

// ---- cpu.c: features of this machine
uint32_t rt_cpu_features(void); // bits HEDDLE_CPU_*
// Of the library's targets the most demanding one that this machine can run, or the one that is `wanted`; where that
// one needs AMX, the kernel was asked for it.
heddle_status rt_choose_target(const char *wanted, const heddle_model_desc **desc);

// ---- cpus.c: where threads may run
#define RT_MOST_CPUS 1024
typedef struct rt_cpus {
  int32_t count; // CPUs this thread may run on, one per core first
  int32_t cores;
  uint16_t cpu[RT_MOST_CPUS];
  uint16_t core[RT_MOST_CPUS]; // equal for CPUs that share a core
} rt_cpus;
void rt_cpus_allowed(rt_cpus *cpus);
// CPUs that the cgroup's quota pays for, rounded up; 0: no quota. The arguments are /proc/self/cgroup and
// /sys/fs/cgroup.
int32_t rt_cgroup_cpus(const char *membership, const char *root);

// ---- pool.c: threads, shared by all sessions of all Heddle libraries in the process
#define RT_POOL_VERSION 1
typedef struct rt_pool {
  uint32_t version;
  uint32_t reserved;
  // Calls body(data, 0) here and body(data, i) for i = 1 .. at most `helpers` on free workers at the same time;
  // returns when all have returned. How many helpers come is not promised: the bodies share out the work themselves.
  void (*run)(const rt_cpus *cpus, int32_t helpers, void (*body)(void *data, int32_t index), void *data);
  // Starts workers for `threads` threads, so that runs need not.
  void (*prepare)(const rt_cpus *cpus, int32_t threads);
  // A caller is computing on this CPU until leave: others' jobs keep off it.
  int32_t (*enter)(void);
  void (*leave)(int32_t cpu);
} rt_pool;
const void *rt_own_pool(uint32_t version);
const rt_pool *rt_find_pool(void); // the process's pool; publish.c. NULL: no memory

// ---- scratch.c: what kernels allocate, per thread of a session, in stack order
typedef struct rt_block rt_block;
typedef struct rt_slot { // kernels get it as their user context: the library has no thread-local storage
  heddle_session *session;
  int64_t base; // what was in use when this thread's parallel tasks began; -1: outside of them
  rt_memory slab;
  int64_t used;            // bytes of the slab in use, or that would be in a larger one
  rt_block *top;           // newest block
  _Atomic(rt_share) share; // of the tasks of a loop
} __attribute__((aligned(128))) rt_slot;

typedef struct rt_scratch {
  rt_slot *slots; // one per thread
  const heddle_allocator *from;
  int32_t count;
  int64_t reserved;            // most bytes that a thread was said to need
  int64_t outer;               // most bytes in use outside of parallel tasks, so far
  _Atomic int64_t inner;       // most bytes that one task adds, so far
  _Atomic int64_t allocations; // of the whole session: the arena counts here too
} rt_scratch;

void *rt_scratch_take(rt_scratch *scratch, rt_slot *slot, size_t bytes);
void rt_scratch_give(rt_slot *slot, void *pointer);
bool rt_scratch_reserve(rt_scratch *scratch, int64_t bytes); // before a run, for every thread; false: not for all
void rt_scratch_settle(rt_scratch *scratch); // between runs: frees leftovers, makes slabs as large as was needed
void rt_scratch_release(rt_scratch *scratch);

// ---- halide.c: the floating-point mode that kernels run in, and loops whose tasks the threads of a session share
uint32_t rt_float_mode_enter(void); // returns the caller's
void rt_float_mode_leave(uint32_t before);
typedef int (*rt_task)(void *user_context, int index, uint8_t *closure); // not 0: an error, which ends the loop
// Tasks 0 to count - 1, between runs of an entry.
int rt_share_tasks(heddle_session *session, int32_t count, rt_task task, void *closure);

// ---- objects
struct heddle_model {
  heddle_head head;
  const heddle_model_desc *desc;
  const uint8_t *payload;
  uint64_t checksum;
  void *map; // the weights file, or NULL
  size_t mapped;
  heddle_allocator allocator; // of `copy`; without `get`: the system
  rt_memory copy;             // the weights, where they were copied
  rt_device *device;          // that computes, or NULL
  _Atomic int32_t sessions;
  _Atomic(heddle_session *) freed; // sessions whose memory the next ones take
};

// One input or result during a call.
// A dim that the model does not bound is one of 32 bits, so that sums and products of two have 64.
static inline int64_t rt_most_of(const heddle_dim_desc *dim) { return dim->most >= 0 ? dim->most : INT32_MAX; }

typedef struct rt_value {
  const heddle_value_desc *desc;
  const heddle_tensor *given; // NULL: left out
  int64_t *shape;             // desc->rank extents, in rt_call.extents
  int64_t elements;
  int64_t bytes;   // dense, in the model's dtype
  int64_t below;   // -1: no bound
  int64_t place;   // offset among the staged tensors, or -1: used where it is
  int64_t lodging; // transfer.c: offset in the session's staging memory, or -1: goes through none of it
} rt_value;

// ---- state.c: what a session keeps between calls
enum { RT_NOTHING, RT_INITIAL, RT_VALUE }; // initial values are filled in at the first use, for the dims of that call

typedef struct rt_state {
  const heddle_state_desc *desc;
  rt_memory buffers[2];
  bool zero[2];        // nothing was written to the buffer yet
  int32_t current;     // the buffer with the value
  int32_t holds;       // RT_NOTHING, RT_INITIAL, RT_VALUE
  int32_t writer;      // entry that wrote the value; -1: none, it was restored
  int64_t *dims;       // of desc->dims, that the value was written with
  int64_t *saved_dims; // the same, of a saved session that is being restored
  int64_t *shape;      // during a call
  int64_t bytes;       // of the value
  int64_t wanted;      // bytes that this call needs
  int64_t begin;       // slide.c: the byte at which the value begins, and where it will when the run has succeeded
  int64_t next_begin;
  bool slid; // in this run
} rt_state;

typedef struct rt_states {
  int32_t count;
  rt_state *list;
  int64_t *dims, *extents; // where the dims and shapes of all states lie
  void **now, **next;      // heddle_call's
  int64_t *capacity;       // by dim: heddle_session_capacity, or -1
} rt_states;

// ---- once.c: what entries compute once
typedef struct rt_kept {
  rt_memory memory;
  int64_t *dims; // of the entry's once_dims, that it was computed for
  bool done;     // it was
} rt_kept;

typedef struct rt_once {
  int32_t count; // of entries
  rt_kept *list;
  int64_t *dims; // where those of all lie
} rt_once;

// What told a dim of a call: the number of an input, or one of these.
#define RT_UNBOUND (-1)
#define RT_BOUND_BY_CALLER (-2)
#define RT_BOUND_BY_STATE(number) (-3 - (number)) // and back

// Working storage of a call, large enough for every entry of a model: a run allocates none.
typedef struct rt_call {
  const heddle_model_desc *model;
  const heddle_entry_desc *entry;
  int64_t *dims;
  int32_t *bound_by; // what told each dim
  int64_t *extents;
  rt_value *values;       // inputs, then results
  heddle_tensor *tensors; // of heddle_run_dense
  const void **inputs;
  void **results;
  rt_states *states; // NULL: asked of a model, without a session
} rt_call;

enum { RT_IDLE, RT_RUNNING, RT_FREED }; // what a session is in use for

// The object itself outlives heddle_session_free, until another session takes its place or the model is freed: a thread
// that calls with a freed session is refused.
struct heddle_session {
  heddle_head head;
  heddle_model *model;
  _Atomic int32_t use;
  heddle_session *next_freed;
  int32_t threads; // from here on a session that takes the place of another begins with zeros
  int32_t asked_threads;
  bool has_custom;
  bool prepared;
  heddle_threads custom;
  const rt_pool *pool;
  int64_t memory_limit;
  int32_t graphs;             // as the options say
  void *stream;               // the caller's; NULL: the queue has its own
  heddle_allocator allocator; // without `get`: the system
  rt_memory arena;
  bool has_fixed_arena; // the caller's
  rt_memory nothing;    // heddle_call's, where the arena is too small for it
  rt_queue *queue;      // on the model's device, or NULL; then arena, nothing, kept and states are its memory
  rt_memory kept;       // on a device: what kernels keep between their launches
  rt_memory staging;    // on a device: tensors on the way to it or from it; pinned
  rt_scratch scratch;
  rt_call call;
  rt_states states;
  rt_once once;
  rt_cpus cpus;
  heddle_observer observer; // NULL: nobody watches
  void *observer_context;
  heddle_task_observer task_observer;
  void *task_observer_context;
  atomic_bool faulted; // `fault` was written in this run
  char fault[512];     // a kernel's message
};

// Whose turn a session is: HEDDLE_BUSY where another thread has it.
heddle_status rt_session_enter(heddle_session *session);
heddle_status rt_session_leave(heddle_session *session, heddle_status status); // returns status
void rt_sessions_release(heddle_model *model);                                 // the freed ones

bool rt_states_allocate(rt_states *states, const heddle_model_desc *model);
void rt_states_release(rt_states *states);
void rt_state_reset(rt_state *state);
void rt_states_reset(rt_states *states);
int64_t rt_states_bytes(const rt_states *states);
// By how many bytes a buffer (-1: none) has to grow for state->wanted.
int64_t rt_state_growth(const rt_state *state, int32_t buffer);
heddle_status rt_states_bind(rt_call *call);                            // dims that the inputs don't tell
heddle_status rt_states_plan(heddle_session *session, int64_t *growth); // bytes that rt_states_prepare will allocate
heddle_status rt_states_prepare(heddle_session *session);               // states.now and states.next
heddle_status rt_state_grow(heddle_session *session, rt_state *state, int32_t buffer); // to state->wanted bytes
int64_t rt_state_elements(const int64_t *shape, int32_t rank);                         // -1: too many
// A parameter as the weights file has it; of a device, there.
const uint8_t *rt_parameter(const heddle_session *session, const heddle_parameter_desc *parameter);
void rt_states_commit(heddle_session *session); // the run has succeeded

bool rt_once_allocate(rt_once *once, const heddle_model_desc *model);
void rt_once_release(rt_once *once);
int64_t rt_once_bytes(const rt_once *once);
int64_t rt_once_growth(heddle_session *session);        // bytes that rt_once_prepare will allocate
heddle_status rt_once_prepare(heddle_session *session); // dims are bound
// False: this run computes it, and does more than the ones behind it.
bool rt_once_give(heddle_session *session, heddle_call *arguments);
void rt_once_settle(heddle_session *session, bool succeeded); // after a run

// ---- saved.c
#define RT_SAVED_MAGIC "HEDDLES" // begins a saved session, before a digit with the format's version
void rt_state_shape(heddle_session *session, const rt_state *state, const int64_t *dims); // to state->shape
// What a state holds, of state->shape, which this sets; a parameter that no one has written is the file's. NULL:
// nothing.
const void *rt_state_now(heddle_session *session, const rt_state *state);

// ---- slide.c: where values of states lie
int64_t rt_state_room(const rt_state *state); // bytes of a buffer for state->wanted, of state->shape
void *rt_state_value(const rt_state *state);  // the value, dense

// ---- weights.c
heddle_status rt_weights_load(heddle_model *model, const heddle_model_options *options);
void rt_weights_release(heddle_model *model);
void rt_weights_copied(const heddle_model *model, const uint8_t *from, int64_t bytes); // its pages may go
uint64_t rt_checksum(const uint8_t *data, uint64_t bytes);                             // XXH64, seed 0

// ---- bind.c: from the tensors of a call to its dims and shapes
bool rt_call_allocate(rt_call *call, const heddle_model_desc *model);
void rt_call_release(rt_call *call);
void rt_call_begin(rt_call *call, int32_t entry); // all values left out
heddle_status rt_match(rt_call *call, const heddle_tensor *inputs, int32_t n_inputs, const heddle_tensor *results,
                       int32_t n_results);
heddle_status rt_bind_from_inputs(rt_call *call);
heddle_status rt_bind_from_dims(rt_call *call, const int64_t *dims);
heddle_status rt_check_results(rt_call *call);
// Whether these are inputs of the entry, in form and in the dims that they tell.
heddle_status rt_check_inputs(rt_call *call, int32_t entry, const heddle_tensor *inputs, int32_t n_inputs);
heddle_status rt_wrong(heddle_status status, const rt_call *call, const rt_value *value, const char *what);
heddle_status rt_check_entry(const heddle_model *model, int32_t entry);

// ---- call.c: heddle_run and heddle_session_result_shapes of a session that is entered
// Bytes that the session would hold with such an arena, and with states and what is computed once larger by `growth`;
// 0: they are within its limit.
int64_t rt_beyond_limit(const heddle_session *session, int64_t arena, int64_t growth);
heddle_status rt_run(heddle_session *session, int32_t entry, const heddle_tensor *inputs, int32_t n_inputs,
                     const heddle_tensor *results, int32_t n_results);
heddle_status rt_result_shapes(rt_call *call, int32_t entry, const heddle_tensor *inputs, int32_t n_inputs,
                               heddle_tensor *results, int32_t n_results);

// ---- model.c: copies as much of options as the caller gives (NULL: none), over what is there, and as much of an info
// as its caller has room for; both begin with struct_size
heddle_status rt_take_options(void *to, const void *from, size_t bytes);
heddle_status rt_give_info(void *to, const void *from, size_t bytes);

// ---- stage.c: between the caller's tensors and dense ones in the model's dtype
bool rt_is_integer(int32_t dtype);
bool rt_is_dense(const rt_value *value);
// Kernels of a CPU take any address that is right for an element, those of a device lines.
bool rt_usable_in_place(const rt_value *value, bool on_device);
// Whether rt_stage_in looks at each element of an input: to convert it, or to see whether it is allowed.
bool rt_is_looked_at(const rt_value *value);
// Tensors whose shapes have been checked; NULL overlaps nothing.
bool rt_overlap(const heddle_tensor *a, const heddle_tensor *b);
bool rt_elements_overlap(const heddle_tensor *tensor);
void rt_span(const heddle_tensor *tensor, uintptr_t *first, uintptr_t *end); // of no empty one: the bytes it touches
// What is wrong with where the tensor lies, or NULL.
const char *rt_misplaced(const heddle_model_desc *model, const heddle_tensor *tensor);
heddle_status rt_stage_in(const rt_call *call, const rt_value *value, void *to); // to == NULL: only checks
void rt_fill(int32_t dtype, double value, int64_t elements, void *to);
void rt_stage_out(const rt_value *value, const void *from);

// ---- the functions of heddle.h; contracts there
heddle_status heddle_model_load(const heddle_model_options *options, heddle_model **model);
heddle_status heddle_model_free(heddle_model *model);
heddle_status heddle_model_verify(const heddle_model *model);
heddle_status heddle_model_describe(const heddle_model *model, heddle_model_info *info);
heddle_status heddle_dim_describe(const heddle_model *model, int32_t dim, heddle_dim_info *info);
heddle_status heddle_entry_describe(const heddle_model *model, int32_t entry, heddle_entry_info *info);
heddle_status heddle_input_describe(const heddle_model *model, int32_t entry, int32_t input, heddle_value_info *info);
heddle_status heddle_result_describe(const heddle_model *model, int32_t entry, int32_t result, heddle_value_info *info);
heddle_status heddle_state_describe(const heddle_model *model, int32_t state, heddle_state_info *info);
heddle_status heddle_token_describe(const heddle_model *model, int32_t token, heddle_token_info *info);
heddle_status heddle_entry_find(const heddle_model *model, const char *name, int32_t *entry);
heddle_status heddle_result_shapes(const heddle_model *model, int32_t entry, const heddle_tensor *inputs,
                                   int32_t n_inputs, heddle_tensor *results, int32_t n_results);
heddle_status heddle_memory_needed(const heddle_model *model, int32_t entry, const int64_t *dims, int64_t *bytes);
heddle_status heddle_session_create(heddle_model *model, const heddle_session_options *options,
                                    heddle_session **session);
heddle_status heddle_session_free(heddle_session *session);
heddle_status heddle_session_reset(heddle_session *session);
heddle_status heddle_session_clone(heddle_session *session, heddle_session **copy);
heddle_status heddle_session_save(heddle_session *session, void *buffer, size_t capacity, size_t *bytes);
heddle_status heddle_session_restore(heddle_session *session, const void *buffer, size_t bytes);
heddle_status heddle_session_capacity(heddle_session *session, int32_t dim, int64_t capacity);
heddle_status heddle_session_state(heddle_session *session, int32_t state, heddle_state_value *value);
heddle_status heddle_session_read_state(heddle_session *session, int32_t state, const heddle_tensor *to);
heddle_status heddle_session_write_state(heddle_session *session, int32_t state, const heddle_tensor *from);
heddle_status heddle_session_save_file(heddle_session *session, const char *path);
heddle_status heddle_session_restore_file(heddle_session *session, const char *path);
heddle_status heddle_session_save_parameters(heddle_session *session, const char *path);
heddle_status heddle_device_get(heddle_model *model, size_t bytes, void **data);
heddle_status heddle_device_give(heddle_model *model, void *data);
heddle_status heddle_session_stream(const heddle_session *session, void **stream);
heddle_status heddle_session_wait(heddle_session *session);
heddle_status heddle_session_copy(heddle_session *session, const heddle_tensor *to, const heddle_tensor *from);
heddle_status heddle_session_result_shapes(heddle_session *session, int32_t entry, const heddle_tensor *inputs,
                                           int32_t n_inputs, heddle_tensor *results, int32_t n_results);
heddle_status heddle_session_memory(const heddle_session *session, heddle_memory_info *info);
heddle_status heddle_session_threads(const heddle_session *session, int32_t *threads);
heddle_status heddle_session_observe(heddle_session *session, heddle_observer observer, void *context);
heddle_status heddle_session_observe_tasks(heddle_session *session, heddle_task_observer observer, void *context);
heddle_status heddle_run(heddle_session *session, int32_t entry, const heddle_tensor *inputs, int32_t n_inputs,
                         const heddle_tensor *results, int32_t n_results);
heddle_status heddle_run_dense(heddle_session *session, int32_t entry, const int64_t *dims, const void *const *inputs,
                               void *const *results);
heddle_status heddle_run_typed(heddle_session *session, int32_t entry, uint32_t signature, const int64_t *dims,
                               const void *const *inputs, void *const *results);
heddle_status heddle_generate(heddle_session *session, const heddle_generate_options *options,
                              const heddle_tensor *inputs, int32_t n_inputs, heddle_tensor *sequences, int64_t *length,
                              const heddle_tensor *scores);
heddle_status heddle_score(heddle_session *session, const heddle_generate_options *options, const heddle_tensor *inputs,
                           int32_t n_inputs, const heddle_tensor *labels, heddle_tensor *log_probabilities);
extern const heddle_api heddle_table; // exported as heddle_api_1

#endif
