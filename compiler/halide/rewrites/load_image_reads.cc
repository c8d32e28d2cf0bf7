// An argument's bounds begin at 0, and its strides are formulas over the kernel's sizes: both are known here.
#include "compiler/halide/rewrites/rewrites.h"

namespace heddle {

using namespace Halide::Internal;
using Halide::Expr;
using Halide::Type;

namespace {

class LoadImages : public IRMutator {
  using IRMutator::visit;

  Expr visit(const Call *op) override {
    if (op->call_type != Call::Image || !op->param.defined())
      return IRMutator::visit(op);
    Expr index = 0;
    for (size_t axis = 0; axis < op->args.size(); ++axis) {
      Expr stride = op->param.stride_constraint(int(axis));
      index += mutate(op->args[axis]) * (stride.defined() ? stride : Expr(1));
    }
    // Memory holds a bool as a byte, as Halide's own flattening has it.
    Type stored = op->type.is_bool() ? op->type.with_bits(8) : op->type;
    return cast(op->type, Load::make(stored, op->name, simplify(index), Halide::Buffer<>(), op->param,
                                     const_true(stored.lanes()), ModulusRemainder()));
  }
};

} // namespace

std::shared_ptr<IRMutator> load_image_reads() { return std::make_shared<LoadImages>(); }

} // namespace heddle
