// A state that slides holds the last rows of something: each call drops rows at its front and appends as many at its
// end. Written as a new value it would be read and written as a whole in every call. Here the update becomes what is
// appended, and the state is marked: the runtime moves its place in memory on (runtime/slide.c), so that a call costs
// the rows that are new.
//
// clang-format off
//   %new = linalg.generic {m + S < M ? old[m + S, …] : rows[m + S - M, …]}    →    heddle.update @s, %rows at [%l, …] sliding
//   heddle.update @s, %new at [%l, …]                                              heddle.state @s … slides 1
// clang-format on
//
// Every update of the state in every entry must be of that form, by as many rows at all places of the other axes.
#include "compiler/ir/dialect.h"
#include "compiler/ir/shapes.h"
#include "compiler/passes/passes.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SetVector.h"

namespace heddle::passes {

using namespace mlir;

namespace {

/// One update that slides: what is appended, by whom it was computed, and how many rows it has.
struct Slide {
  ir::UpdateOp update;
  linalg::GenericOp old;   // computes the whole new value
  Value fresh;             // in its body: an element of what is appended
  SmallVector<int64_t> at; // the places along the first axes of the state
  unsigned along = 0;      // the loop that slides
  AffineExpr count;
};

/// Index arithmetic of a body: dims are the module's, symbols the loops.
class Lines {
public:
  Lines(linalg::GenericOp op, unsigned dims) : op_(op), dims_(dims) {}

  AffineExpr of(Value value) const {
    if (auto cast = value.getDefiningOp<arith::IndexCastOp>())
      return of(cast.getIn());
    if (auto index = value.getDefiningOp<linalg::IndexOp>())
      return loop(unsigned(index.getDim()));
    IntegerAttr constant;
    if (matchPattern(value, m_Constant(&constant)))
      return getAffineConstantExpr(constant.getInt(), op_.getContext());
    Operation *maker = value.getDefiningOp();
    if (!maker || !op_->isAncestor(maker))
      return isa<IndexType>(value.getType()) ? ir::size_formula(value) : AffineExpr();
    SmallVector<AffineExpr> from;
    for (Value operand : maker->getOperands()) {
      from.push_back(of(operand));
      if (!from.back())
        return {};
    }
    if (auto apply = dyn_cast<affine::AffineApplyOp>(maker)) {
      AffineMap map = apply.getAffineMap();
      ArrayRef<AffineExpr> all(from);
      return simple(
          map.getResult(0).replaceDimsAndSymbols(all.take_front(map.getNumDims()), all.drop_front(map.getNumDims())));
    }
    return isa<arith::AddIOp>(maker)   ? simple(from[0] + from[1])
           : isa<arith::SubIOp>(maker) ? simple(from[0] - from[1])
                                       : AffineExpr();
  }

  /// The place that is read along an axis of `extent`, without a clamp to the axis: that changes nothing where the
  /// language lets the read count.
  AffineExpr place(Value value, AffineExpr extent) const {
    auto most = value.getDefiningOp<arith::MaxSIOp>();
    auto least = most ? most.getLhs().getDefiningOp<arith::MinSIOp>() : arith::MinSIOp();
    if (!least || !matchPattern(most.getRhs(), m_Zero()) || of(least.getRhs()) != simple(extent - 1))
      return of(value);
    return of(least.getLhs());
  }

