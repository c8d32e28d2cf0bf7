// Walks from the sums over keys up to the exponential, through what keeps a sum proportional to it.
#include "compiler/kernels/attention/softmax.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"

namespace heddle::attention {

using mlir::Value;
using mlir::linalg::LinalgOp;
namespace arith = mlir::arith;

Value term_of(LinalgOp op) {
  mlir::Operation *combiner = op.getBlock()->getTerminator()->getOperand(0).getDefiningOp();
  Value so_far = op.getBlock()->getArgument(unsigned(op.getNumDpsInputs()));
  if (!combiner || combiner->getNumOperands() != 2 || combiner->getOperand(0) == combiner->getOperand(1))
    return {};
  for (unsigned i : {0u, 1u})
    if (combiner->getOperand(i) == so_far)
      return combiner->getOperand(1 - i);
  return {};
}

LinalgOp made_by(Value value, LinalgOp op) {
  auto argument = llvm::dyn_cast<mlir::BlockArgument>(value);
  if (!argument || argument.getOwner() != op.getBlock() || argument.getArgNumber() >= unsigned(op.getNumDpsInputs()))
    return {};
  auto made = op.getMatchingOpOperand(argument)->get().getDefiningOp<LinalgOp>();
  return made && !llvm::isa<mlir::linalg::FillOp>(*made) ? made : LinalgOp();
}

LinalgOp Softmax::scores() const { return top ? made_by(term_of(top), top) : LinalgOp(); }

namespace {

bool is_number(Value value, double number) {
  mlir::FloatAttr attribute;
  return mlir::matchPattern(value, mlir::m_Constant(&attribute)) && attribute.getValueAsDouble() == number;
}

class Proportional {
public:
  Proportional(const Match &match, LinalgOp top) : match_(match), top_(top) {}

  /// Whether `value`, a scalar of the op's body, is an exponential as above times what `top` has no part in.
  bool holds(Value value, LinalgOp op) {
    if (LinalgOp behind = made_by(value, op))
      return behind.getNumReductionLoops() == 0 && holds(behind.getBlock()->getTerminator()->getOperand(0), behind);
    mlir::Operation *made = value.getDefiningOp();
    if (!made || made->getBlock() != op.getBlock())
      return false;
    auto operand = [&](unsigned i) { return made->getOperand(i); };
    auto leads = [&](unsigned i) { return holds(operand(i), op) && (steps[made] = {i, true}, true); };
    auto times = [&](unsigned i, unsigned other) { // beside an operand that says nothing of `top` but for a whole row
      bool of_a_row = of_row(operand(other), op);
      return (of_a_row || !has_top(operand(other), op)) && leads(i) && (steps[made].same_for_all = of_a_row, true);
    };
    if (llvm::isa<arith::ExtFOp>(made) || (llvm::isa<arith::TruncFOp>(made) && match_.rounds_freely))
      return leads(0);
    if (llvm::isa<mlir::math::ExpOp>(made))
      return difference(operand(0), op);
    if (llvm::isa<arith::MulFOp>(made))
      return times(0, 1) || times(1, 0);
    if (llvm::isa<arith::DivFOp>(made))
      return times(0, 1);
    if (llvm::isa<arith::SelectOp>(made))
      return (is_number(operand(1), 0) && times(2, 0)) || (is_number(operand(2), 0) && times(1, 0));
    return false;
  }

  Value subtracted;
  llvm::DenseMap<mlir::Operation *, Softmax::Step> steps;

private:
  bool over_keys(LinalgOp op) const {
    auto found = match_.roles.find(op);
    return found == match_.roles.end() || (!op.getNumReductionLoops() && llvm::is_contained(found->second, keys));
  }

  /// Whether a value is one of the row, the same for all keys.
  bool of_row(Value value, LinalgOp op) const {
    if (LinalgOp behind = made_by(value, op))
      return !over_keys(behind);
    if (llvm::isa<mlir::BlockArgument>(value))
      return false;
    mlir::Operation *made = value.getDefiningOp();
    return made->getBlock() != op.getBlock() ||
           (!llvm::isa<mlir::linalg::IndexOp>(made) &&
            llvm::all_of(made->getOperands(), [&](Value operand) { return of_row(operand, op); }));
  }

