#include "compiler/passes/roundings.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace heddle::passes {

using namespace mlir;

arith::TruncFOp free_rounding(linalg::GenericOp op, unsigned result) {
  auto rounding = op.getBlock()->getTerminator()->getOperand(result).getDefiningOp<arith::TruncFOp>();
  bool free = rounding && bitEnumContainsAll(rounding.getFastmath().value_or(arith::FastMathFlags::none),
                                             arith::FastMathFlags::contract);
  return free && rounding.getIn().getType().isF32() ? rounding : arith::TruncFOp();
}

Value build_free_rounding(OpBuilder &builder, Value tensor, ArrayRef<OpFoldResult> extents, FloatType narrow) {
  Location loc = tensor.getLoc();
  auto type = cast<RankedTensorType>(tensor.getType());
  Value empty = tensor::EmptyOp::create(builder, loc, extents, narrow);
  AffineMap same = AffineMap::getMultiDimIdentityMap(type.getRank(), builder.getContext());
  SmallVector<utils::IteratorType> loops(type.getRank(), utils::IteratorType::parallel);
  auto rounding = linalg::GenericOp::create(builder, loc, TypeRange(type.clone(narrow)), ValueRange(tensor),
                                            ValueRange(empty), ArrayRef<AffineMap>{same, same}, loops,
                                            [&](OpBuilder &body, Location loc, ValueRange elements) {
                                              auto r = arith::TruncFOp::create(body, loc, narrow, elements[0]);
                                              r.setFastmath(arith::FastMathFlags::contract);
                                              linalg::YieldOp::create(body, loc, r.getResult());
                                            });
  return rounding.getResult(0);
}

void widen_read(OpOperand &use) {
  Value element;
  OpBuilder builder(use.getOwner());
  if (auto reader = dyn_cast<linalg::GenericOp>(use.getOwner())) {
    element = reader.getMatchingBlockArgument(&use);
    builder.setInsertionPointToStart(reader.getBlock());
  } else {
    element = use.getOwner()->getResult(0);
    builder.setInsertionPointAfter(use.getOwner());
  }
  Type wide = element.getType();
  element.setType(cast<RankedTensorType>(use.get().getType()).getElementType());
  Value widened = arith::ExtFOp::create(builder, element.getLoc(), wide, element);
  element.replaceAllUsesExcept(widened, widened.getDefiningOp());
}

} // namespace heddle::passes