  AffineExpr loop(unsigned number) const { return getAffineSymbolExpr(number, op_.getContext()); }
  AffineExpr simple(AffineExpr e) const { return simplifyAffineExpr(e, dims_, op_.getNumLoops()); }

private:
  mutable linalg::GenericOp op_; // MLIR's op handles are not const-correct
  unsigned dims_;
};

/// `e < 0` for a comparison.
AffineExpr below_zero(arith::CmpIOp test, const Lines &lines) {
  AffineExpr left = lines.of(test.getLhs()), right = lines.of(test.getRhs());
  if (!left || !right)
    return {};
  switch (test.getPredicate()) {
  case arith::CmpIPredicate::slt:
    return lines.simple(left - right);
  case arith::CmpIPredicate::sle:
    return lines.simple(left - right - 1);
  case arith::CmpIPredicate::sgt:
    return lines.simple(right - left);
  case arith::CmpIPredicate::sge:
    return lines.simple(right - left - 1);
  default:
    return {};
  }
}

/// Whether the tensor is the part of the state at these places, or all of it where there are none.
bool is_part(Value tensor, StringRef state, ArrayRef<int64_t> at) {
  auto slice = tensor.getDefiningOp<tensor::ExtractSliceOp>();
  auto read = (slice ? slice.getSource() : tensor).getDefiningOp<ir::ReadOp>();
  if (!read || read.getState() != state || bool(slice) == at.empty())
    return false;
  for (auto [axis, place] : llvm::enumerate(at))
    if (slice.getStaticOffsets()[axis] != place)
      return false;
  return true;
}

/// A size that no dims make negative.
bool is_natural(AffineExpr e) {
  if (auto constant = dyn_cast<AffineConstantExpr>(e))
    return constant.getValue() >= 0;
  auto both = dyn_cast<AffineBinaryOpExpr>(e);
  return isa<AffineDimExpr>(e) || (both && (e.getKind() == AffineExprKind::Add || e.getKind() == AffineExprKind::Mul) &&
                                   is_natural(both.getLHS()) && is_natural(both.getRHS()));
}

/// The ops of a body that a value in it needs, in order.
SmallVector<Operation *> needed_for(Value value, Block *body) {
  llvm::SetVector<Operation *> out;
  std::function<void(Value)> need = [&](Value operand) {
    Operation *maker = operand.getDefiningOp();
    if (!maker || maker->getBlock() != body || out.contains(maker))
      return;
    for (Value own : maker->getOperands())
      need(own);
    out.insert(maker);
  };
  need(value);
  return out.takeVector();
}

/// Whether what is kept comes from `count` rows on, and what is appended begins at its own first row.
bool moves(Slide &slide, tensor::ExtractOp kept, ArrayRef<AffineExpr> extents, const Lines &lines) {
  AffineExpr row = lines.loop(slide.along), rows = extents[slide.along];
  for (auto [axis, index] : llvm::enumerate(kept.getIndices())) {
    AffineExpr from = lines.loop(unsigned(axis)), place = lines.place(index, extents[axis]);
    if (!place || lines.simple(place - (axis == slide.along ? from + slide.count : from)) != 0)
      return false;
  }
  for (Operation *op : needed_for(slide.fresh, slide.old.getBlock()))
    if (auto read = dyn_cast<tensor::ExtractOp>(op)) {
      auto from = ir::extent_formulas(read.getTensor());
      for (auto [axis, index] : llvm::enumerate(read.getIndices())) {
        AffineExpr place = succeeded(from) ? lines.place(index, (*from)[axis]) : AffineExpr();
        if (!place || (place.isFunctionOfSymbol(slide.along) && lines.simple(place - row - slide.count + rows) != 0))
          return false;
      }
    }
  return true;
}

std::optional<Slide> slide_of(ir::UpdateOp update, ir::StateOp state) {
  Slide out;
  out.update = update;
  out.old = update.getValue().getDefiningOp<linalg::GenericOp>();
  auto type = cast<RankedTensorType>(state.getType());
  if (!out.old || !out.old->hasOneUse() || out.old->getNumResults() != 1 || out.old.getNumDpsInputs() ||
      out.old.getNumReductionLoops() || out.old.getNumLoops() == 0 || !isa<func::FuncOp>(update->getParentOp()) ||
      !out.old.getMatchingIndexingMap(out.old.getDpsInitOperand(0)).isIdentity())
    return std::nullopt;
  unsigned before = unsigned(type.getRank()) - out.old.getNumLoops(); // axes at one place each
  if (auto axes = update.getAxes(); axes && (*axes)[0] != int64_t(before))
    return std::nullopt; // then the others follow in order
  for (auto [axis, offset] : llvm::enumerate(update.getOffsets())) {
    APInt place;
    if (!matchPattern(offset, m_ConstantInt(&place)) || (axis >= before && !place.isZero()))
      return std::nullopt;
    if (axis < before)
      out.at.push_back(place.getSExtValue());
  }
  ArrayRef<AffineExpr> extents = state.getExtents().getResults();
  auto own = ir::extent_formulas(update.getValue());
  if (failed(own) || out.at.size() != before || extents.drop_front(before) != ArrayRef<AffineExpr>(*own) ||
      llvm::is_contained(*own, getAffineConstantExpr(0, state.getContext()))) // nothing is proven to be there
    return std::nullopt;

  Lines lines(out.old, state.getExtents().getNumDims());
  auto choice = out.old.getBlock()->getTerminator()->getOperand(0).getDefiningOp<arith::SelectOp>();
  auto test = choice ? choice.getCondition().getDefiningOp<arith::CmpIOp>() : arith::CmpIOp();
  AffineExpr condition = test ? below_zero(test, lines) : AffineExpr();
  if (!condition)
    return std::nullopt;
  for (out.along = 0; out.along < out.old.getNumLoops(); ++out.along) {
    AffineExpr row = lines.loop(out.along), rows = (*own)[out.along];
    for (bool kept_first : {true, false}) { // row + count < rows, or its opposite
      out.count = lines.simple(kept_first ? condition - row + rows : rows - row - condition - 1);
      out.fresh = kept_first ? choice.getFalseValue() : choice.getTrueValue();
      auto kept = (kept_first ? choice.getTrueValue() : choice.getFalseValue()).getDefiningOp<tensor::ExtractOp>();
      if (kept && is_natural(out.count) && is_part(kept.getTensor(), state.getSymName(), out.at) &&
          moves(out, kept, *own, lines))
        return out;
    }
  }
  return std::nullopt;
}

class StateSlider {
public:
  StateSlider(ModuleOp module, ir::StateOp state) : module_(module), state_(state) {}

