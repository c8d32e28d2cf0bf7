// Where the greatest (or least) of a row is, is found in two reductions instead of one that keeps a value and its
// place: what it is, and the first place that has it. Each is computed in lanes along the row, where of two lanes with
// the same value neither knows whose place comes first.
//
//   %best, %place = reduction {value > best ? (value, n) : (best, place)} of row
// →
//   %best  = reduction {max(best, value)} of row
//   %first = reduction {min(first, value == best ? n : none)} of row, %best
//   %place = %first == none ? 0 : %first                          (a row of nothing, or of NaN)
//
// Lanes along the result, as for the best of several rows at each place, have a value and a place each as it is; and
// rows of a few elements, such as the scores of experts, fill no lanes.
#include "compiler/ir/dialect.h"
#include "compiler/kernels/rows.h"
#include "compiler/passes/passes.h"

#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace heddle::passes {

using namespace mlir;

namespace {

/// Elements of a row that are compared one by one as fast.
constexpr int64_t few = 16;

/// No place in a row.
constexpr int32_t none = INT32_MAX;

/// What the body of an argmax or argmin compares.
struct Position {
  Value value;
  bool greatest;
  int64_t loop; // the reduction's
};

std::optional<Position> position_of(linalg::GenericOp op) {
  if (op.getNumDpsInits() != 2 || op.getNumReductionLoops() != 1 || !op->getResult(0).use_empty())
    return std::nullopt;
  Operation *yield = op.getBody()->getTerminator();
  auto best = yield->getOperand(0).getDefiningOp<arith::SelectOp>();
  auto place = yield->getOperand(1).getDefiningOp<arith::SelectOp>();
  if (!best || !place || best.getCondition() != place.getCondition() ||
      best.getFalseValue() != op.getRegionOutputArgs()[0] || place.getFalseValue() != op.getRegionOutputArgs()[1])
    return std::nullopt;
  auto cast = place.getTrueValue().getDefiningOp<arith::IndexCastOp>();
  auto index = cast ? cast.getIn().getDefiningOp<linalg::IndexOp>() : linalg::IndexOp();
  if (!index || op.getIteratorTypesArray()[index.getDim()] != utils::IteratorType::reduction)
    return std::nullopt;
  Operation *better = best.getCondition().getDefiningOp();
  if (!better || better->getNumOperands() != 2 || better->getOperand(0) != best.getTrueValue() ||
      better->getOperand(1) != best.getFalseValue())
    return std::nullopt;
  if (auto real = dyn_cast<arith::CmpFOp>(better)) {
    bool greatest = real.getPredicate() == arith::CmpFPredicate::OGT;
    if (greatest || real.getPredicate() == arith::CmpFPredicate::OLT)
      return Position{best.getTrueValue(), greatest, int64_t(index.getDim())};
  } else if (auto whole = dyn_cast<arith::CmpIOp>(better)) {
    bool greatest = whole.getPredicate() == arith::CmpIPredicate::sgt;
    if (greatest || whole.getPredicate() == arith::CmpIPredicate::slt)
      return Position{best.getTrueValue(), greatest, int64_t(index.getDim())};
  }
  return std::nullopt;
}

bool is_short(linalg::GenericOp op, const Position &position) {
  int64_t extent = op.getStaticLoopRanges()[position.loop];
  return !ShapedType::isDynamic(extent) && extent <= few;
}

class Splitter {
public:
  Splitter(linalg::GenericOp op, const Position &position)
      : op_(op), position_(position), builder_(op), loc_(op.getLoc()) {}

