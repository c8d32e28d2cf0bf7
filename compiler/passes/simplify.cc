// Reads through stages that only rearrange: a permuted or broadcast copy becomes the indexing map of its readers,
// unless it is there for a product to read along memory. A part of a state that lies in one piece is a view of it
// (tensor.extract_slice). What a body reads at its own indices is an operand, and what it does not use is not computed.
// Weights that nothing reads any more are dropped. Runs between upstream's canonicalize and cse, which do the rest.
//
//   %t = linalg.generic {(a, b) -> (b, a)} ins(%x) {yield %in}        (gone)
//   %y = linalg.generic {(i, j) -> (i, j)} ins(%t) …            →     %y = linalg.generic {(i, j) -> (j, i)} ins(%x) …
#include "compiler/ir/dialect.h"
#include "compiler/ir/shapes.h"
#include "compiler/kernels/product/product.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/unread_weights.h"

#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Tensor/Transforms/Transforms.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "llvm/ADT/StringSet.h"

namespace heddle::passes {

using namespace mlir;

namespace {

/// Where each element of a stage comes from, if the stage only copies.
struct Copy {
  Value source;
  AffineMap place; // result's index → source's index
};

std::optional<Copy> copy_of(Value value) {
  auto op = value.getDefiningOp<linalg::GenericOp>();
  if (!op || op.getNumReductionLoops() || op->getNumResults() != 1 || !llvm::hasSingleElement(*op.getBlock()))
    return std::nullopt;
  auto yielded = dyn_cast<BlockArgument>(op.getBlock()->getTerminator()->getOperand(0));
  if (!yielded || yielded.getArgNumber() >= op.getNumDpsInputs())
    return std::nullopt;
  OpOperand *source = op.getMatchingOpOperand(yielded);
  AffineMap place = op.getMatchingIndexingMap(source);
  if (!op.getMatchingIndexingMap(op.getDpsInitOperand(0)).isIdentity() || !place.isProjectedPermutation())
    return std::nullopt;
  return Copy{source->get(), place};
}

/// Whether a product would read across memory what a copy has along it: the copy has an axis in front that both factors
/// have, of which each place is a product by itself, and its source has it last.
bool serves_product(linalg::GenericOp op, AffineMap of_copy, AffineMap of_source) {
  auto product = contraction::product_of(op);
  auto chooses = [&](AffineMap map) {
    AffineExpr back = map.getNumResults() ? map.getResults().back() : AffineExpr();
    auto last = dyn_cast_if_present<AffineDimExpr>(back);
    if (!last || op.getIteratorTypesArray()[last.getPosition()] == utils::IteratorType::reduction)
      return false;
    return product->left.loops.test(last.getPosition()) && product->right.loops.test(last.getPosition());
  };
  return product && contraction::is_matrix_product(op) && chooses(of_source) && !chooses(of_copy);
}

struct ReadThroughCopy : OpRewritePattern<linalg::GenericOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(linalg::GenericOp op, PatternRewriter &rewriter) const override {
    SmallVector<AffineMap> maps = op.getIndexingMapsArray();
    for (OpOperand *operand : op.getDpsInputOperands()) {
      auto copy = copy_of(operand->get());
      if (!copy)
        continue;
      unsigned number = operand->getOperandNumber();
      AffineMap old = maps[number];
      maps[number] = copy->place.compose(old);
      // Another operand must still say how far each loop goes.
      bool covered = true;
      for (unsigned loop = 0; loop < op.getNumLoops(); ++loop)
        covered &= llvm::any_of(maps, [&](AffineMap map) { return map.isFunctionOfDim(loop); });
      if (!covered || serves_product(op, old, maps[number])) {
        maps[number] = old;
        continue;
      }
      rewriter.modifyOpInPlace(op, [&] {
        operand->set(copy->source);
        op.setIndexingMapsAttr(rewriter.getAffineMapArrayAttr(maps));
      });
      return success();
    }
    return failure();
  }
};

struct ExtractThroughCopy : OpRewritePattern<tensor::ExtractOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(tensor::ExtractOp op, PatternRewriter &rewriter) const override {
    auto copy = copy_of(op.getTensor());
    if (!copy)
      return failure();
    SmallVector<Value> places;
    for (AffineExpr at : copy->place.getResults())
      places.push_back(op.getIndices()[cast<AffineDimExpr>(at).getPosition()]);
    rewriter.replaceOpWithNewOp<tensor::ExtractOp>(op, copy->source, places);
    return success();
  }
};

