// Follows a reduction's term through the element-wise ops that make it, asking under which condition it may differ from
// the neutral element: 0 of a product where a factor is 0, -inf of a difference where the minuend is, 0 of exp where
// its argument is -inf. What depends on data may always differ. Halide's solver turns the condition into an interval.
#include "compiler/halide/ranges.h"

#include "compiler/halide/scalars.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"

#include <cmath>

namespace heddle {

using Halide::Expr;
using mlir::Value;
using mlir::linalg::LinalgOp;
namespace arith = mlir::arith;

namespace {

constexpr const char *data = "data"; // stands for whatever a tensor holds

Expr always() { return Halide::Internal::const_true(); }
Expr never() { return Halide::Internal::const_false(); }

class Terms {
public:
  Terms(mlir::func::FuncOp kernel, const std::vector<Expr> &arguments) : kernel_(kernel), arguments_(arguments) {}

  /// An op at these values of its loops.
  struct OpPoint {
    LinalgOp op;
    std::vector<Expr> loops;
  };

  /// When `value`, a scalar of the op's body, may be something else than `neutral`.
  Expr may_differ(Value value, double neutral, OpPoint place) {
    if (auto constant = constant_of(value))
      return *constant == neutral ? never() : always();
    if (auto argument = llvm::dyn_cast<mlir::BlockArgument>(value)) {
      auto [inner, source] = source_of(argument, place);
      if (inner)
        return may_differ(inner, neutral, source);
      return always();
    }
    mlir::Operation *op = value.getDefiningOp();
    if (op->getBlock() != place.op.getBlock())
      return always();
    auto operand = [&](unsigned i, double wanted) { return may_differ(op->getOperand(i), wanted, place); };
    if (llvm::isa<arith::SelectOp>(op))
      return (may_be(op->getOperand(0), true, place) && operand(1, neutral)) ||
             (may_be(op->getOperand(0), false, place) && operand(2, neutral));
    if (value.getType().isInteger(1))
      return may_be(value, neutral == 0, place);
    if (llvm::isa<arith::ExtFOp, arith::TruncFOp, arith::SIToFPOp, arith::UIToFPOp, arith::ExtSIOp, arith::ExtUIOp>(op))
      return operand(0, neutral);
    if (neutral == 0) {
      if (llvm::isa<arith::MulFOp, arith::MulIOp>(op))
        return operand(0, 0) && operand(1, 0);
      if (llvm::isa<arith::DivFOp>(op))
        return operand(0, 0);
      if (llvm::isa<arith::AddFOp, arith::AddIOp, arith::SubFOp, arith::SubIOp>(op))
        return operand(0, 0) || operand(1, 0);
      if (llvm::isa<mlir::math::ExpOp>(op))
        return operand(0, -INFINITY);
    }
    if (neutral == -INFINITY) {
      if (llvm::isa<arith::SubFOp>(op)) // of a maximum, which is no more infinite than the terms themselves
        return operand(0, neutral);
      if (llvm::isa<arith::AddFOp>(op))
        return operand(0, neutral) && operand(1, neutral);
      if (llvm::isa<arith::MulFOp, arith::DivFOp>(op))
        if (auto factor = constant_of(op->getOperand(1)); factor && *factor > 0)
          return operand(0, neutral);
    }
    return always();
  }

  /// When `value`, a scalar of the op's body, may depend on an element of `tensor`.
  Expr may_read(Value value, Value tensor, OpPoint place) {
    llvm::DenseMap<Value, Expr> known;
    return may_read(value, tensor, place, known);
  }

private:
  /// Reductions on the way, other than the one that makes the tensor, are asked by themselves.
  Expr may_read(Value value, Value tensor, const OpPoint &place, llvm::DenseMap<Value, Expr> &known) {
    if (auto found = known.find(value); found != known.end())
      return found->second;
    Expr out = never();
    if (auto argument = llvm::dyn_cast<mlir::BlockArgument>(value)) {
      LinalgOp op = place.op;
      bool is_read = argument.getOwner() == op.getBlock() && argument.getArgNumber() < unsigned(op.getNumDpsInputs());
      Value operand = is_read ? op.getMatchingOpOperand(argument)->get() : Value();
      auto maker = operand ? operand.getDefiningOp<LinalgOp>() : LinalgOp();
      auto [inner, source] = source_of(argument, place);
      if (operand == tensor || (!inner && maker && !maker.getNumReductionLoops()))
        out = always();
      else if (inner)
        out = may_read(inner, tensor, source);
    } else if (mlir::Operation *made = value.getDefiningOp(); made->getBlock() != LinalgOp(place.op).getBlock()) {
      out = llvm::isa<LinalgOp>(made) ? always() : never(); // what is read at computed places
    } else {
      auto select = llvm::dyn_cast<arith::SelectOp>(made);
      for (auto [number, operand] : llvm::enumerate(made->getOperands())) {
        Expr reads = operand == tensor ? always() : may_read(operand, tensor, place, known);
        if (select && number > 0 && !Halide::Internal::is_const_zero(reads))
          reads = may_be(select.getCondition(), number == 1, place) && reads;
        out = Halide::Internal::simplify(out || reads);
      }
    }
    return known[value] = out;
  }

