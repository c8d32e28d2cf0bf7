// Tiles of rows x keys, lanes along the keys. For a few rows (that fill the registers beside two vectors of keys):
//   scores, two vectors of keys at a time, from a copy of the keys in panels of a vector, feature by feature
//   → statistics of the rows, a vector of partial ones first → weights → the weighted values, lanes along the features.
// Few rows' scores stay in the first cache, or, over several thousand keys, the second one.
//
// Over long texts keys are taken in blocks, so that a block's keys and values stay in the second cache for a group of
// rows (Dao et al. 2022, https://arxiv.org/abs/2205.14135): each block has its own largest score, sums and weighted
// values, and the blocks' results are joined at the end, times exp(the block's largest - the row's largest).
//
// A task of one block of rows copies neither: a tile's keys become panels when their scores are due, values are read
// where they lie. Of one row, as decoding adds it to a text, not even that: lanes run along a key's features, and are
// added up key by key.
//
// Weights that need no such statistics, as those of the way back, are taken in blocks alike, whose sums are added up.
//
// A matrix unit computes scores of 32 rows and 32 keys at a time, and weighted values of 32 rows and 32 features, over
// all keys of a block.
//
// Rows past the last one repeat it and are never stored; keys past the last one repeat it and are left out of every
// sum.
#include "compiler/kernels/attention/key_block_stages.h"

#include "compiler/halide/threads.h"
#include "compiler/kernels/attention/ahead.h"
#include "compiler/kernels/product/matrix_tile.h"

#include <algorithm>

namespace heddle::attention {

using Halide::TailStrategy;
using Halide::VarOrRVar;

namespace {

class KeyBlocks : KeyBlockStages {
public:
  KeyBlocks(LoweredKernel &kernel, const Match &match, const MicroKernel &micro_kernel, const KeyBlockSizes &sizes,
            const Target &target)
      : KeyBlockStages(kernel, match, micro_kernel, sizes, target) {}

  Status build() {
    softmax_ = softmax_of(match_);
    if (several() && !softmax_)
      return Error{"these weights can't be found block by block"};
    Result<Func> result = result_of([this](LoweredOp &weighted) { return weighted_values(weighted); });
    if (!result)
      return result.error();
    schedule(*result);
    return Done();
  }

private:
  bool block_by_block() const { return several() && blocks_ * rows_ <= at_once_; }

  void fix_extents(Func &func) {
    for (const Var &var : func.args())
      if (var.same_as(m_))
        func.bound_extent(var, rows_);
      else if (var.same_as(j_))
        func.bound_extent(var, tile_keys_);
      else if (var.same_as(lane_))
        func.bound_extent(var, panel_lanes_);
      else if (var.same_as(t_) || var.same_as(c_) ||
               std::any_of(outer_vars_.begin(), outer_vars_.end(), [&](const Var &o) { return o.same_as(var); }))
        func.bound_extent(var, 1);
  }
  void fix_outer(Func &func) {
    for (const Var &var : func.args())
      if (std::any_of(outer_vars_.begin(), outer_vars_.end(), [&](const Var &o) { return o.same_as(var); }))
        func.bound_extent(var, 1);
  }
  void by_matrix_unit(Func &sum, const RegisterTile &tile, const std::string &lane) {
    kernel_.passes.push_back(make_pass(matrix_tile(micro_kernel_, sum, lane, m_, tile)));
  }
  template <class S> void in_tile(S &&stage) { stage.vectorize(j_, lanes_).unroll(j_); }