/// A stage with a loop of no iterations, or whose iterations change nothing, is the value that it starts with, wherever
/// it has elements: Halide has no code for buffers without room, and takes an infinite start for the result of a real
/// reduction.
struct NoTurns : OpRewritePattern<linalg::GenericOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(linalg::GenericOp op, PatternRewriter &rewriter) const override {
    bool constant =
        op.getNumDpsInputs() == 0 && op.getNumReductionLoops() == 0 && op.getBlock()->getOperations().size() == 1;
    bool keeps = op.getNumReductionLoops() &&
                 llvm::equal(op.getBlock()->getTerminator()->getOperands(), op.getRegionOutputArgs());
    if (constant || !(keeps || llvm::is_contained(op.getStaticLoopRanges(), 0)))
      return failure();
    SmallVector<Value> starts, empties;
    for (Value init : op.getDpsInits()) {
      auto fill = init.getDefiningOp<linalg::FillOp>();
      Value empty = fill ? fill.getDpsInits()[0] : init;
      if (!empty.getDefiningOp<tensor::EmptyOp>())
        return failure();
      Type element = getElementTypeOrSelf(init.getType());
      starts.push_back(fill ? fill.getInputs()[0]
                            : arith::ConstantOp::create(rewriter, op.getLoc(), rewriter.getZeroAttr(element)));
      empties.push_back(empty);
    }
    SmallVector<Value> results;
    for (auto [start, empty] : llvm::zip_equal(starts, empties)) {
      int64_t rank = cast<RankedTensorType>(empty.getType()).getRank();
      AffineMap identity = rewriter.getMultiDimIdentityMap(rank);
      SmallVector<utils::IteratorType> loops(rank, utils::IteratorType::parallel);
      results.push_back(linalg::GenericOp::create(rewriter, op.getLoc(), TypeRange{empty.getType()}, ValueRange{},
                                                  ValueRange{empty}, ArrayRef<AffineMap>{identity}, loops,
                                                  [value = start](OpBuilder &body, Location loc, ValueRange) {
                                                    linalg::YieldOp::create(body, loc, value);
                                                  })
                            .getResult(0));
    }
    rewriter.replaceOp(op, results);
    return success();
  }
};

/// `x = s[l]` of a state s, l a number: a view of the state's bytes instead of a copy.
struct SliceOfState : OpRewritePattern<linalg::GenericOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(linalg::GenericOp op, PatternRewriter &rewriter) const override {
    if (op.getNumReductionLoops() || op.getNumDpsInputs() || op.getNumDpsInits() != 1 ||
        !op.getMatchingIndexingMap(op.getDpsInitOperand(0)).isIdentity() || op.getNumLoops() == 0)
      return failure();
    auto read = op.getBlock()->getTerminator()->getOperand(0).getDefiningOp<tensor::ExtractOp>();
    auto empty = op.getDpsInits()[0].getDefiningOp<tensor::EmptyOp>();
    if (!read || !empty || !read.getTensor().getDefiningOp<ir::ReadOp>())
      return failure();
    auto type = cast<RankedTensorType>(read.getTensor().getType());
    int64_t fixed = type.getRank() - op.getNumLoops();
    auto whole = ir::extent_formulas(read.getTensor()), part = ir::extent_formulas(op->getResult(0));
    if (fixed <= 0 || failed(whole) || failed(part))
      return failure();
    SmallVector<OpFoldResult> offsets, sizes(fixed, rewriter.getIndexAttr(1));
    for (auto [axis, place] : llvm::enumerate(read.getIndices())) {
      APInt number;
      auto index = place.getDefiningOp<linalg::IndexOp>();
      if (int64_t(axis) < fixed
              ? !matchPattern(place, m_ConstantInt(&number))
              : !index || int64_t(index.getDim() + fixed) != int64_t(axis) || (*whole)[axis] != (*part)[axis - fixed])
        return failure();
      offsets.push_back(rewriter.getIndexAttr(int64_t(axis) < fixed ? number.getSExtValue() : 0));
    }
    sizes.append(empty.getMixedSizes());
    SmallVector<OpFoldResult> strides(type.getRank(), rewriter.getIndexAttr(1));
    rewriter.replaceOpWithNewOp<tensor::ExtractSliceOp>(op, cast<RankedTensorType>(op->getResult(0).getType()),
                                                        read.getTensor(), offsets, sizes, strides);
    return success();
  }
};

