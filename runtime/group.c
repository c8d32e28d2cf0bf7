// Rows sorted by a number that each of them has (an expert, an adapter), by counting: rows of a number stay in their
// order, so that what is computed of them does not depend on anything but the numbers.
#include "runtime/abi.h"

static int64_t within(int64_t number, int64_t below) { return number < 0 ? 0 : number < below ? number : below - 1; }

void heddle_group(const int32_t *numbers, int64_t count, int64_t below, int64_t tiles, int64_t height, int32_t *rows,
                  int32_t *of_tiles, int32_t *places) {
  int64_t next[HEDDLE_MOST_GROUPS] = {0}; // how many rows a number has; then the place of the next one
  if (below > HEDDLE_MOST_GROUPS)
    below = HEDDLE_MOST_GROUPS;
  for (int64_t i = 0; i < count; i++)
    next[within(numbers[i], below)]++;
  int64_t tile = 0;
  for (int64_t number = 0; number < below; number++) {
    int64_t end = tile + (next[number] + height - 1) / height;
    next[number] = tile * height;
    for (; tile < end && tile < tiles; tile++)
      of_tiles[tile] = (int32_t)number;
  }
  for (; tile < tiles; tile++)
    of_tiles[tile] = -1;
  for (int64_t place = 0; place < tiles * height; place++)
    rows[place] = 0;
  for (int64_t i = 0; i < count; i++) {
    int64_t place = next[within(numbers[i], below)]++;
    if (place < tiles * height)
      rows[place] = (int32_t)i;
    places[i] = (int32_t)place;
  }
}