  void run() {
    AffineMap kept = op_.getMatchingIndexingMap(op_.getDpsInitOperand(1));
    SmallVector<Value> inputs = op_.getDpsInputs();
    SmallVector<AffineMap> maps(op_.getIndexingMapsArray());
    maps.truncate(inputs.size());
    maps.push_back(kept);
    Value best = reduction(inputs, maps, op_.getDpsInits()[0], [&](OpBuilder &body, Value value, ValueRange kept) {
      return extreme(body, kept.back(), value);
    });
    Value empty = op_.getDpsInits()[1];
    while (auto fill = empty.getDefiningOp<linalg::FillOp>())
      empty = fill.getOutputs()[0];
    Value nowhere = arith::ConstantIntOp::create(builder_, loc_, none, 32);
    Value begin = linalg::FillOp::create(builder_, loc_, nowhere, empty).getResult(0);
    inputs.push_back(best);
    maps.push_back(kept);
    Value first = reduction(inputs, maps, begin, [&](OpBuilder &body, Value value, ValueRange kept) -> Value {
      Value here = linalg::IndexOp::create(body, loc_, position_.loop);
      here = arith::IndexCastOp::create(body, loc_, body.getI32Type(), here);
      Value at = arith::SelectOp::create(body, loc_, equal(body, value, kept.front()), here, nowhere);
      return arith::MinSIOp::create(body, loc_, kept.back(), at);
    });
    int64_t rank = cast<RankedTensorType>(first.getType()).getRank();
    AffineMap each = builder_.getMultiDimIdentityMap(unsigned(rank));
    SmallVector<utils::IteratorType> parallel(rank, utils::IteratorType::parallel);
    Value place = linalg::GenericOp::create(
                      builder_, loc_, first.getType(), first, empty, ArrayRef<AffineMap>{each, each}, parallel,
                      [&](OpBuilder &body, Location loc, ValueRange arguments) {
                        Value is_none =
                            arith::CmpIOp::create(body, loc, arith::CmpIPredicate::eq, arguments[0], nowhere);
                        Value zero = arith::ConstantIntOp::create(body, loc, 0, 32);
                        Value at = arith::SelectOp::create(body, loc, is_none, zero, arguments[0]);
                        linalg::YieldOp::create(body, loc, at);
                      })
                      .getResult(0);
    op_->getResult(1).replaceAllUsesWith(place);
    op_->erase();
  }

private:
  /// `combine` is given the value that is compared, and behind it what else the body is given: what is found so far,
  /// and before it an operand that the op itself has not.
  template <class Combine>
  Value reduction(ArrayRef<Value> inputs, ArrayRef<AffineMap> maps, Value init, Combine combine) {
    return linalg::GenericOp::create(builder_, loc_, init.getType(), inputs, init, maps, op_.getIteratorTypesArray(),
                                     [&](OpBuilder &body, Location loc, ValueRange arguments) {
                                       IRMapping map;
                                       size_t own = op_.getNumDpsInputs();
                                       map.map(op_.getRegionInputArgs(), arguments.take_front(own));
                                       Value combined = combine(body, value(body, map), arguments.drop_front(own));
                                       linalg::YieldOp::create(body, loc, combined);
                                     })
        .getResult(0);
  }

  /// The value that is compared, again.
  Value value(OpBuilder &body, IRMapping &map) {
    BackwardSliceOptions within;
    within.filter = [&](Operation *made) { return made->getBlock() == op_.getBody(); };
    within.inclusive = within.omitBlockArguments = true;
    within.omitUsesFromAbove = false;
    llvm::SetVector<Operation *> needed; // operands first
    (void)getBackwardSlice(position_.value, &needed, within);
    for (Operation *made : needed)
      body.clone(*made, map);
    return map.lookupOrDefault(position_.value);
  }

  /// NaN is neither greatest nor least.
  Value extreme(OpBuilder &body, Value so_far, Value value) {
    if (isa<FloatType>(value.getType()))
      return position_.greatest ? arith::MaxNumFOp::create(body, loc_, so_far, value).getResult()
                                : arith::MinNumFOp::create(body, loc_, so_far, value).getResult();
    return position_.greatest ? arith::MaxSIOp::create(body, loc_, so_far, value).getResult()
                              : arith::MinSIOp::create(body, loc_, so_far, value).getResult();
  }

  Value equal(OpBuilder &body, Value a, Value b) {
    return isa<FloatType>(a.getType()) ? arith::CmpFOp::create(body, loc_, arith::CmpFPredicate::OEQ, a, b).getResult()
                                       : arith::CmpIOp::create(body, loc_, arith::CmpIPredicate::eq, a, b).getResult();
  }

  linalg::GenericOp op_;
  const Position &position_;
  OpBuilder builder_;
  Location loc_;
};

struct SplitPositions : PassWrapper<SplitPositions, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(SplitPositions)
  StringRef getArgument() const override { return "split_positions"; }
  StringRef getDescription() const override {
    return "where the greatest of a row is: what it is, and the first place that has it";
  }
  void getDependentDialects(DialectRegistry &registry) const override { ir::register_dialects(registry); }

  void runOnOperation() override {
    SmallVector<linalg::GenericOp> ops;
    getOperation().walk([&](linalg::GenericOp op) { ops.push_back(op); });
    for (linalg::GenericOp op : ops)
      if (auto position = position_of(op); position && !rows::reduces_across(op) && !is_short(op, *position))
        Splitter(op, *position).run();
  }
};

} // namespace

std::unique_ptr<Pass> split_positions() { return std::make_unique<SplitPositions>(); }

} // namespace heddle::passes
