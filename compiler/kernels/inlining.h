// A tensor of a kernel as one Halide expression of its indices, with every element-wise stage on the way to it written
// out. Schedules that need an algorithm of their own (tiles, key blocks) build it from such expressions.
#pragma once

#include "compiler/halide/lower.h"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace heddle {

/// Rewrites calls of the kernel's stages: element-wise stages by their formulas, others by what was given for them.
/// Calls of stages that are neither stay as they are.
class Inliner : public Halide::Internal::IRGraphMutator {
public:
  /// Makes the value of a stage at these indices (innermost first, as the Func has them).
  using Replacement = std::function<Halide::Expr(const std::vector<Halide::Expr> &indices)>;

  explicit Inliner(LoweredKernel &kernel);

  void replace(const LoweredOp &stage, Replacement with) { replacements_[stage.func.name()] = std::move(with); }
  Halide::Expr operator()(const Halide::Expr &expr) { return mutate(expr); }

protected:
  using IRGraphMutator::visit;
  Halide::Expr visit(const Halide::Internal::Call *call) override;

private:
  std::map<std::string, LoweredOp *> stages_;
  std::map<std::string, Replacement> replacements_;
};

/// Variables by name, and what to write for them (all at once).
using Substitution = std::map<std::string, Halide::Expr>;

/// The expression with that done. Halide's own goes every way to a number that is used more than once, which are too
/// many in the sine of a sine of …; its graph_substitute does not, but takes one variable at a time.
Halide::Expr replaced(const Substitution &variables, const Halide::Expr &in);
inline Halide::Expr replaced(const std::string &variable, const Halide::Expr &by, const Halide::Expr &in) {
  return replaced({{variable, by}}, in);
}

/// The reduction loops of a stage, innermost first, for a domain of its own: the stage's own can't be scheduled twice.
Halide::Region reduction_loops(const LoweredOp &stage);
/// The names under which the update of a stage refers to its reduction loops, innermost first.
std::vector<std::string> reduction_names(const LoweredOp &stage);

/// The two factors of what a product's update adds to its accumulator. Halide folds a factor that is 1 or 0, and shares
/// equal parts by lets; here both are undone. Nothing where the update is no sum.
std::optional<std::pair<Halide::Expr, Halide::Expr>> factors_of(const LoweredOp &product);

/// The arguments that are sizes or scalars as the kernel's formulas name them, by number; undefined where they don't.
std::vector<Halide::Expr> scalars_of(LoweredKernel &kernel);

/// Makes one output of the outputs of a kernel, with a tuple of their values, where all have the same shape: one loop
/// nest writes them all.
void join_outputs(LoweredKernel &kernel);
/// The same; where it has joined several, all of an element's values are computed before any is written
/// (loads_first.h).
void join_outputs_loads_first(LoweredKernel &kernel);

/// A Func in the place of `output.func`: the same bounds and strides, another definition of each of its values.
Halide::Func redefine(KernelOutput &output, const std::function<Halide::Expr(const Halide::Expr &value)> &definition);

/// The same with every formula of the kernel written out, where `value_of` makes the value of a sum at these indices.
Halide::Func
redefine_by_sums(LoweredKernel &kernel, KernelOutput &output,
                 const std::function<Halide::Expr(LoweredOp &sum, const std::vector<Halide::Expr> &indices)> &value_of);

} // namespace heddle
