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

#include "compiler/kernels/attention/formulas.h"

#include <algorithm>
#include <cstdlib>

namespace heddle::attention {

using Halide::Expr;
using Halide::Func;
using Halide::TailStrategy;
using Halide::Var;
using Halide::VarOrRVar;
namespace hi = Halide::Internal;

namespace {

class RowBlocks : Formulas {
public:
  /// `blocks`: of a task that copies keys and values; 0: a task is one block and copies nothing.
  RowBlocks(LoweredKernel &kernel, const Match &match, int rows, int blocks, const Target &target)
      : Formulas(kernel, match, target), rows_(rows), blocks_(blocks), vectors_(rows / target.lanes) {}

  Status build() {
    keys_ = match_.slide ? band(rows_) : all_keys_;
    tile_rows_ = largest_divisor(rows_, std::max(1, accumulators_ / (tile_features() / lanes_)));
    Result<Func> result = result_of([this](Stage &weighted) { return weighted_values(weighted); });
    if (!result)
      return result.error();
    schedule(*result);
    return Done();
  }

private:
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
    return hi::substitute(here, slid(formula));
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

  std::vector<Var> row_args(std::vector<Var> first) {
    first.push_back(block_);
    return with_outer(first);
  }

  struct Stored { // over (lane, key, block, outer..)
    Func func;
    std::vector<Func> sums; // products computed per tile of keys
  };
  struct Sum {
    Func func, queries;
    std::vector<Halide::RVar> loops;
  };

  /// A formula of the kernel with stages inlined, stored or reduced. `tile`: takes the products it needs; null: they
  /// are stored first.
  Expr formula(const Expr &expr, std::vector<Func> *tile, const Stage *self = nullptr, Func self_func = {}) {
    Inliner inline_all(kernel_);
    for (auto &[op, roles] : match_.roles) {
      Stage *stage = kernel_.stage_of(op->getResult(0));
      bool over_keys = std::count(roles.begin(), roles.end(), keys) > 0;
      bool shared = std::distance(op->getUses().begin(), op->getUses().end()) > 1;
      if (stage == self)
        inline_all.replace(*stage, [this, self_func](const auto &) { return self_func(exprs(row_args({lane_}))); });
      else if (is_product(*stage))
        inline_all.replace(*stage, [this, stage, tile, shared](const auto &) {
          return tile && !shared ? product(*stage, *tile) : stored(*stage);
        });
      else if (stage->has_update())
        inline_all.replace(*stage, [this, stage](const auto &) { return reduced(*stage); });
      else if (over_keys && shared)
        inline_all.replace(*stage, [this, stage](const auto &) { return stored(*stage); });
    }
    return inline_all(expr);
  }

  Expr at_key(Func &func) {
    std::vector<Expr> args = exprs(row_args({lane_}));
    args.insert(args.begin() + 1, slot_);
    return func(args);
  }

  /// A product's tile of sums, read in the Func that is computed tile by tile.
  Expr product(Stage &stage, std::vector<Func> &tile) {
    auto known = sums_.find(stage.func.name());
    if (known == sums_.end()) {
      auto times = factors_of(stage);
      if (!times)
        return fail("a product does not have the form of one");
      Substitution here = places(stage);
      Inliner inline_all(kernel_);
      Sum sum{Func("sum"), {}, {}};
      Halide::RDom domain = fresh_domain(stage);
      Substitution loops;
      for (size_t i = 0; i < reduction_names(stage).size(); ++i) {
        sum.loops.push_back(domain[int(i)]);
        loops["k" + std::to_string(i)] = domain[int(i)];
      }
      auto factor = [&](const Expr &expr) {
        Expr value = slid(inline_all(hi::substitute(here, expr)));
        if (!sum.queries.defined() && hi::expr_uses_var(value, row_.name()) && !hi::expr_uses_var(value, key_.name()) &&
            !hi::expr_uses_var(value, window_.name()))
          return queries(sum, value);
        std::vector<Var> features;
        for (size_t i = 0; i < sum.loops.size(); ++i)
          features.push_back(Var("k" + std::to_string(i)));
        return placed(copied(value, features), min(key_in_tile_, keys_ - 1));
      };
      Expr left = factor(times->first), right = factor(times->second);
      std::vector<Var> args = row_args({lane_, key_in_tile_});
      sum.func(args) = placed(inline_all(hi::substitute(here, stage.func.value())), min(key_in_tile_, keys_ - 1));
      sum.func(args) += hi::substitute(loops, left) * hi::substitute(loops, right);
      known = sums_.emplace(stage.func.name(), sum).first;
    }
    if (std::none_of(tile.begin(), tile.end(), [&](const Func &f) { return f.name() == known->second.func.name(); }))
      tile.push_back(known->second.func);
    std::vector<Expr> args = exprs(row_args({lane_}));
    args.insert(args.begin() + 1, key_in_tile_);
    return known->second.func(args);
  }

