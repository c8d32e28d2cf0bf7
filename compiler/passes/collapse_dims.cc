// Merges loops of a kernel that always stand side by side into one, and drops loops of one iteration, so that schedules
// see few, long loops (merged_loops.h says which). Callers reshape with tensor.collapse_shape and expand_shape, which
// cost nothing.
//
// clang-format off
//   %y = call @k0(%B, %S, %x, %w)              %M = arith.muli %B, %S
//     kernel: loops (b, s, h, e, d)       →    %x2 = tensor.collapse_shape %x [[0, 1], [2]]
//     %x: [B, S, D], %w: [H, E, D]             %y2 = call @k0(%M, %x2, %w2)         kernel: loops (m, n, d)
//     %y: [B, S, H, E]                         %y = tensor.expand_shape %y2 [[0, 1], [2, 3]] output_shape [%B, %S, H, E]
// clang-format on
#include "compiler/ir/dialect.h"
#include "compiler/ir/shapes.h"
#include "compiler/passes/equal_kernels.h"
#include "compiler/passes/kernel_sizes.h"
#include "compiler/passes/merged_loops.h"
#include "compiler/passes/passes.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace heddle::passes {

using namespace mlir;
using linalg::LinalgOp;

namespace {

/// Gives every linalg op its own `outs`: a shared tensor.empty would tie unrelated loops together.
void unshare_outs(func::FuncOp kernel) {
  SmallVector<Operation *> ops;
  kernel.walk([&](LinalgOp op) { ops.push_back(op); });
  for (Operation *op : llvm::reverse(ops)) // fills after their readers
    for (OpOperand &operand : op->getOpOperands()) {
      Operation *source = operand.get().getDefiningOp();
      if (isa_and_nonnull<tensor::EmptyOp, linalg::FillOp>(source) && !operand.get().hasOneUse()) {
        OpBuilder builder(op);
        operand.set(builder.clone(*source)->getResult(0));
      }
    }
  // a fill cloned above shares its tensor.empty with the original
  kernel.walk([&](linalg::FillOp fill) {
    OpOperand &out = fill.getDpsInitsMutable()[0];
    if (out.get().getDefiningOp<tensor::EmptyOp>() && !out.get().hasOneUse()) {
      OpBuilder builder(fill);
      out.set(builder.clone(*out.get().getDefiningOp())->getResult(0));
    }
  });
}

/// One kernel and all its calls.
class Collapser {
public:
  Collapser(func::FuncOp kernel, ArrayRef<func::CallOp> calls, ArrayRef<SizeRange> sizes)
      : kernel_(kernel), calls_(calls), merged_(kernel, sizes) {}
  LogicalResult run();

private:
  using Groups = SmallVector<ReassociationIndices>;
  struct NewSize {
    SmallVector<AffineExpr> factors; // over the old sizes
  };

  RankedTensorType collapsed_type(Value tensor) const;
  /// The number of the new size that is the product of these extents (old formulas).
  unsigned size_number(ArrayRef<AffineExpr> factors);
  AffineMap collapsed_extents(Value tensor);
  LogicalResult survey();
  void collapse_body();
  void collapse_signature();
  void collapse_op(LinalgOp op);
  void collapse_empty(tensor::EmptyOp op);
  void collapse_call(func::CallOp call);

  MLIRContext *context() { return kernel_.getContext(); }