/// `s[l, i, j]` of a state s, l a number, in a body: an element of a view.
struct ElementOfState : OpRewritePattern<tensor::ExtractOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(tensor::ExtractOp read, PatternRewriter &rewriter) const override {
    auto state = read.getTensor().getDefiningOp<ir::ReadOp>();
    auto body = read->getParentOfType<linalg::GenericOp>();
    auto extents = state ? ir::extent_formulas(state) : FailureOr<SmallVector<AffineExpr>>();
    if (!body || failed(extents) || body.getBlock()->getTerminator()->getOperand(0) == read) // a copy: SliceOfState
      return failure();
    auto type = cast<RankedTensorType>(state.getType());
    if (llvm::is_contained(type.getShape(), 0)) // no place in it is one of a view
      return failure();
    SmallVector<OpFoldResult> offsets, sizes, strides(type.getRank(), rewriter.getIndexAttr(1));
    SmallVector<Value> inner(read.getIndices());
    APInt number;
    while (inner.size() > 1 && matchPattern(inner.front(), m_ConstantInt(&number))) {
      offsets.push_back(rewriter.getIndexAttr(number.getSExtValue()));
      inner.erase(inner.begin());
    }
    if (offsets.empty())
      return failure();
    sizes.assign(offsets.size(), rewriter.getIndexAttr(1));
    offsets.append(inner.size(), rewriter.getIndexAttr(0));
    auto entry = read->getParentOfType<func::FuncOp>();
    rewriter.setInsertionPoint(body);
    for (AffineExpr extent : ArrayRef(*extents).take_back(inner.size())) {
      auto constant = dyn_cast<AffineConstantExpr>(extent);
      sizes.push_back(constant ? OpFoldResult(rewriter.getIndexAttr(constant.getValue()))
                               : OpFoldResult(ir::build_formula(rewriter, read.getLoc(), extent, entry)));
    }
    auto part = RankedTensorType::get(type.getShape().take_back(inner.size()), type.getElementType());
    Value view = tensor::ExtractSliceOp::create(rewriter, read.getLoc(), part, state, offsets, sizes, strides);
    rewriter.setInsertionPoint(read);
    rewriter.replaceOpWithNewOp<tensor::ExtractOp>(read, view, inner);
    return success();
  }
};