  bool has_top(Value value, LinalgOp op) const {
    if (LinalgOp behind = made_by(value, op))
      return behind == top_ || has_top(behind);
    if (llvm::isa<mlir::BlockArgument>(value))
      return false;
    mlir::Operation *made = value.getDefiningOp();
    return made->getBlock() == op.getBlock() &&
           llvm::any_of(made->getOperands(), [&](Value operand) { return has_top(operand, op); });
  }
  bool has_top(LinalgOp op) const {
    return llvm::any_of(op.getDpsInputOperands(), [&](mlir::OpOperand *operand) {
      auto behind = operand->get().getDefiningOp<LinalgOp>();
      return behind && (behind == top_ || has_top(behind));
    });
  }

  /// score - subtracted
  bool difference(Value value, LinalgOp op) {
    auto minus = value.getDefiningOp<arith::SubFOp>();
    Value largest = term_of(top_);
    if (!minus || minus->getBlock() != op.getBlock() || !largest)
      return false;
    LinalgOp score = made_by(minus.getLhs(), op);
    if (!score || score != made_by(largest, top_))
      return false;
    LinalgOp behind = made_by(minus.getRhs(), op);
    if (!behind || over_keys(behind) || !is_top(behind))
      return false;
    Value found = behind->getResult(0);
    if (subtracted && subtracted != found)
      return false;
    subtracted = found;
    return true;
  }

  bool is_top(LinalgOp op) const {
    if (op == top_)
      return true;
    auto choice = op.getBlock()->getTerminator()->getOperand(0).getDefiningOp<arith::SelectOp>();
    if (op.getNumReductionLoops() || !choice || !has_top(op))
      return false;
    mlir::Attribute constant;
    auto read = [&](Value value) { return made_by(value, op) == top_; };
    return (read(choice.getTrueValue()) && mlir::matchPattern(choice.getFalseValue(), mlir::m_Constant(&constant))) ||
           (read(choice.getFalseValue()) && mlir::matchPattern(choice.getTrueValue(), mlir::m_Constant(&constant)));
  }

  const Match &match_;
  LinalgOp top_;
};

bool combines_by(LinalgOp op, bool maximum) {
  mlir::Operation *combiner = op.getBlock()->getTerminator()->getOperand(0).getDefiningOp();
  return combiner &&
         (maximum ? llvm::isa<arith::MaximumFOp, arith::MaxNumFOp>(combiner) : llvm::isa<arith::AddFOp>(combiner));
}

} // namespace

std::optional<Softmax> softmax_of(const Match &match) {
  if (!match.has_values())
    return std::nullopt;
  LinalgOp top, weighted = match.weighted.front().product.op;
  llvm::SmallVector<LinalgOp> sums;
  for (auto &[made, roles] : match.roles) {
    auto op = llvm::cast<LinalgOp>(made);
    bool is_weighted = llvm::any_of(match.weighted, [&](const auto &one) { return one.product.op == op; });
    if (op.getNumReductionLoops() == 0 || is_weighted || llvm::is_contained(roles, summed))
      continue;
    if (!llvm::cast<mlir::RankedTensorType>(op->getResult(0).getType()).getElementType().isF32())
      return std::nullopt;
    if (combines_by(op, false))
      sums.push_back(op);
    else if (!combines_by(op, true) || top)
      return std::nullopt;
    else
      top = op;
  }
  if (!top)
    return sums.empty() ? std::optional<Softmax>(std::in_place) : std::nullopt;
  if (match.weighted.size() > 1)
    return std::nullopt;
  llvm::sort(sums, [](LinalgOp one, LinalgOp other) { return one->isBeforeInBlock(other); });
  sums.push_back(weighted);
  Proportional proportional(match, top);
  for (LinalgOp sum : sums) {
    Value term = term_of(sum);
    if (term && sum == weighted) { // weights times values
      auto product = term.getDefiningOp<arith::MulFOp>();
      if (!product || (!proportional.holds(product.getLhs(), sum) && !proportional.holds(product.getRhs(), sum)))
        return std::nullopt;
    } else if (!term || !proportional.holds(term, sum)) {
      return std::nullopt;
    }
  }
  return Softmax{top, proportional.subtracted, sums, proportional.steps};
}

} // namespace heddle::attention
