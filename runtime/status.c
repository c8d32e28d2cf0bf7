// Errors as data: a status and, per thread, one sentence that says what was wrong. Texts are cut at their bound, never
// allocated, so that an error is reported even when memory is gone. For the same reason they are no thread-local
// variables: those of a library that is loaded at run time are allocated at a thread's first use of them, and glibc
// ends the process where that fails.
#include "runtime/runtime.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

// The messages of threads that had one, each with its thread: only that one writes and reads it. Where more threads
// than these have failed, a new one takes the place of another. Pages that nobody used cost nothing.
#define MESSAGES 256
static struct message {
  _Atomic pthread_t thread; // 0: nobody's
  char text[RT_MESSAGE];
} messages[MESSAGES];

// The message of this thread; NULL: it has none.
static struct message *find_message(pthread_t self, size_t first) {
  for (size_t i = 0; i < MESSAGES; i++) {
    struct message *at = &messages[(first + i) % MESSAGES];
    pthread_t owner = atomic_load_explicit(&at->thread, memory_order_relaxed);
    if (owner == self || owner == 0)
      return owner ? at : NULL;
  }
  return NULL;
}

static size_t first_place(pthread_t self) { return (size_t)((uint64_t)self * 0x9E3779B97F4A7C15u >> 32) % MESSAGES; }

static struct message *own_message(void) {
  pthread_t self = pthread_self();
  size_t first = first_place(self);
  struct message *own = find_message(self, first);
  for (size_t i = 0; !own && i < MESSAGES; i++) {
    struct message *at = &messages[(first + i) % MESSAGES];
    pthread_t nobody = 0;
    if (atomic_compare_exchange_strong(&at->thread, &nobody, self))
      own = at;
  }
  if (!own) {
    own = &messages[first];
    atomic_store(&own->thread, self);
  }
  return own;
}

const char *rt_last_error(void) {
  pthread_t self = pthread_self();
  const struct message *own = find_message(self, first_place(self));
  return own ? own->text : "";
}

heddle_status rt_fail(heddle_status status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(own_message()->text, RT_MESSAGE, format, arguments);
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
