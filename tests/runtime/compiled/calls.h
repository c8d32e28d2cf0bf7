// Calls of any compiled model, made from its own description: which shapes its inputs have for given dims, and values
// that they may hold. The programs of this folder attack real kernels with them.
#ifndef HEDDLE_TESTS_CALLS_H
#define HEDDLE_TESTS_CALLS_H

#include "heddle.h"

#include <stdbool.h>
#include <stdlib.h>

#define MOST_VALUES 16
#define VALUE_BYTES (1 << 18) // of one input or result, at most

// "B=2,S=5": all other dims are 2.
typedef struct dims {
  int64_t size[64];
} dims;

static inline dims read_dims(const heddle_model *model, const char *text) {
  dims out;
  heddle_model_info info = HEDDLE_INIT(heddle_model_info);
  heddle_model_describe(model, &info);
  for (int32_t d = 0; d < info.n_dims && d < 64; d++) {
    heddle_dim_info dim = HEDDLE_INIT(heddle_dim_info);
    heddle_dim_describe(model, d, &dim);
    out.size[d] = 2;
    size_t length = strlen(dim.name);
    for (const char *at = text; (at = strstr(at, dim.name)); at++)
      if ((at == text || at[-1] == ',') && at[length] == '=')
        out.size[d] = atoll(at + length + 1);
  }
  return out;
}

// An input with data at `room`; false: its shape is more than dims and constants. The values are the same each time,
// small whole numbers where they are whole: below the bound, and 1 under masks.
static inline bool make_input(const heddle_model *model, int32_t entry, int32_t number, const dims *d, void *room,
                              heddle_tensor *out) {
  heddle_value_info info = HEDDLE_INIT(heddle_value_info);
  if (heddle_input_describe(model, entry, number, &info))
    return false;
  int64_t shape[HEDDLE_RANK], elements = 1;
  for (int32_t i = 0; i < info.rank; i++) {
    if (info.extents[i].dim == HEDDLE_COMPUTED)
      return false;
    shape[i] = info.extents[i].dim >= 0 ? d->size[info.extents[i].dim] : info.extents[i].value;
    elements *= shape[i];
  }
  if (elements * heddle_dtype_bytes(info.dtype) > VALUE_BYTES)
    return false;
  int64_t below = !info.has_below ? 2 : info.below.dim >= 0 ? d->size[info.below.dim] : info.below.value;
  if (info.has_below && info.below.dim == HEDDLE_COMPUTED)
    below = 1;
  *out = heddle_dense(info.name, info.dtype, room, info.rank, shape);
  for (int64_t i = 0; i < elements; i++) {
    int64_t whole = info.has_below ? (i * 7 + number + 3) % (below > 0 ? below : 1) : 1;
    float real = (float)((i * 37 + number * 11) % 101) / 50.0f - 1.0f;
    switch (info.dtype) {
    case HEDDLE_F32:
      ((float *)room)[i] = real;
      break;
    case HEDDLE_BF16:
      ((uint16_t *)room)[i] = (uint16_t)(0x3f00 + i % 16);
      break;
    case HEDDLE_F16:
      ((uint16_t *)room)[i] = (uint16_t)(0x3800 + i % 16);
      break;
    case HEDDLE_I32:
      ((int32_t *)room)[i] = (int32_t)whole;
      break;
    case HEDDLE_I64:
      ((int64_t *)room)[i] = whole;
      break;
    default:
      ((uint8_t *)room)[i] = (uint8_t)whole;
    }
  }
  return true;
}

static inline int64_t bytes_of(const heddle_tensor *dense) {
  int64_t bytes = heddle_dtype_bytes(dense->dtype);
  for (int32_t i = 0; i < dense->rank; i++)
    bytes *= dense->shape[i];
  return bytes;
}

#endif
