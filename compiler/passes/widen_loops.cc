// Computes products that need nothing a loop carries for all iterations at once, in front of the loop: the iteration
// becomes the outermost loop of the op. A recurrence is then left with what really recurs, and the rest is one large
// product.
//
// clang-format off
//                                                    %all = linalg.generic {(t, b, n, k)} ins(%x, %w) … : tensor<?x?x64xf32>
//   scf.for %t … iter_args(%h) {                     scf.for %t … iter_args(%h) {
//     %p = linalg.generic {(b, n, k)} …        →       %p = tensor.extract_slice %all[%t, 0, 0] [1, %B, 64] …
//       body: tensor.extract %x[b, %t, k]              … %p, %h …
//     … %p, %h …
// clang-format on
//
// Widened are contractions and what they read, as far as that is computed in the loop, too. Relies on import's loops:
// from 0, by 1, with constants and sizes computed in front of all loops.
#include "compiler/ir/dialect.h"
#include "compiler/passes/loop_classes.h"
#include "compiler/passes/passes.h"

#include "mlir/Dialect/Utils/StaticValueUtils.h"

namespace heddle::passes {

using namespace mlir;
using linalg::GenericOp;

namespace {

class Widener {
public:
  explicit Widener(scf::ForOp loop) : loop_(loop), builder_(loop) {}

  void run() {
    if (!isConstantIntValue(loop_.getLowerBound(), 0) || !isConstantIntValue(loop_.getStep(), 1) ||
        ir::may_end_call(loop_)) // what stands in the body is computed after its requirements
      return;
    llvm::SetVector<Operation *> wanted; // users first
    for (auto op : llvm::reverse(loop_.getBody()->getOps<GenericOp>()))
      if (work_of(op) == Work::reuse && is_free(op->getResult(0)))
        want(op, wanted);
    for (Operation &op : llvm::make_early_inc_range(*loop_.getBody()))
      if (wanted.contains(&op))
        widen(cast<GenericOp>(op));
    for (Operation *op : wanted)
      read_slice(cast<GenericOp>(op));
  }

private:
  bool is_inside(Value value) { return loop_.getRegion().isAncestor(value.getParentRegion()); }

  /// Whether a value can be computed for all iterations from what lies outside of the loop, and the iteration.
  bool is_free(Value value) {
    if (!is_inside(value))
      return true;
    if (isa<BlockArgument>(value))
      return value == loop_.getInductionVar();
    auto [known, is_new] = free_.try_emplace(value, false);
    if (!is_new)
      return known->second;
    Operation *op = value.getDefiningOp();
    bool tensor = isa<RankedTensorType>(value.getType());
    bool can = tensor ? isa<linalg::FillOp, tensor::EmptyOp>(op) || can_widen(op) : is_scalar_op(op);
    can = can && llvm::all_of(needs_of(op), [&](Value needed) {
            // An extent must not depend on the iteration.
            return is_free(needed) && (!isa<tensor::EmptyOp>(op) || !is_inside(needed));
          });
    return free_[value] = can;
  }
  static bool is_scalar_op(Operation *op) {
    return op->getNumRegions() == 0 && isPure(op) && op->getNumResults() == 1 &&
           llvm::none_of(op->getOperandTypes(), llvm::IsaPred<RankedTensorType>);
  }
  static bool can_widen(Operation *op) {
    auto generic = dyn_cast<GenericOp>(op);
    return generic && generic.hasPureTensorSemantics() && generic->getNumResults() == 1 &&
           empty_of(generic.getDpsInits()[0]);
  }

  /// The empty tensor that a result starts as, filled or not; null: it starts from something else.
  static tensor::EmptyOp empty_of(Value init) {
    if (auto fill = init.getDefiningOp<linalg::FillOp>())
      init = fill.getDpsInits()[0];
    return init.getDefiningOp<tensor::EmptyOp>();
  }

  void want(Operation *op, llvm::SetVector<Operation *> &wanted) {
    if (!wanted.insert(op))
      return;
    for (Value needed : needs_of(op))
      if (is_inside(needed) && needed.getDefiningOp<GenericOp>())
        want(needed.getDefiningOp(), wanted);
  }

  RankedTensorType widened(RankedTensorType type) {
    auto iterations = getConstantIntValue(loop_.getUpperBound());
    SmallVector<int64_t> shape{iterations ? *iterations : ShapedType::kDynamic};
    llvm::append_range(shape, type.getShape());
    return RankedTensorType::get(shape, type.getElementType());
  }

  /// A tensor of one iteration as it starts, for all iterations: an empty one, filled or not.
  Value start(Value one) {
    if (auto fill = one.getDefiningOp<linalg::FillOp>()) {
      Value into = start(fill.getDpsInits()[0]);
      return linalg::FillOp::create(builder_, fill.getLoc(), scalar(builder_, fill.getInputs()[0], {}), into)
          .getResult(0);
    }
    auto empty = one.getDefiningOp<tensor::EmptyOp>();
    SmallVector<OpFoldResult> sizes{getAsOpFoldResult(loop_.getUpperBound())};
    for (OpFoldResult size : empty.getMixedSizes()) {
      auto value = dyn_cast<Value>(size);
      sizes.push_back(value ? OpFoldResult(scalar(builder_, value, {})) : size);
    }
    return tensor::EmptyOp::create(builder_, empty.getLoc(), sizes, empty.getType().getElementType());
  }

