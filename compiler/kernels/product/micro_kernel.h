// Micro-kernels: the instructions that add up products in registers, one row of micro_kernels.def each. A kind of
// kernel describes its tiles (register_tile.h) without knowing which one fills them.
#pragma once

#include "compiler/kernels/product/product.h"
#include "compiler/targets/target.h"

#include <Halide.h>

#include <cstdint>
#include <memory>
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
  int group;            // terms of the sum that an instruction takes, which lie side by side in both operands
  int rows;             // that an instruction takes; several: so many groups of terms of each, too (matrix_tile.h)
  int64_t pair_sum;     // the most that terms 0 and 1, 2 and 3, … of a panel may add up to, in magnitude; 0: anything
  uint32_t needs;       // HEDDLE_CPU_* beyond the target's base
  double Target::*cost; // multiply-adds of f32 in whose time an instruction is done; null: one

  bool takes_tiles() const { return rows > 1; }
  bool takes_any_type() const { return sum.bits() == 0; }
  /// Whether operands are words in which factors of f32 are split (split_factors.h).
  bool splits() const { return sum.is_float() && row.is_uint(); }
  /// Registers beside accumulators and a row of the panel: a broadcast; a product, where another instruction adds it;
  /// ones, by which pairs are added up.
  int further_registers() const { return takes_any_type() ? 1 : pair_sum == 0 ? 2 : 3; }
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

/// Of those, the one that multiplies the most terms in the time of a multiply-add: for operands that every call writes
/// out for itself, so that it may as well widen them.
const MicroKernel &fastest_kernel_for(std::span<const contraction::Product> products, const Target &target);

/// The first whose instruction takes several terms of this type of a row at a time, of those that the target has, or
/// null: then the target multiplies such terms no faster than f32.
const MicroKernel *grouping_kernel_of(Halide::Type terms, const Target &target);

/// Multiply-adds of f32 in whose time an instruction is done.
double instruction_cost(const MicroKernel &micro_kernel, const Target &target);

/// What pairs of weights of 8 bits must add up to at most, in magnitude, for the fastest that the target has to
/// multiply them with u8; 0: anything.
int64_t pair_sum_of_bytes(const Target &target);

/// What a micro-kernel does to the lowered statement, where Halide has no word for it; null: nothing.
std::shared_ptr<Halide::Internal::IRMutator> pass_of(const MicroKernel &micro_kernel);

/// The one whose instruction multiplies tiles, where the target has one for these products; else null.
const MicroKernel *tile_kernel_for(std::span<const contraction::Product> products, const Target &target);

/// The one that multiplies tiles of f32 as parts of fewer bits, where the target has one and these products are of f32;
/// else null.
const MicroKernel *splitting_kernel_for(std::span<const contraction::Product> products, const Target &target);

/// What a factor is before it is widened to the type of the sum.
mlir::Value unwidened(mlir::Value factor);

} // namespace heddle
