// Fails each allocation of a compiled model in turn: this program's malloc, mmap and pthread_create, which the library
// uses like every other, refuse the one with a given number (or all from it on, until a call has failed). A scenario of
// calls runs in a child process for each number. Every call must succeed or say HEDDLE_OUT_OF_MEMORY in a sentence,
// leave the session's states as they were, and succeed when it is made again; all results must have the bits of
// a run without failures, and what was allocated must be free in the end. No kernel may allocate: what it needs is
// reserved before.
//     failing_allocations DIR DIMS STEP [FIRST]    every STEP-th allocation of the library in DIR, from FIRST on
#define _GNU_SOURCE
#include "tests/runtime/compiled/calls.h"

#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

// ---- Allocation

static atomic_long fail_at = -1; // -1: none
static atomic_bool fail_all;     // that come later, too
static atomic_long asked, live, mapped, inside_kernels;
static atomic_bool in_kernel;

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

static bool refuse(void) {
  if (in_kernel)
    inside_kernels++;
  long number = asked++, at = fail_at;
  if (at < 0 || (number != at && !(fail_all && number > at)))
    return false;
  errno = ENOMEM;
  return true;
}

static void *note(void *block) {
  live += block != NULL;
  return block;
}

void *malloc(size_t bytes) { return refuse() ? NULL : note(__libc_malloc(bytes)); }
void *calloc(size_t count, size_t bytes) { return refuse() ? NULL : note(__libc_calloc(count, bytes)); }
void *aligned_alloc(size_t alignment, size_t bytes) {
  return refuse() ? NULL : note(__libc_memalign(alignment, bytes));
}
int posix_memalign(void **block, size_t alignment, size_t bytes) {
  if (refuse())
    return ENOMEM;
  *block = note(__libc_memalign(alignment, bytes));
  return *block ? 0 : ENOMEM;
}
void *realloc(void *block, size_t bytes) {
  if (refuse())
    return NULL;
  void *moved = __libc_realloc(block, bytes);
  live += !block && moved;
  return moved;
}
void free(void *block) {
  live -= block != NULL;
  __libc_free(block);
}

void *mmap(void *address, size_t length, int protection, int flags, int file, off_t offset) {
  if (refuse())
    return MAP_FAILED;
  void *map = (void *)syscall(SYS_mmap, address, length, protection, flags, file, offset);
  mapped += map != MAP_FAILED;
  return map;
}
int munmap(void *address, size_t length) {
  mapped--;
  return (int)syscall(SYS_munmap, address, length);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *argument) {
  static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
  if (!real)
    real = (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))dlsym(RTLD_NEXT, "pthread_create");
  if (refuse())
    return EAGAIN;
  in_kernel = false; // threads are started by the first run that can use them
  return real(thread, attributes, body, argument);
}

// ---- The scenario: steps, each of which can be made again

enum { OPEN, CREATE, RUN, GENERATE = RUN + 16, KEEPING = GENERATE + 3, SCORE, SAVE, CLONE, RESTORE, AGAIN, STEPS };

static struct {
  const char *folder, *dims_text;
  int32_t threads;
  heddle_model *model;
  heddle_session *session;
  dims sizes;
  uint64_t hash; // of a step's results
  long at, live_before, mapped_before;
} now;

static char rooms[2 * MOST_VALUES][VALUE_BYTES] __attribute__((aligned(64)));
static char saved[1 << 22];
static size_t saved_bytes;

static void add_to_hash(const void *data, size_t bytes) {
  for (size_t i = 0; i < bytes; i++)
    now.hash = (now.hash ^ ((const unsigned char *)data)[i]) * 0x100000001b3u;
}

static void watch(void *context, const char *kernel, int32_t begins) {
  (void)context;
  (void)kernel;
  in_kernel = begins != 0;
}

