// Row blocks: for each block of query rows (a task), everything that belongs to these rows:
//   queries, transposed (lanes along rows) → scores, tile by tile of keys → statistics of the rows → weights
//   → the weighted values, tiles of rows x head features with lanes along the features.
// Keys and values are read one element for all lanes of a row block: as they lie, or, in tasks of several row blocks,
// from a copy in which the keys of one head follow each other; as they lie they share few sets of the caches. Scratch
// is linear in the number of keys. A factor of the weights that is the same for all keys (1 / sum) is applied once,
// after the sum over keys. Rows past the last one repeat it and are never stored.
//
// Keys that slide along with the rows (match.h): the keys of a block are the band of all windows of its rows, a * row +
// c * key counted from where the first row's begins, and always copied, so that what lies outside of the tensor is
// decided once. Row `lane` has the keys of its own window only; what else the band has counts for nothing.
#include "compiler/kernels/attention/row_blocks.h"

#include "compiler/halide/threads.h"
#include "compiler/kernels/attention/formulas.h"
#include "compiler/kernels/product/operands.h"

#include <algorithm>
#include <cstdlib>

namespace heddle::attention {

using Halide::TailStrategy;
using Halide::VarOrRVar;

namespace {

class RowBlocks : Formulas {
public:
  /// `blocks`: of a task that copies keys and values; 0: a task is one block and copies nothing.
  RowBlocks(LoweredKernel &kernel, const Match &match, const MicroKernel &micro_kernel, int rows, int blocks,
            const Target &target)
      : Formulas(kernel, match, micro_kernel, target), rows_(rows), blocks_(blocks), vectors_(rows / target.lanes) {}

  Status build() {
    keys_ = match_.slide ? band(rows_) : all_keys_;
    if (!match_.has_values())
      return build_statistics();
    tile_rows_ = largest_divisor(rows_, std::max(1, accumulators_ / (tile_features() / lanes_)));
    Result<Func> result = result_of([this](LoweredOp &weighted) { return weighted_values(weighted); });
    if (!result)
      return result.error();
    schedule(*result);
    return Done();
  }

private:
  /// Where the results are reductions over the keys.
  Status build_statistics() {
    std::vector<Expr> at = {query_.var % rows_, query_.var / rows_};
    for (const OutputAxis &axis : outer_)
      at.push_back(axis.var);
    Inliner inline_all(kernel_);
    for (auto &[op, roles] : match_.roles) {
      LoweredOp *stage = kernel_.stage_of(op->getResult(0));
      if (stage->has_update() && !is_product(*stage))
        inline_all.replace(*stage, [this, stage, at](const auto &) {
          statistic_of(*stage);
          return reduced_.at(stage->func.name())(at);
        });
    }
    Func result = redefine(output_, [&](const Expr &value) { return inline_all(value); });
    if (error_)
      return *error_;
    schedule_statistics(result);
    return Done();
  }

  // --- placeholders in formulas: `row_` and `key_` are where an element lies among all queries and keys; lane_ and
  // block_ say the same row as an element of a block, and slot_ which of the block's keys it is: the key itself, or, if
  // keys slide, the place in the band, where window_ is a * row + c * key. Substituted when a formula becomes the
  // definition of a Func.

  /// A formula as it stands in a Func over (lane, .., block, outer..), for the block's key number `slot`.
  Expr placed(const Expr &formula, const Expr &slot) {
    // Halide would conclude from a condition on rows (j <= i) which blocks can need a key, and lose that it is one
    // block.
    Expr row = unsafe_promise_clamped(min(block_ * rows_ + lane_, query_.extent - 1), 0, query_.extent - 1);
    Substitution here = {{row_.name(), row}, {slot_.name(), slot}, {key_.name(), slot}};
    if (match_.slide) {
      here[key_.name()] = clamp(steps(slot) / int(match_.slide->key), 0, all_keys_ - 1);
      here[window_.name()] = window_at(block_ * rows_, slot);
    }
    return replaced(here, slid(formula));
  }

