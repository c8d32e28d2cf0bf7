// The step still holds b. Where Halide has simplified it further, kernels of rows keep clear of vectors of two lanes
// (kernels/rows.cc), which are the only ones that Halide makes ramps of without a proof.
#include "compiler/emit/halide/float_ramps.h"

namespace heddle {

using namespace Halide::Internal;
using Halide::Expr;

namespace {

class SplitRamps : public IRMutator {
  using IRMutator::visit;

  Expr visit(const Ramp *op) override {
    const Sub *step = op->stride.as<Sub>();
    if (op->lanes != 2 || !(op->type.is_float() || op->type.is_bfloat()) || !op->base.type().is_scalar() || !step ||
        !equal(step->b, op->base))
      return IRMutator::visit(op);
    return Shuffle::make_concat({mutate(op->base), mutate(step->a)});
  }
};

} // namespace

std::shared_ptr<IRMutator> split_float_ramps() { return std::make_shared<SplitRamps>(); }

} // namespace heddle
