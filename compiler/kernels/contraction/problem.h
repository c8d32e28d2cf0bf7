// A contraction in numbers: what its variants offer candidates from, and what these are expected to cost.
#pragma once

#include "compiler/kernels/contraction/schedule.h"
#include "compiler/kernels/kinds.h"
#include "compiler/kernels/product/cost.h"
#include "compiler/kernels/product/micro_kernel.h"
#include "compiler/kernels/product/product.h"

#include <optional>
#include <vector>

namespace heddle::contraction {

/// Cycles in which a task brings an element of a factor into a panel.
struct Packing {
  double per_element = 0, per_vector = 0; // and for each vector of the panel's width
  double cycles(int64_t vectors) const { return per_element + per_vector * double(vectors); }
};

struct Problem {
  const MicroKernel *micro_kernel; // for all products
  int products;                    // at most of a result: each has accumulators
  int64_t columns;       // of the innermost axis of the first result, along which lanes run; -1: a run-time size
  mlir::AffineExpr rows; // that are computed at a time in tiles; null: there are none, or nothing is known
  bool has_rows;
  int64_t rows_of_tile;                 // that have the place of the factor with lanes in common; 0: all have
  std::vector<mlir::AffineExpr> others; // extents of the other axes; null where nothing is known
  int64_t terms;                        // of all loops of the first sum; run-time sizes count as 256
  int64_t longest;                      // terms of the longest sum; -1 where one is unknown or has several loops
  bool narrow;                          // panels of fewer bits than are multiplied
  int panel_bytes;                      // of a term in a panel of weights, as it is stored
  bool weights;                         // the factor with lanes is an argument of fixed shape: packed before, read once
  std::optional<int64_t> given_width;   // of the panels that the weights have
  int64_t terms_apart; // bytes from a term of the factor without lanes to the next, where its rows lie side by side
  Packing packing;     // of the factors with lanes of a result's products, where they aren't packed before
};

/// Nothing where the kernel is no contraction.
std::optional<Problem> problem_of(mlir::func::FuncOp kernel, const Target &target);

/// How many rows a kernel computes at a time in tiles; null where there are none, or nothing is known.
mlir::AffineExpr rows_of(mlir::func::FuncOp kernel);

/// The widths of panels that registers like and, for lanes of a known number, that don't pad the last one with more
/// than another panel.
std::vector<int64_t> panel_widths(const Problem &problem, const Target &target);

/// Heights of a tile of so many columns, from 1 to what the registers hold.
std::vector<int64_t> tile_heights(const Problem &problem, int64_t width, const Target &target);

/// How many panels tiles of so few rows may compute at a time: of weights that are read once, so that they come from
/// several places of the memory at once.
std::vector<int64_t> panels_abreast(const Problem &problem, int64_t rows, int64_t width, const Target &target);

/// Rows of so many bytes that fill this share, in percent, of the second cache, within what pays.
int64_t rows_that_fit(int64_t bytes_of_row, int64_t share, const Target &target);

/// Rows of a block such that it fits the second cache with two panels beside it, where a sum takes so many of the
/// kernel's terms at a time (0: all).
int64_t rows_of_block(const Problem &problem, const Target &target, int64_t depth = 0);

/// The blocks that are worth trying: that one and, where panels are packed for each block, larger ones.
std::vector<int64_t> blocks_of_rows(const Problem &problem, const Target &target, int64_t depth = 0);

/// Whether so many terms of two panels fit the second cache and leave as much to rows, so that the next one may be
/// asked for.
bool two_panels_fit(int64_t terms, int64_t width, const MicroKernel &micro_kernel, const Target &target);

/// Whether a tile of so many rows should ask for panels: one of fewer waits for memory all the time, whatever it asks.
inline bool asking_can_pay(int64_t rows) { return rows >= 4; }

/// Whether a factor is copied into panels in every call.
bool packs(const Problem &problem);

/// Rows of a block of which there is a copy, tile by tile.
int64_t rows_of_copied_block(const Problem &problem, const Target &target);

/// Tasks for few threads where each copies rows of its own and passes over all panels.
inline constexpr int64_t copying_tasks = 4;

/// What variants share of a row of the schedule and of its cost.
struct Tiling {
  int64_t rows, width; // of a tile
  int64_t depth;       // terms of a chunk; 0: the whole sum at once
  Ahead ahead;
  bool widened;
  int64_t block;       // rows
  int64_t abreast = 1; // panels that a tile computes at a time
  bool copied = false; // rows, tile by tile, for all panels of a block
  bool packed = false; // all panels, before rows pass over them
};
Candidate candidate(const Problem &problem, std::string_view variant, const Tiling &tiling, const Target &target);

/// Why a matrix unit's tiles don't fit a kernel, whatever they multiply; nothing where they do.
std::optional<Error> misfit_of_unit(const Problem &problem);
/// The columns of panels that a matrix unit takes: three tiles abreast or two, and where weights have panels already,
/// as many as these have.
Result<std::vector<int64_t>> panel_widths_of_unit(const Problem &problem);
/// Whether it takes panels of so many.
Status check_width_of_unit(int64_t width);

/// Parameters that both variants have.
std::vector<Parameter> tile_parameters(std::vector<int64_t> rows, std::vector<int64_t> widths);

} // namespace heddle::contraction
