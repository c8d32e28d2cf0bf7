// MLIR's motion of what no iteration of a loop changes, with two exceptions: a loop may have no iteration, so what
// reads at computed places, which are proven where the body stands, is no more proven in front of it; and what follows
// a requirement of the body relies on it.
#include "compiler/ir/dialect.h"
#include "compiler/passes/passes.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Transforms/LoopInvariantCodeMotionUtils.h"

namespace heddle::passes {

using namespace mlir;

namespace {

/// Whether a loop has an iteration in every call.
bool has_iterations(LoopLikeOpInterface loop) {
  std::optional<llvm::APInt> count = loop.getStaticTripCount();
  return count && count->isStrictlyPositive();
}

bool reads_at_places(Operation *op) {
  return op->walk([](tensor::ExtractOp) { return WalkResult::interrupt(); }).wasInterrupted();
}

struct HoistInvariants : PassWrapper<HoistInvariants, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(HoistInvariants)
  StringRef getArgument() const override { return "hoist_invariants"; }
  StringRef getDescription() const override { return "what no iteration changes is computed before its loop"; }

  void runOnOperation() override {
    getOperation().walk([](LoopLikeOpInterface loop) { // inner loops first
      if (ir::may_end_call(loop))
        return;
      bool begins = has_iterations(loop);
      moveLoopInvariantCode(
          loop.getLoopRegions(), [&](Value value, Region *) { return loop.isDefinedOutsideOfLoop(value); },
          [&](Operation *op, Region *) {
            return isMemoryEffectFree(op) && isSpeculatable(op) && (begins || !reads_at_places(op));
          },
          [&](Operation *op, Region *) { loop.moveOutOfLoop(op); });
    });
  }
};

} // namespace

std::unique_ptr<Pass> hoist_invariants() { return std::make_unique<HoistInvariants>(); }

} // namespace heddle::passes