  static std::optional<double> constant_of(Value value) {
    mlir::Attribute attribute;
    if (!mlir::matchPattern(value, mlir::m_Constant(&attribute)))
      return std::nullopt;
    if (auto real = llvm::dyn_cast<mlir::FloatAttr>(attribute))
      return real.getValueAsDouble();
    if (auto whole = llvm::dyn_cast<mlir::IntegerAttr>(attribute))
      return whole.getType().isInteger(1) ? whole.getValue().getZExtValue() : whole.getValue().getSExtValue();
    return std::nullopt;
  }

  /// The scalar behind an operand that an element-wise op of the kernel makes, and where.
  std::pair<Value, OpPoint> source_of(mlir::BlockArgument argument, OpPoint place) {
    LinalgOp op = place.op;
    if (argument.getOwner() != op.getBlock() || argument.getArgNumber() >= unsigned(op.getNumDpsInputs()))
      return {};
    mlir::OpOperand *operand = op.getMatchingOpOperand(argument);
    auto maker = operand->get().getDefiningOp<mlir::linalg::GenericOp>();
    if (!maker || maker.getNumReductionLoops() || maker->getNumResults() != 1)
      return {};
    mlir::AffineMap read = op.getMatchingIndexingMap(operand);
    mlir::AffineMap written = maker.getMatchingIndexingMap(maker.getDpsInitOperand(0));
    OpPoint source{llvm::cast<LinalgOp>(maker.getOperation()), std::vector<Expr>(maker.getNumLoops())};
    for (auto [from, to] : llvm::zip_equal(read.getResults(), written.getResults())) {
      auto loop = llvm::dyn_cast<mlir::AffineDimExpr>(to);
      auto at = llvm::dyn_cast<mlir::AffineDimExpr>(from);
      if (!loop || !at)
        return {};
      source.loops[loop.getPosition()] = place.loops[at.getPosition()];
    }
    for (const Expr &loop : source.loops)
      if (!loop.defined())
        return {};
    return {maker.getBlock()->getTerminator()->getOperand(0), source};
  }

  /// When a condition may be `wanted`.
  Expr may_be(Value condition, bool wanted, OpPoint place) {
    if (auto constant = constant_of(condition))
      return (*constant != 0) == wanted ? always() : never();
    if (auto argument = llvm::dyn_cast<mlir::BlockArgument>(condition)) {
      auto [inner, source] = source_of(argument, place);
      return inner ? may_be(inner, wanted, source) : always();
    }
    mlir::Operation *op = condition.getDefiningOp();
    auto operand = [&](unsigned i, bool value) { return may_be(op->getOperand(i), value, place); };
    if (llvm::isa<arith::AndIOp>(op))
      return wanted ? operand(0, true) && operand(1, true) : operand(0, false) || operand(1, false);
    if (llvm::isa<arith::OrIOp>(op))
      return wanted ? operand(0, true) || operand(1, true) : operand(0, false) && operand(1, false);
    if (llvm::isa<arith::XOrIOp>(op))
      if (auto flips = constant_of(op->getOperand(1)))
        return operand(0, *flips != 0 ? !wanted : wanted);
    if (!llvm::isa<arith::CmpIOp>(op))
      return always();
    Scalars scalars([](Value tensor, std::vector<Expr>) { return unknown(tensor.getType()); });
    for (auto [argument, expr] : llvm::zip_equal(kernel_.getArguments(), arguments_))
      if (expr.defined())
        scalars.define(argument, expr);
    scalars.set_loops(place.loops);
    for (mlir::BlockArgument argument : place.op.getBlock()->getArguments())
      scalars.define(argument, unknown(argument.getType()));
    Expr holds = scalars.value(condition);
    if (scalars.error() || Halide::Internal::expr_uses_var(holds, data))
      return always();
    return wanted ? holds : !holds;
  }

  static Expr unknown(mlir::Type type) {
    if (auto tensor = llvm::dyn_cast<mlir::RankedTensorType>(type))
      type = tensor.getElementType();
    return Halide::Internal::Variable::make(halide_type(type).value_or(Halide::Int(32)), data);
  }

