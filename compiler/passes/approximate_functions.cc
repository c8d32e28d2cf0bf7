// An erf or exp that makes what is rounded to bf16 is marked: its last digits needn't be right (math::rough_erf,
// math::rough_exp), as they would be rounded off.
//
//   %0 = math.erf %x : f32                          %0 = math.erf %x fastmath<afn> : f32
//   %1 = arith.mulf %0, %half : f32           →     %1 = arith.mulf %0, %half : f32
//   %2 = arith.truncf %1 : f32 to bf16              %2 = arith.truncf %1 : f32 to bf16
//
// The rounding stands in the body of the function, or in an op of its own behind it, as narrow_products makes them. Of
// a softmax, what is rounded is made one op behind the exp.
#include "compiler/ir/dialect.h"
#include "compiler/passes/passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"

namespace heddle::passes {

using namespace mlir;

namespace {

bool rounds(Operation *op) {
  auto rounding = dyn_cast<arith::TruncFOp>(op);
  return rounding && rounding.getType().isBF16() && rounding.getIn().getType().isF32();
}

/// Where elements of a body are rounded: in it, or all that it yields behind it.
struct Ends {
  bool yields;
  bool contains(Operation *user) const { return rounds(user) || (yields && isa<linalg::YieldOp>(user)); }
};

/// Whether an element is rounded behind nothing but sums and products, which do not enlarge what it is off by.
bool is_added_or_multiplied(Value element, Ends ends) {
  return llvm::all_of(element.getUsers(), [&](Operation *user) {
    return ends.contains(user) ||
           (isa<arith::AddFOp, arith::SubFOp, arith::MulFOp>(user) && is_added_or_multiplied(user->getResult(0), ends));
  });
}

/// Whether an element is rounded behind nothing but what leaves its relative error as it is: it is scaled, chosen, or
/// added to a sum of such.
bool is_scaled(Value element, Value sum, Ends ends) {
  return llvm::all_of(element.getUsers(), [&](Operation *user) {
    bool scaled = isa<arith::MulFOp, arith::DivFOp, arith::SelectOp, arith::MaximumFOp, arith::MaxNumFOp>(user) ||
                  (isa<arith::AddFOp>(user) && sum && llvm::is_contained(user->getOperands(), sum));
    return ends.contains(user) || (scaled && is_scaled(user->getResult(0), sum, ends));
  });
}

/// Whether what a tensor is off by, relatively, is all that the results of `end` are off by: nobody else reads it, or
/// sums of it.
bool is_scaled_for(Value tensor, Operation *end) {
  return llvm::all_of(tensor.getUses(), [&](OpOperand &use) {
    auto op = dyn_cast<linalg::GenericOp>(use.getOwner());
    if (!op || !op.isDpsInput(&use))
      return false;
    Value sum = op.getNumReductionLoops() > 0 ? Value(op.getRegionOutputArgs().front()) : Value();
    return is_scaled(op.getMatchingBlockArgument(&use), sum, {true}) &&
           (op == end || is_scaled_for(op->getResult(0), end));
  });
}

void approximate(linalg::GenericOp made, Ends ends) {
  made.walk([&](math::ErfOp erf) {
    if (is_added_or_multiplied(erf, ends))
      erf.setFastmath(arith::FastMathFlags::afn);
  });
  auto mark = [](linalg::GenericOp op, Ends ends) {
    op.walk([&](math::ExpOp exp) {
      if (is_scaled(exp, {}, ends))
        exp.setFastmath(arith::FastMathFlags::afn);
    });
  };
  mark(made, ends);
  if (!ends.yields)
    return;
  for (Value operand : made.getDpsInputs())
    if (auto before = operand.getDefiningOp<linalg::GenericOp>(); before && is_scaled_for(operand, made))
      mark(before, {true});
}

/// The op of which all results are rounded by one that does nothing else; null where that is not so.
linalg::GenericOp made_before(arith::TruncFOp rounding) {
  auto element = dyn_cast<BlockArgument>(rounding.getIn());
  auto op = rounding->getParentOfType<linalg::GenericOp>();
  if (!element || !element.hasOneUse() || element.getArgNumber() >= op.getNumDpsInputs())
    return {};
  Value tensor = op.getDpsInputs()[element.getArgNumber()];
  return tensor.hasOneUse() ? tensor.getDefiningOp<linalg::GenericOp>() : linalg::GenericOp();
}

struct ApproximateFunctions : PassWrapper<ApproximateFunctions, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ApproximateFunctions)
  StringRef getArgument() const override { return "approximate_functions"; }
  StringRef getDescription() const override { return "erf and exp no more exact than what is made of them"; }
  void getDependentDialects(DialectRegistry &registry) const override { ir::register_dialects(registry); }

  void runOnOperation() override {
    getOperation().walk([](arith::TruncFOp rounding) {
      auto op = rounding->getParentOfType<linalg::GenericOp>();
      if (!op || !rounds(rounding))
        return;
      if (linalg::GenericOp made = made_before(rounding); made && made->getNumResults() == 1)
        approximate(made, {true});
      approximate(op, {false});
    });
  }
};

} // namespace

std::unique_ptr<Pass> approximate_functions() { return std::make_unique<ApproximateFunctions>(); }

} // namespace heddle::passes