  func::FuncOp kernel_;
  ArrayRef<func::CallOp> calls_;
  MergedLoops merged_;
  unsigned old_sizes_ = 0;
  SmallVector<NewSize> new_sizes_;
  SmallVector<bool> kept_;                           // of the old and new sizes
  DenseMap<Value, SmallVector<AffineExpr>> extents_; // old, of every tensor that merged_ knows
  SmallVector<Groups> argument_groups_, result_groups_;
  SmallVector<mlir::Type> argument_types_;                   // new
  SmallVector<AffineMap> argument_extents_, result_extents_; // new, over old and new sizes
  SmallVector<AffineMap> old_result_extents_;
};

RankedTensorType Collapser::collapsed_type(Value tensor) const {
  auto type = cast<RankedTensorType>(tensor.getType());
  SmallVector<int64_t> shape;
  for (auto &group : merged_.groups_of(tensor)) {
    int64_t extent = 1;
    for (int64_t axis : group)
      extent = ShapedType::isDynamic(extent) || type.isDynamicDim(axis) ? ShapedType::kDynamic
                                                                        : extent * type.getDimSize(axis);
    shape.push_back(extent);
  }
  return RankedTensorType::get(shape, type.getElementType());
}

unsigned Collapser::size_number(ArrayRef<AffineExpr> factors) {
  for (auto [i, size] : llvm::enumerate(new_sizes_))
    if (size.factors == factors)
      return old_sizes_ + i;
  new_sizes_.push_back({llvm::to_vector(factors)});
  return old_sizes_ + new_sizes_.size() - 1;
}

/// The extents of a collapsed tensor over old and new sizes (before unused ones are dropped).
AffineMap Collapser::collapsed_extents(Value tensor) {
  const auto &old = extents_.find(tensor)->second;
  SmallVector<AffineExpr> out;
  for (auto &group : merged_.groups_of(tensor)) {
    SmallVector<AffineExpr> factors;
    int64_t constant = 1;
    for (int64_t axis : group)
      if (auto number = dyn_cast<AffineConstantExpr>(old[axis]))
        constant *= number.getValue();
      else
        factors.push_back(old[axis]);
    if (factors.size() == 1 && constant == 1) {
      out.push_back(factors[0]);
    } else if (factors.empty()) {
      out.push_back(getAffineConstantExpr(constant, context()));
    } else {
      if (constant != 1)
        factors.push_back(getAffineConstantExpr(constant, context()));
      out.push_back(getAffineDimExpr(size_number(factors), context()));
    }
  }
  return AffineMap::get(old_sizes_, 0, out, context()); // the number of dims is set when all sizes are known
}

void Collapser::collapse_empty(tensor::EmptyOp op) {
  auto extents = collapsed_extents(op);
  OpBuilder builder(op);
  SmallVector<Value> sizes(kernel_.getArguments().begin(), kernel_.getArguments().end());
  SmallVector<OpFoldResult> mixed;
  auto type = collapsed_type(op);
  for (auto [extent, formula] : llvm::zip_equal(type.getShape(), extents.getResults())) {
    if (!ShapedType::isDynamic(extent)) {
      mixed.push_back(builder.getIndexAttr(extent));
      continue;
    }
    mixed.push_back(
        ir::build_size(builder, op.getLoc(), formula, ArrayRef(sizes).take_front(old_sizes_ + new_sizes_.size())));
  }
  Value made = tensor::EmptyOp::create(builder, op.getLoc(), mixed, type.getElementType());
  op.getResult().replaceAllUsesWith(made);
  op.erase();
}

/// The operands have their new types already; maps and loops follow.
void Collapser::collapse_op(LinalgOp op) {
  auto groups = merged_.groups_of(op);
  SmallVector<int> new_loop(op.getNumLoops(), -1); // -1: it is dropped
  llvm::SmallBitVector follows(op.getNumLoops());  // it goes with the loop before it
  for (auto [i, group] : llvm::enumerate(groups))
    for (unsigned loop : group) {
      new_loop[loop] = i;
      follows[loop] = loop != group.front();
    }
  SmallVector<AffineExpr> renumbered;
  for (int loop : new_loop)
    renumbered.push_back(loop >= 0 ? getAffineDimExpr(loop, context()) : getAffineConstantExpr(0, context()));
  SmallVector<AffineMap> maps;
  for (AffineMap map : op.getIndexingMapsArray()) {
    SmallVector<AffineExpr> results;
    for (AffineExpr expr : map.getResults()) {
      auto loop = dyn_cast<AffineDimExpr>(expr);
      if (!loop || (new_loop[loop.getPosition()] >= 0 && !follows[loop.getPosition()]))
        results.push_back(expr.replaceDims(renumbered));
    }
    maps.push_back(AffineMap::get(groups.size(), 0, results, context()));
  }
  for (Value result : op->getResults())
    result.setType(op.getTiedOpOperand(cast<OpResult>(result))->get().getType());
  auto generic = dyn_cast<linalg::GenericOp>(op.getOperation());
  if (!generic)
    return; // linalg.fill fits any shape
  SmallVector<Attribute> iterators;
  for (auto &group : groups)
    iterators.push_back(generic.getIteratorTypes()[group.front()]);
  generic.setIndexingMapsAttr(Builder(context()).getAffineMapArrayAttr(maps));
  generic.setIteratorTypesAttr(ArrayAttr::get(context(), iterators));
  generic.getBlock()->walk([&](linalg::IndexOp index) {
    unsigned loop = index.getDim();
    if (groups[new_loop[loop]].size() == 1 || !merged_.is_single(op, loop)) {
      index.setDim(new_loop[loop]);
      return;
    }
    OpBuilder builder(index);
    index.replaceAllUsesWith(arith::ConstantIndexOp::create(builder, index.getLoc(), 0).getResult());
    index.erase();
  });
}

/// What every tensor looks like before and after. Must come first: the other steps change types.
LogicalResult Collapser::survey() {
  old_sizes_ = ir::size_count(kernel_);
  WalkResult known = kernel_.walk([&](Operation *op) {
    for (Value value : op->getOperands()) {
      if (!isa<RankedTensorType>(value.getType()) || !merged_.knows(value) || extents_.contains(value))
        continue;
      auto extents = ir::extent_formulas(value);
      if (failed(extents)) {
        op->emitError("collapse_dims: the extents of ") << value.getType() << " are unknown";
        return WalkResult::interrupt();
      }
      extents_.try_emplace(value, *extents);
    }
    return WalkResult::advance();
  });
  if (known.wasInterrupted())
    return failure();
  Block &block = kernel_.getBody().front();
  for (BlockArgument argument : block.getArguments()) {
    bool collapses = extents_.contains(argument);
    auto old = kernel_.getArgAttrOfType<AffineMapAttr>(argument.getArgNumber(), ir::names::extents);
    argument_groups_.push_back(collapses ? merged_.groups_of(argument) : Groups());
    argument_types_.push_back(collapses ? mlir::Type(collapsed_type(argument)) : argument.getType());
    argument_extents_.push_back(collapses ? collapsed_extents(argument) : old ? old.getValue() : AffineMap());
  }
  for (auto [i, value] : llvm::enumerate(block.getTerminator()->getOperands())) {
    bool collapses = extents_.contains(value);
    old_result_extents_.push_back(kernel_.getResultAttrOfType<AffineMapAttr>(i, ir::names::extents).getValue());
    result_groups_.push_back(collapses ? merged_.groups_of(value) : Groups());
    result_extents_.push_back(collapses ? collapsed_extents(value) : old_result_extents_.back());
  }
  kernel_.walk([&](tensor::EmptyOp empty) {
    if (extents_.contains(empty))
      (void)collapsed_extents(empty); // names the sizes it needs
  });
  return success();
}

void Collapser::collapse_body() {
  Block &block = kernel_.getBody().front();
  SmallVector<tensor::EmptyOp> empties;
  SmallVector<LinalgOp> ops;
  kernel_.walk([&](Operation *op) {
    if (auto empty = dyn_cast<tensor::EmptyOp>(op); empty && extents_.contains(empty))
      empties.push_back(empty);
    else if (auto linalg = dyn_cast<LinalgOp>(op))
      ops.push_back(linalg);
  });
  for (size_t i = 0; i < new_sizes_.size(); ++i)
    block.insertArgument(old_sizes_ + i, IndexType::get(context()), kernel_.getLoc());
  for (tensor::EmptyOp empty : empties)
    collapse_empty(empty);
  for (auto [i, type] : llvm::enumerate(argument_types_))
    block.getArgument(i < old_sizes_ ? i : i + new_sizes_.size()).setType(type);
  for (LinalgOp op : ops)
    collapse_op(op);
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) // extents that nothing needs any more
    if (isOpTriviallyDead(&op))
      op.erase();
}