  void run() {
    if (!find_slides())
      return;
    for (Slide &slide : slides_)
      append(slide);
    state_.setSlides(axis_of(slides_.front()));
  }

private:
  static int64_t axis_of(const Slide &slide) { return int64_t(slide.at.size()) + slide.along; }

  /// Whether every entry that updates the state lets all of it slide by the same number of rows.
  bool find_slides() {
    bool all = true;
    module_.walk([&](ir::UpdateOp update) {
      if (update.getState() != state_.getSymName())
        return;
      auto slide = slide_of(update, state_);
      all &= bool(slide);
      if (slide)
        slides_.push_back(*slide);
    });
    if (!all || slides_.empty())
      return false;
    llvm::MapVector<Operation *, SmallVector<const Slide *>> by_entry;
    for (const Slide &slide : slides_)
      by_entry[slide.update->getParentOp()].push_back(&slide);
    size_t before = slides_.front().at.size();
    int64_t parts = 1;
    for (AffineExpr extent : state_.getExtents().getResults().take_front(before)) {
      auto constant = dyn_cast<AffineConstantExpr>(extent);
      if (!constant)
        return false;
      parts *= constant.getValue();
    }
    for (auto &[entry, slides] : by_entry) // updates do not overlap: it is enough to count
      if (int64_t(slides.size()) != parts || llvm::any_of(slides, [&](const Slide *slide) {
            return slide->at.size() != before || axis_of(*slide) != axis_of(slides_.front()) ||
                   slide->count != slides.front()->count;
          }))
        return false;
    return true;
  }

  /// The rows that are new, as a tensor of their own, take the place of the value.
  void append(Slide &slide) {
    OpBuilder builder(slide.update);
    Location loc = slide.old.getLoc();
    auto entry = cast<func::FuncOp>(slide.update->getParentOp());
    auto whole = cast<RankedTensorType>(slide.update.getValue().getType());
    SmallVector<AffineExpr> extents(state_.getExtents().getResults().drop_front(slide.at.size()));
    extents[slide.along] = slide.count;
    SmallVector<Value> sizes;
    SmallVector<int64_t> shape;
    for (AffineExpr extent : extents) {
      auto constant = dyn_cast<AffineConstantExpr>(extent);
      shape.push_back(constant ? constant.getValue() : ShapedType::kDynamic);
      if (!constant)
        sizes.push_back(ir::build_formula(builder, loc, extent, entry));
    }
    auto type = RankedTensorType::get(shape, whole.getElementType());
    Value empty = tensor::EmptyOp::create(builder, loc, type, sizes);
    Value rows = copy_of(builder, slide, extents, empty);
    if (!rows)
      rows = rows_of(builder, slide, empty, entry);
    slide.update.getValueMutable().assign(rows);
    slide.update.setSliding(true);
    slide.old.erase();
  }

