// Slices: what a loop collects iteration by iteration, and places of a state that an entry updates, are copied to where
// they belong in as few pieces as lie together there. What would not lie inside is not copied.
#include "runtime/slice.h"

#include "runtime/abi.h"

#include <string.h>

bool rt_slice_of(rt_slice *slice, int64_t element_bytes, int32_t rank, const int64_t *place) {
  const int64_t *extents = place, *offsets = place + rank, *counts = place + 2 * rank;
  bool inside = true, empty = false;
  for (int32_t axis = 0; axis < rank; axis++) {
    empty |= counts[axis] == 0;
    inside &= counts[axis] >= 0 && offsets[axis] >= 0 && counts[axis] <= extents[axis] &&
              offsets[axis] <= extents[axis] - counts[axis];
  }
  *slice = (rt_slice){.extents = extents, .offsets = offsets, .counts = counts, .outer = rank, .rank = rank};
  if (empty || !inside)
    return empty;       // of no place, the offset may be any
  int32_t outer = rank; // axes before those that are written whole
  int64_t piece = element_bytes;
  while (outer > 0 && counts[outer - 1] == extents[outer - 1])
    piece *= extents[--outer];
  slice->unit = piece;
  if (outer > 0)
    piece *= counts[--outer]; // neighbours along it lie together
  slice->outer = outer;
  slice->piece = piece;
  slice->pieces = piece > 0 ? 1 : 0;
  for (int32_t axis = 0; axis < outer; axis++)
    slice->pieces *= counts[axis];
  return true;
}

int64_t rt_slice_place(const rt_slice *slice, int64_t piece) {
  int64_t at = 0, scale = 1;
  if (slice->outer < slice->rank && slice->unit != 0) {
    at = slice->offsets[slice->outer];
    scale = slice->extents[slice->outer];
  }
  for (int32_t axis = slice->outer - 1; axis >= 0; axis--) {
    at += (slice->offsets[axis] + piece % slice->counts[axis]) * scale;
    piece /= slice->counts[axis];
    scale *= slice->extents[axis];
  }
  return at * slice->unit;
}

int32_t heddle_copy_slice(void *to, const void *from, int64_t element_bytes, int32_t rank, const int64_t *place) {
  rt_slice slice;
  if (!rt_slice_of(&slice, element_bytes, rank, place))
    return 0;
  for (int64_t i = 0; i < slice.pieces; i++)
    memcpy((char *)to + rt_slice_place(&slice, i), (const char *)from + i * slice.piece, (size_t)slice.piece);
  return 1;
}
