// `--precision bf16` rounds what products multiply where it is produced (narrow_products.cc). What only goes into sums,
// multiples and maxima that are stored rounded is stored rounded, too: as part of them it is off by no more than they
// are. A ResNet's blocks add what they read to what their last filter makes, and what they read is most of what such a
// block moves: it was stored twice, as it was computed for the sum and rounded for products. Sums over layers that are
// normalized, as those of a transformer, stay f32.
//
//   %x, %r = heddle.kernel(…) { …; %n = linalg.generic ins(%s) { arith.truncf }; yield %s, %n : …f32, …bf16 }
//   %y = heddle.kernel(…, %r, %x) { …  linalg.generic ins(…, %x : …f32) { ^bb0(…, %e: f32): … }
//     →
//   %r = heddle.kernel(…) { …; yield %n : …bf16 }
//   %y = heddle.kernel(…, %r) { …  linalg.generic ins(…, %r : …bf16) { ^bb0(…, %n: bf16): %e = arith.extf %n; … }
#include "compiler/ir/dialect.h"
#include "compiler/ir/precision.h"
#include "compiler/kernels/product/product.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/roundings.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace heddle::passes {

using namespace mlir;

namespace {

/// What an op that does nothing but round a tensor rounds; null where another op, or an author's own conversion, makes
/// the tensor.
Value rounded_by(Value tensor) {
  auto op = tensor.getDefiningOp<linalg::GenericOp>();
  if (!op || op.getNumDpsInputs() != 1 || op.getNumDpsInits() != 1 || op.getNumReductionLoops() != 0 ||
      !llvm::all_of(op.getIndexingMapsArray(), [](AffineMap map) { return map.isIdentity(); }))
    return {};
  arith::TruncFOp rounding = free_rounding(op, 0);
  return rounding && rounding.getIn() == op.getBlock()->getArgument(0) ? op.getDpsInputOperand(0)->get() : Value();
}

BlockArgument argument_of(OpOperand &use) {
  return cast<ir::KernelOp>(use.getOwner()).getBody().getArgument(use.getOperandNumber());
}

/// Whether a kernel reads an operand in parts that may round what they read.
bool can_read_rounded(OpOperand &use, const ir::Precisions &precisions) {
  return isa<ir::KernelOp>(use.getOwner()) && llvm::all_of(argument_of(use).getUsers(), [&](Operation *user) {
           Operation *reader = isa<linalg::GenericOp>(user) ? user : user->getParentOfType<linalg::GenericOp>();
           return reader && precisions.of(reader) == "bf16";
         });
}

/// Makes a kernel read `rounded` at an operand, and widen what it reads.
void read_rounded(OpOperand &use, Value rounded) {
  BlockArgument argument = argument_of(use);
  use.set(rounded);
  argument.setType(rounded.getType());
  for (OpOperand &read : argument.getUses())
    widen_read(read);
}

/// Drops operands that a kernel is given twice.
void drop_equal_operands(ir::KernelOp kernel) {
  Block &body = kernel.getBody().front();
  for (unsigned i = kernel->getNumOperands(); i-- > 0;) {
    auto operands = kernel->getOperands();
    auto first = llvm::find(operands, operands[i]);
    unsigned number = std::distance(operands.begin(), first);
    if (number == i)
      continue;
    body.getArgument(i).replaceAllUsesWith(body.getArgument(number));
    body.eraseArgument(i);
    kernel->eraseOperand(i);
  }
}

/// The kernel without the results that nothing reads.
void drop_unread_results(ir::KernelOp kernel) {
  auto yield = cast<ir::YieldOp>(kernel.getBody().front().getTerminator());
  SmallVector<Value> kept, yielded;
  for (auto [output, value] : llvm::zip_equal(kernel.getOutputs(), yield.getValues()))
    if (!output.use_empty()) {
      kept.push_back(output);
      yielded.push_back(value);
    }
  OpBuilder builder(kernel);
  auto smaller = ir::KernelOp::create(builder, kernel.getLoc(), TypeRange(ValueRange(kept)), kernel.getInputs());
  smaller.getBody().takeBody(kernel.getBody());
  yield.getValuesMutable().assign(yielded);
  for (auto [output, result] : llvm::zip_equal(kept, smaller.getOutputs()))
    output.replaceAllUsesWith(result);
  kernel.erase();
}

/// Whether what is read at an argument or computed with it, `value`, goes into nothing but sums, multiples and
/// maxima, and leaves its kernel rounded.
bool goes_into_rounded(Value value) {
  return llvm::all_of(value.getUses(), [](OpOperand &use) {
    Operation *user = use.getOwner();
    if (isa<ir::YieldOp>(user))
      return !getElementTypeOrSelf(use.get()).isF32();
    if (auto reader = dyn_cast<linalg::GenericOp>(user))
      return reader.isDpsInput(&use) && goes_into_rounded(reader.getMatchingBlockArgument(&use));
    if (isa<linalg::YieldOp>(user)) // narrow_products.cc decides on what products read
      return !contraction::product_of(cast<linalg::LinalgOp>(user->getParentOp())) &&
             goes_into_rounded(user->getParentOp()->getResult(use.getOperandNumber()));
    return isa<tensor::ExtractOp, arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::MaximumFOp, arith::MaxNumFOp,
               arith::SelectOp, arith::TruncFOp>(user) &&
           goes_into_rounded(user->getResult(0));
  });
}

/// A tensor that an op of a kernel makes, rounded behind it; null where its extents aren't at hand.
Value round(Value tensor) {
  auto made = tensor.getDefiningOp<linalg::GenericOp>();
  Value init = made ? made.getDpsInitOperand(cast<OpResult>(tensor).getResultNumber())->get() : Value();
  if (auto fill = init ? init.getDefiningOp<linalg::FillOp>() : linalg::FillOp())
    init = fill.getDpsInitOperand(0)->get();
  auto empty = init ? init.getDefiningOp<tensor::EmptyOp>() : tensor::EmptyOp();
  if (!empty)
    return {};
  OpBuilder builder(tensor.getContext());
  builder.setInsertionPointAfterValue(tensor);
  return build_free_rounding(builder, tensor, empty.getMixedSizes(), builder.getBF16Type());
}

struct ReadRounded : PassWrapper<ReadRounded, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ReadRounded)
  StringRef getArgument() const override { return "read_rounded"; }
  StringRef getDescription() const override { return "what is stored rounded for products isn't stored as f32, too"; }

  void runOnOperation() override {
    ir::Precisions precisions(getOperation());
    if (!precisions.has("bf16"))
      return;
    SmallVector<ir::KernelOp> kernels;
    getOperation().walk([&](ir::KernelOp kernel) { kernels.push_back(kernel); });
    for (ir::KernelOp kernel : llvm::reverse(kernels)) // what readers round is known
      store_rounded_alone(kernel, precisions);
  }

