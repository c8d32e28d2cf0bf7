// One loop nest per result:
//   task (panel x block of rows, parallel) → tile of rows → accumulators over the whole sum, then the epilogue
// The wide factor (the one the vector lanes run along) is read in panels [k][width] that stay in the cache while
// the rows of the other factor pass; weights come packed so, anything else is packed per task. The other factor is
// read row by row as it lies; what is not stored so (computed places, a product of things) is first written out for
// one block of rows. Tiles of rows past the end compute on the last row again; the last panel is padded with zeros.
// Measured: the sum in one go, panels outside and rows inside, is the fastest order (Cascade Lake, Sapphire Rapids).
#include "compiler/kernels/contraction/schedule.h"

#include "compiler/kernels/contraction/prefetch.h"
#include "compiler/kernels/contraction/product.h"
#include "compiler/kernels/inlining.h"

#include <algorithm>

namespace heddle::contraction {

using Halide::Expr;
using Halide::Func;
using Halide::TailStrategy;
using Halide::Var;
using Halide::VarOrRVar;
namespace hi = Halide::Internal;

namespace {

/// Rows of a block: with a panel beside them they should fit the second cache.
constexpr int64_t block_share = 60; // percent
/// Tiles of a block where blocks alone make the tasks.
constexpr int few_tiles = 7;
/// Tiles of fewer rows wait for memory all the time. Measured: panels ahead cost what they gain where two don't fit.
constexpr int fewest_rows_to_prefetch = 6;
/// Tasks that a kernel should at least have, so that threads finish together.
constexpr int tasks_wanted = 16;

/// The read of an input that a factor is, apart from casts; null where it is anything else.
const hi::Call *read_of(const Expr &factor) {
  Expr read = factor;
  while (const hi::Cast *cast = read.as<hi::Cast>())
    read = cast->value;
  return read.as<hi::Call>();
}

/// The variables of `candidates` that an expression uses, in that order.
std::vector<Var> used_by(const Expr &expr, const std::vector<Var> &candidates) {
  std::vector<Var> used;
  for (const Var &var : candidates)
    if (hi::expr_uses_var(expr, var.name()))
      used.push_back(var);
  return used;
}

class Nest {
public:
  Nest(LoweredKernel &kernel, Output &output, int64_t rows, int64_t width, int row_axis, const Target &target)
      : kernel_(kernel), output_(output), rows_(int(rows)), width_(int(width)), lanes_(target.lanes), target_(target),
        lane_(output.axes.back()), has_rows_(row_axis >= 0) {
    if (has_rows_)
      row_ = output.axes[row_axis];
    for (int axis = int(output.axes.size()) - 2; axis >= 0; --axis)
      if (axis != row_axis)
        others_.push_back(output.axes[axis]);
  }

  Status build() {
    Inliner inline_all(kernel_);
    for (Stage &stage : kernel_.stages)
      if (stage.has_update())
        inline_all.replace(stage, [this, &stage](const std::vector<Expr> &indices) { return product(stage, indices); });
    Expr value = inline_all(output_.func.value());
    if (error_)
      return *error_;
    Func result = redefine(output_, value);
    schedule(result);
    return Done();
  }

private:
  struct Sum {
    std::string stage;
    Func func;
    std::vector<Halide::RVar> loops; // innermost first
    Func narrow, wide;               // staged factors, where defined
    std::string panels;              // the input that the factor with lanes is read from in place
  };

  static std::string variable(const Expr &expr) {
    const hi::Variable *variable = expr.as<hi::Variable>();
    return variable ? variable->name : std::string();
  }

