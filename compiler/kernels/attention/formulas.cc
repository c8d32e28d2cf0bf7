// See formulas.h.
#include "compiler/kernels/attention/formulas.h"

#include "compiler/halide/ranges.h"
#include "compiler/halide/threads.h"
#include "compiler/kernels/product/operands.h"

#include <algorithm>

namespace heddle::attention {

using Halide::Expr;
using Halide::Var;

Formulas::Formulas(LoweredKernel &kernel, const Match &match, const MicroKernel &micro_kernel, const Target &target)
    : kernel_(kernel), match_(match), output_(kernel.outputs.front()), lanes_(target.lanes),
      accumulators_(target.registers - target.registers / 4), feature_(output_.axes[match.lane_axis]),
      query_(output_.axes[match.row_axis]), micro_kernel_(micro_kernel) {
  for (int axis = int(output_.axes.size()) - 1; axis >= 0; --axis)
    if (axis != match.row_axis && axis != match.lane_axis) {
      outer_.push_back(output_.axes[axis]);
      outer_vars_.push_back(Var("o" + std::to_string(axis)));
      axes_within_rows_ += axis > match.row_axis;
    }
  for (const LoweredOp &stage : kernel.stages) // the last one has all keys
    if (auto roles = match.roles.find(stage.op); roles != match.roles.end())
      for (auto [loop, role] : llvm::zip_equal(stage.loops, roles->second))
        if (loop.reduction && role == keys)
          all_keys_ = loop.extent;
}

Substitution Formulas::places(const LoweredOp &stage) const {
  Substitution here;
  const std::vector<Role> &roles = match_.roles.find(stage.op)->second;
  int sums = 0;
  for (size_t loop = stage.loops.size(); loop-- > 0;) {
    const LoweredLoop &l = stage.loops[loop];
    std::string name = l.reduction ? l.rvar.name() : l.var.name();
    if (roles[loop] == summed)
      here[name] = Var("k" + std::to_string(sums++));
    else if (roles[loop] == keys)
      here[name] = key_;
    else if (roles[loop] == match_.row_axis)
      here[name] = row_;
    else if (roles[loop] == match_.lane_axis)
      here[name] = feature_place_;
    else
      for (size_t i = 0; i < outer_.size(); ++i)
        if (outer_[i].var.same_as(output_.axes[roles[loop]].var))
          here[name] = outer_vars_[i];
  }
  return here;
}

std::vector<Var> Formulas::with_outer(std::vector<Var> first) const {
  first.insert(first.end(), outer_vars_.begin(), outer_vars_.end());
  return first;
}

Expr Formulas::formula(const Expr &expr, std::vector<TiledSum> *tile) {
  Inliner inline_all(kernel_);
  for (auto &[op, roles] : match_.roles) {
    LoweredOp *stage = kernel_.stage_of(op->getResult(0));
    bool over_keys = std::count(roles.begin(), roles.end(), keys) > 0;
    bool shared = std::distance(op->getUses().begin(), op->getUses().end()) > 1;
    if (is_product(*stage))
      inline_all.replace(*stage, [this, stage, tile, shared](const auto &) {
        return tile && !shared ? product(*stage, *tile) : stored(*stage);
      });
    else if (stage->has_update())
      inline_all.replace(*stage, [this, stage](const auto &) { return statistic_of(*stage); });
    else if (over_keys && shared)
      inline_all.replace(*stage, [this, stage](const auto &) { return stored(*stage); });
  }
  return inline_all(expr);
}

bool Formulas::is_product(const LoweredOp &stage) const {
  const std::vector<Role> &roles = match_.roles.find(stage.op)->second;
  return stage.has_update() && std::count(roles.begin(), roles.end(), summed) > 0;
}

Expr Formulas::stored(LoweredOp &stage) {
  auto known = stored_.find(stage.func.name());
  if (known == stored_.end()) {
    Kept kept{Func("scores"), {}, &stage};
    Expr value = stage.has_update() ? product(stage, kept.sums) : formula_of(stage, &kept.sums);
    known = stored_.emplace(stage.func.name(), keep(kept, value)).first;
  }
  return read_kept(known->second);
}

bool Formulas::in_groups(Func &func) const {
  Var member = member_of_group();
  bool grouped = func.args()[0].same_as(member);
  if (grouped)
    func.bound_extent(member, group()).unroll(member);
  return grouped;
}

bool Formulas::is_kept(const Expr &value) const {
  const hi::Call *call = value.as<hi::Call>();
  return call &&
         std::any_of(kept_.begin(), kept_.end(), [&](const Kept &kept) { return kept.func.name() == call->name; });
}

std::optional<Formulas::Factors> Formulas::factors_at_places(const LoweredOp &stage) {
  auto times = factors_of(stage);
  if (!times) {
    fail("a product does not have the form of one");
    return std::nullopt;
  }
  Substitution here = places(stage);
  Factors factors{operand_of(micro_kernel_, replaced(here, times->first)),
                  operand_of(micro_kernel_, replaced(here, times->second)),
                  {}};
  for (size_t i = 0; i < reduction_names(stage).size(); ++i)
    factors.features.push_back(Var("k" + std::to_string(i)));
  return factors;
}

Formulas::Weighted Formulas::factors_of_weighted(const LoweredOp &stage,
                                                 const std::function<bool(const Expr &)> &over_keys) {
  std::optional<Factors> factors = factors_at_places(stage);
  if (!factors)
    return {0.f, 0.f, {}, {}};
  if (!hi::expr_uses_var(factors->left, feature_place_.name()))
    std::swap(factors->left, factors->right);
  Expr values = Inliner(kernel_)(factors->left), weights = formula(factors->right, nullptr), counts;
  while (const hi::Select *choice = match_.slide ? nullptr : values.as<hi::Select>()) {
    if (!hi::is_const_zero(choice->false_value) || !hi::expr_uses_var(choice->condition, row_.name()))
      break;
    counts = counts.defined() ? counts && choice->condition : choice->condition;
    values = choice->true_value;
  }
  weights = hi::substitute_in_all_lets(weights);
  // A rounding that may be left out may be one of what remains of the weights just as well.
  Halide::Type type = weights.type();
  while (const hi::Cast *cast = match_.rounds_freely ? weights.as<hi::Cast>() : nullptr)
    weights = cast->value;
  auto [common, rest] = common_factors(weights, over_keys);
  return {values, cast(type, rest), common, counts};
}

hi::Interval Formulas::needed_keys(const LoweredOp &stage, const Expr &first_row, int rows) {
  const std::vector<Role> &roles = match_.roles.find(stage.op)->second;
  std::vector<hi::Interval> ranges;
  unsigned along = 0;
  for (size_t loop = 0; loop < stage.loops.size(); ++loop) {
    ranges.emplace_back(Expr(0), stage.loops[loop].extent - 1);
    if (roles[loop] == match_.row_axis)
      ranges.back() = {first_row, min(first_row + rows, query_.extent) - 1};
    else if (roles[loop] == keys)
      along = unsigned(loop);
  }
  return needed_range(kernel_.function, stage.op, along, ranges, scalars_of(kernel_));
}

std::pair<Expr, Expr> Formulas::common_factors(const Expr &weights,
                                               const std::function<bool(const Expr &)> &over_keys) {
  const hi::Div *div = weights.as<hi::Div>();
  const hi::Mul *mul = weights.as<hi::Mul>();
  const hi::Select *choice = weights.as<hi::Select>();
  const hi::Call *call = weights.as<hi::Call>();
  bool strict_div = call && call->is_intrinsic(hi::Call::strict_div);
  auto with = [](const Expr &factor, const Expr &more) { return factor.defined() ? factor * more : more; };
  if (div || strict_div) {
    Expr a = div ? div->a : call->args[0], b = div ? div->b : call->args[1];
    if (over_keys(b) || !over_keys(a))
      return {Expr(), weights};
    auto [factor, rest] = common_factors(a, over_keys);
    return {with(factor, hi::make_one(b.type()) / b), rest};
  }
  if (mul || (call && call->is_intrinsic(hi::Call::strict_mul))) {
    Expr a = mul ? mul->a : call->args[0], b = mul ? mul->b : call->args[1];
    if (!over_keys(a))
      std::swap(a, b);
    if (!over_keys(a))
      return {Expr(), weights};
    auto [factor, rest] = common_factors(a, over_keys);
    if (!over_keys(b))
      return {with(factor, b), rest};
    auto [second, others] = common_factors(b, over_keys);
    if (!second.defined() && !factor.defined())
      return {Expr(), weights};
    return {second.defined() ? with(factor, second) : factor, rest * others};
  }
  if (choice && !over_keys(choice->condition)) { // if total == 0 then 0 else e / total
    bool first = hi::is_const_zero(choice->true_value);
    if (first == hi::is_const_zero(choice->false_value))
      return {Expr(), weights};
    Expr value = first ? choice->false_value : choice->true_value, zero = hi::make_zero(value.type());
    auto [factor, rest] = common_factors(value, over_keys);
    Expr scale = factor.defined() ? factor : hi::make_one(value.type());
    return {first ? select(choice->condition, zero, scale) : select(choice->condition, scale, zero), rest};
  }
  return {Expr(), weights};
}

Result<Halide::Func> Formulas::result_of(const std::function<Expr(LoweredOp &)> &weighted) {
  Inliner inline_all(kernel_);
  std::map<LoweredOp *, Expr> sums;
  for (const contraction::Reached &of : match_.weighted) {
    LoweredOp *stage = kernel_.stage_of(of.product.op->getResult(0));
    if (!stage)
      return Error{"attention without its product over keys"};
    inline_all.replace(*stage, [&sums, &weighted, stage](const std::vector<Expr> &) {
      auto [sum, is_new] = sums.try_emplace(stage);
      return is_new ? sum->second = weighted(*stage) : sum->second;
    });
  }
  Halide::Func result = redefine(output_, [&](const Expr &value) { return inline_all(value); });
  if (error_)
    return *error_;
  return result;
}

Expr Formulas::fail(const std::string &what) {
  if (!error_)
    error_ = Error{what};
  return 0.f;
}

Expr Formulas::blocks_of_task(int for_few, int rows_of_block) const {
  constexpr int least = 4, tasks_for_few = 16;
  if (for_few <= least)
    return for_few;
  Expr blocks = (query_.extent + rows_of_block - 1) / rows_of_block, others = 1;
  for (const OutputAxis &axis : outer_)
    others *= axis.extent;
  Expr tasks = (tasks_for_threads(tasks_for_few) - 1) / max(others, 1) + 1; // of the same keys
  return hi::simplify(by_threads(for_few, clamp((blocks - 1) / tasks + 1, least, for_few)));
}

} // namespace heddle::attention
