// What tiles of rows x keys are made of: scores, statistics, weights and weighted values of a block of rows and a block
// of keys as Funcs, and how blocks of keys are joined. How they are computed one within another: key_blocks.cc, the
// only reader of this file.
#pragma once

#include "compiler/kernels/attention/formulas.h"
#include "compiler/kernels/attention/key_blocks.h"
#include "compiler/kernels/attention/softmax.h"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace heddle::attention {

/// A block of rows has the rows m_ of block number t_; a block of keys the tiles u_, in which j_ counts the keys, and
/// the number c_ if there are several. Sums and what is kept are over (j, u, m, block).
class KeyBlockStages : protected Formulas {
protected:
  struct CopiedPanels { // over (lane, features.., panel); what they are made of: over (features.., lane, panel)
    Func func, natural;
    Var panel;
    std::string sum; // the product that reads it
  };
  struct DotProduct { // over (lane, j, u, m, block)
    Func lanes;
    Halide::RVar vector; // of features
    int width;
    std::vector<std::pair<Func, int>> halves; // over fewer and fewer lanes
  };
  struct Statistic { // over (j, m, block), then (m, block)
    Func lanes, func;
    Halide::RVar tile;
    std::vector<std::pair<Func, int>> halves; // over fewer and fewer lanes
  };

  KeyBlockStages(LoweredKernel &kernel, const Match &match, const MicroKernel &micro_kernel, const KeyBlockSizes &sizes,
                 const Target &target);

  bool several() const { return block_keys_ > 0; }
  /// Whether keys and values are read where they lie, as no other block of rows of the task reads them.
  bool in_place() const { return !several() && blocks_ == 1 && group() == 1; }

  /// The result of the product over keys, at the result's own place.
  Expr weighted_values(LoweredOp &stage);

  /// Features of a tile: whole vectors, and whole tiles.
  int tile_features() const;
  /// Of what a block of keys gives for a row: the weighted values, in whole vectors. Its largest score and sums, if
  /// there are any, come behind them.
  int features_of_part() const { return int((feature_.size + lanes_ - 1) / lanes_) * lanes_; }

  int rows_, block_keys_, blocks_, group_, at_once_, vectors_, tile_keys_;
  int panel_lanes_; // keys side by side in a panel: those of a vector, or of a matrix unit's tile
  std::optional<Softmax> softmax_;
  Var m_{"m"}, t_{"t"}, j_{"j"}, u_{"u"}, c_{"c"}, lane_{"lane"};
  const Var key_of_row_{"key_of_row"};
  std::map<std::string, Statistic> statistics_;
  std::vector<std::pair<std::string, DotProduct>> dot_products_; // and the sum that each is added up to, as they run
  std::vector<CopiedPanels> panels_;
  std::vector<Func> copies_, by_row_, row_funcs_;
  std::vector<std::pair<Func, Halide::RVar>> joins_;
  std::vector<TiledSum> weighted_; // values; of blocks of keys there is one
  Func part_, scale_, in_row_;     // in_row_: where a matrix unit multiplies

private:
  // --- places
  std::vector<Var> in_block(std::vector<Var> first) const;
  Expr first_key() const;
  Expr keys_here() const;
  Expr iterations_here(int step) const;
  Expr key_in(const Expr &tile) const;
  Expr placed(const Expr &formula, const Expr &key) const;
  bool over_keys(const Expr &expr) const;

  // --- formulas

  /// Statistics of rows are symbols in formulas.
  Expr statistic_of(LoweredOp &stage) override { return symbol(stage); }
  Expr symbol(LoweredOp &stage);
  Expr with_statistics(Expr expr, const std::function<Expr(LoweredOp &)> &value);
  /// With the statistics of a block of keys.
  Expr of_block(const Expr &expr);
  /// With those of the row.
  Expr of_row(const Expr &expr);
  /// A block without any score has -inf for the largest, from which nothing may be subtracted.
  Expr guarded(const Expr &top) const;

  // --- products
  Expr product(LoweredOp &stage, std::vector<TiledSum> &tile) override;
  /// How many lanes a product of one row and keys that are read in place has along the features of a key, which lie
  /// side by side; 0: its lanes run along the keys, or neither factor is the row's alone. A vector of keys would have
  /// to be turned for the one row, which takes several times as long as multiplying it.
  int lanes_along_features(const LoweredOp &stage, const Factors &factors, const Expr &row, const Expr &panel) const;
  /// What the lanes of a Func over `args`, of which the first is the lane, come to: half of them with the other half,
  /// down to one. Halide's own reduction of a vector goes lane by lane.
  static Expr folded(Func wider, const std::vector<Var> &args, int width, std::vector<std::pair<Func, int>> &halves,
                     const std::function<Expr(const Expr &, const Expr &)> &combine);
  Expr one_place(const Expr &value) const;
  /// The sum over features of row x panel, a vector of features at a time, whose lanes are then added up by halves.
  Func dot_products(const Expr &start, const Expr &row, const Expr &panel, const Var &feature, int width,
                    const Expr &terms);
  /// What belongs to rows alone, side by side for the block.
  Expr queries(const Expr &value, std::vector<Var> args);
  /// What belongs to keys alone: per vector of keys, feature by feature.
  Expr panels(const Expr &value, const std::vector<Var> &features, const Var &innermost);
  /// Scores of keys past the last one are -inf: their weights are zero, and no statistic asks for them.
  Func keep(Kept kept, const Expr &value) override;
  Expr read_kept(Func func) const override;

  // --- sums over keys

  /// Iterations of a loop over the keys of a block, `step` at a time. The extent may not depend on the block.
  Expr iterations_of_block(int step) const;
  /// Leaves out the iterations that a stage's sum doesn't need. Returns the iteration, known to be one of the others.
  template <class Loops> Expr restricted(Loops &loops, const Expr &iteration, int step, const LoweredOp &stage);
  /// A reduction over the keys of a row in a block.
  Statistic &statistic(LoweredOp &stage);
  /// The weights of a row, all keys of a block side by side, as a matrix unit takes them.
  Expr in_a_row(const Expr &weights);
  /// The values of a head, one key behind the other, or where they lie.
  Expr copied(const Expr &value);

  // --- joining blocks
  Expr part(const Expr &feature, const Expr &block);
  /// The blocks of keys that a stage's sum needs, counted from the first of them, and one of them. Only one condition
  /// becomes a bound of the loop.
  std::pair<Halide::RDom, Expr> blocks_of_row(const LoweredOp &stage);
  Func joined(const char *name, const LoweredOp &stage, const std::vector<Var> &args, const Expr &start,
              const Expr &feature);
  Expr join(LoweredOp &stage, const Expr &start);
  Expr sum_of_parts(LoweredOp &stage, const Expr &start);

  bool ends_at_last_key_ = false;              // scores are -inf behind it
  std::map<std::string, LoweredOp *> symbols_; // statistics by the name they have in formulas
  std::map<std::string, Func> joined_;         // statistics over all blocks, by stage
};

} // namespace heddle::attention
