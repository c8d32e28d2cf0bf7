// Errors as data: a status and, per thread, one sentence that says what was wrong. Texts are cut at their bound, never
// allocated, so that an error is reported even when memory is gone.
#include "runtime/runtime.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char last_error[RT_MESSAGE];

const char *rt_last_error(void) { return last_error; }

heddle_status rt_fail(heddle_status status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(last_error, sizeof last_error, format, arguments);
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