  // --- the band of keys that slide

  Expr slid(const Expr &formula) const {
    return match_.slide ? with_window(formula, *match_.slide, row_, key_, window_) : formula;
  }
  /// How far a window stretches: between the steps of its first and its last key.
  Expr stretch() const { return (all_keys_ - 1) * int(match_.slide->key); }
  /// c * key for the row `lane_` of a block at place `slot` of the band.
  Expr steps(const Expr &slot) const { return slot + min(stretch(), 0) - lane_ * int(match_.slide->row); }
  /// a * row + c * key at place `slot` of the band of rows from `first_row` on; not past the last row's last.
  Expr window_at(const Expr &first_row, const Expr &slot) const {
    int a = int(match_.slide->row);
    return min(first_row * a + slot + min(stretch(), 0), (query_.extent - 1) * a + max(stretch(), 0));
  }
  /// Whether place `slot` of the band is in the window of the row `lane_`.
  Expr in_window(const Expr &slot) const {
    int c = int(match_.slide->key);
    Expr here = steps(slot), inside = here >= min(stretch(), 0) && here <= max(stretch(), 0);
    return std::abs(c) == 1 ? inside : inside && here % std::abs(c) == 0;
  }
  /// Places of the band of so many rows.
  Expr band(int rows) const {
    return hi::simplify(select(all_keys_ > 0, int(match_.slide->row) * (rows - 1) + 1 + abs_of(stretch()), 0));
  }
  static Expr abs_of(const Expr &e) { return max(e, -e); }

  bool depends_on_key(const Expr &e) const {
    return hi::expr_uses_var(e, key_.name()) || hi::expr_uses_var(e, slot_.name());
  }

  std::vector<Var> row_args(std::vector<Var> first) const {
    first.push_back(block_);
    return with_outer(first);
  }

  Expr read_kept(Func func) const override {
    std::vector<Expr> args = exprs(row_args({lane_}));
    args.insert(args.begin() + 1, slot_);
    return func(args);
  }

  /// A product's tile of sums, read in the Func that is computed tile by tile.
  Expr product(LoweredOp &stage, std::vector<TiledSum> &tile) override {
    auto known = sums_.find(stage.func.name());
    if (known == sums_.end()) {
      std::optional<Factors> factors = factors_at_places(stage);
      if (!factors)
        return 0.f;
      Inliner inline_all(kernel_);
      Expr panel = slid(inline_all(factors->left)), row = slid(inline_all(factors->right)); // lanes run along the rows
      if (!belongs_to_rows(panel))
        std::swap(panel, row);
      Expr terms = terms_of(stage);
      auto of_keys = [&](const Expr &value) {
        Expr whole = filled(micro_kernel_.group, value, factors->features[0], terms);
        bool in_place = Operands(kernel_, micro_kernel_, factors->features[0], terms).is_in_groups(value);
        return placed(copied(whole, factors->features, in_place), min(key_in_tile_, keys_ - 1));
      };
      panel = belongs_to_rows(panel)
                  ? queries(filled(micro_kernel_.group, panel, factors->features[0], terms), factors->features)
                  : of_keys(panel);
      row = of_keys(row);
      TiledSum sum{Func("sum"), RegisterTile(micro_kernel_, reduction_loops(stage))};
      Substitution loops;
      for (size_t i = 0; i < factors->features.size(); ++i)
        loops[factors->features[i].name()] = sum.tile.term(i);
      Expr start = placed(inline_all(replaced(places(stage), stage.func.value())), min(key_in_tile_, keys_ - 1));
      sum.tile.define(sum.func, row_args({lane_, key_in_tile_}), rows_, start, replaced(loops, row),
                      replaced(loops, panel));
      known = sums_.emplace(stage.func.name(), sum).first;
    }
    Func sum = known->second.func;
    if (std::none_of(tile.begin(), tile.end(), [&](const TiledSum &other) { return other.func.name() == sum.name(); }))
      tile.push_back(known->second);
    return sum(exprs(row_args({lane_, key_in_tile_})));
  }