static heddle_status run_entry(heddle_session *session, int32_t entry) {
  heddle_entry_info info = HEDDLE_INIT(heddle_entry_info);
  heddle_status status = heddle_entry_describe(now.model, entry, &info);
  heddle_tensor inputs[MOST_VALUES], results[MOST_VALUES];
  if (status || info.n_inputs > MOST_VALUES || info.n_results > MOST_VALUES)
    return status;
  int32_t given = 0;
  for (int32_t i = 0; i < info.n_inputs; i++)
    given += make_input(now.model, entry, i, &now.sizes, rooms[i], &inputs[given]);
  status = heddle_session_result_shapes(session, entry, inputs, given, results, info.n_results);
  if (status)
    return status;
  for (int32_t i = 0; i < info.n_results; i++) {
    if (bytes_of(&results[i]) > VALUE_BYTES)
      return HEDDLE_UNSUPPORTED; // by this program
    results[i].data = rooms[MOST_VALUES + i];
    memset(results[i].data, 0xee, (size_t)bytes_of(&results[i]));
  }
  status = heddle_run(session, entry, inputs, given, results, info.n_results);
  in_kernel = false;
  for (int32_t i = 0; !status && i < info.n_results; i++)
    add_to_hash(results[i].data, (size_t)bytes_of(&results[i]));
  return status;
}

// The inputs that hold texts: of `encode`, else of the entry for tokens.
static int32_t source(heddle_tensor *input) {
  static const char *const names[] = {"encode", "step", "forward"};
  int32_t entry;
  for (int i = 0; i < 3; i++)
    if (!heddle_entry_find(now.model, names[i], &entry))
      return make_input(now.model, entry, 0, &now.sizes, rooms[0], input);
  return 0;
}

static heddle_status generate(int kind) {
  heddle_generate_options options = heddle_generate_defaults(4);
  const heddle_token start = {"decoder_start_token_id", 1};
  options.tokens = &start;
  options.n_tokens = 1;
  if (kind == 1)
    options.beams = 3;
  if (kind == 2) {
    options.flags = HEDDLE_SAMPLE;
    options.seed = 7;
    options.top_k = 5;
  }
  if (GENERATE + kind == KEEPING)
    options.flags = HEDDLE_KEEP_STATE;
  heddle_tensor input, sequences = {.data = NULL};
  int32_t n = source(&input);
  int64_t length = 0;
  heddle_status status = heddle_generate(now.session, &options, &input, n, &sequences, &length, NULL);
  if (status)
    return status;
  sequences.data = rooms[MOST_VALUES];
  float scores[64];
  heddle_tensor to = heddle_dense(NULL, HEDDLE_F32, scores, 1, sequences.shape);
  status = heddle_generate(now.session, &options, &input, n, &sequences, &length, &to);
  if (!status) {
    add_to_hash(sequences.data, (size_t)(sequences.shape[0] * sequences.strides[0]));
    add_to_hash(scores, sizeof(float) * (size_t)sequences.shape[0]);
  }
  return status;
}

static heddle_status score(void) {
  heddle_tensor input, to = {.data = NULL};
  int32_t n = source(&input), entry;
  heddle_tensor labels = input;
  bool labelled = !heddle_entry_find(now.model, "encode", &entry);
  const heddle_token start = {"decoder_start_token_id", 1};
  heddle_generate_options options = heddle_generate_defaults(1);
  options.tokens = &start;
  options.n_tokens = 1;
  heddle_status status = heddle_score(now.session, &options, &input, n, labelled ? &labels : NULL, &to);
  if (status)
    return status;
  to.data = rooms[MOST_VALUES];
  status = heddle_score(now.session, &options, &input, n, labelled ? &labels : NULL, &to);
  if (!status)
    add_to_hash(to.data, (size_t)(to.shape[0] * to.strides[0]));
  return status;
}