/// What a body reads at its own plain indices is an operand.
struct ReadAsOperand : OpRewritePattern<linalg::GenericOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(linalg::GenericOp op, PatternRewriter &rewriter) const override {
    SmallVector<int64_t> extents = op.getStaticLoopRanges();
    SmallVector<unsigned> loops;
    auto is_plain = [&](tensor::ExtractOp read) {
      auto type = cast<RankedTensorType>(read.getTensor().getType());
      loops.clear();
      for (auto [axis, place] : llvm::enumerate(read.getIndices())) {
        auto index = place.getDefiningOp<linalg::IndexOp>();
        if (!index || llvm::is_contained(loops, unsigned(index.getDim())) || type.isDynamicDim(unsigned(axis)) ||
            type.getDimSize(unsigned(axis)) != extents[index.getDim()])
          return false;
        loops.push_back(unsigned(index.getDim()));
      }
      return !loops.empty() && !op.getRegion().isAncestor(read.getTensor().getParentRegion());
    };
    for (auto read : op.getBlock()->getOps<tensor::ExtractOp>()) {
      if (!is_plain(read))
        continue;
      SmallVector<AffineMap> maps = op.getIndexingMapsArray();
      SmallVector<AffineExpr> places;
      for (unsigned loop : loops)
        places.push_back(rewriter.getAffineDimExpr(loop));
      unsigned number = unsigned(op.getNumDpsInputs());
      maps.insert(maps.begin() + number, AffineMap::get(op.getNumLoops(), 0, places, getContext()));
      SmallVector<Value> inputs(op.getInputs());
      inputs.push_back(read.getTensor());
      auto made = linalg::GenericOp::create(rewriter, op.getLoc(), op->getResultTypes(), inputs, op.getOutputs(), maps,
                                            op.getIteratorTypesArray());
      BlockArgument element = op.getBlock()->insertArgument(number, read.getType(), read.getLoc());
      rewriter.replaceOp(read, element);
      rewriter.inlineRegionBefore(op.getRegion(), made.getRegion(), made.getRegion().end());
      rewriter.replaceOp(op, made->getResults());
      return success();
    }
    return failure();
  }
};

/// What every element of a stage is; null: they differ, or nobody can say.
TypedAttr constant_of(Value tensor) {
  auto maker = tensor.getDefiningOp<linalg::GenericOp>();
  TypedAttr constant;
  if (maker && !maker.getNumReductionLoops())
    matchPattern(maker.getBlock()->getTerminator()->getOperand(cast<OpResult>(tensor).getResultNumber()),
                 m_Constant(&constant));
  return constant;
}

/// What reads a stage of one constant computes with the constant.
struct ConstantOperand : OpRewritePattern<linalg::GenericOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(linalg::GenericOp op, PatternRewriter &rewriter) const override {
    for (OpOperand *operand : op.getDpsInputOperands()) {
      BlockArgument element = op.getMatchingBlockArgument(operand);
      TypedAttr constant = element.use_empty() ? TypedAttr() : constant_of(operand->get());
      if (!constant)
        continue;
      rewriter.setInsertionPoint(op);
      Value value = arith::ConstantOp::create(rewriter, op.getLoc(), constant);
      rewriter.modifyOpInPlace(op, [&] { element.replaceAllUsesWith(value); });
      return success();
    }
    return failure();
  }
};

/// The same for what reads one element of it, wherever that is.
struct ConstantElement : OpRewritePattern<tensor::ExtractOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(tensor::ExtractOp op, PatternRewriter &rewriter) const override {
    TypedAttr constant = constant_of(op.getTensor());
    if (!constant)
      return failure();
    rewriter.replaceOpWithNewOp<arith::ConstantOp>(op, constant);
    return success();
  }
};

/// An operand whose elements the body does not use only says how far loops go: an empty tensor does, and nothing is
/// computed for it.
struct UnusedOperand : OpRewritePattern<linalg::GenericOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(linalg::GenericOp op, PatternRewriter &rewriter) const override {
    for (OpOperand *operand : op.getDpsInputOperands()) {
      Value value = operand->get();
      if (op.payloadUsesValueFromOperand(operand) || !value.getDefiningOp<linalg::LinalgOp>())
        continue;
      while (auto maker = value.getDefiningOp<linalg::LinalgOp>())
        value = maker.getDpsInits()[cast<OpResult>(value).getResultNumber()];
      if (!value.getDefiningOp<tensor::EmptyOp>())
        continue;
      rewriter.modifyOpInPlace(op, [&] { operand->set(value); });
      return success();
    }
    return failure();
  }
};

/// A view of a weight is the weight in that shape.
template <class Reshape> struct ReshapedWeight : OpRewritePattern<Reshape> {
  using OpRewritePattern<Reshape>::OpRewritePattern;

  LogicalResult matchAndRewrite(Reshape op, PatternRewriter &rewriter) const override {
    auto get = op.getSrc().template getDefiningOp<ir::GetOp>();
    if (!get)
      return failure();
    rewriter.replaceOpWithNewOp<ir::GetOp>(op, op.getResult().getType(), get.getWeight());
    return success();
  }
};