  /// Whether a factor is the same for all keys.
  bool belongs_to_rows(const Expr &value) const {
    return hi::expr_uses_var(value, row_.name()) && !hi::expr_uses_var(value, key_.name()) &&
           !hi::expr_uses_var(value, window_.name());
  }

  /// A factor that belongs to the keys alone, copied for the row blocks of a task: per key, its `features`. `in_place`:
  /// whether the micro-kernel could take it where it lies.
  Expr copied(const Expr &value, const std::vector<Var> &features, bool in_place) {
    const Var &place = match_.slide ? window_ : key_, &other = match_.slide ? key_ : window_;
    if ((blocks_ == 0 && !match_.slide && in_place) || hi::expr_uses_var(value, row_.name()) ||
        hi::expr_uses_var(value, other.name()) || !hi::expr_uses_var(value, place.name()))
      return value;
    std::vector<Var> args = used_by(value, features);
    args.push_back(place);
    Func func("copied");
    func(with_outer(args)) = value;
    copies_.push_back(func);
    return func(exprs(with_outer(args)));
  }

  /// The values: of a group of keys, side by side.
  Expr copied_values(const Expr &values) {
    if (group() == 1)
      return copied(values, {feature_place_}, true);
    if (hi::expr_uses_var(values, row_.name()) || !hi::expr_uses_var(values, key_.name()))
      return filled(micro_kernel_.group, values, key_, keys_);
    Copy copy = copy_in_groups(micro_kernel_, "copied", values, with_outer({feature_place_, key_}), key_, keys_);
    copies_.push_back(copy.func);
    return copy.read;
  }

  /// The weights of the block, in groups of keys.
  Expr kept_weights(const Expr &weights) {
    if (group() == 1)
      return is_kept(weights) ? weights : read_kept(keep({Func("weights"), {}}, weights));
    Copy copy = copy_in_groups(micro_kernel_, "weights", placed(weights, key_in_tile_), row_args({lane_, key_in_tile_}),
                               key_in_tile_, keys_);
    kept_.push_back({copy.func, {}});
    return replaced(key_in_tile_.name(), slot_, copy.read);
  }

  /// A factor that belongs to the rows alone, with lanes along the rows: lanes at fixed distances are cheap to collect.
  Expr queries(const Expr &value, const std::vector<Var> &features) {
    Transposed made = transpose(micro_kernel_, "rows", "queries", placed(value, key_), used_by(value, features), lane_,
                                row_args({}), features[0]);
    by_row_.push_back(made.natural);
    row_funcs_.push_back(made.func);
    return made.read;
  }

  Func keep(Kept kept, const Expr &value) override {
    Expr key = kept.sums.empty() ? Expr(key_in_tile_) : min(key_in_tile_, keys_ - 1);
    Expr here = placed(value, key);
    kept.func(row_args({lane_, key_in_tile_})) =
        match_.slide ? select(in_window(key), here, hi::make_zero(here.type())) : here;
    kept_.push_back(kept);
    return kept.func;
  }

