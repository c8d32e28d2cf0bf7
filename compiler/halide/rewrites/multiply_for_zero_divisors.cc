// Scalars does the same where the divisor is 0 as it is written.
#include "compiler/halide/rewrites/rewrites.h"

#include "compiler/halide/math.h"

#include <cmath>

namespace heddle {

using namespace Halide::Internal;
using Halide::Expr;

namespace {

class ZeroDivisors : public IRMutator {
  using IRMutator::visit;

  Expr visit(const Call *op) override {
    if (!op->is_intrinsic(Call::strict_div) || !is_const_zero(op->args[1]))
      return IRMutator::visit(op);
    auto *lanes = op->args[1].as<Broadcast>();
    auto *zero = (lanes ? lanes->value : op->args[1]).as<FloatImm>();
    double end = zero && std::signbit(zero->value) ? -HUGE_VAL : HUGE_VAL;
    return math::strict_mul(mutate(op->args[0]), make_const(op->type, end));
  }
};

} // namespace

std::shared_ptr<IRMutator> multiply_for_zero_divisors() { return std::make_shared<ZeroDivisors>(); }

} // namespace heddle
