// Errors as data: a status and, per thread, one sentence that says what was wrong. Texts are cut at their bound, never
// allocated, so that an error is reported even when memory is gone. For the same reason they are no thread-local
// variables: those of a library that is loaded at run time are allocated at a thread's first use of them, and glibc
// ends the process where that fails.
#define _GNU_SOURCE
#include "runtime/runtime.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

// The messages of threads that had one, each with its thread's number: only that one writes and reads it. When all are
// taken, those of threads that have ended are free again. Pages that nobody used cost nothing.
#define MESSAGES 1024
static struct message {
  _Atomic long thread; // 0: nobody's
  char text[RT_MESSAGE];
} messages[MESSAGES];

static struct message *message_at(long thread, size_t i) { return &messages[((size_t)thread * 97 + i) % MESSAGES]; }

// The message of a thread; NULL: it has none. *full: nobody's was not met on the way.
static struct message *find_message(long thread, bool *full) {
  for (size_t i = 0; i < MESSAGES; i++) {
    struct message *at = message_at(thread, i);
    long owner = atomic_load_explicit(&at->thread, memory_order_relaxed);
    *full = owner != 0;
    if (owner == thread || !owner)
      return owner ? at : NULL;
  }
  return NULL;
}

static bool has_ended(long thread) {
  int before = errno;
  bool ended = syscall(SYS_tgkill, getpid(), thread, 0) != 0 && errno == ESRCH;
  errno = before;
  return ended;
}

// NULL: so many threads that live have one.
static struct message *own_message(void) {
  long self = syscall(SYS_gettid);
  bool full;
  struct message *own = find_message(self, &full);
  for (int take_ended = 0; !own && take_ended < 2; take_ended++)
    for (size_t i = 0; !own && i < MESSAGES; i++) {
      struct message *at = message_at(self, i);
      long owner = atomic_load(&at->thread);
      if (take_ended ? has_ended(owner) : !owner)
        own = atomic_compare_exchange_strong(&at->thread, &owner, self) ? at : NULL;
    }
  return own;
}

const char *rt_last_error(void) {
  bool full;
  const struct message *own = find_message(syscall(SYS_gettid), &full);
  return own ? own->text : full ? "no room for this message: too many threads have one" : "";
}

heddle_status rt_fail(heddle_status status, const char *format, ...) {
  struct message *own = own_message();
  va_list arguments;
  va_start(arguments, format);
  if (own)
    vsnprintf(own->text, RT_MESSAGE, format, arguments);
  va_end(arguments);
  return status;
}

heddle_status rt_null(const char *what) { return rt_fail(HEDDLE_INVALID_ARGUMENT, "%s is NULL", what); }

void rt_append(rt_text *text, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  size_t room = sizeof text->data - text->length;
  int written = vsnprintf(text->data + text->length, room, format, arguments);
  va_end(arguments);
  if (written > 0)
    text->length += (size_t)written < room ? (size_t)written : room - 1;
}

void rt_append_shape(rt_text *text, const int64_t *shape, int32_t rank) {
  rt_append(text, "[");
  for (int32_t i = 0; i < rank && i < HEDDLE_RANK; i++)
    rt_append(text, i ? ", %lld" : "%lld", (long long)shape[i]);
  rt_append(text, rank > HEDDLE_RANK ? ", ...]" : "]");
}

void rt_append_range(rt_text *text, int64_t low, int64_t high) {
  if (high < low)
    rt_append(text, "no value is allowed, because the range it counts in is empty");
  else
    rt_append(text, "must be in %lld .. %lld", (long long)low, (long long)high);
}

static const struct {
  const char *name;
  int64_t bytes;
} dtypes[] = {
    [HEDDLE_F32] = {"f32", 4}, [HEDDLE_BF16] = {"bf16", 2}, [HEDDLE_F16] = {"f16", 2}, [HEDDLE_I8] = {"i8", 1},
    [HEDDLE_I32] = {"i32", 4}, [HEDDLE_BOOL] = {"bool", 1}, [HEDDLE_I64] = {"i64", 8}, [HEDDLE_U8] = {"u8", 1},
};

static bool is_dtype(int32_t dtype) { return dtype >= 0 && dtype < (int32_t)(sizeof dtypes / sizeof *dtypes); }

const char *rt_dtype_name(int32_t dtype) { return is_dtype(dtype) ? dtypes[dtype].name : "an unknown dtype"; }

int64_t rt_dtype_bytes(int32_t dtype) { return is_dtype(dtype) ? dtypes[dtype].bytes : 0; }
