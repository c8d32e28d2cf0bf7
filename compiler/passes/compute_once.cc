// Calls of kernels whose operands are sizes and weights alone give the same values in every call of an entry with the
// same sizes: tables of positions, keys of distances. A session makes them once, keeps them, and makes them again when
// those sizes change.
//
//   %r = call @k4(%n, %w)                             // %n: affine in dims, %w: a weight
//     →
//   %r = call @k4(%n, %w) {heddle.once}
//
// What is element by element is computed again in each call, as it costs what reading it from memory would, unless it
// takes sines and the like, or only such calls read it. Only what kernels read is kept: what a call returns, or a state
// or loop begins with, is the call's own. (compute_weights has done more where no size is in it: what it took is a
// weight by now.)
#include "compiler/ir/dialect.h"
#include "compiler/passes/entry_values.h"
#include "compiler/passes/passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace heddle::passes {

using namespace mlir;

namespace {

/// Whether kernels alone read a value, perhaps as a part or in another shape.
bool is_read_by_kernels(Value value) {
  return llvm::all_of(value.getUsers(), [](Operation *user) {
    if (isa<tensor::CollapseShapeOp, tensor::ExpandShapeOp, tensor::CastOp, tensor::ExtractSliceOp>(user))
      return is_read_by_kernels(user->getResult(0));
    return isa<func::CallOp>(user);
  });
}

class OnceFinder {
public:
  explicit OnceFinder(func::FuncOp entry) : entry(entry) {}

  void run() {
    for (auto call : entry.front().getOps<func::CallOp>())
      if (llvm::all_of(call.getOperands(), [&](Value operand) { return is_fixed(operand); }) && !call->use_empty() &&
          llvm::all_of(call.getResults(), is_read_by_kernels))
        fixed.insert(call);
    auto unit = UnitAttr::get(entry.getContext());
    // From the last call to the first, so that it is known what reads a call's results.
    SmallVector<func::CallOp> calls(entry.front().getOps<func::CallOp>());
    for (func::CallOp call : llvm::reverse(calls))
      if (fixed.contains(call) && (is_dear(call) || llvm::all_of(call.getResults(), is_read_once)))
        call->setAttr(ir::names::once, unit);
  }

private:
  /// Whether a value is the same in all calls of the entry with the same sizes.
  bool is_fixed(Value value) {
    auto [known, first] = values.try_emplace(value, false);
    if (!first)
      return known->second;
    Operation *op = value.getDefiningOp();
    bool out = op && !op->getNumRegions();
    if (op && isa<func::CallOp>(op))
      out = fixed.contains(op);
    else if (out)
      out = isa<ir::GetOp, ir::DimOp>(op) ||
            (isMemoryEffectFree(op) && !isa<ir::ReadOp, ir::GroupOp, tensor::ExtractOp, tensor::InsertSliceOp>(op) &&
             llvm::all_of(op->getOperands(), [&](Value operand) { return is_fixed(operand); }));
    return values[value] = out;
  }

  /// Whether a kernel does more for an element than reading it from memory takes.
  static bool is_dear(func::CallOp call) {
    auto kernel = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(call, call.getCalleeAttr());
    return kernel
        .walk([](Operation *op) {
          auto loops = dyn_cast<linalg::LinalgOp>(op);
          bool dear =
              (loops && loops.getNumReductionLoops() > 0) ||
              isa<math::SinOp, math::CosOp, math::ExpOp, math::LogOp, math::PowFOp, math::TanhOp, math::ErfOp>(op);
          return dear ? WalkResult::interrupt() : WalkResult::advance();
        })
        .wasInterrupted();
  }

  func::FuncOp entry;
  llvm::DenseSet<Operation *> fixed;
  DenseMap<Value, bool> values;
};

struct ComputeOnce : PassWrapper<ComputeOnce, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ComputeOnce)
  StringRef getArgument() const override { return "compute_once"; }
  StringRef getDescription() const override {
    return "what sizes and weights alone decide is computed once in a session";
  }
  void runOnOperation() override {
    for (func::FuncOp entry : entries(getOperation()))
      OnceFinder(entry).run();
  }
};

} // namespace

std::unique_ptr<Pass> compute_once() { return std::make_unique<ComputeOnce>(); }

} // namespace heddle::passes
