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
                                              Value wide = widened(body, loc, elements[0]);
                                              auto r = arith::TruncFOp::create(body, loc, narrow, wide);
                                              r.setFastmath(arith::FastMathFlags::contract);
                                              linalg::YieldOp::create(body, loc, r.getResult());
                                            });
  return rounding.getResult(0);
}

Value widened(OpBuilder &builder, Location loc, Value element) {
  Type wide = builder.getF32Type();
  return element.getType() == wide ? element : arith::ExtFOp::create(builder, loc, wide, element).getResult();
}

void narrow_element(Value element, Type narrow) {
  Type before = element.getType();
  if (before == narrow)
    return;
  OpBuilder builder(element.getContext());
  builder.setInsertionPointAfterValue(element);
  element.setType(narrow);
  Value wide;
  for (OpOperand &use : llvm::make_early_inc_range(element.getUses())) {
    if (isa<arith::ExtFOp>(use.getOwner())) // to f32, from whatever
      continue;
    if (!wide) {
      wide = widened(builder, element.getLoc(), element);
      if (wide.getType() != before)
        wide = arith::TruncFOp::create(builder, element.getLoc(), before, wide);
    }
    use.set(wide);
  }
}

void widen_read(OpOperand &use) {
  auto reader = dyn_cast<linalg::GenericOp>(use.getOwner());
  Value element = reader ? Value(reader.getMatchingBlockArgument(&use)) : use.getOwner()->getResult(0);
  narrow_element(element, cast<RankedTensorType>(use.get().getType()).getElementType());
}

} // namespace heddle::passes
