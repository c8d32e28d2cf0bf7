// Looks for the largest integers that are affine in the two loops; each that has the row must be a multiple of one
// form.
#include "compiler/kernels/attention/sliding.h"

#include "compiler/kernels/convolution/windows.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"

#include <numeric>

namespace heddle::attention {

using mlir::Value;
using mlir::linalg::LinalgOp;
namespace hi = Halide::Internal;

namespace {

Slide reduced(Slide form) {
  int64_t factor = std::gcd(form.row, form.key);
  if (form.row < 0)
    factor = -factor;
  return {form.row / factor, form.key / factor};
}

/// The affine forms of a body's values in two of its loops.
class Forms {
public:
  Forms(LinalgOp op, unsigned row, unsigned key) : op_(op), row_(row), key_(key) {}

  /// Whether `value` has the two loops only in multiples of one form, which is then `found`.
  bool visit(Value value) {
    if (!visited_.insert(value).second)
      return true;
    if (std::optional<Slide> form = form_of(value)) {
      if (form->row == 0 && form->key == 0)
        return true;
      if (form->row == 0 || form->key == 0 || (found && !(*found == reduced(*form))))
        return false;
      found = reduced(*form);
      return true;
    }
    mlir::Operation *made = value.getDefiningOp();
    return made && llvm::all_of(made->getOperands(), [&](Value operand) { return visit(operand); });
  }

  std::optional<Slide> found;

private:
  std::optional<Slide> form_of(Value value) {
    auto [known, fresh] = forms_.try_emplace(value, std::nullopt);
    if (!fresh)
      return known->second;
    std::optional<Slide> form = compute(value);
    forms_[value] = form;
    return form;
  }

  std::optional<Slide> compute(Value value) {
    if (auto argument = llvm::dyn_cast<mlir::BlockArgument>(value)) {
      if (argument.getOwner() != op_.getBlock())
        return Slide{};
      mlir::AffineMap map = op_.getMatchingIndexingMap(&op_->getOpOperand(argument.getArgNumber()));
      return map.isFunctionOfDim(row_) || map.isFunctionOfDim(key_) ? std::nullopt : std::optional(Slide{});
    }
    mlir::Operation *made = value.getDefiningOp();
    if (made->getBlock() != op_.getBlock())
      return Slide{};
    if (auto index = llvm::dyn_cast<mlir::linalg::IndexOp>(made))
      return Slide{index.getDim() == row_, index.getDim() == key_};
    auto operand = [&](unsigned i) { return form_of(made->getOperand(i)); };
    if (llvm::isa<mlir::arith::IndexCastOp>(made))
      return operand(0);
    if (llvm::isa<mlir::arith::AddIOp>(made))
      return sum(operand(0), operand(1), 1);
    if (llvm::isa<mlir::arith::SubIOp>(made))
      return sum(operand(0), operand(1), -1);
    if (llvm::isa<mlir::arith::MulIOp>(made))
      for (auto [factor, other] : {std::pair(0, 1), std::pair(1, 0)})
        if (llvm::APInt by; mlir::matchPattern(made->getOperand(unsigned(factor)), mlir::m_ConstantInt(&by)))
          return times(operand(unsigned(other)), by.getSExtValue());
    if (auto apply = llvm::dyn_cast<mlir::affine::AffineApplyOp>(made)) {
      mlir::AffineMap map = apply.getAffineMap();
      return affine(map.getResult(0), made->getOperands(), map.getNumDims());
    }
    for (Value each : made->getOperands())
      if (std::optional<Slide> form = form_of(each); !form || !(*form == Slide{}))
        return std::nullopt;
    return Slide{};
  }

  std::optional<Slide> affine(mlir::AffineExpr expr, mlir::OperandRange operands, unsigned dims) {
    if (auto dim = llvm::dyn_cast<mlir::AffineDimExpr>(expr))
      return form_of(operands[dim.getPosition()]);
    if (auto symbol = llvm::dyn_cast<mlir::AffineSymbolExpr>(expr))
      return form_of(operands[dims + symbol.getPosition()]);
    auto binary = llvm::dyn_cast<mlir::AffineBinaryOpExpr>(expr);
    if (!binary)
      return Slide{};
    std::optional<Slide> left = affine(binary.getLHS(), operands, dims),
                         right = affine(binary.getRHS(), operands, dims);
    if (expr.getKind() == mlir::AffineExprKind::Add)
      return sum(left, right, 1);
    if (auto by = llvm::dyn_cast<mlir::AffineConstantExpr>(binary.getRHS());
        by && expr.getKind() == mlir::AffineExprKind::Mul)
      return times(left, by.getValue());
    bool constant = left && right && *left == Slide{} && *right == Slide{};
    return constant ? left : std::nullopt;
  }

  static std::optional<Slide> sum(std::optional<Slide> a, std::optional<Slide> b, int64_t sign) {
    if (!a || !b)
      return std::nullopt;
    return Slide{a->row + sign * b->row, a->key + sign * b->key};
  }
  static std::optional<Slide> times(std::optional<Slide> a, int64_t by) {
    return a ? std::optional(Slide{a->row * by, a->key * by}) : a;
  }

  LinalgOp op_;
  unsigned row_, key_;
  llvm::DenseMap<Value, std::optional<Slide>> forms_;
  llvm::DenseSet<Value> visited_;
};

} // namespace

std::optional<Slide> slide_of(LinalgOp op, Value value, unsigned row_loop, unsigned key_loop) {
  Forms forms(op, row_loop, key_loop);
  return forms.visit(value) ? forms.found : std::nullopt;
}

Halide::Expr with_window(const Halide::Expr &value, const Slide &slide, const Halide::Var &row, const Halide::Var &key,
                         const Halide::Var &window) {
  class Replace : public hi::IRGraphMutator {
  public:
    Slide slide;
    std::string row, key;
    Halide::Expr window;

    using IRGraphMutator::mutate;
    Halide::Expr mutate(const Halide::Expr &e) override {
      std::optional<convolution::Form> form;
      if (e.type().is_int() && e.type().bits() == 32 && e.type().is_scalar())
        form = convolution::form_of(e, {row, key});
      if (!form || !form->count(row) || !form->count(key))
        return IRGraphMutator::mutate(e);
      Slide here = {form->at(row), form->at(key)};
      if (!(reduced(here) == slide))
        return IRGraphMutator::mutate(e);
      Halide::Expr rest = hi::simplify(hi::substitute({{row, Halide::Expr(0)}, {key, Halide::Expr(0)}}, e));
      return window * int(here.row / slide.row) + rest;
    }
  } replace;
  replace.slide = slide;
  replace.row = row.name();
  replace.key = key.name();
  replace.window = window;
  return replace.mutate(hi::substitute_in_all_lets(value));
}

} // namespace heddle::attention
