// Where factors are split, each task does so for itself: rows for its panels, and panels for its rows. So few threads
// get as few tasks as they can share evenly.
#include "compiler/kernels/contraction/blocks.h"

#include "compiler/halide/threads.h"

#include <algorithm>

namespace heddle::contraction {

using Halide::Expr;
using Halide::Internal::simplify;

/// Tiles of a block where blocks alone make the tasks.
static constexpr int few_tiles = 7;

/// Tasks that every thread should have even if blocks are few tiles then.
static constexpr int tasks_of_thread = 2;

int Blocks::most_tiles() const { return std::max(shape.block / rows_of_tile, 1); }

/// Where a matrix unit multiplies, a panel is not read again for few rows more.
int Blocks::spare_tiles() const { return shape.micro_kernel->takes_tiles() ? most_tiles() / 2 : 0; }

Expr Blocks::blocks_for_cache() const { return max((tiles + most_tiles() - 1 - spare_tiles()) / most_tiles(), 1); }

Expr Blocks::panels_in_task() const {
  Expr most = most_panels_in_task();
  if (rows_outside || !tiles.defined() || has_tiles || has_others)
    return most;
  if (shape.micro_kernel->splits()) {
    Expr groups = by_threads(select(blocks_for_cache() % threads_of_run() == 0, 1, threads_of_run()),
                             (tasks_for_threads(shape.tasks) - 1) / blocks_for_cache() + 1);
    return simplify((panels - 1) / max(groups, (panels + most - 1) / most) + 1);
  }
  return simplify(
      by_threads(most, max(min(panels * max(tiles / tiles_that_ask, 1) / tasks_for_threads(shape.tasks), most), 1)));
}

Expr Blocks::most_panels_in_task() const { return simplify(rows_outside ? panels : min(panels, shape.panels)); }

Expr Blocks::most_rows_in_block() const {
  return simplify(min(tiles, std::max(most_tiles() + spare_tiles(), few_tiles)) * rows_of_tile);
}

Expr Blocks::tiles_in_block() const {
  const int most = most_tiles();
  if (has_others) // they make tasks enough, and Halide loses the bounds of axes fused with computed ones
    return rows_outside && !shape.copied ? few_tiles : most;
  Expr groups = rows_outside ? Expr(1) : panels / shape.abreast;
  if (shape.depth > 0 && !rows_outside)
    groups = (groups - 1) / panels_in_task() + 1;
  Expr tasks = tasks_for_threads(shape.tasks);
  if (shape.micro_kernel->splits())
    tasks = by_threads(threads_of_run(), tasks);
  auto blocks_of = [&](const Expr &all) { return min(tiles, (all - 1) / max(groups, 1) + 1); };
  Expr wanted = blocks_of(tasks);
  if (!rows_outside && !has_tiles && !shape.micro_kernel->takes_tiles()) // every block reads the panels again
    wanted = min(wanted, max(tiles / tiles_that_ask, blocks_of(tasks_of_thread * threads_of_run())));
  Expr blocks = max(blocks_for_cache(), wanted);
  return simplify((max(tiles, 1) - 1) / max(blocks, 1) + 1); // of the least blocks, the most tiles
}

} // namespace heddle::contraction
