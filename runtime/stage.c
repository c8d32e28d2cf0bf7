// Between the caller's tensors and what kernels read and write: dense, aligned, in the model's dtype. Copies with
// strides, converts integers with a check of every value, and fills inputs that were left out.
#include "runtime/runtime.h"

#include <math.h>
#include <string.h>

bool rt_is_integer(int32_t dtype) {
  return dtype == HEDDLE_I8 || dtype == HEDDLE_I32 || dtype == HEDDLE_BOOL || dtype == HEDDLE_I64 || dtype == HEDDLE_U8;
}

bool rt_is_dense(const rt_value *value) {
  int64_t stride = rt_dtype_bytes(value->given->dtype);
  for (int32_t i = value->desc->rank - 1; i >= 0; i--) {
    if (value->shape[i] != 1 && value->given->strides[i] != stride)
      return false;
    stride *= value->shape[i];
  }
  return true;
}

bool rt_usable_in_place(const rt_value *value, bool on_device) {
  uintptr_t unit = on_device ? RT_ALIGN : (uintptr_t)rt_dtype_bytes(value->given->dtype);
  return value->given->dtype == value->desc->dtype && (uintptr_t)value->given->data % unit == 0 && rt_is_dense(value);
}

bool rt_is_looked_at(const rt_value *value) {
  return rt_is_integer(value->desc->dtype) &&
         (value->given->dtype != value->desc->dtype || value->desc->has_below || value->desc->dtype == HEDDLE_BOOL);
}

static bool is_empty(const heddle_tensor *tensor) {
  for (int32_t i = 0; i < tensor->rank; i++)
    if (tensor->shape[i] == 0)
      return true;
  return false;
}

void rt_span(const heddle_tensor *tensor, uintptr_t *first, uintptr_t *end) {
  *first = (uintptr_t)tensor->data;
  *end = *first + (uintptr_t)rt_dtype_bytes(tensor->dtype);
  for (int32_t i = 0; i < tensor->rank; i++) {
    uintptr_t reach = (uintptr_t)(tensor->shape[i] - 1) * (uintptr_t)tensor->strides[i];
    *(tensor->strides[i] < 0 ? first : end) += reach;
  }
}

const char *rt_misplaced(const heddle_model_desc *model, const heddle_tensor *tensor) {
  if (tensor->memory == HEDDLE_MAIN_MEMORY || (tensor->memory == HEDDLE_DEVICE_MEMORY && model->device))
    return NULL;
  return tensor->memory == HEDDLE_DEVICE_MEMORY
             ? "lies on a device, and the model computes on the CPU; copy it to main memory"
             : "lies in memory of a kind that there isn't; give HEDDLE_MAIN_MEMORY or HEDDLE_DEVICE_MEMORY";
}

bool rt_overlap(const heddle_tensor *a, const heddle_tensor *b) {
  if (!a || !b || is_empty(a) || is_empty(b))
    return false;
  uintptr_t a_first, a_end, b_first, b_end;
  rt_span(a, &a_first, &a_end);
  rt_span(b, &b_first, &b_end);
  return a_first < b_end && b_first < a_end;
}

bool rt_elements_overlap(const heddle_tensor *tensor) {
  if (is_empty(tensor))
    return false;
  uint64_t reach = (uint64_t)rt_dtype_bytes(tensor->dtype); // of the axes that were looked at
  bool seen[HEDDLE_RANK] = {false};
  for (;;) { // the axis of the least stride that is left must step over the reach, as in all views of a dense tensor
    int32_t next = -1;
    uint64_t least = UINT64_MAX;
    for (int32_t i = 0; i < tensor->rank; i++) {
      int64_t stride = tensor->strides[i];
      uint64_t size = stride < 0 ? -(uint64_t)stride : (uint64_t)stride;
      if (!seen[i] && tensor->shape[i] > 1 && size < least) {
        next = i;
        least = size;
      }
    }
    if (next < 0)
      return false;
    if (least < reach)
      return true;
    seen[next] = true;
    if (__builtin_mul_overflow(least, (uint64_t)(tensor->shape[next] - 1), &least) ||
        __builtin_add_overflow(reach, least, &reach))
      reach = UINT64_MAX;
  }
}

// ---- Walking a tensor row by row: a row is the last dimension, or everything where the tensor is dense.