  /// The value of a product at the result's own indices: its accumulator.
  Expr product(Stage &stage, const std::vector<Expr> &indices) {
    // Which variable of the stage is which axis of the result.
    std::vector<Var> vars = stage.func.args();
    Substitution here;
    std::string lane_name, row_name;
    std::vector<std::pair<std::string, const Axis *>> outer;
    for (size_t i = 0; i < vars.size(); ++i) {
      std::string name = variable(indices[i]);
      if (name == lane_.var.name())
        lane_name = vars[i].name();
      else if (has_rows_ && name == row_.var.name())
        row_name = vars[i].name();
      else
        for (const Axis &axis : others_)
          if (name == axis.var.name())
            outer.push_back({vars[i].name(), &axis});
    }
    if (lane_name.empty() || outer.size() + 1 + (row_name.empty() ? 0 : 1) != vars.size())
      return fail("a product is not read at the result's own place");

    std::vector<Expr> call = {lane_.var};
    std::vector<Var> args = {Var("n")};
    here[lane_name] = args[0];
    if (!row_name.empty()) {
      call.push_back(row_.var);
      args.push_back(Var("m"));
      // Rows past the end repeat the last one.
      bool whole = row_.size >= 0 && row_.size % rows_ == 0;
      here[row_name] = whole ? Expr(args[1]) : min(args[1], row_.extent - 1);
    }
    for (auto &[name, axis] : outer) {
      call.push_back(axis->var);
      args.push_back(Var("o" + std::to_string(args.size())));
      here[name] = args.back();
    }
    for (Sum &sum : sums_)
      if (sum.stage == stage.func.name())
        return sum.func(call);

    const hi::Add *add = stage.func.update_value(0).as<hi::Add>();
    const hi::Call *self = add ? add->a.as<hi::Call>() : nullptr;
    bool left_is_self = self && self->name == stage.func.name();
    const hi::Mul *times = add ? (left_is_self ? add->b : add->a).as<hi::Mul>() : nullptr;
    if (!times)
      return fail("a product does not have the form of one");

    Sum sum{stage.func.name(), Func("sum"), {}, {}, {}, {}};
    Halide::RDom domain = fresh_domain(stage);
    std::vector<std::string> names = reduction_names(stage);
    std::vector<Var> k; // stand for the reduction loops in staged factors
    for (size_t i = 0; i < names.size(); ++i) {
      sum.loops.push_back(domain[int(i)]);
      k.push_back(Var("k" + std::to_string(i)));
      here[names[i]] = k.back();
    }
    bool left_is_wide = hi::expr_uses_var(times->a, lane_name);
    Inliner inline_all(kernel_);
    auto factor = [&](const Expr &expr) { return inline_all(hi::substitute(here, expr)); };
    Expr narrow = factor(left_is_wide ? times->b : times->a), wide = factor(left_is_wide ? times->a : times->b);
    Expr initial = inline_all(hi::substitute(here, stage.func.value()));

    narrow = stage_narrow(sum, narrow, args, k);
    if (Input *input = input_read_by(read_of(wide)); input && input->panel_width == width_)
      sum.panels = input->param.name();
    wide = stage_wide(sum, wide, args, k);
    Substitution loops;
    for (size_t i = 0; i < k.size(); ++i)
      loops[k[i].name()] = sum.loops[i];
    sum.func(args) = initial;
    sum.func(args) += hi::substitute(loops, narrow) * hi::substitute(loops, wide);
    sums_.push_back(sum);
    return sum.func(call);
  }

  /// The factor without lanes, through a Func that holds one block of rows unless it is read in place.
  Expr stage_narrow(Sum &sum, const Expr &factor, const std::vector<Var> &args, const std::vector<Var> &k) {
    if (is_plain_read(factor))
      return factor;
    std::vector<Var> candidates = k;
    candidates.insert(candidates.end(), args.begin() + 1, args.end());
    std::vector<Var> own = used_by(factor, candidates);
    sum.narrow = Func("rows");
    sum.narrow(own) = factor;
    rows_outside_ = true;
    std::vector<Expr> at(own.begin(), own.end());
    return sum.narrow(at);
  }

  /// The factor with lanes: a weight in panels of this width as it lies, anything else packed into such panels.
  Expr stage_wide(Sum &sum, const Expr &factor, const std::vector<Var> &args, const std::vector<Var> &k) {
    if (in_panels(factor, args[0]))
      return factor;
    std::vector<Var> candidates = k;
    candidates.insert(candidates.end(), args.begin() + 1, args.end());
    std::vector<Var> own = used_by(factor, candidates);
    Var lane("l"), panel("p");
    Expr column = panel * width_ + lane;
    bool whole = lane_.size >= 0 && lane_.size % width_ == 0;
    Substitution there = {{args[0].name(), whole ? column : min(Halide::likely(column), lane_.extent - 1)}};
    Expr value = hi::substitute(there, factor);
    if (!whole)
      value = select(Halide::likely(column < lane_.extent), value, hi::make_zero(value.type()));
    std::vector<Var> parameters = {lane};
    parameters.insert(parameters.end(), own.begin(), own.end());
    parameters.push_back(panel);
    sum.wide = Func("panel");
    sum.wide(parameters) = value;
    std::vector<Expr> at = {args[0] % width_};
    at.insert(at.end(), own.begin(), own.end());
    at.push_back(args[0] / width_);
    return sum.wide(at);
  }

