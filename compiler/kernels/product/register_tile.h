// The innermost part of every product: a tile of accumulators, `lane` x `row` of them, that stay in registers while the
// loops of the sum pass. Contraction, convolution and both products of attention are made of such tiles; which
// instruction fills them is the micro-kernel's matter.
//
//   for the loops of the sum, the innermost in groups of the micro-kernel's terms
//     for row (unrolled)
//       for lane (vectors, unrolled)
//         sum[lane, row] += the row's group of terms x the panel's groups of terms
#pragma once

#include "compiler/kernels/product/micro_kernel.h"

#include <Halide.h>

#include <vector>

namespace heddle {

class RegisterTile {
public:
  RegisterTile() = default;
  /// `extents`: of the sum's loops, innermost first. The innermost may run past its end to a whole group: operands are
  /// zero there.
  RegisterTile(const MicroKernel &micro_kernel, Halide::Region extents);

  /// Where loop number `i` of the sum is.
  Halide::Expr term(size_t i) const { return terms_[i]; }
  /// The loops as they are, innermost first, without the one over the terms of a group.
  const std::vector<Halide::RVar> &loops() const { return loops_; }
  /// The loop over the terms of a group, where there are several.
  const Halide::RVar &group() const { return group_; }
  /// Iterations of loop number `i` of `loops()`.
  Halide::Expr extent(size_t i) const { return domain_[int(i) + grouped()].extent(); }
  /// The term of the innermost loop that an update takes in that iteration of it.
  Halide::Expr term_of_iteration(const Halide::Expr &iteration) const;
  /// A condition on which iterations `loops()` have.
  void where(const Halide::Expr &condition) { domain_.where(condition); }

  static constexpr int across_tiles = 0;
  /// `sum(args) = initial; sum(args) += row * panel`. The operands are in terms of `args`, the first of which is the
  /// lane, 0 .. width - 1 (with `across_tiles` it counts on from tile to tile), and of `term(i)`.
  void define(Halide::Func &sum, const std::vector<Halide::Var> &args, int width, const Halide::Expr &initial,
              const Halide::Expr &row, const Halide::Expr &panel) const;

  /// Vectors of `lanes` accumulators along `lane`, and all of `rows`, unrolled.
  void keep_in_registers(Halide::Func &sum, const Halide::Var &lane, const std::vector<Halide::Var> &rows,
                         int lanes) const;
  /// The same of the update alone, of whose loops `outside` pass around the sum.
  void keep_in_registers(Halide::Stage update, const Halide::Var &lane, const std::vector<Halide::Var> &rows, int lanes,
                         const std::vector<Halide::VarOrRVar> &outside = {}) const;

private:
  bool grouped() const { return micro_kernel_->group > 1; }

  const MicroKernel *micro_kernel_ = nullptr;
  Halide::RDom domain_;
  Halide::RVar group_; // over the terms of a group, where there are several
  std::vector<Halide::RVar> loops_;
  std::vector<Halide::Expr> terms_;
};

/// Groups of terms that cover `terms`, and whether they do so exactly.
Halide::Expr groups_of(const MicroKernel &micro_kernel, const Halide::Expr &terms);
bool has_whole_groups(const MicroKernel &micro_kernel, const Halide::Expr &terms);

} // namespace heddle
