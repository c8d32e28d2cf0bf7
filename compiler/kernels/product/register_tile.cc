// With several terms to a group the innermost loop of the sum becomes two loops, and the update adds up a group by a
// vector reduction, which Halide has an instruction for where the target has one and plain arithmetic where it hasn't.
#include "compiler/kernels/product/register_tile.h"

namespace heddle {

using Halide::Expr;
using Halide::Func;
using Halide::Var;
namespace hi = Halide::Internal;

Expr groups_of(const MicroKernel &micro_kernel, const Expr &terms) {
  return micro_kernel.group == 1 ? terms : hi::simplify((terms + (micro_kernel.group - 1)) / micro_kernel.group);
}

bool has_whole_groups(const MicroKernel &micro_kernel, const Expr &terms) {
  return hi::is_const_zero(hi::simplify(terms % micro_kernel.group));
}

RegisterTile::RegisterTile(const MicroKernel &micro_kernel, Halide::Region extents) : micro_kernel_(&micro_kernel) {
  if (grouped()) {
    extents[0].extent = groups_of(micro_kernel, extents[0].extent);
    extents.insert(extents.begin(), {0, micro_kernel.group});
  }
  domain_ = Halide::RDom(extents);
  for (size_t i = grouped(); i < extents.size(); ++i) {
    loops_.push_back(domain_[int(i)]);
    terms_.push_back(loops_.back());
  }
  if (grouped())
    group_ = domain_[0];
  terms_[0] = term_of_iteration(loops_[0]);
}

Expr RegisterTile::term_of_iteration(const Expr &iteration) const {
  return grouped() ? iteration * micro_kernel_->group + group_ : iteration;
}

void RegisterTile::define(Func &sum, const std::vector<Var> &args, int width, const Expr &initial, const Expr &row,
                          const Expr &panel) const {
  // What lies in panels and groups is read at quotients and remainders of columns and terms; said of lanes and of the
  // terms of a group these are plain variables.
  hi::Scope<hi::Interval> bounds;
  if (width != across_tiles)
    bounds.push(args[0].name(), hi::Interval(0, width - 1));
  if (grouped())
    bounds.push(group_.name(), hi::Interval(0, micro_kernel_->group - 1));
  auto operand = [&](const Expr &value, Halide::Type wanted) {
    Expr simple = hi::simplify(value, false, bounds);
    return grouped() ? Halide::cast(initial.type(), Halide::cast(wanted, simple)) : simple;
  };
  sum(args) = initial;
  sum(args) += operand(row, micro_kernel_->row) * operand(panel, micro_kernel_->panel);
}

void RegisterTile::keep_in_registers(Func &sum, const Var &lane, const std::vector<Var> &rows, int lanes) const {
  sum.vectorize(lane, lanes).unroll(lane);
  for (const Var &row : rows)
    sum.unroll(row);
  keep_in_registers(sum.update(), lane, rows, lanes);
}

void RegisterTile::keep_in_registers(Halide::Stage update, const Var &lane, const std::vector<Var> &rows, int lanes,
                                     const std::vector<Halide::VarOrRVar> &outside) const {
  std::vector<Halide::VarOrRVar> order;
  if (grouped())
    order.push_back(group_);
  order.push_back(lane);
  order.insert(order.end(), rows.begin(), rows.end());
  order.insert(order.end(), loops_.begin(), loops_.end());
  order.insert(order.end(), outside.begin(), outside.end());
  update.reorder(order).vectorize(lane, lanes).unroll(lane);
  for (const Var &row : rows)
    update.unroll(row);
  if (grouped())
    update.atomic().vectorize(group_);
}

} // namespace heddle