/// The function's new type and the shapes written on it, without the sizes that nothing needs any more.
void Collapser::collapse_signature() {
  Block &block = kernel_.getBody().front();
  unsigned count = 0, all_sizes = old_sizes_ + new_sizes_.size();
  SmallVector<AffineExpr> renumbered;
  for (unsigned i = 0; i < all_sizes; ++i) {
    bool used = !block.getArgument(i).use_empty();
    for (AffineMap map : llvm::concat<AffineMap>(argument_extents_, result_extents_))
      used |= map && llvm::any_of(map.getResults(), [&](AffineExpr e) { return e.isFunctionOfDim(i); });
    kept_.push_back(used);
    renumbered.push_back(used ? getAffineDimExpr(count++, context()) : getAffineConstantExpr(0, context()));
  }
  Builder builder(context());
  auto attributes = [&](AffineMap extents) {
    if (!extents)
      return builder.getDictionaryAttr({});
    SmallVector<AffineExpr> results;
    for (AffineExpr e : extents.getResults())
      results.push_back(e.replaceDims(renumbered));
    auto map = AffineMapAttr::get(AffineMap::get(count, 0, results, context()));
    return builder.getDictionaryAttr(builder.getNamedAttr(ir::names::extents, map));
  };
  SmallVector<DictionaryAttr> argument_attributes(count, builder.getDictionaryAttr({})), result_attributes;
  for (AffineMap map : ArrayRef(argument_extents_).drop_front(old_sizes_))
    argument_attributes.push_back(attributes(map));
  for (AffineMap map : result_extents_)
    result_attributes.push_back(attributes(map));
  for (unsigned i = all_sizes; i-- > 0;)
    if (!kept_[i])
      block.eraseArgument(i);
  kernel_.setFunctionType(builder.getFunctionType(block.getArgumentTypes(), block.getTerminator()->getOperandTypes()));
  kernel_.setAllArgAttrs(argument_attributes);
  kernel_.setAllResultAttrs(result_attributes);
}