  /// A factor that belongs to the keys alone, copied for the row blocks of a task: per key, its `features`.
  Expr copied(const Expr &value, const std::vector<Var> &features) {
    const Var &place = match_.slide ? window_ : key_, &other = match_.slide ? key_ : window_;
    if ((blocks_ == 0 && !match_.slide) || hi::expr_uses_var(value, row_.name()) ||
        hi::expr_uses_var(value, other.name()) || !hi::expr_uses_var(value, place.name()))
      return value;
    std::vector<Var> args;
    for (const Var &feature : features)
      if (hi::expr_uses_var(value, feature.name()))
        args.push_back(feature);
    args.push_back(place);
    args.insert(args.end(), outer_vars_.begin(), outer_vars_.end());
    Func func("copied");
    func(args) = value;
    copies_.push_back(func);
    return func(exprs(args));
  }

  /// A factor that belongs to the rows alone, with lanes along the rows.
  Expr queries(Sum &sum, const Expr &value) {
    std::vector<Var> args = {lane_};
    for (size_t i = 0; i < sum.loops.size(); ++i)
      if (Var k("k" + std::to_string(i)); hi::expr_uses_var(value, k.name()))
        args.push_back(k);
    // First row by row as they lie, then transposed within the block: lanes at fixed distances are cheap to collect.
    Func rows("rows");
    std::vector<Var> natural(args.begin() + 1, args.end());
    natural.push_back(lane_);
    natural = row_args(natural);
    rows(natural) = placed(value, key_);
    by_row_.push_back(rows);
    args = row_args(args);
    sum.queries = Func("queries");
    sum.queries(args) = rows(exprs(natural));
    row_funcs_.push_back(sum.queries);
    return sum.queries(exprs(args));
  }

  /// A stage over keys, kept for the whole row block.
  Expr stored(Stage &stage) {
    auto known = stored_.find(stage.func.name());
    if (known == stored_.end()) {
      Stored store{Func("scores"), {}};
      Expr value = stage.has_update() ? product(stage, store.sums)
                                      : formula(hi::substitute(places(stage), stage.func.value()), &store.sums);
      known = stored_.emplace(stage.func.name(), keep(store, value)).first;
    }
    return at_key(known->second.func);
  }

  Stored keep(Stored store, const Expr &value) {
    Expr key = store.sums.empty() ? Expr(key_in_tile_) : min(key_in_tile_, keys_ - 1);
    Expr here = placed(value, key);
    store.func(row_args({lane_, key_in_tile_})) =
        match_.slide ? select(in_window(key), here, hi::make_zero(here.type())) : here;
    kept_.push_back(store);
    return store;
  }

  /// Leaves out the keys at which the sum of a stage stays as it is for all of these rows, as after the last of them if
  /// attention is causal. Returns the key, known to be one of the others, so that only their scores are computed.
  Expr restricted(Halide::RDom &keys_of_rows, const Stage &stage, const Expr &first_row, int rows) {
    if (match_.slide)
      return keys_of_rows.x;
    hi::Interval range = needed_keys(stage, first_row, rows);
    if (!range.has_upper_bound() && !range.has_lower_bound())
      return keys_of_rows.x;
    Expr first = 0, last = keys_ - 1;
    if (range.has_upper_bound()) {
      keys_of_rows.where(keys_of_rows.x <= range.max);
      last = max(min(range.max, last), 0);
    }
    if (range.has_lower_bound()) {
      keys_of_rows.where(keys_of_rows.x >= range.min);
      first = min(max(range.min, first), keys_ - 1);
    }
    return Halide::unsafe_promise_clamped(keys_of_rows.x, first, last); // of no key, too, one that there is
  }

  /// A reduction over the keys of a row.
  Expr reduced(Stage &stage) {
    auto known = reduced_.find(stage.func.name());
    if (known == reduced_.end()) {
      Func func("statistic");
      std::vector<Var> args = row_args({lane_});
      Substitution here = places(stage);
      func(args) = placed(formula(hi::substitute(here, stage.func.value()), nullptr), 0);
      Halide::RDom keys(0, keys_);
      Expr key = restricted(keys, stage, block_ * rows_, rows_);
      Expr update = placed(formula(hi::substitute(here, stage.func.update_value(0)), nullptr, &stage, func), key);
      func(args) = match_.slide ? select(in_window(keys.x), update, func(exprs(args))) : update;
      known = reduced_.emplace(stage.func.name(), func).first;
      statistics_.push_back({func, keys.x});
    }
    return known->second(exprs(row_args({lane_})));
  }

