#include "compiler/passes/roundings.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

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

/// Whether an element goes into a result by sums and products alone, which do not enlarge what it is off by.
static bool is_added_or_multiplied(Value element) {
  return llvm::all_of(element.getUsers(), [](Operation *user) {
    return isa<linalg::YieldOp>(user) ||
           (isa<arith::AddFOp, arith::SubFOp, arith::MulFOp>(user) && is_added_or_multiplied(user->getResult(0)));
  });
}

/// Whether something is the sum of a power of e and a positive number, as in a sigmoid.
static bool is_positive_sum(Operation *op) {
  APFloat number(0.0);
  return isa<arith::AddFOp>(op) && op->getOperand(0).getDefiningOp<math::ExpOp>() &&
         matchPattern(op->getOperand(1), m_ConstantFloat(&number)) && number > APFloat::getZero(number.getSemantics());
}

/// Whether an element goes into the results of its body by what does not enlarge its relative error: it is scaled,
/// chosen, or added to a sum of such.
static bool is_scaled(Value element, Value sum) {
  return llvm::all_of(element.getUsers(), [&](Operation *user) {
    bool scaled = isa<arith::MulFOp, arith::DivFOp, arith::SelectOp, arith::MaximumFOp, arith::MaxNumFOp>(user) ||
                  (isa<arith::AddFOp>(user) && sum && llvm::is_contained(user->getOperands(), sum)) ||
                  is_positive_sum(user);
    return isa<linalg::YieldOp>(user) || (scaled && is_scaled(user->getResult(0), sum));
  });
}

/// Whether what a tensor is off by, relatively, is all that the results of `end` are off by: nobody else reads it, or
/// sums of it.
static bool is_scaled_for(Value tensor, Operation *end) {
  return llvm::all_of(tensor.getUses(), [&](OpOperand &use) {
    auto op = dyn_cast<linalg::GenericOp>(use.getOwner());
    if (!op || !op.isDpsInput(&use))
      return false;
    Value sum = op.getNumReductionLoops() > 0 ? Value(op.getRegionOutputArgs().front()) : Value();
    return is_scaled(op.getMatchingBlockArgument(&use), sum) && (op == end || is_scaled_for(op->getResult(0), end));
  });
}

void approximate_functions(Value tensor) {
  auto made = tensor.getDefiningOp<linalg::GenericOp>();
  if (!made)
    return;
  auto approximate = [](auto function, bool may) {
    if (may)
      function.setFastmath(arith::FastMathFlags::afn);
  };
  made.walk([&](math::ErfOp erf) { approximate(erf, is_added_or_multiplied(erf)); });
  made.walk([&](math::TanhOp tanh) { approximate(tanh, is_added_or_multiplied(tanh)); });
  auto approximate_exp = [&](linalg::GenericOp op) {
    op.walk([&](math::ExpOp exp) { approximate(exp, is_scaled(exp, {})); });
  };
  approximate_exp(made);
  for (Value operand : made.getDpsInputs())
    if (auto before = operand.getDefiningOp<linalg::GenericOp>(); before && is_scaled_for(operand, made))
      approximate_exp(before);
}

} // namespace heddle::passes
