// Values are followed from op to op of a kernel, as far as what Halide may see once it has inlined stages and
// simplified conditions.
#include "compiler/halide/infinities.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

#include <cmath>

namespace heddle {

namespace arith = mlir::arith;
using mlir::linalg::LinalgOp;

mlir::Operation *combiner_of(LinalgOp op) {
  mlir::Block *body = op.getBlock();
  mlir::Operation *last = body->getTerminator()->getOperand(0).getDefiningOp();
  mlir::Value accumulator = body->getArgument(op.getNumDpsInputs());
  return last && llvm::is_contained(last->getOperands(), accumulator) ? last : nullptr;
}

/// What a value of a body is a copy of: followed through reads, to what another op without a reduction yields.
static mlir::Value origin(mlir::Value value) {
  for (;;) {
    if (auto argument = llvm::dyn_cast<mlir::BlockArgument>(value)) {
      auto reader = llvm::dyn_cast<LinalgOp>(argument.getOwner()->getParentOp());
      if (!reader || argument.getArgNumber() >= reader.getNumDpsInputs())
        return value;
      value = reader.getDpsInputOperand(argument.getArgNumber())->get();
    } else if (auto read = value.getDefiningOp<mlir::tensor::ExtractOp>()) {
      value = read.getTensor();
    } else if (auto op = value.getDefiningOp<LinalgOp>(); op && op.getNumReductionLoops() == 0) {
      unsigned result = llvm::cast<mlir::OpResult>(value).getResultNumber();
      value = op.getBlock()->getTerminator()->getOperand(result);
    } else {
      return value;
    }
  }
}

static std::optional<double> constant(mlir::Value value) {
  mlir::FloatAttr real;
  if (mlir::matchPattern(value, mlir::m_Constant(&real)))
    return real.getValueAsDouble();
  return std::nullopt;
}

/// Whether a value may be an infinite constant, or come from one.
static bool may_be_infinite(mlir::Value value, llvm::DenseSet<mlir::Value> &seen) {
  value = origin(value);
  if (!seen.insert(value).second)
    return false;
  auto any = [&](mlir::Operation *op) {
    return llvm::any_of(op->getOperands(), [&](mlir::Value operand) { return may_be_infinite(operand, seen); });
  };
  if (std::optional<double> number = constant(value))
    return !std::isfinite(*number);
  mlir::Operation *maker = value.getDefiningOp();
  if (auto reduction = llvm::dyn_cast_or_null<LinalgOp>(maker)) {
    mlir::Operation *combiner = combiner_of(reduction);
    return !combiner || any(combiner); // without one, of no numbers
  }
  return llvm::isa_and_nonnull<arith::SelectOp, arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::DivFOp,
                               arith::NegFOp, arith::MaximumFOp, arith::MinimumFOp, arith::MaxNumFOp, arith::MinNumFOp,
                               arith::ExtFOp, arith::TruncFOp>(maker) &&
         any(maker);
}

bool adds_infinities(LinalgOp op) {
  mlir::Operation *combiner = op.getNumReductionLoops() ? combiner_of(op) : nullptr;
  llvm::DenseSet<mlir::Value> seen;
  return llvm::isa_and_nonnull<arith::AddFOp, arith::MulFOp>(combiner) &&
         llvm::any_of(combiner->getOperands(), [&](mlir::Value term) { return may_be_infinite(term, seen); });
}

bool is_one_more(mlir::Value value) {
  mlir::Operation *maker = origin(value).getDefiningOp();
  return llvm::isa_and_nonnull<arith::AddFOp, arith::SubFOp>(maker) &&
         llvm::any_of(maker->getOperands(), [](mlir::Value term) {
           std::optional<double> number = constant(term);
           return number && std::fabs(*number) == 1;
         });
}

} // namespace heddle
