// What is computed element by element on the way there and needed again on the way back is computed again, where what
// it is made of is kept until then anyway: a layer's activations and norms would else be kept beside what went into
// them, for all layers at once.
//
//   %a = gelu(%x)                                %a = gelu(%x)
//   %y = product(%a, %w)                         %y = product(%a, %w)
//   … many products …                            …
//                                           →    %a1 = gelu(%x)
//   %dw = product(%dy, %a)                       %dw = product(%dy, %a1)
//   %dx = …(%x) …                                %dx = …(%x) …
//
// Numbers of rows are kept instead, if that is all there is to keep: means and variances of a norm.
#include "compiler/ir/dialect.h"
#include "compiler/passes/entry_values.h"
#include "compiler/passes/form_kernels.h"
#include "compiler/passes/loop_classes.h"
#include "compiler/passes/passes.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace heddle::passes {

using namespace mlir;
using linalg::LinalgOp;

namespace {

/// Products between two readers from which on a value is computed again: what is read several times in a layer, or by
/// each of several, is kept.
constexpr int64_t far_apart = 16;

/// So many products earlier is still about at the same time.
constexpr int64_t nearby = 6;

class Kept {
public:
  explicit Kept(Block &block) : block_(block) {
    int64_t products = 0;
    for (Operation &op : block) {
      auto linalg_op = dyn_cast<LinalgOp>(&op);
      products += linalg_op && work_of(linalg_op) == Work::reuse;
      products_before_[&op] = products;
    }
  }

  void run() {
    for (Operation &op : llvm::make_early_inc_range(block_))
      if (auto linalg_op = dyn_cast<LinalgOp>(&op); linalg_op && may_be_repeated(linalg_op))
        repeat(linalg_op);
  }

private:
  static bool may_be_repeated(LinalgOp op) {
    return work_of(op) == Work::pointwise && op.getNumDpsInits() == 1 && op->getNumResults() == 1 &&
           !op->hasAttr(together) && op.getBlock()->getOps<tensor::ExtractOp>().empty();
  }

  /// The op of the block that reads a value, or that has the op that does in it.
  Operation *reader(OpOperand &use) const { return block_.findAncestorOpInBlock(*use.getOwner()); }

  int64_t products_between(Operation *first, Operation *second) const {
    return products_before_.lookup(second) - products_before_.lookup(first);
  }

  /// Whether something else needs the value about at `place` or later.
  bool is_there(Value value, Operation *place, Operation *but) const {
    return llvm::any_of(value.getUses(), [&](OpOperand &use) {
      Operation *op = reader(use);
      return op && op != but && products_between(op, place) <= nearby;
    });
  }

  /// Whether all that the op is made of, and that takes as much memory as what it makes, is kept until `place`; and
  /// some of it is.
  bool can_be_made_at(LinalgOp op, Operation *place) const {
    bool any = false;
    for (OpOperand *operand : op.getDpsInputOperands()) {
      auto type = dyn_cast<RankedTensorType>(operand->get().getType());
      if (!type || type.getRank() < int64_t(op.getNumLoops()))
        continue;
      Operation *made = operand->get().getDefiningOp();
      if (!made || made->getBlock() != &block_ || !isa<LinalgOp>(made))
        continue; // a weight or what a call is given
      if (!is_there(operand->get(), place, op))
        return false;
      any = true;
    }
    return any;
  }

  void repeat(LinalgOp op) {
    SmallVector<Operation *> readers;
    for (OpOperand &use : op->getUses())
      if (Operation *each = reader(use); isa_and_nonnull<LinalgOp>(each))
        readers.push_back(each);
      else
        return; // a result of the entry, or what a loop or a state takes
    llvm::sort(readers, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    Operation *before = op;
    for (Operation *place : readers) {
      if (products_between(before, place) >= far_apart && can_be_made_at(op, place)) {
        OpBuilder builder(place);
        Operation *copy = builder.clone(*op);
        copy->setAttr(again, builder.getUnitAttr());
        products_before_[copy] = products_before_.lookup(place);
        op->getResult(0).replaceUsesWithIf(copy->getResult(0), [&](OpOperand &use) {
          Operation *each = reader(use);
          return each && each != copy && !each->isBeforeInBlock(copy);
        });
        return;
      }
      before = place;
    }
  }

  Block &block_;
  llvm::DenseMap<Operation *, int64_t> products_before_; // and this one
};

struct RecomputeKept : PassWrapper<RecomputeKept, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(RecomputeKept)
  StringRef getArgument() const override { return "recompute_kept"; }
  StringRef getDescription() const override {
    return "what the way back needs and is cheaper computed again than kept";
  }
  void runOnOperation() override {
    for (func::FuncOp entry : entries(getOperation()))
      Kept(entry.front()).run();
  }
};

} // namespace

std::unique_ptr<Pass> recompute_kept() { return std::make_unique<RecomputeKept>(); }

} // namespace heddle::passes