typedef struct rows {
  int64_t count;  // rows
  int64_t length; // elements of each
  int64_t stride; // bytes between them
  bool dense;
} rows;

static rows rows_of(const rt_value *value) {
  int64_t size = rt_dtype_bytes(value->given->dtype);
  if (value->desc->rank == 0 || rt_is_dense(value))
    return (rows){1, value->elements, size, true};
  int32_t last = value->desc->rank - 1;
  int64_t length = value->shape[last];
  return (rows){value->elements / length, length, value->given->strides[last], false};
}

// Where row number `row` begins.
static uint8_t *row_start(const rt_value *value, const rows *all, int64_t row) {
  uint8_t *start = value->given->data;
  if (all->dense)
    return start;
  for (int32_t i = value->desc->rank - 2; i >= 0; i--) {
    start += row % value->shape[i] * value->given->strides[i];
    row /= value->shape[i];
  }
  return start;
}

static void copy_row(uint8_t *to, int64_t to_stride, const uint8_t *from, int64_t from_stride, int64_t n,
                     int64_t size) {
  if (to_stride == size && from_stride == size) {
    memcpy(to, from, (size_t)(n * size));
    return;
  }
  // Strided addresses need not be aligned: element by element through memcpy, which compiles to a move.
  switch (size) {
#define COPY(bytes)                                                                                                    \
  case bytes:                                                                                                          \
    for (int64_t i = 0; i < n; i++)                                                                                    \
      memcpy(to + i * to_stride, from + i * from_stride, bytes);                                                       \
    break;
    COPY(1)
    COPY(2)
    COPY(4)
    COPY(8)
#undef COPY
  }
}

void rt_stage_out(const rt_value *value, const void *from) {
  rows all = rows_of(value);
  int64_t size = rt_dtype_bytes(value->desc->dtype);
  const uint8_t *dense = from;
  for (int64_t row = 0; row < all.count; row++, dense += all.length * size)
    copy_row(row_start(value, &all, row), all.stride, dense, size, all.length, size);
}

// ---- Integers

#define CHUNK 256

#define INTEGER_TYPES(X)                                                                                               \
  X(HEDDLE_I8, int8_t) X(HEDDLE_I32, int32_t) X(HEDDLE_BOOL, uint8_t) X(HEDDLE_I64, int64_t) X(HEDDLE_U8, uint8_t)

static void load_chunk(int64_t *to, int32_t dtype, const uint8_t *from, int64_t stride, int64_t n) {
  switch (dtype) {
#define LOAD(code, type)                                                                                               \
  case code:                                                                                                           \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
      type x;                                                                                                          \
      memcpy(&x, from + i * stride, sizeof x);                                                                         \
      to[i] = x;                                                                                                       \
    }                                                                                                                  \
    break;
    INTEGER_TYPES(LOAD)
#undef LOAD
  }
}

static void store_chunk(uint8_t *to, int32_t dtype, const int64_t *from, int64_t n) {
  switch (dtype) {
#define STORE(code, type)                                                                                              \
  case code:                                                                                                           \
    for (int64_t i = 0; i < n; i++)                                                                                    \
      ((type *)to)[i] = (type)from[i];                                                                                 \
    break;
    INTEGER_TYPES(STORE)
#undef STORE
  }
}

typedef struct range {
  int64_t low, high;
} range;

static range range_of(int32_t dtype) {
  switch (dtype) {
  case HEDDLE_I8:
    return (range){INT8_MIN, INT8_MAX};
  case HEDDLE_I32:
    return (range){INT32_MIN, INT32_MAX};
  case HEDDLE_U8:
    return (range){0, UINT8_MAX};
  case HEDDLE_BOOL:
    return (range){0, 1};
  default:
    return (range){INT64_MIN, INT64_MAX};
  }
}

static heddle_status refuse_element(const rt_call *call, const rt_value *value, range allowed, int64_t number,
                                    int64_t element) {
  int64_t position[HEDDLE_RANK];
  for (int32_t i = value->desc->rank - 1; i >= 0; i--) {
    position[i] = number % value->shape[i];
    number /= value->shape[i];
  }
  rt_text text = {.length = 0};
  rt_append(&text, "element ");
  rt_append_shape(&text, position, value->desc->rank);
  rt_append(&text, " is %lld, but ", (long long)element);
  rt_append_range(&text, allowed.low, allowed.high);
  return rt_wrong(HEDDLE_OUT_OF_RANGE, call, value, text.data);
}