  /// The result of the product over keys, at the result's own place.
  Expr weighted_values(Stage &stage) {
    auto times = factors_of(stage);
    if (!times)
      return fail("a product does not have the form of one");
    Substitution here = places(stage);
    Expr left = hi::substitute(here, times->first), right = hi::substitute(here, times->second);
    bool left_is_wide = hi::expr_uses_var(left, feature_place_.name());
    Inliner inline_all(kernel_);
    Expr values = copied(slid(inline_all(left_is_wide ? left : right)), {feature_place_});
    Expr weights = formula(left_is_wide ? right : left, nullptr);
    if (error_)
      return 0.f;
    Expr factor;
    std::tie(factor, weights) = common_factors(weights, [this](const Expr &e) { return depends_on_key(e); });
    const hi::Call *call = weights.as<hi::Call>();
    bool kept =
        call && std::any_of(kept_.begin(), kept_.end(), [&](const Stored &s) { return s.func.name() == call->name; });
    if (!kept) {
      Stored store{Func("weights"), {}};
      Func func = keep(store, weights).func;
      weights = at_key(func);
    }

    // Over (feature, row of a tile, tile, outer..), features numbered as in the result. If keys slide, those of a tile
    // are a part of the block's band.
    Var tile_row("m"), tile("t");
    std::vector<Var> args = {feature_place_, tile_row, tile};
    args.insert(args.end(), outer_vars_.begin(), outer_vars_.end());
    int tiles = rows_ / tile_rows_;
    Halide::RDom keys(0, match_.slide ? band(tile_rows_) : keys_);
    key_loop_ = keys.x;
    Expr slot = restricted(keys, stage, tile * tile_rows_, tile_rows_);
    if (match_.slide)
      slot = slot + (tile % tiles) * (tile_rows_ * int(match_.slide->row));
    Substitution in_block = {
        {lane_.name(), (tile % tiles) * tile_rows_ + tile_row}, {block_.name(), tile / tiles}, {slot_.name(), slot}};
    Substitution summed_key = {{key_.name(), slot}};
    if (match_.slide)
      summed_key[window_.name()] = window_at(tile * tile_rows_, keys.x);
    if (feature_.size < 0 || feature_.size % lanes_ != 0)
      summed_key[feature_place_.name()] = min(feature_place_, feature_.extent - 1);
    weighted_ = Func("weighted");
    Substitution start = {{row_.name(), min(tile * tile_rows_ + tile_row, query_.extent - 1)}};
    weighted_(args) = hi::substitute(start, inline_all(hi::substitute(here, stage.func.value())));
    weighted_(args) += hi::substitute(in_block, weights) * hi::substitute(summed_key, values);
    std::vector<Expr> at = {feature_.var, query_.var % tile_rows_, query_.var / tile_rows_};
    Substitution here_outer;
    for (size_t i = 0; i < outer_.size(); ++i) {
      at.push_back(outer_[i].var);
      here_outer[outer_vars_[i].name()] = outer_[i].var;
    }
    Expr value = weighted_(at);
    if (factor.defined()) {
      Func common("common");
      std::vector<Var> common_args = row_args({lane_});
      common(common_args) = placed(factor, 0);
      row_funcs_.push_back(common);
      std::vector<Expr> common_at = {query_.var % rows_, query_.var / rows_};
      for (const Axis &axis : outer_)
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
    int tile_keys = std::clamp(accumulators_ / vectors_, 1, 12);
    Var block("block"), rest("rest"), tile("tile"), row("row"), features("features"), feature("feature");
    bool whole = feature_.size >= 0 && feature_.size % width == 0;
    result.split(query_.var, block, rest, rows_, TailStrategy::GuardWithIf)
        .split(rest, tile, row, tile_rows, TailStrategy::GuardWithIf)
        .split(feature_.var, features, feature, width, whole ? TailStrategy::RoundUp : TailStrategy::GuardWithIf);
    std::vector<VarOrRVar> order = {feature, row, features, tile, block};
    Var task = block;
    if (blocks_ > 0) {
      task = Var("blocks");
      result.split(block, task, block, blocks_, TailStrategy::GuardWithIf);
    } else {
      order.pop_back();
    }
    // Tasks of the same keys follow each other. Of more than two other axes the inner ones are loops of the task:
    // Halide sees only a range of what is a remainder of a remainder of the task's number (contraction/schedule.cc). So
    // are the heads if keys slide, as those of a place lie together.
    std::vector<Var> tasks = {task}, inside;
    for (size_t i = 0; i < outer_.size(); ++i)
      if (i + 2 < outer_.size() || (match_.slide && int(i) < axes_within_rows_))
        inside.push_back(outer_[i].var);
      else
        tasks.push_back(outer_[i].var);
    order.insert(order.end(), inside.begin(), inside.end());
    order.insert(order.end(), tasks.begin(), tasks.end());
    result.reorder(order).vectorize(feature, lanes_).unroll(feature);
    for (size_t i = 1; i < tasks.size(); ++i) {
      Var fused("task" + std::to_string(i));
      result.fuse(task, tasks[i], fused);
      task = fused;
    }
    result.parallel(task);
    if (!inside.empty())
      task = inside.front();                 // the loop in which all other axes are fixed
    Var within = blocks_ > 0 ? block : task; // where a row block begins

    std::vector<Var> args = weighted_.args();
    weighted_.compute_at(result, features).bound_extent(args[0], width).bound_extent(args[1], tile_rows);
    for (size_t i = 2; i < args.size(); ++i)
      weighted_.bound_extent(args[i], 1);
    weighted_.vectorize(args[0], lanes_).unroll(args[0]).unroll(args[1]);
    weighted_.update().reorder(args[0], args[1], key_loop_).vectorize(args[0], lanes_).unroll(args[0]).unroll(args[1]);

    for (Func &func : copies_) {
      fix_extents(func);
      func.compute_at(result, task).vectorize(func.args()[0], lanes_, TailStrategy::GuardWithIf);
    }
    for (Func &func : by_row_) {
      fix_extents(func);
      func.compute_at(result, within);
      if (!func.args()[0].same_as(lane_))
        func.vectorize(func.args()[0], lanes_, TailStrategy::GuardWithIf);
    }
    for (Func &func : row_funcs_) {
      fix_extents(func);
      in_block(func.compute_at(result, within));
    }
    for (auto &[func, key] : statistics_) {
      fix_extents(func);
      in_block(func.compute_at(result, within));
      in_block(func.update().reorder(lane_, key));
    }
    for (Stored &store : kept_) {
      fix_extents(store.func);
      store.func.compute_at(result, within);
      if (store.sums.empty()) {
        in_block(store.func);
        continue;
      }
      Var outer_key("outer_key"), key("key");
      store.func.split(key_in_tile_, outer_key, key, tile_keys, TailStrategy::RoundUp).reorder(lane_, key, outer_key);
      in_block(store.func);
      store.func.unroll(key);
      for (Func &sum : store.sums) {
        fix_extents(sum);
        sum.compute_at(store.func, outer_key).bound_extent(key_in_tile_, tile_keys);
        in_block(sum);
        sum.unroll(key_in_tile_);
        std::vector<VarOrRVar> inner = {lane_, key_in_tile_};
        for (auto &[name, s] : sums_)
          if (s.func.name() == sum.name())
            inner.insert(inner.end(), s.loops.begin(), s.loops.end());
        sum.update().reorder(inner);
        in_block(sum.update());
        sum.update().unroll(key_in_tile_);
      }
    }
  }

  int rows_, blocks_, vectors_;
  Expr keys_; // of a block of rows: how many there are
  int tile_rows_ = 1;
  Var lane_{"lane"}, block_{"block"}, slot_{"slot"}, window_{"window"}, key_in_tile_{"j"};

  std::map<std::string, Sum> sums_;
  std::map<std::string, Stored> stored_;
  std::map<std::string, Func> reduced_;
  std::vector<Stored> kept_;    // everything over keys, in order of need
  std::vector<Func> copies_;    // of what belongs to keys, over (features, key, outer..)
  std::vector<Func> by_row_;    // over the features of queries, then rows
  std::vector<Func> row_funcs_; // over rows, without update
  std::vector<std::pair<Func, Halide::RVar>> statistics_;
  Func weighted_;
  Halide::RVar key_loop_;
};

} // namespace

Status schedule_row_blocks(LoweredKernel &kernel, const Match &match, int rows, int blocks, const Target &target) {
  return RowBlocks(kernel, match, rows, blocks, target).build();
}

} // namespace heddle::attention