  /// Leaves out the keys at which the sum of a stage stays as it is for all of these rows, as after the last of them if
  /// attention is causal; an iteration has `step` keys. Returns the iteration, known to be one of the others, so that
  /// only their scores are computed.
  template <class Loops>
  Expr restricted(Loops &loops, const Expr &iteration, int step, const LoweredOp &stage, const Expr &first_row,
                  int rows) {
    if (match_.slide)
      return iteration;
    hi::Interval range = needed_keys(stage, first_row, rows);
    if (!range.has_upper_bound() && !range.has_lower_bound())
      return iteration;
    auto iteration_of = [&](const Expr &key) { return step == 1 ? key : key / step; };
    Expr first = 0, last = iteration_of(keys_ - 1);
    if (range.has_upper_bound()) {
      loops.where(iteration <= iteration_of(range.max));
      last = max(min(iteration_of(range.max), last), 0);
    }
    if (range.has_lower_bound()) {
      loops.where(iteration >= iteration_of(range.min));
      first = min(max(iteration_of(range.min), first), iteration_of(keys_ - 1));
    }
    return Halide::unsafe_promise_clamped(iteration, first, last); // of no key, too, one that there is
  }

  /// A reduction over the keys of a row.
  Expr statistic_of(LoweredOp &stage) override {
    auto known = reduced_.find(stage.func.name());
    if (known == reduced_.end()) {
      known = reduced_.emplace(stage.func.name(), Func("statistic")).first; // which its own update reads
      Func func = known->second;
      std::vector<Var> args = row_args({lane_});
      func(args) = placed(formula_of(stage, nullptr), 0);
      Halide::RDom keys(0, keys_);
      Expr key = restricted(keys, keys.x, 1, stage, block_ * rows_, rows_);
      Expr update = placed(formula(replaced(places(stage), stage.func.update_value(0)), nullptr), key);
      func(args) = match_.slide ? select(in_window(keys.x), update, func(exprs(args))) : update;
      statistics_.push_back({func, keys.x});
    }
    return known->second(exprs(row_args({lane_})));
  }

  /// The result of the product over keys, at the result's own place.
  Expr weighted_values(LoweredOp &stage) {
    Weighted factors = factors_of_weighted(stage, [this](const Expr &e) { return depends_on_key(e); });
    Expr values = copied_values(slid(factors.values)), weights = factors.weights, factor = factors.common;
    if (error_)
      return 0.f;
    weights = kept_weights(weights);

    // Over (feature, row of a tile, tile, outer..), features numbered as in the result. If keys slide, those of a tile
    // are a part of the block's band.
    Var tile_row("m"), tile("t");
    std::vector<Var> args = {feature_place_, tile_row, tile};
    args.insert(args.end(), outer_vars_.begin(), outer_vars_.end());
    int tiles = rows_ / tile_rows_;
    TiledSum sum{Func("weighted"), RegisterTile(micro_kernel_, {{0, match_.slide ? band(tile_rows_) : keys_}})};
    Expr iteration = restricted(sum.tile, sum.tile.loops()[0], group(), stage, tile * tile_rows_, tile_rows_);
    Expr slot = sum.tile.term_of_iteration(iteration);
    Substitution summed_key;
    if (match_.slide) {
      summed_key[window_.name()] = window_at(tile * tile_rows_, slot);
      slot = slot + (tile % tiles) * (tile_rows_ * int(match_.slide->row));
    }
    summed_key[key_.name()] = slot;
    Substitution in_block = {
        {lane_.name(), (tile % tiles) * tile_rows_ + tile_row}, {block_.name(), tile / tiles}, {slot_.name(), slot}};
    if (feature_.size < 0 || feature_.size % lanes_ != 0)
      summed_key[feature_place_.name()] = min(feature_place_, feature_.extent - 1);
    Substitution here = {{row_.name(), min(tile * tile_rows_ + tile_row, query_.extent - 1)}};
    Expr start = replaced(here, Inliner(kernel_)(replaced(places(stage), stage.func.value())));
    values = replaced(summed_key, values);
    // A weight of 0 does not do where the value is infinite or NaN. In the middle of the band all rows of the tile have
    // the key in their window: Halide makes a loop without the question of that.
    if (match_.slide)
      values = select(replaced(in_block, in_window(slot_)), Halide::likely(values), hi::make_zero(values.type()));
    here[key_.name()] = sum.tile.term_of_iteration(sum.tile.loops()[0]);
    values = factors.counted(values, here);
    sum.tile.define(sum.func, args, RegisterTile::across_tiles, start, replaced(in_block, weights), values);
    weighted_.push_back(sum);
    std::vector<Expr> at = {feature_.var, query_.var % tile_rows_, query_.var / tile_rows_};
    for (const OutputAxis &axis : outer_)
      at.push_back(axis.var);
    Expr value = sum.func(at);
    if (factor.defined()) {
      Func common("common");
      std::vector<Var> common_args = row_args({lane_});
      common(common_args) = placed(factor, 0);
      row_funcs_.push_back(common);
      std::vector<Expr> common_at = {query_.var % rows_, query_.var / rows_};
      for (const OutputAxis &axis : outer_)
        common_at.push_back(axis.var);
      value = value * common(common_at);
    }
    return value;
  }