LogicalResult Collapser::run() {
  if (!merged_.changes_anything())
    return success();
  if (failed(survey()))
    return failure();
  collapse_body();
  collapse_signature();
  for (func::CallOp call : calls_)
    collapse_call(call);
  return success();
}

void Collapser::collapse_call(func::CallOp call) {
  OpBuilder builder(call);
  Location loc = call.getLoc();
  SmallVector<Value> old_sizes = llvm::to_vector(call.getOperands().take_front(old_sizes_)), operands;
  for (unsigned i = 0; i < kept_.size(); ++i) {
    if (!kept_[i])
      continue;
    if (i < old_sizes_) {
      operands.push_back(old_sizes[i]);
      continue;
    }
    Value product;
    for (AffineExpr factor : new_sizes_[i - old_sizes_].factors) {
      Value value = ir::build_size(builder, loc, factor, old_sizes);
      product = product ? arith::MulIOp::create(builder, loc, product, value).getResult() : value;
    }
    operands.push_back(product);
  }
  for (auto [i, operand] : llvm::enumerate(call.getOperands())) {
    if (i < old_sizes_)
      continue;
    mlir::Type type = kernel_.getArgumentTypes()[operands.size()];
    if (type == operand.getType())
      operands.push_back(operand);
    else if (auto weight = operand.getDefiningOp<ir::GetOp>())
      operands.push_back(ir::GetOp::create(builder, loc, type, weight.getWeightAttr()));
    else
      operands.push_back(tensor::CollapseShapeOp::create(builder, loc, type, operand, argument_groups_[i]));
  }
  auto made = func::CallOp::create(builder, loc, kernel_, operands);
  for (auto [i, result] : llvm::enumerate(call.getResults())) {
    Value value = made.getResult(i);
    if (value.getType() != result.getType()) {
      SmallVector<OpFoldResult> shape;
      auto type = cast<RankedTensorType>(result.getType());
      for (auto [axis, formula] : llvm::enumerate(old_result_extents_[i].getResults()))
        if (type.isDynamicDim(axis))
          shape.push_back(ir::build_size(builder, loc, formula, old_sizes));
        else
          shape.push_back(builder.getIndexAttr(type.getDimSize(axis)));
      value = tensor::ExpandShapeOp::create(builder, loc, type, value, result_groups_[i], shape);
    }
    result.replaceAllUsesWith(value);
  }
  call.erase();
}

struct CollapseDims : PassWrapper<CollapseDims, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(CollapseDims)
  StringRef getArgument() const override { return "collapse_dims"; }
  StringRef getDescription() const override { return "loops of a kernel that are always used together become one"; }
  void getDependentDialects(DialectRegistry &registry) const override { ir::register_dialects(registry); }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    DenseMap<StringRef, SmallVector<func::CallOp>> calls;
    for (func::CallOp call : kernel_calls_of(module))
      calls[call.getCallee()].push_back(call);
    llvm::StringMap<SmallVector<SizeRange>> sizes = kernel_sizes(module, /*expected=*/false);
    for (func::FuncOp kernel : kernels_of(module)) {
      unshare_outs(kernel);
      SmallVector<SizeRange> own = sizes.lookup(kernel.getName());
      own.resize(ir::size_count(kernel)); // of a kernel without calls, too
      if (failed(Collapser(kernel, calls[kernel.getName()], own).run()))
        return signalPassFailure();
    }
    merge_equal_kernels(module);
  }
};

} // namespace

std::unique_ptr<Pass> collapse_dims() { return std::make_unique<CollapseDims>(); }

} // namespace heddle::passes
