// A value of bf16 or f16 that never leaves its kernel stays f32, as it was computed: rounding it would cost time and
// accuracy and save no memory. Import marks the roundings that may be left out (`fastmath<contract>`); what an author
// wrote as a conversion is not marked and stays. So does a rounding that makes an operand of a product for which the
// target has an instruction: that of attention's weights.
//
//   %p = linalg.generic … outs(%e : tensor<?xbf16>) { %r = arith.truncf %v fastmath<contract>; yield %r : bf16 }
//   %y = linalg.generic … ins(%p : tensor<?xbf16>) { ^bb0(%a: bf16): %w = arith.extf %a : bf16 to f32 … }
//     →
//   %p = linalg.generic … outs(%e : tensor<?xf32>) { yield %v : f32 }
//   %y = linalg.generic … ins(%p : tensor<?xf32>) { ^bb0(%a: f32): … }
#include "compiler/ir/dialect.h"
#include "compiler/kernels/product/micro_kernel.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/roundings.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace heddle::passes {

using namespace mlir;

namespace {

bool is_only_widened(Value element) {
  return llvm::all_of(element.getUsers(),
                      [](Operation *user) { return isa<arith::ExtFOp>(user) && user->getResult(0).getType().isF32(); });
}

/// Whether an element of an op's body is a factor that the target multiplies as it is.
bool is_multiplied(linalg::LinalgOp op, Value element, const Target &target) {
  auto product = contraction::product_of(op);
  return product && (unwidened(product->left.value) == element || unwidened(product->right.value) == element) &&
         !micro_kernel_for({&*product, 1}, target).takes_any_type();
}

/// The elements of `tensor` as the bodies of its readers see them; nothing where something else reads it, or where an
/// element is not just widened.
std::optional<SmallVector<Value>> elements_read(OpResult tensor, const Target &target) {
  SmallVector<Value> out;
  for (OpOperand &use : tensor.getUses()) {
    Value element;
    if (auto reader = dyn_cast<linalg::GenericOp>(use.getOwner()); reader && reader.isDpsInput(&use))
      element = reader.getMatchingBlockArgument(&use);
    else if (auto read = dyn_cast<tensor::ExtractOp>(use.getOwner()))
      element = read;
    auto reader = element ? dyn_cast<linalg::LinalgOp>(element.getParentBlock()->getParentOp()) : linalg::LinalgOp();
    if (!element || !is_only_widened(element) || (reader && is_multiplied(reader, element, target)))
      return std::nullopt;
    out.push_back(element);
  }
  return out;
}

void widen(Value element, Type type) {
  element.setType(type);
  for (Operation *user : llvm::make_early_inc_range(element.getUsers())) {
    user->getResult(0).replaceAllUsesWith(element);
    user->erase();
  }
}

void keep_wide(linalg::GenericOp op, unsigned result, const Target &target) {
  arith::TruncFOp rounding = free_rounding(op, result);
  OpOperand *init = op.getDpsInitOperand(result);
  auto empty = init->get().getDefiningOp<tensor::EmptyOp>();
  BlockArgument before = op.getMatchingBlockArgument(init);
  if (!rounding || !empty || !before.use_empty())
    return;
  auto elements = elements_read(op->getOpResult(result), target);
  if (!elements)
    return;
  Type wide = rounding.getIn().getType();
  OpBuilder builder(op);
  init->set(tensor::EmptyOp::create(builder, empty.getLoc(), empty.getMixedSizes(), wide));
  before.setType(wide);
  op->getResult(result).setType(init->get().getType());
  op.getBlock()->getTerminator()->setOperand(result, rounding.getIn());
  if (rounding->use_empty())
    rounding->erase();
  if (empty->use_empty())
    empty->erase();
  for (Value element : *elements)
    widen(element, wide);
}

struct SkipRoundings : PassWrapper<SkipRoundings, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(SkipRoundings)
  explicit SkipRoundings(const Target &target) : target(target) {}
  StringRef getArgument() const override { return "skip_roundings"; }
  StringRef getDescription() const override { return "narrow reals that stay in a kernel are kept as f32"; }

  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function->hasAttr(ir::names::entry))
        function.walk([&](linalg::GenericOp op) {
          for (unsigned result = 0; result < op->getNumResults(); ++result)
            keep_wide(op, result, target);
        });
  }

  Target target;
};

} // namespace

std::unique_ptr<Pass> skip_roundings(const Target &target) { return std::make_unique<SkipRoundings>(target); }

} // namespace heddle::passes
