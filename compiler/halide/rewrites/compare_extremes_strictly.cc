// A strict minimum or maximum is one instruction, as Halide's own is. Across lanes Halide has an intrinsic of LLVM's,
// which keeps NaN at two more instructions per step; here a vector is halved until one lane is left.
#include "compiler/halide/rewrites/rewrites.h"

namespace heddle {

using namespace Halide::Internal;
using Halide::Expr;

namespace {

class StrictExtremes : public IRMutator {
  using IRMutator::visit;

  Expr visit(const Min *op) override { return visit_extreme(op, Call::strict_min); }
  Expr visit(const Max *op) override { return visit_extreme(op, Call::strict_max); }

  template <class T> Expr visit_extreme(const T *op, Call::IntrinsicOp strict) {
    if (!op->type.is_float())
      return IRMutator::visit(op);
    return of(strict, mutate(op->a), mutate(op->b));
  }

  Expr visit(const VectorReduce *op) override {
    bool least = op->op == VectorReduce::Min;
    if (!op->type.is_float() || (!least && op->op != VectorReduce::Max))
      return IRMutator::visit(op);
    Call::IntrinsicOp strict = least ? Call::strict_min : Call::strict_max;
    Expr value = mutate(op->value);
    int lanes = op->type.lanes(), each = value.type().lanes() / lanes;
    for (; lanes == 1 && each % 2 == 0; each /= 2)
      value = of(strict, Shuffle::make_slice(value, 0, 1, each / 2), Shuffle::make_slice(value, each / 2, 1, each / 2));
    Expr result = Shuffle::make_slice(value, 0, each, lanes);
    for (int i = 1; i < each; ++i)
      result = of(strict, result, Shuffle::make_slice(value, i, each, lanes));
    return result;
  }

  static Expr of(Call::IntrinsicOp strict, const Expr &a, const Expr &b) {
    return Call::make(a.type(), strict, {a, b}, Call::PureIntrinsic);
  }
};

} // namespace

std::shared_ptr<IRMutator> compare_extremes_strictly() { return std::make_shared<StrictExtremes>(); }

} // namespace heddle