static heddle_status stage_integers(const rt_call *call, const rt_value *value, uint8_t *to) {
  int32_t from_dtype = value->given->dtype, to_dtype = value->desc->dtype;
  range allowed = range_of(to_dtype), held = range_of(from_dtype);
  if (from_dtype == HEDDLE_BOOL) // a byte that is neither 0 nor 1 is not a bool
    allowed = held;
  if (value->desc->has_below) {
    allowed.low = allowed.low > 0 ? allowed.low : 0;
    allowed.high = allowed.high < value->below - 1 ? allowed.high : value->below - 1;
  }
  bool surely = from_dtype != HEDDLE_BOOL && held.low >= allowed.low && held.high <= allowed.high;
  if (surely && !to)
    return HEDDLE_OK;
  rows all = rows_of(value);
  int64_t number = 0, size = rt_dtype_bytes(to_dtype);
  for (int64_t row = 0; row < all.count; row++) {
    const uint8_t *from = row_start(value, &all, row);
    for (int64_t done = 0; done < all.length; done += CHUNK) {
      int64_t chunk[CHUNK], n = all.length - done < CHUNK ? all.length - done : CHUNK;
      load_chunk(chunk, from_dtype, from + done * all.stride, all.stride, n);
      int64_t bad = 0;
      for (int64_t i = 0; i < n; i++)
        bad |= (chunk[i] < allowed.low) | (chunk[i] > allowed.high);
      for (int64_t i = 0; bad && i < n; i++)
        if (chunk[i] < allowed.low || chunk[i] > allowed.high)
          return refuse_element(call, value, allowed, number + i, chunk[i]);
      if (to)
        store_chunk(to + number * size, to_dtype, chunk, n);
      number += n;
    }
  }
  return HEDDLE_OK;
}

heddle_status rt_stage_in(const rt_call *call, const rt_value *value, void *to) {
  if (rt_is_integer(value->desc->dtype))
    return stage_integers(call, value, to);
  if (!to)
    return HEDDLE_OK;
  rows all = rows_of(value);
  int64_t size = rt_dtype_bytes(value->desc->dtype);
  uint8_t *dense = to;
  for (int64_t row = 0; row < all.count; row++, dense += all.length * size)
    copy_row(dense, size, row_start(value, &all, row), all.stride, all.length, size);
  return HEDDLE_OK;
}

// ---- Initial values, and inputs that were left out

static uint32_t bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static uint16_t to_bf16(double x) {
  uint32_t bits = bits_of((float)x);
  if (isnan(x))
    return 0x7fc0;
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16); // to nearest, ties to even
}

static uint16_t to_f16(double x) {
  uint16_t sign = signbit(x) ? 0x8000 : 0;
  double size = fabs(x);
  if (isnan(x))
    return 0x7e00;
  if (size >= 65520)
    return sign | 0x7c00;
  if (size < 0x1p-14) // denormal: a multiple of 2^-24
    return sign | (uint16_t)nearbyint(size * 0x1p24);
  int exponent;
  double fraction = frexp(size, &exponent); // 0.5 .. 1, so the leading bit is in; it carries into the exponent
  return sign | (uint16_t)(((exponent + 13) << 10) + (int)nearbyint(fraction * 0x1p11));
}

void rt_fill(int32_t dtype, double x, int64_t n, void *to) {
  switch (dtype) {
#define FILL(code, type, value)                                                                                        \
  case code: {                                                                                                         \
    type filler = (type)(value);                                                                                       \
    for (int64_t i = 0; i < n; i++)                                                                                    \
      ((type *)to)[i] = filler;                                                                                        \
    break;                                                                                                             \
  }
    FILL(HEDDLE_F32, float, x)
    FILL(HEDDLE_BF16, uint16_t, to_bf16(x))
    FILL(HEDDLE_F16, uint16_t, to_f16(x))
    FILL(HEDDLE_I8, int8_t, x)
    FILL(HEDDLE_I32, int32_t, x)
    FILL(HEDDLE_BOOL, uint8_t, x != 0)
    FILL(HEDDLE_I64, int64_t, x)
    FILL(HEDDLE_U8, uint8_t, x)
#undef FILL
  }
}