  /// The number, among all rows of the window, of a new one.
  AffineExpr number_of(const Slide &slide, AffineExpr row) {
    return row - slide.count + state_.getExtents().getResults()[axis_of(slide)];
  }

  /// What is appended, as an operand where it is only copied; else null.
  Value copy_of(OpBuilder &builder, Slide &slide, ArrayRef<AffineExpr> extents, Value empty) {
    auto read = slide.fresh.getDefiningOp<tensor::ExtractOp>();
    auto from = read ? ir::extent_formulas(read.getTensor()) : FailureOr<SmallVector<AffineExpr>>();
    if (failed(from))
      return {};
    unsigned rank = slide.old.getNumLoops();
    Lines lines(slide.old, state_.getExtents().getNumDims());
    SmallVector<AffineExpr> loops, axes;
    for (unsigned loop = 0; loop < rank; ++loop)
      loops.push_back(loop == slide.along ? number_of(slide, lines.loop(loop)) : lines.loop(loop));
    llvm::SmallBitVector used(rank);
    for (auto [axis, index] : llvm::enumerate(read.getIndices())) {
      auto loop = dyn_cast<AffineSymbolExpr>(lines.simple(lines.place(index, (*from)[axis]).replaceSymbols(loops)));
      if (!loop || used.test(loop.getPosition()) || (*from)[axis] != extents[loop.getPosition()])
        return {};
      used.set(loop.getPosition());
      axes.push_back(builder.getAffineDimExpr(loop.getPosition()));
    }
    SmallVector<AffineMap> maps{AffineMap::get(rank, 0, axes, builder.getContext()),
                                builder.getMultiDimIdentityMap(rank)};
    SmallVector<utils::IteratorType> kinds(rank, utils::IteratorType::parallel);
    return linalg::GenericOp::create(builder, slide.old.getLoc(), TypeRange{empty.getType()},
                                     ValueRange{read.getTensor()}, ValueRange{empty}, maps, kinds,
                                     [](OpBuilder &body, Location at, ValueRange elements) {
                                       linalg::YieldOp::create(body, at, elements[0]);
                                     })
        .getResult(0);
  }

  /// The new rows, computed as they were among all.
  Value rows_of(OpBuilder &builder, Slide &slide, Value empty, func::FuncOp entry) {
    unsigned rank = slide.old.getNumLoops();
    SmallVector<utils::IteratorType> kinds(rank, utils::IteratorType::parallel);
    AffineMap identity = builder.getMultiDimIdentityMap(rank);
    auto body = [&](OpBuilder &body, Location at, ValueRange) {
      IRMapping map;
      for (Operation *op : needed_for(slide.fresh, slide.old.getBlock())) {
        auto index = dyn_cast<linalg::IndexOp>(op);
        if (index && index.getDim() == slide.along) {
          Value row = linalg::IndexOp::create(body, at, slide.along);
          map.map(index, ir::build_formula(body, at, number_of(slide, builder.getAffineSymbolExpr(0)), entry, row));
        } else {
          body.clone(*op, map);
        }
      }
      linalg::YieldOp::create(body, at, map.lookupOrDefault(slide.fresh));
    };
    return linalg::GenericOp::create(builder, slide.old.getLoc(), TypeRange{empty.getType()}, ValueRange{},
                                     ValueRange{empty}, ArrayRef<AffineMap>{identity}, kinds, body)
        .getResult(0);
  }

  ModuleOp module_;
  ir::StateOp state_;
  std::vector<Slide> slides_;
};

struct SlideStates : PassWrapper<SlideStates, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(SlideStates)
  StringRef getArgument() const override { return "slide_states"; }
  StringRef getDescription() const override { return "states that drop rows at one end and append as many"; }
  void getDependentDialects(DialectRegistry &registry) const override { ir::register_dialects(registry); }

  void runOnOperation() override {
    for (auto state : getOperation().getOps<ir::StateOp>())
      if (!state.getSlides())
        StateSlider(getOperation(), state).run();
  }
};

} // namespace

std::unique_ptr<Pass> slide_states() { return std::make_unique<SlideStates>(); }

} // namespace heddle::passes
