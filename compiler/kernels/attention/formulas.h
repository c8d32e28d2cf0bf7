// What the schedules of attention share: formulas of the kernel's ops in terms of where an element lies (its row, its
// key, its feature, its place on the other axes), from which each schedule makes the Funcs of its blocks.
#pragma once

#include "compiler/kernels/attention/match.h"
#include "compiler/kernels/inlining.h"
#include "compiler/targets/target.h"

#include <optional>
#include <string>
#include <vector>

namespace heddle::attention {

class Formulas {
protected:
  Formulas(LoweredKernel &kernel, const Match &match, const Target &target);

  /// Names of the variables of a stage (its axes and reduction loops) → placeholders. Loops of a product that are not
  /// over keys are k0, k1, …
  Substitution places(const Stage &stage) const;
  std::vector<Halide::Var> with_outer(std::vector<Halide::Var> first) const;
  static std::vector<Halide::Expr> exprs(const std::vector<Halide::Var> &vars) { return {vars.begin(), vars.end()}; }
  bool is_product(const Stage &stage) const;

  /// The keys that a stage's sum needs for these rows (ranges.h).
  Halide::Internal::Interval needed_keys(const Stage &stage, const Halide::Expr &first_row, int rows);

  /// A product of factors as those that are the same for all keys, multiplied, and the rest. The first is undefined
  /// where there are none. `over_keys`: whether a part depends on the key.
  static std::pair<Halide::Expr, Halide::Expr>
  common_factors(const Halide::Expr &weights, const std::function<bool(const Halide::Expr &)> &over_keys);

  /// The result of the kernel, in which `weighted` stands for the product over keys; it is asked once.
  Result<Halide::Func> result_of(const std::function<Halide::Expr(Stage &)> &weighted);

  Halide::Expr fail(const std::string &what);

  LoweredKernel &kernel_;
  const Match &match_;
  Output &output_;
  int lanes_, accumulators_;
  Axis feature_, query_;
  std::vector<Axis> outer_;             // the axes of the result but rows and features, innermost first
  std::vector<Halide::Var> outer_vars_; // placeholders
  int axes_within_rows_ = 0;            // how many of these are further inside than the rows
  Halide::Expr all_keys_;               // of a row
  Halide::Var row_{"row"}, key_{"key"}, feature_place_{"e"};
  std::optional<Error> error_;
};

} // namespace heddle::attention
