// What the schedules of attention share: formulas of the kernel's ops in terms of where an element lies (its row, its
// key, its feature, its place on the other axes), from which each schedule makes the Funcs of its blocks.
#pragma once

#include "compiler/kernels/attention/match.h"
#include "compiler/kernels/inlining.h"
#include "compiler/kernels/product/register_tile.h"
#include "compiler/targets/target.h"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace heddle::attention {

namespace hi = Halide::Internal;

class Formulas {
protected:
  using Expr = Halide::Expr;
  using Func = Halide::Func;
  using Var = Halide::Var;

  Formulas(LoweredKernel &kernel, const Match &match, const MicroKernel &micro_kernel, const Target &target);
  ~Formulas() = default;

  struct TiledSum { // a product's tile
    Func func;
    RegisterTile tile;
  };
  struct Kept {
    Func func;
    std::vector<TiledSum> sums;       // products that are computed tile by tile with it
    const LoweredOp *stage = nullptr; // that it is the value of; null: weights that are none
  };

  /// A formula of the kernel with every op behind it inlined, kept for a block, or a statistic of rows. `tile`: takes
  /// the products it needs; null: they are kept first.
  Expr formula(const Expr &expr, std::vector<TiledSum> *tile);
  /// The first value of a stage.
  Expr formula_of(const LoweredOp &stage, std::vector<TiledSum> *tile) {
    return formula(replaced(places(stage), stage.func.value()), tile);
  }

  // What each schedule makes of an op.
  virtual Expr product(LoweredOp &stage, std::vector<TiledSum> &tile) = 0;
  virtual Expr statistic_of(LoweredOp &stage) = 0;
  virtual Func keep(Kept kept, const Expr &value) = 0;
  virtual Expr read_kept(Func func) const = 0;

  bool is_product(const LoweredOp &stage) const;
  Expr stored(LoweredOp &stage);
  /// The extent of a product's innermost loop.
  static Expr terms_of(const LoweredOp &stage) { return reduction_loops(stage)[0].extent; }
  int group() const { return micro_kernel_.group; }
  bool is_kept(const Expr &value) const;

  /// The factors of a product as the micro-kernel takes them, in terms of placeholders.
  struct Factors {
    Expr left, right;
    std::vector<Var> features; // the loops of the sum, innermost first
  };
  std::optional<Factors> factors_at_places(const LoweredOp &stage);

  /// The product over keys: what depends on the feature, the rest, and what of the rest is the same for all keys
  /// (undefined where nothing is). `counts`: for which rows a value is not 0 instead; undefined where for all.
  struct Weighted {
    Expr values, weights, common, counts;

    /// Values at a row and a key, those of a tile of a sum. Where all of its rows have the key, as most often, Halide
    /// makes a loop without the question of that.
    Expr counted(const Expr &values, const Substitution &here) const {
      return counts.defined() ? select(replaced(here, counts), likely(values), hi::make_zero(values.type())) : values;
    }
  };
  Weighted factors_of_weighted(const LoweredOp &stage, const std::function<bool(const Expr &)> &over_keys);

  /// Stores the terms of a group, which a Func may have as its first dim, side by side. Returns whether it has.
  bool in_groups(Func &func) const;

  /// Names of the variables of a stage (its axes and reduction loops) → placeholders. Loops of a product that are not
  /// over keys are k0, k1, …
  Substitution places(const LoweredOp &stage) const;
  std::vector<Var> with_outer(std::vector<Var> first) const;

  /// Blocks of rows of a task that has so many for few threads: for more of them fewer, as far as copying the keys for
  /// them pays.
  Expr blocks_of_task(int for_few, int rows_of_block) const;
  static std::vector<Expr> exprs(const std::vector<Var> &vars) { return {vars.begin(), vars.end()}; }

  /// The keys that a stage's sum needs for these rows (ranges.h).
  hi::Interval needed_keys(const LoweredOp &stage, const Expr &first_row, int rows);

  /// A product of factors as those that are the same for all keys, multiplied, and the rest. The first is undefined
  /// where there are none. `over_keys`: whether a part depends on the key.
  static std::pair<Expr, Expr> common_factors(const Expr &weights, const std::function<bool(const Expr &)> &over_keys);

  /// The result of the kernel, in which `weighted` stands for a product over keys; it is asked once for each.
  Result<Func> result_of(const std::function<Expr(LoweredOp &)> &weighted);

  Expr fail(const std::string &what);

  LoweredKernel &kernel_;
  const Match &match_;
  KernelOutput &output_;
  int lanes_, accumulators_;
  OutputAxis feature_, query_;
  std::vector<OutputAxis> outer_; // the axes of the result but rows and features, innermost first
  std::vector<Var> outer_vars_;   // placeholders
  int axes_within_rows_ = 0;      // how many of these are further inside than the rows
  Expr all_keys_;                 // of a row
  Var row_{"row"}, key_{"key"}, feature_place_{"e"};
  const MicroKernel &micro_kernel_;
  std::map<std::string, Func> stored_; // by stage
  std::vector<Kept> kept_;             // everything over keys, in order of need
  std::optional<Error> error_;
};

} // namespace heddle::attention