private:
  static void store_rounded_alone(ir::KernelOp kernel, const ir::Precisions &precisions) {
    auto yield = cast<ir::YieldOp>(kernel.getBody().front().getTerminator());
    for (auto [number, stored] : llvm::enumerate(kernel.getOutputs())) {
      Value value = yield.getValues()[number];
      auto type = dyn_cast<RankedTensorType>(stored.getType());
      if (!type || !type.getElementType().isF32() || stored.use_empty() ||
          !llvm::all_of(stored.getUses(), [&](OpOperand &use) {
            return can_read_rounded(use, precisions) && goes_into_rounded(argument_of(use));
          }))
        continue;
      Value rounded;
      for (auto [other, output] : llvm::zip_equal(yield.getValues(), kernel.getOutputs()))
        if (rounded_by(other) == value)
          rounded = output;
      if (!rounded) {
        Value inside = round(value);
        if (!inside)
          continue;
        yield.setOperand(number, inside);
        stored.setType(inside.getType());
        rounded = stored;
      }
      for (OpOperand &use : llvm::make_early_inc_range(stored.getUses())) {
        auto reader = cast<ir::KernelOp>(use.getOwner());
        read_rounded(use, rounded);
        drop_equal_operands(reader);
      }
    }
    if (llvm::any_of(kernel.getOutputs(), [](Value output) { return output.use_empty(); }))
      drop_unread_results(kernel);
  }
};

} // namespace

std::unique_ptr<Pass> read_rounded() { return std::make_unique<ReadRounded>(); }

} // namespace heddle::passes
