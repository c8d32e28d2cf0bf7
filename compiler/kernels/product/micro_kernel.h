// Micro-kernels: the instructions that add up products in registers, one row of micro_kernels.def each. A kind of
// kernel describes its tiles (register_tile.h) without knowing which one fills them.
#pragma once

#include "compiler/kernels/product/product.h"
#include "compiler/targets/target.h"

#include <Halide.h>

#include <cstdint>
#include <span>
#include <string_view>

namespace heddle {

/// One instruction multiplies a vector of columns (from a panel) by a broadcast group of terms of a row, and adds what
/// comes out to a vector of accumulators. An instruction of a matrix unit does so for several rows and groups.
struct MicroKernel {
  std::string_view name;
  std::string_view what; // one line for the reader of a report
  /// Element types of the operands and of the accumulators. Undefined bits: whatever the program multiplies.
  Halide::Type row, panel, sum;
  int group;      // terms of the sum that an instruction takes, which lie side by side in both operands
  int rows;       // that an instruction takes; several: so many groups of terms of each, too (matrix_tile.h)
  uint32_t needs; // HEDDLE_CPU_* beyond the target's base

  bool takes_tiles() const { return rows > 1; }
  bool takes_any_type() const { return sum.bits() == 0; }
  /// Bytes of a term of an operand, as it is multiplied; four where any type is.
  int bytes() const { return takes_any_type() ? 4 : panel.bytes(); }
};

/// All of them. The first, `fma`, multiplies numbers of any type.
std::span<const MicroKernel> micro_kernels();
/// The micro-kernel of that name, or null.
const MicroKernel *find_micro_kernel(std::string_view name);

/// The one that multiplies the most terms of a row at a time of those that the target has and that give exactly what
/// the program says of these products, of each of which the left factor has the rows and the right one the panels.
const MicroKernel &micro_kernel_for(std::span<const contraction::Product> products, const Target &target);

/// The one whose instruction multiplies tiles, where the target has one for these products; else null.
const MicroKernel *tile_kernel_for(std::span<const contraction::Product> products, const Target &target);

/// What a factor is before it is widened to the type of the sum.
mlir::Value unwidened(mlir::Value factor);

} // namespace heddle