  Input *input_read_by(const hi::Call *call) {
    for (Input &input : kernel_.inputs)
      if (call && call->name == Func(input.param).name())
        return &input;
    return nullptr;
  }

  /// A factor that is an input, read in place at plain variables.
  bool is_plain_read(const Expr &factor) {
    const hi::Call *call = read_of(factor);
    return input_read_by(call) && std::all_of(call->args.begin(), call->args.end(), [](const Expr &index) {
             const hi::Min *clamp = index.as<hi::Min>();
             return index.as<hi::Variable>() || (clamp && clamp->a.as<hi::Variable>());
           });
  }

  /// Whether the factor is a read of an input with panels of this width along the lanes.
  bool in_panels(const Expr &factor, const Var &lane) {
    const hi::Call *call = read_of(factor);
    Input *input = input_read_by(call);
    if (!input || input->panel_axis < 0 || !hi::expr_uses_var(call->args.front(), lane.name()))
      return false;
    if (input->panel_width != width_)
      fail("the weights have panels of another width than the schedule");
    return true;
  }

  void schedule(Func &result) {
    Var panel("panel"), column("column"), tiles("tiles"), tile("tile"), row("row"), block("block");
    bool whole_panels = lane_.size >= 0 && lane_.size % width_ == 0;
    result.split(lane_.var, panel, column, width_, whole_panels ? TailStrategy::RoundUp : TailStrategy::GuardWithIf);
    std::vector<VarOrRVar> order = {column};
    std::vector<Var> outer; // what tasks are made of, innermost first
    if (has_rows_) {
      bool whole_tiles = row_.size >= 0 && row_.size % rows_ == 0;
      result.split(row_.var, tiles, row, rows_, whole_tiles ? TailStrategy::RoundUp : TailStrategy::GuardWithIf)
          .split(tiles, block, tile, tiles_in_block(), TailStrategy::GuardWithIf);
      order.insert(order.end(), {row, tile, panel, block});
      outer = rows_outside_ ? std::vector<Var>{block} : std::vector<Var>{panel, block};
    } else {
      order.push_back(panel);
      outer = {panel};
    }
    for (const Axis &axis : others_) {
      order.push_back(axis.var);
      outer.push_back(axis.var);
    }
    result.reorder(order).vectorize(column, lanes_).unroll(column);
    Var all = outer[0];
    for (size_t i = 1; i < outer.size(); ++i) {
      Var fused("task" + std::to_string(i));
      result.fuse(all, outer[i], fused);
      all = fused;
    }
    result.parallel(all);
    for (Sum &sum : sums_)
      schedule_sum(sum, result,
                   has_rows_       ? tile
                   : rows_outside_ ? panel
                                   : all,
                   rows_outside_ && has_rows_ ? panel : all, all);
  }