  // --- the schedule

  /// Features of a tile: whole vectors, with as little beyond the last feature as can be.
  int tile_features() const {
    int most = vectors_in_feature_tile_max() * lanes_;
    if (feature_.size < 0)
      return most;
    int best = lanes_;
    int64_t best_cost = -1;
    for (int width = most; width >= lanes_; width -= lanes_) {
      int64_t cost = (feature_.size + width - 1) / width * (width + lanes_ / 2);
      if (best_cost < 0 || cost < best_cost) {
        best = width;
        best_cost = cost;
      }
    }
    return best;
  }
  int vectors_in_feature_tile_max() const { return accumulators_ >= 24 ? 4 : 2; }

  static int largest_divisor(int number, int most) {
    for (int divisor = std::min(number, most); divisor > 1; --divisor)
      if (number % divisor == 0)
        return divisor;
    return 1;
  }

  template <class S> void in_block(S &&stage) { stage.vectorize(lane_, lanes_).unroll(lane_); }

  void fix_extents(Func &func) {
    for (const Var &var : func.args())
      if (var.same_as(lane_))
        func.bound_extent(var, rows_);
      else if (var.same_as(block_) ||
               std::any_of(outer_vars_.begin(), outer_vars_.end(), [&](const Var &o) { return o.same_as(var); }))
        func.bound_extent(var, 1);
  }

  void schedule(Func &result) {
    int width = tile_features(), tile_rows = tile_rows_;
    Var block("block"), rest("rest"), tile("tile"), row("row"), features("features"), feature("feature");
    bool whole = feature_.size >= 0 && feature_.size % width == 0;
    result.split(query_.var, block, rest, rows_, TailStrategy::GuardWithIf)
        .split(rest, tile, row, tile_rows, TailStrategy::GuardWithIf)
        .split(feature_.var, features, feature, width, whole ? TailStrategy::RoundUp : TailStrategy::GuardWithIf);
    auto [task, within] = schedule_tasks(result, block, {feature, row, features, tile});
    result.vectorize(feature, lanes_).unroll(feature);

    for (TiledSum &sum : weighted_) {
      std::vector<Var> args = sum.func.args();
      sum.func.compute_at(result, features).bound_extent(args[0], width).bound_extent(args[1], tile_rows);
      for (size_t i = 2; i < args.size(); ++i)
        sum.func.bound_extent(args[i], 1);
      sum.tile.keep_in_registers(sum.func, args[0], {args[1]}, lanes_);
    }
    schedule_rows(result, task, within);
  }

  void schedule_statistics(Func &result) {
    Var block("block"), row("row");
    result.split(query_.var, block, row, rows_, TailStrategy::GuardWithIf);
    auto [task, within] = schedule_tasks(result, block, {row});
    result.vectorize(row, lanes_);
    schedule_rows(result, task, within);
  }

