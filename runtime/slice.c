// Slices: what a loop collects turn by turn, and places of a state that an entry updates, are copied to where they
// belong in as few pieces as lie together there. What would not lie inside is not copied.
#include "runtime/abi.h"

#include <stdbool.h>
#include <string.h>

int32_t heddle_copy_slice(void *to, const void *from, int64_t element_bytes, int32_t rank, const int64_t *place) {
  const int64_t *extents = place, *offsets = place + rank, *counts = place + 2 * rank;
  bool inside = true, empty = false;
  for (int32_t axis = 0; axis < rank; axis++) {
    empty |= counts[axis] == 0;
    inside &= counts[axis] >= 0 && offsets[axis] >= 0 && counts[axis] <= extents[axis] &&
              offsets[axis] <= extents[axis] - counts[axis];
  }
  if (empty || !inside)
    return empty;       // of no place, the offset may be any
  int32_t outer = rank; // axes before those that are written whole
  int64_t piece = element_bytes;
  while (outer > 0 && counts[outer - 1] == extents[outer - 1])
    piece *= extents[--outer];
  int64_t unit = piece; // bytes of one place of the last outer axis
  if (outer > 0)
    piece *= counts[--outer]; // neighbours along it lie together
  int64_t pieces = piece > 0 ? 1 : 0;
  for (int32_t axis = 0; axis < outer; axis++)
    pieces *= counts[axis];
  for (int64_t i = 0; i < pieces; i++) {
    int64_t at = 0, rest = i, scale = 1;
    if (outer < rank && unit != 0) {
      at = offsets[outer];
      scale = extents[outer];
    }
    for (int32_t axis = outer - 1; axis >= 0; axis--) {
      at += (offsets[axis] + rest % counts[axis]) * scale;
      rest /= counts[axis];
      scale *= extents[axis];
    }
    memcpy((char *)to + at * unit, (const char *)from + i * piece, (size_t)piece);
  }
  return 1;
}
