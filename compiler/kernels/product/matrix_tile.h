// Products of a matrix unit (AMX): no stage of a Halide pipeline can say that two tiles are live at a time, so a sum is
// said as plain loops, and their place in the lowered statement takes a call of a function that compiler/emit/kernels
// writes beside Halide's code:
//
//   for row { for lane { for group of terms { for term                     call f(sums, bytes of a row of them,
//     sums[row][lane] += rows[row][term] * panel[group][lane][term] } }  →         rows, bytes of a row of them, panel,
//                                                                                 number of rows, number of groups)
//
// What bounds Halide finds, and the epilogue, are those of the loops; the instruction is of no account before.
#pragma once

#include "compiler/kernels/product/micro_kernel.h"

#include <Halide.h>

#include <memory>
#include <string>

namespace heddle {

struct MatrixTile {
  /// Columns of a panel: two tiles abreast. With two tiles of rows four sums are live, and every tile is loaded for two
  /// products.
  static constexpr int width = 32;
  /// Groups of terms, and bytes of them, in a row of a tile.
  static constexpr int groups = 16, bytes = 64;

  const MicroKernel *micro_kernel;
  std::string sum;                    // the Func that is computed by a call, over (lane, row, others..)
  std::string lane, row, group, term; // its loops; the terms of a group are one of them
};

/// The name of the function that multiplies with a micro-kernel.
std::string function_of(const MicroKernel &micro_kernel);

/// Puts the call in the place of the loops. Sums begin at zero.
std::shared_ptr<Halide::Internal::IRMutator> make_pass(const MatrixTile &tile);

} // namespace heddle
