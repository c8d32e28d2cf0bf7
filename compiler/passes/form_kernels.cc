// Puts the ops of each cluster (clusters.cc has the rule) into one heddle.kernel region, isolated from above. Values
// that other clusters need become results; run-time sizes, weights and other clusters' results become operands;
// constants, fills and empty tensors are copied into every kernel that uses them.
//
//   %p = linalg.generic {matmul} ins(%x, %w) …                 %y = heddle.kernel(%B, %x, %w, %b) : … {
//   %y = linalg.generic {bias, gelu} ins(%p, %b) …       →     ^bb0(…): matmul; bias, gelu; heddle.yield
//   %n = linalg.generic {sum of %y} …                          }
//   …                                                          %z = heddle.kernel(%B, %y, …) : … {the norm}
#include "compiler/passes/form_kernels.h"
#include "compiler/ir/dialect.h"
#include "compiler/ir/shapes.h"
#include "compiler/passes/passes.h"

#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/SetVector.h"

namespace heddle::passes {

using namespace mlir;

namespace {

/// Copied into the kernels that use it, rather than passed.
bool is_copied(Operation *op) {
  return isa<tensor::EmptyOp, arith::ConstantOp, affine::AffineApplyOp, linalg::FillOp, arith::AddIOp, arith::SubIOp,
             arith::MulIOp>(op);
}

class KernelBuilder {
public:
  explicit KernelBuilder(func::FuncOp entry) : entry_(entry), builder_(entry.getBody().front().getTerminator()) {}

  void build(ArrayRef<linalg::LinalgOp> cluster);
  void finish();

private:
  void need(Value value);
  void need_all(Operation *op);
  SmallVector<Value> inputs();
  Value dim(unsigned number);

  func::FuncOp entry_;
  OpBuilder builder_;
  IRMapping made_; // results of the old ops → results of kernels
  // of the cluster being built
  llvm::SetVector<Operation *> inside_; // its ops and those copied into it, operands first
  llvm::SetVector<Value> passed_;
};

void KernelBuilder::need(Value value) {
  Operation *op = value.getDefiningOp();
  if (op && inside_.contains(op))
    return;
  if (op && is_copied(op)) {
    need_all(op);
    inside_.insert(op);
  } else {
    passed_.insert(value);
  }
}

void KernelBuilder::need_all(Operation *op) {
  for (Value operand : op->getOperands())
    need(operand);
  llvm::SetVector<Value> captured;
  getUsedValuesDefinedAbove(op->getRegions(), captured);
  for (Value value : captured)
    need(value);
}

Value KernelBuilder::dim(unsigned number) {
  auto module = entry_->getParentOfType<ModuleOp>();
  StringRef name = ir::dim_names(module)[number];
  for (auto known : entry_.getOps<ir::DimOp>())
    if (known.getName() == name)
      return known;
  OpBuilder start(entry_.getContext());
  start.setInsertionPointToStart(&entry_.getBody().front());
  return ir::DimOp::create(start, entry_.getLoc(), start.getIndexType(), start.getStringAttr(name));
}

/// The operands in order: sizes (by number of their dim), scalars, tensors. Sizes that only the extents of a tensor
/// need are added.
SmallVector<Value> KernelBuilder::inputs() {
  SmallVector<Value> scalars, tensors, other_sizes;
  std::map<unsigned, Value> dims;
  for (Value value : passed_) {
    if (isa<RankedTensorType>(value.getType())) {
      tensors.push_back(value);
      if (auto extents = ir::extent_formulas(made_.lookupOrDefault(value)); succeeded(extents))
        for (AffineExpr extent : *extents)
          extent.walk([&](AffineExpr e) {
            if (auto d = dyn_cast<AffineDimExpr>(e); d && !dims.contains(d.getPosition()))
              dims[d.getPosition()] = dim(d.getPosition());
          });
    } else if (isa<IndexType>(value.getType())) {
      auto d = dyn_cast_or_null<AffineDimExpr>(ir::size_formula(value));
      if (d)
        dims[d.getPosition()] = value;
      else
        other_sizes.push_back(value);
    } else {
      scalars.push_back(value);
    }
  }
  SmallVector<Value> out;
  for (auto &[number, value] : dims)
    out.push_back(value);
  llvm::append_range(out, other_sizes);
  llvm::append_range(out, scalars);
  llvm::append_range(out, tensors);
  return out;
}

void KernelBuilder::build(ArrayRef<linalg::LinalgOp> cluster) {
  inside_.clear();
  passed_.clear();
  for (linalg::LinalgOp op : cluster) {
    need_all(op);
    inside_.insert(op);
  }
  SmallVector<Value> results;
  for (linalg::LinalgOp op : cluster)
    for (Value result : op->getResults())
      if (llvm::any_of(result.getUsers(), [&](Operation *user) {
            return !llvm::any_of(cluster, [&](linalg::LinalgOp member) { return member->isAncestor(user); });
          }))
        results.push_back(result);
  SmallVector<Value> old_inputs = inputs(), new_inputs;
  for (Value value : old_inputs)
    new_inputs.push_back(made_.lookupOrDefault(value));
  SmallVector<Location> places;
  for (linalg::LinalgOp op : cluster)
    places.push_back(op.getLoc());
  Location loc = FusedLoc::get(entry_.getContext(), places);
  auto kernel = ir::KernelOp::create(builder_, loc, TypeRange(ValueRange(results)), new_inputs);
  Block &block = kernel.getBody().emplaceBlock();
  IRMapping map;
  for (Value value : old_inputs)
    map.map(value, block.addArgument(value.getType(), loc));
  auto body = OpBuilder::atBlockEnd(&block);
  for (Operation *op : inside_)
    body.clone(*op, map);
  SmallVector<Value> yielded;
  for (Value result : results)
    yielded.push_back(map.lookup(result));
  ir::YieldOp::create(body, loc, yielded);
  for (auto [result, output] : llvm::zip_equal(results, kernel.getOutputs()))
    made_.map(result, output);
}

void KernelBuilder::finish() {
  Operation *end = entry_.getBody().front().getTerminator();
  for (OpOperand &operand : end->getOpOperands())
    operand.set(made_.lookupOrDefault(operand.get()));
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(entry_.getBody().front())))
    if (op.use_empty() && &op != end && !isa<ir::KernelOp>(op) && isPure(&op))
      op.erase();
}

struct FormKernels : PassWrapper<FormKernels, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(FormKernels)
  StringRef getArgument() const override { return "form_kernels"; }
  StringRef getDescription() const override { return "one heddle.kernel region per cluster of ops"; }
  void getDependentDialects(DialectRegistry &registry) const override { ir::register_dialects(registry); }

  void runOnOperation() override {
    for (auto entry : getOperation().getOps<func::FuncOp>()) {
      if (!entry->hasAttr(ir::names::entry))
        continue;
      KernelBuilder kernels(entry);
      for (auto &cluster : find_clusters(entry))
        kernels.build(cluster);
      kernels.finish();
    }
  }
};

} // namespace

std::unique_ptr<Pass> form_kernels() { return std::make_unique<FormKernels>(); }

} // namespace heddle::passes