  /// `inner`: the loop over tiles. `per_panel`, `per_block`: where a panel and a block of rows is the same.
  void schedule_sum(Sum &sum, Func &result, const Var &inner, const Var &per_panel, const Var &per_block) {
    std::vector<Var> args = sum.func.args();
    sum.func.compute_at(result, inner).bound_extent(args[0], width_).align_bounds(args[0], width_);
    bool tiled = has_rows_ && args.size() > 1;
    if (tiled)
      sum.func.bound_extent(args[1], rows_);
    for (size_t i = tiled ? 2 : 1; i < args.size(); ++i)
      sum.func.bound_extent(args[i], 1);
    auto unroll = [&](auto &&stage) {
      stage.vectorize(args[0], lanes_).unroll(args[0]);
      if (tiled)
        stage.unroll(args[1]);
    };
    std::vector<VarOrRVar> order = {args[0]};
    if (tiled)
      order.push_back(args[1]);
    for (const Halide::RVar &loop : sum.loops)
      order.push_back(loop);
    unroll(sum.func);
    unroll(sum.func.update().reorder(order));
    bool two_fit = 2 * depth() * width_ * 4 < target_.l2 / 2; // panels, leaving as much to the rows
    if (tiled && two_fit && rows_ >= fewest_rows_to_prefetch && !sum.panels.empty() && !sum.wide.defined() &&
        sum.loops.size() == 1)
      kernel_.passes.push_back(make_pass(
          {sum.panels, sum.func.name() + ".s1." + sum.loops[0].name(), "." + inner.name(), width_, tiles_in_block()}));
    // A task has one index of each of the other axes; Halide can't see that through the fused loops.
    auto fix_others = [&](Func &staged) {
      for (const Var &var : staged.args())
        for (size_t i = tiled ? 2 : 1; i < args.size(); ++i)
          if (var.same_as(args[i]))
            staged.bound_extent(var, 1);
    };
    if (sum.narrow.defined()) {
      fix_others(sum.narrow);
      sum.narrow.compute_at(result, per_block);
      if (!sum.narrow.args().empty() && sum.loops.size() > 0)
        sum.narrow.vectorize(sum.narrow.args()[0], lanes_, TailStrategy::GuardWithIf);
    }
    if (sum.wide.defined()) {
      fix_others(sum.wide);
      std::vector<Var> parameters = sum.wide.args();
      sum.wide.compute_at(result, per_panel).bound_extent(parameters.front(), width_);
      sum.wide.bound_extent(parameters.back(), 1).vectorize(parameters.front(), lanes_).unroll(parameters.front());
    }
  }

  /// Terms of a sum, as far as known.
  int64_t depth() {
    int64_t depth = 1;
    for (Stage &stage : kernel_.stages)
      if (stage.func.name() == sums_.front().stage)
        for (const Loop &loop : stage.loops)
          if (loop.reduction)
            depth *= loop.size >= 0 ? loop.size : 256;
    return depth;
  }

  /// Tiles of one block of rows: what fits the cache, in blocks of equal size, and enough blocks for the threads.
  Expr tiles_in_block() {
    int64_t fitting = target_.l2 * block_share / 100 / (4 * depth());
    int most = int(std::clamp<int64_t>(fitting, 208, 512) / rows_);
    if (!others_.empty()) // they make tasks enough, and Halide loses the bounds of axes fused with computed ones
      return rows_outside_ ? few_tiles : most;
    Expr tiles = (row_.extent + rows_ - 1) / rows_;
    Expr panels = rows_outside_ ? Expr(1) : (lane_.extent + width_ - 1) / width_;
    Expr blocks = max((tiles + most - 1) / most, min(tiles, (tasks_wanted + panels - 1) / max(panels, 1)));
    return hi::simplify(max((tiles + max(blocks, 1) - 1) / max(blocks, 1), 1));
  }

  Expr fail(const std::string &what) {
    if (!error_)
      error_ = Error{what};
    return 0.f;
  }

  LoweredKernel &kernel_;
  Output &output_;
  int rows_, width_, lanes_;
  const Target &target_;
  Axis lane_, row_;
  bool has_rows_;
  std::vector<Axis> others_; // innermost first
  std::vector<Sum> sums_;
  bool rows_outside_ = false; // a staged block of rows is shared by all panels, so panels go inside
  std::optional<Error> error_;
};

} // namespace

Status schedule(LoweredKernel &kernel, const ScheduleRow &row, const Target &target) {
  auto parameter = [&](const char *name) {
    auto found = row.params.find(name);
    return found == row.params.end() ? 0 : found->second;
  };
  int64_t rows = parameter("rows"), width = parameter("width");
  if (row.variant != "tiles" || rows < 1 || rows > 64 || width < target.lanes || width % target.lanes != 0 ||
      width > 1024)
    return Error{"a contraction has no schedule of that form"};
  std::optional<std::vector<std::vector<Reached>>> results = match(kernel.function);
  if (!results)
    return Error{"a contraction's schedule needs a product behind every result"};
  for (size_t i = 0; i < kernel.outputs.size(); ++i)
    if (Status status = Nest(kernel, kernel.outputs[i], rows, width, row_axis((*results)[i].front()), target).build();
        !status)
      return status;
  return Done();
}

} // namespace heddle::contraction