/// An empty tensor in another shape is one of that shape.
struct ReshapedEmpty : OpRewritePattern<tensor::ExpandShapeOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(tensor::ExpandShapeOp op, PatternRewriter &rewriter) const override {
    if (!op.getSrc().getDefiningOp<tensor::EmptyOp>())
      return failure();
    rewriter.replaceOpWithNewOp<tensor::EmptyOp>(op, op.getMixedOutputShape(), op.getType().getElementType());
    return success();
  }
};

/// An extent that MLIR has asked a tensor for is the formula that the tensor was built with.
struct ExtentOfTensor : OpRewritePattern<tensor::DimOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(tensor::DimOp op, PatternRewriter &rewriter) const override {
    auto extents = ir::extent_formulas(op.getSource());
    std::optional<int64_t> axis = op.getConstantIndex();
    if (failed(extents) || !axis)
      return failure();
    rewriter.replaceOp(op, ir::build_formula(rewriter, op.getLoc(), (*extents)[size_t(*axis)], ir::scope_of(op)));
    return success();
  }
};

/// Whether an element-wise op reads a product in another shape, and nothing else does: what it computes is an epilogue
/// of the product in the product's own shape.
bool is_epilogue_behind_reshape(OpOperand *operand) {
  auto op = dyn_cast<linalg::GenericOp>(operand->getOwner());
  auto reshape = operand->get().getDefiningOp<tensor::CollapseShapeOp>();
  auto product = reshape ? reshape.getSrc().getDefiningOp<linalg::LinalgOp>() : linalg::LinalgOp();
  if (!op || !product || op.getNumReductionLoops() > 0 || op->getNumResults() != 1 || !reshape->hasOneUse() ||
      !reshape.getSrc().hasOneUse())
    return false;
  // What a body computes from its indices it computes from those of the product's axes, where their extents are known.
  bool known = true;
  for (ArrayRef<int64_t> axes : reshape.getReassociationIndices())
    for (int64_t axis : axes.drop_front())
      known &= !reshape.getSrcType().isDynamicDim(unsigned(axis));
  return known || (!op.hasIndexSemantics() && op.getBlock()->getOps<tensor::ExtractOp>().empty());
}

struct Simplify : PassWrapper<Simplify, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(Simplify)
  StringRef getArgument() const override { return "simplify"; }
  StringRef getDescription() const override { return "read through copies, drop weights that nothing reads"; }

  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<ReadThroughCopy, ExtractThroughCopy, NoTurns, SliceOfState, ElementOfState, ReadAsOperand,
                 ConstantOperand, ConstantElement, UnusedOperand, ReshapedWeight<tensor::CollapseShapeOp>,
                 ReshapedWeight<tensor::ExpandShapeOp>, ReshapedEmpty, ExtentOfTensor>(&getContext());
    linalg::populateFoldReshapeOpsByExpansionPatterns(patterns, is_epilogue_behind_reshape);
    tensor::populateReassociativeReshapeFoldingPatterns(patterns);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns)))) {
      getOperation().emitError("simplify: the rewrites do not come to an end");
      return signalPassFailure();
    }
    erase_unread_weights(getOperation());
  }
};

} // namespace

void erase_unread_weights(ModuleOp module) {
  llvm::StringSet<> read;
  for (ir::WeightOp weight : ir::packed_weights(module))
    read.insert(weight.getSymName());
  auto weights = llvm::to_vector(module.getOps<ir::WeightOp>());
  for (ir::WeightOp weight : llvm::reverse(weights)) // what is computed stands behind what it is made of
    if (!read.contains(weight.getSymName()))
      weight.erase();
    else if (auto computed = weight.getComputed())
      for (FlatSymbolRefAttr of : computed->getOf())
        read.insert(of.getValue());
}

std::unique_ptr<Pass> simplify() { return std::make_unique<Simplify>(); }

} // namespace heddle::passes