  /// A scalar of the loop's body, computed again where the builder stands; `iteration` is the iteration's number there.
  Value scalar(OpBuilder &builder, Value value, Value iteration) {
    if (value == loop_.getInductionVar())
      return iteration;
    if (!is_inside(value))
      return value;
    IRMapping map;
    Operation *op = value.getDefiningOp();
    for (Value operand : op->getOperands())
      map.map(operand, scalar(builder, operand, iteration));
    return builder.clone(*op, map)->getResult(0);
  }

  /// The maps of an op with one more loop in front; an operand that has the iteration as its first axis takes it.
  AffineMap shifted(AffineMap map, bool has_turn) {
    MLIRContext *context = loop_.getContext();
    SmallVector<AffineExpr> results;
    if (has_turn)
      results.push_back(getAffineDimExpr(0, context));
    for (AffineExpr expr : map.getResults())
      results.push_back(expr.shiftDims(map.getNumDims(), 1));
    return AffineMap::get(map.getNumDims() + 1, 0, results, context);
  }

  void widen(GenericOp op) {
    SmallVector<Value> operands, outs;
    SmallVector<AffineMap> maps;
    for (OpOperand &operand : op->getOpOperands()) {
      bool out = op.isDpsInit(&operand);
      Value all = wide_.lookup(operand.get());
      bool shape_only = !out && is_inside(operand.get()) && !all; // an empty tensor that tells an extent
      Value value = all ? all : out || shape_only ? start(operand.get()) : operand.get();
      (out ? outs : operands).push_back(value);
      maps.push_back(shifted(op.getMatchingIndexingMap(&operand), all || out || shape_only));
    }
    SmallVector<utils::IteratorType> iterators{utils::IteratorType::parallel};
    llvm::append_range(iterators, op.getIteratorTypesArray());
    auto made = GenericOp::create(builder_, op.getLoc(), TypeRange(ValueRange(outs)), operands, outs, maps, iterators);
    IRMapping same;
    op.getRegion().cloneInto(&made.getRegion(), same);
    Block *body = made.getBlock();
    made.walk([&](linalg::IndexOp index) { index.setDim(index.getDim() + 1); });
    OpBuilder inside = OpBuilder::atBlockBegin(body);
    Value iteration = linalg::IndexOp::create(inside, op.getLoc(), 0);
    DenseMap<Value, Value> scalars;
    made.walk([&](Operation *user) {
      if (user == made)
        return;
      for (OpOperand &operand : user->getOpOperands()) {
        Value value = operand.get();
        if (!is_inside(value) || isa<RankedTensorType>(value.getType()))
          continue;
        Value &again = scalars[value];
        if (!again)
          again = scalar(inside, value, iteration);
        operand.set(again);
      }
    });
    made.walk([&](tensor::ExtractOp extract) {
      Value all = wide_.lookup(extract.getTensor());
      if (!all)
        return;
      SmallVector<Value> places{iteration};
      llvm::append_range(places, extract.getIndices());
      OpBuilder here(extract);
      extract.replaceAllUsesWith(tensor::ExtractOp::create(here, extract.getLoc(), all, places).getResult());
      extract.erase();
    });
    wide_[op->getResult(0)] = made->getResult(0);
  }

  /// Who stays in the loop reads the iteration's slice.
  void read_slice(GenericOp op) {
    Value one = op->getResult(0), all = wide_.lookup(one);
    if (!one.use_empty()) {
      OpBuilder here(op);
      auto type = cast<RankedTensorType>(one.getType());
      SmallVector<OpFoldResult> offsets{loop_.getInductionVar()}, sizes{here.getIndexAttr(1)};
      llvm::append_range(sizes, empty_of(op.getDpsInits()[0]).getMixedSizes());
      offsets.append(type.getRank(), here.getIndexAttr(0));
      SmallVector<OpFoldResult> strides(type.getRank() + 1, here.getIndexAttr(1));
      one.replaceAllUsesWith(
          tensor::ExtractSliceOp::create(here, op.getLoc(), type, all, offsets, sizes, strides).getResult());
    }
    op.erase();
  }

  scf::ForOp loop_;
  OpBuilder builder_; // in front of the loop
  DenseMap<Value, bool> free_;
  DenseMap<Value, Value> wide_; // of one iteration → of all
};

struct WidenLoops : PassWrapper<WidenLoops, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(WidenLoops)
  StringRef getArgument() const override { return "widen_loops"; }
  StringRef getDescription() const override {
    return "products of a loop that need no carried value, for all iterations at once";
  }
  void getDependentDialects(DialectRegistry &registry) const override { ir::register_dialects(registry); }

  void runOnOperation() override {
    getOperation().walk([](scf::ForOp loop) { Widener(loop).run(); }); // inner loops first
  }
};

} // namespace

std::unique_ptr<Pass> widen_loops() { return std::make_unique<WidenLoops>(); }

} // namespace heddle::passes