static heddle_status make_step(int step) {
  now.hash = 0xcbf29ce484222325u;
  heddle_session_options options = HEDDLE_INIT(heddle_session_options);
  options.threads = now.threads;
  heddle_session *copy = NULL;
  heddle_model_info info = HEDDLE_INIT(heddle_model_info);
  heddle_status status;
  switch (step) {
  case OPEN:
    status = heddle_open(now.folder, NULL, &now.model);
    if (!status)
      now.sizes = read_dims(now.model, now.dims_text);
    now.live_before = live;
    return status;
  case CREATE:
    status = heddle_session_create(now.model, &options, &now.session);
    return status ? status : heddle_session_observe(now.session, now.threads == 1 ? watch : NULL, NULL);
  case SAVE:
    status = heddle_session_save(now.session, saved, sizeof saved, &saved_bytes);
    if (!status)
      add_to_hash(saved, saved_bytes);
    return status;
  case CLONE:
    status = heddle_session_clone(now.session, &copy);
    if (!status)
      status = run_entry(copy, 0);
    heddle_session_free(copy);
    return status;
  case RESTORE:
    return heddle_session_restore(now.session, saved, saved_bytes);
  case SCORE:
    return score();
  case AGAIN:
    return run_entry(now.session, 0);
  default:
    if (step >= GENERATE)
      return generate(step - GENERATE);
    status = heddle_model_describe(now.model, &info);
    return status || step - RUN >= info.n_entries ? status : run_entry(now.session, step - RUN);
  }
}

// ---- What is expected, and how a child comes out

typedef struct outcome {
  heddle_status status[STEPS];
  uint64_t hash[STEPS];
  long asked, live, mapped, inside_kernels;
  int failed; // steps that were made twice
} outcome;

static uint64_t hash_of_states(void) {
  static char buffer[sizeof saved];
  size_t bytes = 0;
  uint64_t before = now.hash;
  now.hash = 0;
  if (!heddle_session_save(now.session, buffer, sizeof buffer, &bytes))
    add_to_hash(buffer, bytes);
  uint64_t hash = now.hash;
  now.hash = before;
  return hash;
}

static void wrong(int step, heddle_status status, const char *what) {
  printf("allocation %ld%s, %d threads, step %d: %s (%s: %s)\n", now.at, fail_all ? " and all later ones" : "",
         now.threads, step, what, heddle_status_name(status), heddle_last_error());
  fflush(stdout);
  _exit(1);
}

// Runs all steps; `good` is NULL in the run without failures.
static void play(long at, outcome *out, const outcome *good) {
  asked = 0;
  now.at = at;
  now.mapped_before = mapped;
  for (int step = 0; step < STEPS; step++) {
    bool keeps_states = (step >= RUN && step < GENERATE) || step > SCORE;
    uint64_t states = keeps_states ? hash_of_states() : 0;
    static char snapshot[sizeof saved];
    size_t bytes = 0;
    if (step == KEEPING && heddle_session_save(now.session, snapshot, sizeof snapshot, &bytes))
      wrong(step, HEDDLE_OK, "states that cannot be saved");
    fail_at = at;
    out->status[step] = make_step(step);
    if (good && out->status[step] != good->status[step]) {
      heddle_status status = out->status[step];
      bool loader = step == OPEN && (status == HEDDLE_FILE_ERROR || status == HEDDLE_BAD_LIBRARY);
      if (status != HEDDLE_OUT_OF_MEMORY && !loader)
        wrong(step, status, "another status");
      if (!*heddle_last_error())
        wrong(step, status, "no message");
      fail_at = at = -1;
      in_kernel = false;
      out->failed++;
      if (keeps_states && hash_of_states() != states)
        wrong(step, status, "the failed call has changed states");
      if (step == KEEPING && heddle_session_restore(now.session, snapshot, bytes)) // it is many calls of the model
        wrong(step, status, "states that cannot be restored");
      out->status[step] = make_step(step);
      if (out->status[step] != good->status[step])
        wrong(step, out->status[step], "still another status after the failure");
    }
    fail_at = -1;
    out->hash[step] = now.hash;
    if (good && !out->status[step] && now.hash != good->hash[step])
      wrong(step, out->status[step], "other bits");
  }
  if (heddle_session_free(now.session))
    wrong(STEPS, HEDDLE_BUSY, "the session cannot be freed");
  dlerror(); // glibc keeps the last message of the loader until the next but one is asked for
  dlerror();
  out->live = live - now.live_before;
  if (heddle_close(now.model))
    wrong(STEPS, HEDDLE_BUSY, "the model cannot be closed");
  out->mapped = mapped - now.mapped_before;
  out->asked = asked;
  out->inside_kernels = inside_kernels;
  // The loader keeps a few blocks of its own, once and for all; fewer where it could not get them.
  if (good && now.threads == 1 && (out->live > good->live || out->mapped != good->mapped))
    wrong(STEPS, HEDDLE_OK, out->live > good->live ? "a block that is not free in the end" : "a map that is not free");
  if (out->inside_kernels && now.threads == 1)
    wrong(STEPS, HEDDLE_OK, "a kernel has allocated");
}

