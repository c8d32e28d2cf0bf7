// The loop nest of the kind's variants.
#pragma once

#include "compiler/kernels/kinds.h"
#include "compiler/kernels/product/micro_kernel.h"

namespace heddle::contraction {

/// The part of the panels that is asked for before it is needed, by its number in a row of the schedule. In either case
/// the rows of the result are, too.
enum class Ahead {
  nothing,
  next_panel, // while the tiles of a block multiply the one before
  this_panel, // some lines before they are multiplied: for tiles so few that they can't ask for all of the next one
};

/// Parameters of a row of the schedule.
struct Shape {
  int rows, width; // of a tile of accumulators
  int depth;       // terms of a chunk of the sum; 0: the whole sum at once
  int panels;      // of a task that takes the sum in chunks
  int block;       // rows at most that pass over a panel
  int tasks;       // wanted
  int abreast;     // panels that a tile computes at a time
  Ahead ahead;
  bool widened; // narrow elements of a panel are widened by the first tile of a block of rows, not by every tile
  const MicroKernel *micro_kernel;
  bool inside = false; // all panels pass over a block of rows in its task
  bool copied = false; // rows that lie side by side are, tile by tile, before panels pass over a block of them
  bool packed = false; // the factor with lanes is, whole, before rows pass over it
};

/// Those of a row that check_row took.
Shape shape_of(const ScheduleRow &row);

Status schedule(LoweredKernel &kernel, const Shape &shape, const Target &target);

} // namespace heddle::contraction
