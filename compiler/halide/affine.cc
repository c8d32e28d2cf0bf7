#include "compiler/halide/affine.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"

#include <utility>

namespace heddle {

using Halide::Expr;

namespace {

/// An affine expression as a sum of dims, symbols, quotients, remainders and 1, each times a number.
using AffineSum = llvm::MapVector<mlir::AffineExpr, int64_t>;

void add_to(AffineSum &sum, mlir::AffineExpr expr, int64_t factor) {
  auto binary = llvm::dyn_cast<mlir::AffineBinaryOpExpr>(expr);
  if (binary && binary.getKind() == mlir::AffineExprKind::Add) {
    add_to(sum, binary.getLHS(), factor);
    add_to(sum, binary.getRHS(), factor);
    return;
  }
  auto by = binary && binary.getKind() == mlir::AffineExprKind::Mul
                ? llvm::dyn_cast<mlir::AffineConstantExpr>(binary.getRHS())
                : mlir::AffineConstantExpr(nullptr);
  if (by)
    add_to(sum, binary.getLHS(), factor * by.getValue());
  else if (auto number = llvm::dyn_cast<mlir::AffineConstantExpr>(expr))
    sum[mlir::getAffineConstantExpr(1, expr.getContext())] += factor * number.getValue();
  else
    sum[expr] += factor;
}

AffineSum sum_of(mlir::AffineExpr expr) {
  AffineSum out;
  add_to(out, expr, 1);
  return out;
}

/// The quotient by a number that a term of a sum is, or null.
mlir::AffineBinaryOpExpr quotient_in(mlir::AffineExpr term) {
  auto binary = llvm::dyn_cast<mlir::AffineBinaryOpExpr>(term);
  return binary && binary.getKind() == mlir::AffineExprKind::FloorDiv &&
                 llvm::isa<mlir::AffineConstantExpr>(binary.getRHS())
             ? binary
             : mlir::AffineBinaryOpExpr(nullptr);
}

/// k * e - k * c * (e floordiv c) as k * (e mod c), which MLIR's simplification takes apart.
void join_remainders(AffineSum &sum) {
  for (auto &[term, factor] : llvm::to_vector(sum)) {
    auto quotient = quotient_in(term);
    int64_t divisor = quotient ? llvm::cast<mlir::AffineConstantExpr>(quotient.getRHS()).getValue() : 0;
    if (divisor < 1 || factor == 0 || factor % divisor != 0)
      continue;
    AffineSum dividend = sum_of(quotient.getLHS());
    int64_t times = -factor / divisor;
    if (!llvm::all_of(dividend, [&](auto &part) { return sum.lookup(part.first) == times * part.second; }))
      continue;
    for (auto &[part, each] : dividend)
      sum[part] = 0;
    sum[term] = 0;
    sum[quotient.getLHS() % divisor] += times;
  }
  sum.remove_if([](auto &term) { return term.second == 0; });
}

bool share_a_size_or_index(mlir::AffineExpr a, mlir::AffineExpr b) {
  bool out = false;
  a.walk([&](mlir::AffineExpr part) {
    if (auto dim = llvm::dyn_cast<mlir::AffineDimExpr>(part))
      out |= b.isFunctionOfDim(dim.getPosition());
    if (auto symbol = llvm::dyn_cast<mlir::AffineSymbolExpr>(part))
      out |= b.isFunctionOfSymbol(symbol.getPosition());
  });
  return out;
}

/// Whether a quotient in a sum changes with other terms of it and one of them, or of its dividend, is subtracted.
bool is_correlated(mlir::AffineBinaryOpExpr quotient, const AffineSum &sum) {
  bool subtracts = llvm::any_of(sum_of(quotient.getLHS()), [](auto &part) { return part.second < 0; }), shares = false;
  for (auto &[other, factor] : sum)
    if (other != quotient && share_a_size_or_index(quotient, other)) {
      shares = true;
      subtracts |= factor < 0 || llvm::any_of(sum_of(other), [](auto &part) { return part.second < 0; });
    }
  return shares && subtracts;
}

} // namespace

/// Halide 21 solves sums for the variable of a loop, and takes (x * 6 - y) / 2 for x * 3 - y / 2 there. Quotients that
/// it might bring into that form are of 64 bits, which it leaves alone.
static Expr affine_sum(const AffineSum &sum, const std::vector<Expr> &dims, const std::vector<Expr> &symbols) {
  Expr out;
  for (auto &[term, factor] : sum) {
    auto quotient = quotient_in(term);
    Expr value;
    if (quotient && is_correlated(quotient, sum))
      value = Halide::cast<int32_t>(
          Halide::cast<int64_t>(affine(quotient.getLHS(), dims, symbols)) /
          Halide::Internal::make_const(Halide::Int(64),
                                       llvm::cast<mlir::AffineConstantExpr>(quotient.getRHS()).getValue()));
    else
      value = affine(term, dims, symbols);
    if (factor != 1)
      value = value * Halide::Internal::make_const(Halide::Int(32), factor);
    out = out.defined() ? out + value : value;
  }
  return out.defined() ? out : Halide::Internal::make_zero(Halide::Int(32));
}

Expr affine(mlir::AffineExpr expr, const std::vector<Expr> &dims, const std::vector<Expr> &symbols) {
  if (auto dim = llvm::dyn_cast<mlir::AffineDimExpr>(expr))
    return dims[dim.getPosition()];
  if (auto symbol = llvm::dyn_cast<mlir::AffineSymbolExpr>(expr))
    return symbols[symbol.getPosition()];
  if (auto number = llvm::dyn_cast<mlir::AffineConstantExpr>(expr))
    return Halide::Internal::make_const(Halide::Int(32), number.getValue());
  auto binary = llvm::cast<mlir::AffineBinaryOpExpr>(expr);
  bool divides = false;
  expr.walk([&](mlir::AffineExpr part) { divides |= bool(quotient_in(part)); });
  if (divides && binary.getKind() == mlir::AffineExprKind::Add) {
    AffineSum sum = sum_of(expr);
    join_remainders(sum);
    return affine_sum(sum, dims, symbols);
  }
  Expr a = affine(binary.getLHS(), dims, symbols), b = affine(binary.getRHS(), dims, symbols);
  switch (binary.getKind()) {
  case mlir::AffineExprKind::Add:
    return a + b;
  case mlir::AffineExprKind::Mul:
    return a * b;
  case mlir::AffineExprKind::Mod:
    return a % b;
  case mlir::AffineExprKind::FloorDiv: // divisors of affine expressions are positive, where Halide's / is floor
    return a / b;
  case mlir::AffineExprKind::CeilDiv:
    return (a + b - 1) / b;
  default:
    return {};
  }
}

namespace {

struct Term {
  Expr value; // undefined: 1
  int64_t factor;
};

void add_to(std::vector<Term> &sum, const Expr &expr, int64_t factor) {
  using namespace Halide::Internal;
  if (const Add *add = expr.as<Add>()) {
    add_to(sum, add->a, factor);
    add_to(sum, add->b, factor);
  } else if (const Sub *sub = expr.as<Sub>()) {
    add_to(sum, sub->a, factor);
    add_to(sum, sub->b, -factor);
  } else if (const Mul *mul = expr.as<Mul>(); mul && as_const_int(mul->b)) {
    add_to(sum, mul->a, factor * *as_const_int(mul->b));
  } else if (auto number = as_const_int(expr)) {
    sum.push_back({Expr(), factor * *number});
  } else {
    sum.push_back({expr, factor});
  }
}

Expr sum_of(const std::vector<Term> &terms) {
  using namespace Halide::Internal;
  Expr out = make_zero(Halide::Int(32));
  for (const Term &term : terms) {
    Expr factor = make_const(Halide::Int(32), term.factor);
    out = out + (term.value.defined() ? term.value * factor : factor);
  }
  return out;
}

} // namespace

void cancel_common_terms(Expr &a, Expr &b) {
  std::vector<Term> left, right;
  add_to(left, a, 1);
  add_to(right, b, 1);
  bool found = false;
  for (Term &from : left)
    for (Term &other : right)
      if (from.value.defined() && other.value.defined() && from.factor && other.factor &&
          Halide::Internal::equal(from.value, other.value)) {
        found = true;
        from.factor -= std::exchange(other.factor, 0);
      }
  if (!found)
    return;
  std::erase_if(left, [](const Term &term) { return term.factor == 0; });
  std::erase_if(right, [](const Term &term) { return term.factor == 0; });
  a = sum_of(left);
  b = sum_of(right);
}

} // namespace heddle
