// How the result of a contraction is cut into tasks: into blocks of rows, and these into panels.
#pragma once

#include "compiler/kernels/contraction/schedule.h"

#include <Halide.h>

namespace heddle::contraction {

/// Tiles that a block should have, so that they can ask for the next panel; threads that have tasks enough get no more
/// blocks of fewer.
inline constexpr int tiles_that_ask = 4;

struct Blocks {
  Shape shape;
  Halide::Expr tiles, panels; // of the result: tiles of rows (undefined: it has no rows), and panels of columns
  int rows_of_tile;
  bool has_tiles;    // that have each a place of their own in the weights
  bool has_others;   // axes beside rows and columns
  bool rows_outside; // a task passes all panels over a block of rows

  /// Panels that one task computes, where the sum goes chunk by chunk.
  Halide::Expr panels_in_task() const;
  /// What a task has room for, whatever the threads: Halide would take the distance of all tasks' sums.
  Halide::Expr most_panels_in_task() const;
  Halide::Expr most_rows_in_block() const;

  /// Tiles of one block of rows: what fits the cache, in blocks of equal size, and enough blocks for the threads.
  Halide::Expr tiles_in_block() const;

private:
  int most_tiles() const;
  int spare_tiles() const;
  Halide::Expr blocks_for_cache() const;
};

} // namespace heddle::contraction
