// For GPUs: weights of products are stored so that the terms of a sum that lie together in the other factor, a line of
// a matrix or of the picture that windows read, lie together in the weight, too: threads bring several at a time.
// Packing moves their elements.
//
//   y[b, i, j, o] = sum[c, u, v](x[b, i + u, j + v, c] * w[o, c, u, v]):   the channels c of w come last
//
//   heddle.weight @w : tensor<64x32x3x3xf32> names ["w"] stored [64, 32, 3, 3]
//   linalg.generic … (d0, …) -> (d3, d4, d5, d6) … ins(%w)
// →
//   heddle.weight @w : tensor<64x3x3x32xf32> names ["w"] stored [64, 32, 3, 3]
//       gathered <[64, 3, 3, 32] at (d0, d1, d2, d3) -> (d0, d3, d1, d2) from [64, 32, 3, 3]>
//   linalg.generic … (d0, …) -> (d3, d5, d6, d4) … ins(%w)
#include "compiler/ir/dialect.h"
#include "compiler/kernels/product/nest.h"
#include "compiler/passes/passes.h"

namespace heddle::passes {

using namespace mlir;

namespace {

/// The axis of a weight that should be its last one for a product that reads it, -1 where its order is fine, or nothing
/// where something else than such a product reads it.
std::optional<int> last_axis_for(OpOperand &use) {
  auto op = dyn_cast<linalg::GenericOp>(use.getOwner());
  std::optional<contraction::Product> product = op ? contraction::product_of(op) : std::nullopt;
  if (!product || !op.getMatchingIndexingMap(&use).isProjectedPermutation())
    return std::nullopt;
  Value element = op.getMatchingBlockArgument(&use);
  for (auto [own, other] : {std::pair(&product->left, &product->right), std::pair(&product->right, &product->left)}) {
    Value read = contraction::element_read(other->value);
    if (contraction::element_read(own->value) != element)
      continue;
    SmallVector<unsigned> terms;
    cast<linalg::LinalgOp>(op.getOperation()).getReductionDims(terms);
    for (unsigned loop : terms)
      if (contraction::step_of(op, read, loop) == 1)
        if (auto axis = op.getMatchingIndexingMap(&use).getResultPosition(getAffineDimExpr(loop, op.getContext())))
          return int(*axis);
  }
  return -1;
}

void move_last(ir::WeightOp weight, ArrayRef<ir::GetOp> gets, unsigned axis) {
  MLIRContext *context = weight.getContext();
  auto type = cast<RankedTensorType>(weight.getType());
  SmallVector<unsigned> order; // of the new axes among the old ones
  for (unsigned old = 0; old < type.getRank(); ++old)
    if (old != axis)
      order.push_back(old);
  order.push_back(axis);
  SmallVector<int64_t> shape = llvm::map_to_vector(order, [&](unsigned old) { return type.getDimSize(old); });
  AffineMap places = inversePermutation(AffineMap::getPermutationMap(order, context));
  weight.setGatheredAttr(ir::GatheredAttr::get(context, shape, places, type.getShape()));
  auto ordered = RankedTensorType::get(shape, type.getElementType());
  weight.setType(ordered);
  for (ir::GetOp get : gets) {
    get.getResult().setType(ordered);
    for (OpOperand &use : get->getUses()) {
      auto op = cast<linalg::GenericOp>(use.getOwner());
      SmallVector<AffineMap> maps = op.getIndexingMapsArray();
      AffineMap &map = maps[use.getOperandNumber()];
      SmallVector<AffineExpr> exprs = llvm::map_to_vector(order, [&](unsigned old) { return map.getResult(old); });
      map = AffineMap::get(map.getNumDims(), 0, exprs, context);
      op.setIndexingMapsAttr(Builder(context).getAffineMapArrayAttr(maps));
    }
  }
}

struct OrderWeights : PassWrapper<OrderWeights, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(OrderWeights)
  explicit OrderWeights(const Target &target) : target(target) {}
  StringRef getArgument() const override { return "order_weights"; }
  StringRef getDescription() const override {
    return "for GPUs: weights with the terms last that lie together in the other factor";
  }
  void getDependentDialects(DialectRegistry &registry) const override { ir::register_dialects(registry); }

  void runOnOperation() override {
    if (!target.gpu)
      return;
    ModuleOp module = getOperation();
    for (auto weight : module.getOps<ir::WeightOp>()) {
      if (weight.getPart() || weight.getGathered() || weight.getComputed() || weight.getDerived() || weight.getLayout())
        continue;
      auto uses = SymbolTable::getSymbolUses(weight, module);
      if (!uses)
        continue;
      SmallVector<ir::GetOp> gets;
      bool only_read = true;
      std::optional<int> wanted;
      for (SymbolTable::SymbolUse use : *uses) {
        auto get = dyn_cast<ir::GetOp>(use.getUser());
        only_read &= bool(get) && get.getType() == weight.getType();
        for (OpOperand &read : use.getUser()->getUses()) {
          std::optional<int> axis = only_read ? last_axis_for(read) : std::nullopt;
          only_read &= axis && wanted.value_or(*axis) == *axis;
          if (axis)
            wanted = axis;
        }
        if (get)
          gets.push_back(get);
      }
      if (only_read && wanted.value_or(-1) >= 0 && *wanted + 1 < cast<RankedTensorType>(weight.getType()).getRank())
        move_last(weight, gets, unsigned(*wanted));
    }
  }

  Target target;
};

} // namespace

std::unique_ptr<Pass> order_weights(const Target &target) { return std::make_unique<OrderWeights>(target); }

} // namespace heddle::passes
