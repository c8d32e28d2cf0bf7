// A few steps back from a value: what functions, choices and sums make of what is not below 0.
#include "compiler/passes/nonnegative.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

namespace heddle::passes {

using namespace mlir;
using linalg::GenericOp;

bool is_nonnegative(Value value, int depth) {
  if (depth == 0)
    return false;
  auto both = [&](Operation *op, unsigned a, unsigned b) {
    return is_nonnegative(op->getOperand(a), depth - 1) && is_nonnegative(op->getOperand(b), depth - 1);
  };
  APFloat constant(0.0);
  if (matchPattern(value, m_ConstantFloat(&constant)))
    return !constant.isNegative() && !constant.isNaN();
  if (auto element = dyn_cast<BlockArgument>(value)) {
    auto op = dyn_cast<GenericOp>(element.getOwner()->getParentOp());
    return op && element.getArgNumber() < op.getNumDpsInputs() &&
           is_nonnegative(op->getOperand(element.getArgNumber()), depth - 1);
  }
  Operation *made = value.getDefiningOp();
  if (auto op = dyn_cast<GenericOp>(made)) {
    unsigned result = cast<OpResult>(value).getResultNumber();
    return op.getNumReductionLoops() == 0 &&
           is_nonnegative(op.getBlock()->getTerminator()->getOperand(result), depth - 1);
  }
  if (isa<arith::MaximumFOp>(made))
    return is_nonnegative(made->getOperand(0), depth - 1) || is_nonnegative(made->getOperand(1), depth - 1);
  if (isa<arith::AddFOp, arith::MulFOp, arith::DivFOp, arith::MinimumFOp>(made))
    return both(made, 0, 1);
  if (isa<arith::ExtFOp, arith::TruncFOp>(made))
    return is_nonnegative(made->getOperand(0), depth - 1);
  if (isa<arith::SelectOp>(made))
    return both(made, 1, 2);
  if (auto read = dyn_cast<tensor::ExtractOp>(made))
    return is_nonnegative(read.getTensor(), depth - 1);
  return isa<math::ExpOp, math::Exp2Op, math::AbsFOp>(made);
}

} // namespace heddle::passes
