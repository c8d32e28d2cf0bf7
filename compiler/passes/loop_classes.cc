// Loops that are the same, by union-find over (op, loop) and (value, axis); and what a loop nest reads.
#include "compiler/passes/loop_classes.h"

#include "compiler/kernels/scatter/scatter.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Transforms/RegionUtils.h"

namespace heddle::passes {

using namespace mlir;

llvm::SetVector<Value> needs_of(Operation *op) {
  llvm::SetVector<Value> out(op->operand_begin(), op->operand_end());
  getUsedValuesDefinedAbove(op->getRegions(), out);
  return out;
}

/// The loops that a scalar of the body depends on, through linalg.index and the places of operand reads.
static void collect_loops(Value value, linalg::LinalgOp op, llvm::SmallBitVector &loops, DenseSet<Value> &seen) {
  if (!seen.insert(value).second)
    return;
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    if (argument.getOwner() == op.getBlock())
      for (AffineExpr expr : op.getMatchingIndexingMap(op.getMatchingOpOperand(argument)).getResults())
        for (unsigned i = 0; i < op.getNumLoops(); ++i)
          if (expr.isFunctionOfDim(i))
            loops.set(i);
    return;
  }
  Operation *source = value.getDefiningOp();
  if (source->getBlock() != op.getBlock())
    return;
  if (auto index = dyn_cast<linalg::IndexOp>(source))
    loops.set(index.getDim());
  for (Value operand : source->getOperands())
    collect_loops(operand, op, loops, seen);
}

SmallVector<Read> reads_of(linalg::LinalgOp op) {
  SmallVector<Read> out;
  for (OpOperand *operand : op.getDpsInputOperands()) {
    if (!isa<RankedTensorType>(operand->get().getType()) || !op.payloadUsesValueFromOperand(operand))
      continue;
    llvm::SmallBitVector loops(op.getNumLoops());
    AffineMap map = op.getMatchingIndexingMap(operand);
    for (unsigned i = 0; i < op.getNumLoops(); ++i)
      loops[i] = map.isFunctionOfDim(i);
    out.push_back({operand->get(), loops, true});
  }
  op.getBlock()->walk([&](tensor::ExtractOp extract) {
    llvm::SmallBitVector loops(op.getNumLoops());
    DenseSet<Value> seen;
    for (Value index : extract.getIndices())
      collect_loops(index, op, loops, seen);
    out.push_back({extract.getTensor(), loops, false});
  });
  return out;
}

Work work_of(linalg::LinalgOp op) {
  if (op.getNumReductionLoops() == 0)
    return Work::pointwise;
  if (scatter::place_loop(op) >= 0)
    return Work::scatter;
  auto reads = reads_of(op);
  bool covered = llvm::any_of(reads, [](const Read &read) { return read.loops.all(); });
  return covered || reads.size() < 2 ? Work::reduction : Work::reuse;
}

LoopClasses::LoopClasses(ArrayRef<linalg::LinalgOp> ops, function_ref<bool(Value)> links) {
  unsigned count = 0;
  auto for_each_value = [](linalg::LinalgOp op, auto &&visit) {
    for (OpOperand &operand : op->getOpOperands())
      if (isa<RankedTensorType>(operand.get().getType())) {
        visit(operand.get(), op.getMatchingIndexingMap(&operand));
        if (op.isDpsInit(&operand))
          visit(op.getTiedOpResult(&operand), op.getMatchingIndexingMap(&operand));
      }
  };
  for (linalg::LinalgOp op : ops) {
    loop_base_[op] = count;
    count += op.getNumLoops();
    for_each_value(op, [&](Value value, AffineMap) {
      if (links(value) && axis_base_.try_emplace(value, count).second)
        count += cast<RankedTensorType>(value.getType()).getRank();
    });
  }
  classes_.grow(count);
  for (linalg::LinalgOp op : ops)
    for_each_value(op, [&](Value value, AffineMap map) {
      auto base = axis_base_.find(value);
      if (base == axis_base_.end())
        return;
      for (auto [axis, expr] : llvm::enumerate(map.getResults()))
        if (auto loop = dyn_cast<AffineDimExpr>(expr))
          classes_.join(base->second + axis, loop_base_[op] + loop.getPosition());
    });
  classes_.compress();
}

} // namespace heddle::passes
