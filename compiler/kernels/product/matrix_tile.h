// Products of a matrix unit (AMX): no stage of a Halide pipeline can say that two tiles are live at a time, so a sum is
// said as plain loops, and their place in the lowered statement takes a call of a function that compiler/emit/kernels
// writes beside Halide's code:
//
//   for row { for lane { for group of terms { for term                     call f(sums, bytes of a row of them,
//     sums[row][lane] += rows[row][term] * panel[group][lane][term] } }  →         rows, bytes of a row of them,
//                                                                                 panel, bytes of a group of it, and to
//                                                                                 its columns from 16 on,
//                                                                                 number of rows, number of groups,
//                                                                                 place ahead, lines per step,
//                                                                                 the unit's configuration,
//                                                                                 number of runs, bytes between them)
//
// Terms are runs of so many groups in each row, one run behind the other in the panel.
//
// While tiles of a panel are multiplied, lines of the panel behind it come to the second cache: so many in each step
// (two tiles of rows by two of a panel), from the place on that is given; 0: none. So do some in the rows of an
// epilogue that computes for long, when the core's line buffers are free. What bounds Halide finds, and the epilogue,
// are those of the loops; the instruction is of no account before.
//
// A task keeps how the unit is configured on its stack, for all of its calls, and gives the unit back when it ends:
//
//   parallel for task { … f(…) … }   →   parallel for task { configured = 0; … f(…, &configured) …; end(&configured) }
#pragma once

#include "compiler/kernels/product/register_tile.h"

#include <Halide.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace heddle {

struct MatrixTile {
  /// Columns of a panel: two tiles abreast. With two tiles of rows four sums are live, and every tile is loaded for two
  /// products.
  static constexpr int width = 32;
  /// Three tiles abreast: with six sums there is room for one tile of rows and one of the panel, and two of the panel
  /// are loaded twice, the second time from the first cache.
  static constexpr int wide = 48;
  /// Groups of terms, and bytes of them, in a row of a tile.
  static constexpr int groups = 16, bytes = 64;
  /// For what a schedule is expected to take: cycles of a step of two by two tiles that come from the second cache, and
  /// of a call for 32 rows, which is set up and stores its sums (measured on an Emerald Rapids).
  static constexpr double step_cycles = 80, call_cycles = 60;

  const MicroKernel *micro_kernel;
  std::string sum;                    // the Func that is computed by a call, over (lane, row, others..)
  std::string lane, row;              // its loops; the terms of a group are one of them
  std::vector<std::string> sum_loops; // over groups, innermost first; the panel goes on where an inner one ends, and
                                      // rows do but for one loop, where a run ends
  std::string term;
  int columns = width; // of the panel
  /// What is asked for meanwhile: the panel that follows, by all calls of a block and their epilogues together.
  struct Ahead {
    std::string loop;     // over the calls, which read the same panel: the end of its name
    std::string epilogue; // over rows of a call's epilogue: the end of its name
    int rows;             // of a call
    Halide::Expr block;   // rows of all
    /// The Func by which the panel is split from one that is stored (split_factors.h), where it is: then what it reads
    /// from this input is asked for, for the next iteration of a loop over panels.
    std::string copy = {}, source = {}, panels = {};
  };
  std::optional<Ahead> ahead = std::nullopt;
};

/// The sum of a register tile, of which `lane` and `row` are loops.
MatrixTile matrix_tile(const MicroKernel &micro_kernel, const Halide::Func &sum, const std::string &lane,
                       const Halide::Var &row, const RegisterTile &tile);

/// Groups of terms that a step of the function takes: of all parts, where factors are split.
int groups_of_step(const MicroKernel &micro_kernel);

/// The name of the function that multiplies panels of so many columns with a micro-kernel.
std::string function_of(const MicroKernel &micro_kernel, int columns);

/// The name of the function that a task calls at its end.
inline constexpr char end_of_tiles[] = "heddle_end_of_tiles";

/// Puts the call in the place of the loops. Sums begin at zero.
std::shared_ptr<Halide::Internal::IRMutator> make_pass(const MatrixTile &tile);

} // namespace heddle
