// An index that is not a ramp is a gather. Masked lanes are not read, so that their places don't matter. A single place
// before the beginning is a lane that was taken apart, under a condition that does not hold for it.
#include "compiler/halide/rewrites/rewrites.h"

#include <algorithm>

namespace heddle {

using namespace Halide::Internal;
using Halide::Expr;

namespace {

class Gather : public IRMutator {
  using IRMutator::visit;

  Expr visit(const Load *op) override {
    if (std::optional<int64_t> place = as_const_int(op->index); place && *place < 0)
      return make_zero(op->type); // of a lane that nothing counts on
    const Ramp *ramp = op->index.as<Ramp>();
    std::optional<int64_t> base = ramp ? as_const_int(ramp->base) : std::nullopt;
    std::optional<int64_t> stride = ramp ? as_const_int(ramp->stride) : std::nullopt;
    if (!base || !stride || std::min(*base, *base + *stride * (ramp->lanes - 1)) >= 0)
      return IRMutator::visit(op);
    Expr index =
        Broadcast::make(ramp->base, ramp->lanes) - Ramp::make(make_zero(ramp->base.type()), -ramp->stride, ramp->lanes);
    return Load::make(op->type, op->name, index, op->image, op->param, mutate(op->predicate), op->alignment);
  }
};

} // namespace

std::shared_ptr<IRMutator> gather_reversed_reads() { return std::make_shared<Gather>(); }

} // namespace heddle