// In a child, because a fault may end the process. Returns whether it was good.
static bool play_alone(long at, bool all, outcome *out, const outcome *good) {
  fflush(stdout);
  pid_t child = fork();
  if (!child) {
    alarm(60);
    fail_all = all;
    memset(out, 0, sizeof *out);
    play(at, out, good);
    _exit(0);
  }
  int result;
  waitpid(child, &result, 0);
  if (WIFSIGNALED(result))
    printf("allocation %ld%s, %d threads: signal %d\n", at, all ? " and all later ones" : "", now.threads,
           WTERMSIG(result));
  return result == 0;
}

// ---- Threads

static int check_storage(struct dl_phdr_info *info, size_t size, void *found) {
  (void)size;
  if (strstr(info->dlpi_name, now.folder))
    for (int i = 0; i < info->dlpi_phnum; i++)
      *(int *)found += info->dlpi_phdr[i].p_type == PT_TLS;
  return 0;
}

static void *fail_first_call(void *unused) {
  (void)unused;
  heddle_session *session = NULL;
  fail_all = true;
  fail_at = 0;
  heddle_status status = heddle_session_create(now.model, NULL, &session);
  fail_at = -1;
  if (status != HEDDLE_OUT_OF_MEMORY || !*heddle_last_error())
    wrong(CREATE, status, "the first call of a thread that has no memory");
  return NULL;
}

// A library's thread-local variables would be allocated at the first call of a thread, and glibc ends the process where
// that fails: it must have none.
static bool play_in_thread(void) {
  fflush(stdout);
  pid_t child = fork();
  if (!child) {
    pthread_t thread;
    int storage = 0;
    if (make_step(OPEN) || pthread_create(&thread, NULL, fail_first_call, NULL) || pthread_join(thread, NULL))
      wrong(OPEN, HEDDLE_OK, "no thread");
    dl_iterate_phdr(check_storage, &storage);
    if (storage)
      wrong(OPEN, HEDDLE_OK, "the library has thread-local storage");
    _exit(0);
  }
  int result;
  waitpid(child, &result, 0);
  return result == 0;
}

int main(int count, char **words) {
  if (count < 4)
    return 2;
  now.folder = words[1];
  now.dims_text = words[2];
  long step = atol(words[3]), first = count > 4 ? atol(words[4]) : 0, points = 0, faulted = 0;
  outcome *outcomes = (outcome *)syscall(SYS_mmap, NULL, 2 * sizeof(outcome), PROT_READ | PROT_WRITE,
                                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  outcome *good = &outcomes[0], *other = &outcomes[1];
  int bad = !play_in_thread();
  for (now.threads = 1; now.threads <= 2; now.threads++) {
    if (!play_alone(-1, false, good, NULL))
      return 1;
    int worked = 0;
    for (int i = 0; i < STEPS; i++)
      worked += good->status[i] == HEDDLE_OK;
    printf("%s, %d threads: %ld allocations, %d of %d steps work\n", now.folder, now.threads, good->asked, worked,
           STEPS);
    if (worked < 8)
      return 1; // the scenario says nothing
    for (long at = first; at < good->asked; at += step)
      for (int all = 0; all < 2; all++) {
        points++;
        bad += !play_alone(at, all, other, good);
        faulted += other->failed;
      }
  }
  printf("%ld points, %ld calls failed and were made again, %d faults\n", points, faulted, bad);
  return bad != 0;
}