  /// The loops of a result outside of a block of rows, which has those of `order`. Returns the loop of a task in which
  /// all other axes are fixed, and where a block of rows begins.
  std::pair<Var, Var> schedule_tasks(Func &result, const Var &block, std::vector<VarOrRVar> order) {
    Var task = block;
    if (blocks_ > 0) {
      order.push_back(block);
      task = Var("blocks");
      result.split(block, task, block, blocks_of_task(blocks_, rows_), TailStrategy::GuardWithIf);
    }
    // Tasks of the same keys follow each other. Of more than two other axes the inner ones are loops of the task
    // (fuse_into_tasks). So are the heads if keys slide, as those of a place lie together.
    std::vector<Var> tasks = {task}, inside;
    for (size_t i = 0; i < outer_.size(); ++i)
      if (i + 2 < outer_.size() || (match_.slide && int(i) < axes_within_rows_))
        inside.push_back(outer_[i].var);
      else
        tasks.push_back(outer_[i].var);
    order.insert(order.end(), inside.begin(), inside.end());
    order.insert(order.end(), tasks.begin(), tasks.end());
    result.reorder(order);
    task = fuse_into_tasks(result, tasks);
    if (!inside.empty())
      task = inside.front();
    return {task, blocks_ > 0 ? block : task};
  }

  /// What a task computes for its rows.
  void schedule_rows(Func &result, const Var &task, const Var &within) {
    int tile_keys = std::clamp(accumulators_ / vectors_, 1, 12);
    for (Func &func : copies_) {
      fix_extents(func);
      bool grouped = in_groups(func);
      func.compute_at(result, task).vectorize(func.args()[grouped], lanes_, TailStrategy::GuardWithIf);
    }
    for (Func &func : by_row_) {
      fix_extents(func);
      func.compute_at(result, within);
      if (!func.args()[0].same_as(lane_))
        func.vectorize(func.args()[0], lanes_, TailStrategy::GuardWithIf);
    }
    for (Func &func : row_funcs_) {
      fix_extents(func);
      in_groups(func);
      in_block(func.compute_at(result, within));
    }
    for (auto &[func, key] : statistics_) {
      fix_extents(func);
      in_block(func.compute_at(result, within));
      in_block(func.update().reorder(lane_, key));
    }
    for (Kept &kept : kept_) {
      fix_extents(kept.func);
      kept.func.compute_at(result, within);
      in_groups(kept.func);
      if (kept.sums.empty()) {
        in_block(kept.func);
        continue;
      }
      Var outer_key("outer_key"), key("key");
      kept.func.split(key_in_tile_, outer_key, key, tile_keys, TailStrategy::RoundUp).reorder(lane_, key, outer_key);
      in_block(kept.func);
      kept.func.unroll(key);
      for (TiledSum &sum : kept.sums) {
        fix_extents(sum.func);
        sum.func.compute_at(kept.func, outer_key).bound_extent(key_in_tile_, tile_keys);
        sum.tile.keep_in_registers(sum.func, lane_, {key_in_tile_}, lanes_);
      }
    }
  }

  int rows_, blocks_, vectors_;
  Expr keys_; // of a block of rows: how many there are
  int tile_rows_ = 1;
  Var lane_{"lane"}, block_{"block"}, slot_{"slot"}, window_{"window"}, key_in_tile_{"j"};

  std::map<std::string, TiledSum> sums_;
  std::map<std::string, Func> reduced_;
  std::vector<Func> copies_;    // of what belongs to keys, over (features, key, outer..)
  std::vector<Func> by_row_;    // over the features of queries, then rows
  std::vector<Func> row_funcs_; // over rows, without update
  std::vector<std::pair<Func, Halide::RVar>> statistics_;
  std::vector<TiledSum> weighted_; // values
};

} // namespace

Status schedule_row_blocks(LoweredKernel &kernel, const Match &match, const MicroKernel &micro_kernel, int rows,
                           int blocks, const Target &target) {
  join_outputs_loads_first(kernel);
  return RowBlocks(kernel, match, micro_kernel, rows, blocks, target).build();
}

} // namespace heddle::attention