  void schedule(Func &result) {
    int width = tile_features();
    Var block("block"), row("row"), features("features"), feature("feature"), group("group"), tasks_of("blocks");
    bool whole = feature_.size >= 0 && feature_.size % width == 0;
    result.split(query_.var, block, row, rows_, TailStrategy::GuardWithIf)
        .split(feature_.var, features, feature, width, whole ? TailStrategy::RoundUp : TailStrategy::GuardWithIf)
        .split(block, tasks_of, block, blocks_of_task(blocks_, rows_), TailStrategy::GuardWithIf);
    std::vector<VarOrRVar> order = {feature, row, features, block};
    if (several()) {
      result.split(block, group, block, block_by_block() ? blocks_ : group_, TailStrategy::GuardWithIf);
      order.push_back(group);
      // A loop of its own for the last group is as much code once more, and no faster (measured: BERT-base, 512
      // tokens).
      result.partition(group, Halide::Partition::Never);
    }
    // Tasks of the same keys follow each other. Of more than two other axes the inner ones are loops of the task
    // (fuse_into_tasks).
    std::vector<Var> tasks = {tasks_of}, inside;
    for (size_t i = 0; i < outer_.size(); ++i)
      (i + 2 < outer_.size() ? inside : tasks).push_back(outer_[i].var);
    order.insert(order.end(), inside.begin(), inside.end());
    order.insert(order.end(), tasks.begin(), tasks.end());
    result.reorder(order).vectorize(feature, lanes_).unroll(feature);
    Var task = fuse_into_tasks(result, tasks);
    if (!inside.empty())
      task = inside.front(); // the loop in which all other axes are fixed

    // Where all row blocks of a task go over a block of keys before the next one comes, that block is copied then.
    auto copied_for = [&](Func &func) {
      fix_outer(func);
      if (block_by_block())
        func.compute_at(part_, c_);
      else
        func.compute_at(result, task);
    };
    for (auto &[func, natural, panel, sum] : panels_) {
      if (in_place()) {
        fix_outer(func);
        func.compute_at(reader_of(sum), u_);
      } else {
        copied_for(func);
      }
      func.bound_extent(lane_, panel_lanes_);
      if (!natural.defined()) {
        func.vectorize(lane_);
        continue;
      }
      if (in_groups(func)) {
        func.vectorize(lane_);
      } else {
        Var k = func.args()[1], in("in"); // written by whole vectors: a transposition
        func.split(k, k, in, lanes_, TailStrategy::GuardWithIf).reorder(in, lane_, k).vectorize(in).unroll(lane_);
      }
      fix_outer(natural);
      natural.compute_at(func, panel).bound_extent(lane_, panel_lanes_).bound_extent(panel, 1);
      natural.vectorize(natural.args()[0], lanes_, TailStrategy::GuardWithIf);
    }
    for (Func &func : copies_) {
      copied_for(func);
      bool grouped = in_groups(func);
      func.vectorize(func.args()[grouped], lanes_, TailStrategy::GuardWithIf);
    }
    kernel_.passes.push_back(join_tiles());
    if (block_by_block() && !micro_kernel_.takes_tiles())
      ask_ahead();
    if (in_place())
      ask_in_place();
    for (Func &func : row_funcs_)
      per_row(func.compute_at(result, block));
    Func &reader = several() ? part_ : result;
    Var within = several() ? t_ : block;
    if (several()) {
      if (scale_.defined())
        per_row(scale_.compute_at(result, block));
      for (auto &[func, blocks] : joins_) {
        std::vector<Var> args = func.args();
        if (!args[0].same_as(feature_place_)) {
          per_row(func.compute_at(result, block));
          func.update().reorder(m_, blocks);
          continue;
        }
        fix_extents(func);
        func.compute_at(result, features).bound_extent(feature_place_, width);
        func.vectorize(feature_place_, lanes_).unroll(feature_place_).unroll(m_);
        func.update().reorder(feature_place_, m_, blocks).vectorize(feature_place_, lanes_);
        func.update().unroll(feature_place_).unroll(m_);
      }
      fix_outer(part_);
      part_.compute_at(result, group).bound_extent(m_, rows_);
      part_.bound(feature_place_, 0, features_of_part() + (scale_.defined() ? lanes_ : 0));
      part_.reorder(feature_place_, m_, t_, c_).vectorize(feature_place_, lanes_).unroll(feature_place_);
    }
    for (TiledSum &weighted : weighted_) {
      Func &sum = weighted.func;
      fix_extents(sum);
      if (!several()) {
        sum.compute_at(result, features).bound_extent(feature_place_, width);
        weighted.tile.keep_in_registers(sum, feature_place_, {m_}, lanes_);
        continue;
      }
      Var in("in");
      sum.compute_at(part_, t_).bound(feature_place_, 0, features_of_part()).vectorize(feature_place_, lanes_);
      Halide::Stage update = sum.update();
      if (micro_kernel_.takes_tiles()) {
        update.split(feature_place_, feature_tile_, in, width, TailStrategy::RoundUp);
        update.reorder(weighted.tile.group(), in, weighted.tile.loops()[0], m_, feature_tile_);
        by_matrix_unit(sum, weighted.tile, feature_place_.name() + "." + in.name());
      } else {
        update.split(feature_place_, feature_tile_, in, width, TailStrategy::GuardWithIf);
        weighted.tile.keep_in_registers(update, in, {m_}, lanes_, {feature_tile_});
      }
    }
    for (Func &func : by_row_) {
      fix_outer(func);
      func.bound_extent(m_, rows_);
      if (several())
        func.compute_at(result, group);
      else
        func.compute_at(result, block).bound_extent(t_, 1);
      if (!func.args()[0].same_as(m_))
        func.vectorize(func.args()[0], lanes_, TailStrategy::GuardWithIf);
    }
    for (auto &[name, statistic] : statistics_) {
      fix_extents(statistic.func);
      fix_outer(statistic.lanes);
      statistic.func.compute_at(reader, within);
      for (auto &[half, width] : statistic.halves) {
        fix_outer(half);
        half.compute_at(statistic.func, m_).bound_extent(j_, width).bound_extent(m_, 1);
        half.vectorize(j_, std::min(width, lanes_)).unroll(j_);
      }
      statistic.lanes.compute_at(statistic.func, m_).bound_extent(j_, tile_keys_).bound_extent(m_, 1);
      in_tile(statistic.lanes);
      in_tile(statistic.lanes.update().reorder(j_, statistic.tile));
    }
    if (in_row_.defined()) {
      Var in("in");
      fix_extents(in_row_);
      in_row_.compute_at(reader, within).align_bounds(key_of_row_, tile_keys_).bound_storage(key_of_row_, block_keys_);
      in_row_.split(key_of_row_, key_of_row_, in, tile_keys_).vectorize(in);
    }
    for (Kept &kept : kept_) {
      fix_extents(kept.func);
      kept.func.compute_at(reader, within);
      // Rows at fixed distances, however many keys there are.
      if (several()) {
        kept.func.bound_storage(u_, block_keys_ / tile_keys_);
      } else {
        std::vector<Var> order = kept.func.args();
        std::swap(order[1], order[2]);
        kept.func.reorder_storage(order);
      }
      if (kept.sums.empty())
        kept.func.reorder(j_, u_, m_);
      else
        kept.func.reorder(j_, m_, u_);
      in_tile(kept.func);
      for (TiledSum &sum : kept.sums) {
        fix_extents(sum.func);
        sum.func.compute_at(kept.func, u_).bound_extent(u_, 1);
        auto made = llvm::find_if(dot_products_, [&](const auto &one) { return one.first == sum.func.name(); });
        if (made != dot_products_.end())
          keep_in_lanes(made->second, sum.func);
        else if (micro_kernel_.takes_tiles())
          by_matrix_unit(sum.func, sum.tile, j_.name());
        else
          sum.tile.keep_in_registers(sum.func, j_, {m_}, lanes_);
      }
    }
  }
  void keep_in_lanes(DotProduct &made, Func &sum) {
    auto of_a_key = [&](Func &func, int width) {
      fix_outer(func);
      func.compute_at(sum, j_).bound_extent(lane_, width).vectorize(lane_);
    };
    of_a_key(made.lanes, made.width);
    made.lanes.update().reorder(lane_, made.vector).vectorize(lane_);
    for (auto &[half, width] : made.halves)
      of_a_key(half, width);
  }
  /// What is kept of a product's tile.
  Func reader_of(const std::string &sum) const {
    auto reads = [&](const Kept &kept) {
      return std::any_of(kept.sums.begin(), kept.sums.end(), [&](const TiledSum &s) { return s.func.name() == sum; });
    };
    return std::find_if(kept_.begin(), kept_.end(), reads)->func;
  }
  void ask_ahead() {
    KeysAhead ahead{{},
                    block_keys_,
                    part_.name() + ".s0." + c_.name(),
                    part_.name() + ".s0." + t_.name(),
                    "." + feature_tile_.name(),
                    ""};
    ahead.sum_loop = weighted_.front().func.name() + ".s1." + weighted_.front().tile.loops()[0].name();
    for (const CopiedPanels &panels : panels_)
      ahead.copies.push_back({panels.func.name(), {{"." + panels.panel.name(), lanes_}, {"." + lane_.name(), 1}}});
    for (const Func &copy : copies_)
      ahead.copies.push_back({copy.name(), {{"." + key_.name(), 1}}});
    kernel_.passes.push_back(make_pass(ahead));
  }
  void ask_in_place() {
    constexpr int distance = 16;
    KeysInPlace ahead{{}, distance};
    for (const CopiedPanels &panels : panels_)
      if (panels.natural.defined())
        ahead.readers.push_back({panels.natural.name(), {{"." + lane_.name(), 1}}});
    for (const auto &[sum, made] : dot_products_)
      ahead.readers.push_back({sum, {{"." + j_.name(), 1}}});
    for (const TiledSum &sum : weighted_)
      ahead.readers.push_back({sum.func.name(), {{"." + sum.tile.loops()[0].name(), 1}}});
    kernel_.passes.push_back(make_pass(ahead));
  }
  void per_row(Func &func) {
    fix_outer(func);
    func.bound_extent(m_, rows_).bound_extent(t_, 1);
    if (rows_ % 4 == 0)
      func.vectorize(m_, 4);
  }

  Var feature_tile_{"tile"};
};

} // namespace

bool takes_key_blocks(const Match &match, bool several) {
  if (match.slide || !match.has_values() || (several && match.weighted.size() > 1))
    return false;
  int64_t width = llvm::cast<mlir::RankedTensorType>(match.weighted.front().product.op->getResult(0).getType())
                      .getDimSize(unsigned(match.lane_axis));
  return softmax_of(match).has_value() && (!several || !mlir::ShapedType::isDynamic(width));
}

Status schedule_key_blocks(LoweredKernel &kernel, const Match &match, const MicroKernel &micro_kernel,
                           const KeyBlockSizes &sizes, const Target &target) {
  join_outputs_loads_first(kernel);
  return KeyBlocks(kernel, match, micro_kernel, sizes, target).build();
}

} // namespace heddle::attention
