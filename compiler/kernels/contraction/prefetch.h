// Weights arrive while the panel before them is multiplied: a panel is read from memory once, by the first tile of
// rows, which would wait for it, while the other tiles find it in the cache. So every tile asks for its share of the
// panel to come, one cache line at most per step of the sum; where that would be less than two lines of three, each
// step asks for what a later one of the same panel multiplies. Works on the lowered statement, since no schedule of
// Halide's can say so. The rows that a tile multiplies are asked for in the same way while tiles before it are computed
// (they are too short for the processor's own prefetchers, which see a new place in each of them), and so are those
// that its epilogue touches, before its sum.
#pragma once

#include <Halide.h>

#include <memory>
#include <string>

namespace heddle::contraction {

/// Tiles before the one that needs them, rows are asked for: the sum of one may take no longer than memory does.
constexpr int tiles_ahead = 2;

/// Bytes before the step that needs them, lines of the panel that is multiplied are asked for. Measured on an Emerald
/// Rapids, 8 rows, 768 terms, weights from memory at 13 GB/s: 4 KiB take 2 % longer, the next panel 19 %, nothing 54 %.
constexpr int bytes_ahead = 8 << 10;

struct PanelPrefetch {
  std::string weights;   // the input in panels, as Halide names it
  std::string copy;      // what tiles read instead, a panel in wider numbers; empty: the input
  std::string copy_loop; // over the terms of the copy: the end of its name
  std::string sum_loop;  // the loop over the sum, by its whole name
  std::string tile_loop; // the loop over tiles around it: the end of its name
  int width;             // of a panel
  Halide::Expr tiles;    // in the loop over tiles
  Halide::Expr terms;    // of the whole sum: a panel has terms x width elements
  int rows = 0;          // of a tile, which follow one another and are asked for, too; 0: they are not

  // Where the sum is cut: all panels of a task take a chunk of terms, then all take the next one.
  std::string panel_loop, chunk_loop; // the ends of their names; empty: there is none
  Halide::Expr first;                 // terms before the chunk, or before all chunks of the loop
  int chunk = 0;                      // terms of one
  bool last = true;                   // no terms follow the loop's

  /// Each step asks for the lines of a later one, and neither for the next panel nor for rows.
  bool of_this_panel = false;
};

std::shared_ptr<Halide::Internal::IRMutator> make_pass(const PanelPrefetch &prefetch);

/// What the epilogue of a tile reads and writes row by row, such as a residual and the result, asked for while tiles
/// before it are multiplied, or row by row in the epilogue of the tile before. Rows of a wide tensor are pages apart,
/// which no prefetcher of the processor follows.
struct RowsPrefetch {
  std::string result;              // the buffer written, as Halide names it
  std::string tile_loop, row_loop; // the ends of their names; rows may be without a loop
  int ahead;                       // tiles before the one that needs them
  int width = 0;                   // of a panel, where epilogues ask, as tiles would for too much at once; 0: tiles do
};

std::shared_ptr<Halide::Internal::IRMutator> make_pass(const RowsPrefetch &prefetch);

} // namespace heddle::contraction
