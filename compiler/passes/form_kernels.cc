// Puts the ops of each cluster (clusters.cc has the rule) into one heddle.kernel region, isolated from above. Values
// that other clusters need become results; run-time sizes, weights and other clusters' results become operands;
// constants, fills and empty tensors are copied into every kernel that uses them, but for constants that differ from
// layer to layer (heddle.given). Each body of a loop is cut into
// kernels of its own, to which the number of the iteration comes as a scalar.
//
//   %p = linalg.generic {matmul} ins(%x, %w) …                 %y = heddle.kernel(%B, %x, %w, %b) : … {
//   %y = linalg.generic {bias, gelu} ins(%p, %b) …       →     ^bb0(…): matmul; bias, gelu; heddle.yield
//   %n = linalg.generic {sum of %y} …                          }
//   …                                                          %z = heddle.kernel(%B, %y, …) : … {the norm}
#include "compiler/passes/form_kernels.h"
#include "compiler/ir/dialect.h"
#include "compiler/ir/precision.h"
#include "compiler/ir/shapes.h"
#include "compiler/passes/entry_values.h"
#include "compiler/passes/passes.h"

#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/SetVector.h"

namespace heddle::passes {

using namespace mlir;

namespace {

/// Copied into the kernels that use it, rather than passed.
bool is_copied(Operation *op) {
  return !op->hasAttr(ir::names::given) && isa<tensor::EmptyOp, arith::ConstantOp, affine::AffineApplyOp,
                                               linalg::FillOp, arith::AddIOp, arith::SubIOp, arith::MulIOp>(op);
}

class KernelBuilder {
public:
  KernelBuilder(func::FuncOp entry, const Target &target)
      : entry_(entry), target_(target), builder_(entry.getContext()) {}

  void build(Block &block);

private:
  void build(ArrayRef<linalg::LinalgOp> cluster);
  void need(Value value);
  void need_all(Operation *op);
  struct Input {
    Value outer, operand; // what the ops read; what the kernel is given: the same, or an iteration's number as an i32
  };
  SmallVector<Input> inputs();

  func::FuncOp entry_;
  const Target &target_;
  OpBuilder builder_;
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

/// The operands in order: sizes (by number of their dim), scalars, tensors. Sizes that only the extents of a tensor
/// need are added.
SmallVector<KernelBuilder::Input> KernelBuilder::inputs() {
  SmallVector<Input> scalars, tensors;
  SmallVector<Value> other_sizes;
  std::map<unsigned, Value> dims;
  for (Value value : passed_) {
    if (isa<RankedTensorType>(value.getType())) {
      tensors.push_back({value, value});
      if (auto extents = ir::extent_formulas(value); succeeded(extents))
        for (AffineExpr extent : *extents)
          extent.walk([&](AffineExpr e) {
            if (auto d = dyn_cast<AffineDimExpr>(e); d && !dims.contains(d.getPosition()))
              dims[d.getPosition()] = ir::dim_value(entry_, d.getPosition());
          });
    } else if (isa<IndexType>(value.getType())) {
      AffineExpr formula = ir::size_formula(value);
      auto d = dyn_cast_or_null<AffineDimExpr>(formula);
      if (d)
        dims[d.getPosition()] = value;
      else if (formula)
        other_sizes.push_back(value);
      else
        scalars.push_back({value, arith::IndexCastOp::create(builder_, value.getLoc(), builder_.getI32Type(), value)});
    } else {
      scalars.push_back({value, value});
    }
  }
  SmallVector<Input> out;
  for (auto &[number, value] : dims)
    out.push_back({value, value});
  for (Value size : other_sizes)
    out.push_back({size, size});
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
  auto is_member = [&](Operation *user) {
    return llvm::any_of(cluster, [&](linalg::LinalgOp member) { return member->isAncestor(user); });
  };
  SmallVector<Value> results;
  for (linalg::LinalgOp op : cluster)
    for (Value result : op->getResults())
      if (!llvm::all_of(result.getUsers(), is_member))
        results.push_back(result);
  SmallVector<Input> inputs = this->inputs();
  SmallVector<Value> operands = llvm::map_to_vector(inputs, [](const Input &input) { return input.operand; });
  SmallVector<Location> places;
  for (linalg::LinalgOp op : cluster)
    places.push_back(op.getLoc());
  Location loc = FusedLoc::get(entry_.getContext(), places);
  auto kernel = ir::KernelOp::create(builder_, loc, TypeRange(ValueRange(results)), operands);
  Block &block = kernel.getBody().emplaceBlock();
  for (Value operand : operands)
    block.addArgument(operand.getType(), loc);
  auto body = OpBuilder::atBlockEnd(&block);
  IRMapping map;
  for (auto [input, argument] : llvm::zip_equal(inputs, block.getArguments()))
    if (input.outer == input.operand)
      map.map(input.outer, argument);
    else
      map.map(input.outer, arith::IndexCastOp::create(body, loc, body.getIndexType(), argument).getResult());
  for (Operation *op : inside_)
    body.clone(*op, map)->removeAttr(together);
  SmallVector<Value> yielded;
  for (Value result : results)
    yielded.push_back(map.lookup(result));
  ir::YieldOp::create(body, loc, yielded);
  for (auto [result, output] : llvm::zip_equal(results, kernel.getOutputs()))
    result.replaceUsesWithIf(output, [&](OpOperand &use) { return !is_member(use.getOwner()); });
}

/// Kernels and what stands between them come to the end of the block in order; the ops they were made of are dropped.
void KernelBuilder::build(Block &block) {
  Operation *end = block.getTerminator();
  for (const BlockItem &item : find_clusters(block, target_)) {
    if (auto loop = dyn_cast_or_null<scf::ForOp>(item.other))
      build(*loop.getBody());
    builder_.setInsertionPoint(end);
    if (item.other)
      item.other->moveBefore(end);
    else
      build(item.cluster);
  }
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (op.use_empty() && &op != end && !isa<ir::KernelOp>(op) && isPure(&op))
      op.erase();
}

struct FormKernels : PassWrapper<FormKernels, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(FormKernels)
  explicit FormKernels(const Target &target) : target_(target) {}
  StringRef getArgument() const override { return "form_kernels"; }
  StringRef getDescription() const override { return "one heddle.kernel region per cluster of ops"; }
  void getDependentDialects(DialectRegistry &registry) const override { ir::register_dialects(registry); }

  void runOnOperation() override {
    for (func::FuncOp entry : entries(getOperation()))
      KernelBuilder(entry, target_).build(entry.getBody().front());
  }

  Target target_;
};

} // namespace

std::unique_ptr<Pass> form_kernels(const Target &target) { return std::make_unique<FormKernels>(target); }

} // namespace heddle::passes
