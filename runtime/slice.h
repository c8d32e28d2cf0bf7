// Where the pieces of a slice lie that lie together in memory.
#ifndef HEDDLE_RUNTIME_SLICE_H
#define HEDDLE_RUNTIME_SLICE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct rt_slice {
  const int64_t *extents, *offsets, *counts;
  int32_t outer, rank; // axes before those that a piece goes along, and all
  int64_t unit;        // bytes of one place of the axis that a piece begins at
  int64_t piece;       // bytes of a piece
  int64_t pieces;
} rt_slice;

// Of `place` as heddle_copy_slice has it; false: these are not places of the tensor. No pieces where it has no places.
bool rt_slice_of(rt_slice *slice, int64_t element_bytes, int32_t rank, const int64_t *place);
int64_t rt_slice_place(const rt_slice *slice, int64_t piece); // the byte at which that piece begins

#endif