  mlir::func::FuncOp kernel_;
  const std::vector<Expr> &arguments_;
};

/// The term of a reduction and its neutral element.
std::optional<std::pair<Value, double>> term_of(LinalgOp op) {
  mlir::Block *body = op.getBlock();
  mlir::Operation *combiner = body->getTerminator()->getOperand(0).getDefiningOp();
  Value so_far = body->getArgument(op.getNumDpsInputs());
  if (!combiner || combiner->getNumOperands() != 2 || !so_far.hasOneUse())
    return std::nullopt;
  bool first = combiner->getOperand(0) == so_far;
  if (!first && combiner->getOperand(1) != so_far)
    return std::nullopt;
  Value term = combiner->getOperand(first ? 1 : 0);
  if (llvm::isa<arith::AddFOp, arith::AddIOp, arith::OrIOp>(combiner))
    return std::pair(term, 0.0);
  if (llvm::isa<arith::MaximumFOp, arith::MaxNumFOp>(combiner))
    return std::pair(term, double(-INFINITY));
  return std::nullopt;
}

} // namespace

/// The range of loop `loop` in which `asked`, a condition on a term of the op, may hold.
static Halide::Internal::Interval range_where(LinalgOp op, unsigned loop,
                                              const std::vector<Halide::Internal::Interval> &loops,
                                              llvm::function_ref<Expr(Value, double, const Terms::OpPoint &)> asked) {
  using Halide::Internal::Interval;
  auto term = op.getNumDpsInits() == 1 ? term_of(op) : std::nullopt;
  if (!term)
    return Interval::everything();
  Terms::OpPoint place{op, {}};
  Halide::Internal::Scope<Interval> others;
  for (size_t i = 0; i < loops.size(); ++i) {
    std::string name = "loop" + std::to_string(i);
    place.loops.push_back(Halide::Internal::Variable::make(Halide::Int(32), name));
    if (i != loop)
      others.push(name, loops[i]);
  }
  Expr holds = Halide::Internal::simplify(asked(term->first, term->second, place));
  std::string name = "loop" + std::to_string(loop);
  if (!Halide::Internal::expr_uses_var(holds, name))
    return Interval::everything();
  Interval where = Halide::Internal::solve_for_outer_interval(holds, name), range = Interval::everything();
  auto free_of_loops = [&](const Expr &bound) {
    for (size_t i = 0; i < loops.size(); ++i)
      if (Halide::Internal::expr_uses_var(bound, "loop" + std::to_string(i)))
        return false;
    return true;
  };
  if (where.has_upper_bound())
    if (Interval last = Halide::Internal::bounds_of_expr_in_scope(where.max, others);
        last.has_upper_bound() && free_of_loops(last.max))
      range.max = Halide::Internal::simplify(last.max);
  if (where.has_lower_bound())
    if (Interval first = Halide::Internal::bounds_of_expr_in_scope(where.min, others);
        first.has_lower_bound() && free_of_loops(first.min))
      range.min = Halide::Internal::simplify(first.min);
  return range;
}

Halide::Internal::Interval needed_range(mlir::func::FuncOp kernel, LinalgOp op, unsigned loop,
                                        const std::vector<Halide::Internal::Interval> &loops,
                                        const std::vector<Expr> &arguments) {
  return range_where(op, loop, loops, [&](Value term, double neutral, const Terms::OpPoint &place) {
    return Terms(kernel, arguments).may_differ(term, neutral, place);
  });
}

Halide::Internal::Interval reading_range(mlir::func::FuncOp kernel, LinalgOp op, unsigned loop,
                                         const std::vector<Halide::Internal::Interval> &loops,
                                         const std::vector<Expr> &arguments, Value tensor) {
  return range_where(op, loop, loops, [&](Value term, double, const Terms::OpPoint &place) {
    return Terms(kernel, arguments).may_read(term, tensor, place);
  });
}

Expr needed_extent(mlir::func::FuncOp kernel, LinalgOp op, unsigned loop, const std::vector<Expr> &extents,
                   const std::vector<Expr> &arguments) {
  std::vector<Halide::Internal::Interval> loops;
  for (const Expr &extent : extents)
    loops.emplace_back(Expr(0), extent - 1);
  Halide::Internal::Interval range = needed_range(kernel, op, loop, loops, arguments);
  if (!range.has_upper_bound())
    return {};
  bool by_scalar = false;
  for (auto [argument, expr] : llvm::zip_equal(kernel.getArguments(), arguments))
    if (auto variable = expr.defined() ? expr.as<Halide::Internal::Variable>() : nullptr)
      by_scalar |= !argument.getType().isIndex() && Halide::Internal::expr_uses_var(range.max, variable->name);
  return by_scalar ? Halide::Internal::simplify(range.max + 1) : Expr();
}

} // namespace heddle
