// Interval arithmetic over the few ops that sizes are made of; any other op is a value of which nothing is known.
#include "compiler/passes/size_ranges.h"

#include "compiler/ir/dialect.h"
#include "compiler/passes/entry_values.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

#include "llvm/Support/MathExtras.h"

namespace heddle::passes {

using namespace mlir;

static int64_t held(__int128 number) {
  return int64_t(std::clamp<__int128>(number, -SizeRange::open, SizeRange::open));
}

static SizeRange sum(const SizeRange &a, const SizeRange &b) {
  // What is open stays so, whatever is added.
  bool from = a.least == -SizeRange::open || b.least == -SizeRange::open;
  bool to = a.most == SizeRange::open || b.most == SizeRange::open;
  return {from ? -SizeRange::open : held(__int128(a.least) + b.least),
          to ? SizeRange::open : held(__int128(a.most) + b.most)};
}

static SizeRange product(const SizeRange &a, const SizeRange &b) {
  auto corners = {__int128(a.least) * b.least, __int128(a.least) * b.most, __int128(a.most) * b.least,
                  __int128(a.most) * b.most};
  return {held(std::min(corners)), held(std::max(corners))};
}

/// Of positive divisors; what is open stays so, unless the divisor is, too.
static SizeRange quotient(const SizeRange &a, const SizeRange &b, int64_t (*divide)(int64_t, int64_t)) {
  auto share = [&](int64_t end, int64_t divisor) {
    bool is_open = (end == -SizeRange::open || end == SizeRange::open) && divisor < SizeRange::open;
    return is_open ? end : divide(end, divisor);
  };
  return {std::min(share(a.least, b.least), share(a.least, b.most)),
          std::max(share(a.most, b.least), share(a.most, b.most))};
}

SizeRange range_of(AffineExpr expr, ArrayRef<SizeRange> operands, unsigned dims) {
  if (auto constant = dyn_cast<AffineConstantExpr>(expr))
    return {constant.getValue(), constant.getValue()};
  if (auto dim = dyn_cast<AffineDimExpr>(expr))
    return operands[dim.getPosition()];
  if (auto symbol = dyn_cast<AffineSymbolExpr>(expr))
    return operands[dims + symbol.getPosition()];
  auto binary = cast<AffineBinaryOpExpr>(expr);
  SizeRange left = range_of(binary.getLHS(), operands, dims), right = range_of(binary.getRHS(), operands, dims);
  if (expr.getKind() == AffineExprKind::Add)
    return sum(left, right);
  if (expr.getKind() == AffineExprKind::Mul)
    return product(left, right);
  if (right.least < 1) // divisors are positive
    return {};
  auto floor_quotient = [&] {
    return quotient(left, right, [](int64_t a, int64_t b) { return llvm::divideFloorSigned(a, b); });
  };
  if (expr.getKind() == AffineExprKind::FloorDiv)
    return floor_quotient();
  if (expr.getKind() == AffineExprKind::CeilDiv)
    return quotient(left, right, [](int64_t a, int64_t b) { return llvm::divideCeilSigned(a, b); });
  // A remainder of one number, or of numbers below the divisor, is known.
  if (left.least == left.most && right.least == right.most)
    return sum(left, product({-right.least, -right.least}, floor_quotient()));
  return {0, left.least >= 0 ? std::min(left.most, right.most - 1) : right.most - 1};
}

static SizeRange range_of_dim(ArrayRef<ModuleDim> dims, const ModuleDim &dim, DictionaryAttr given) {
  if (auto value = given ? given.getAs<IntegerAttr>(dim.name) : IntegerAttr())
    return {value.getInt(), value.getInt()};
  if (!dim.product)
    return {0, dim.most < 0 ? SizeRange::open : dim.most};
  std::vector<SizeRange> known; // a product is over the dims before it
  for (const ModuleDim &other : dims)
    known.push_back(&other < &dim ? range_of_dim(dims, other, given) : SizeRange());
  SizeRange all = {1, 1};
  for (AffineExpr factor : dim.product.getResults())
    all = product(all, range_of(factor, known, unsigned(known.size())));
  return all;
}

SizeRange range_of(ModuleOp module, Value size, DictionaryAttr given) {
  APInt constant;
  if (matchPattern(size, m_ConstantInt(&constant)))
    return {constant.getSExtValue(), constant.getSExtValue()};
  Operation *op = size.getDefiningOp();
  if (!op)
    return {};
  if (auto named = dyn_cast<ir::DimOp>(op)) {
    std::vector<ModuleDim> dims = module_dims(module);
    for (const ModuleDim &dim : dims)
      if (dim.name == named.getName())
        return range_of_dim(dims, dim, given);
    return {};
  }
  std::vector<SizeRange> operands;
  for (Value operand : op->getOperands())
    operands.push_back(range_of(module, operand, given));
  if (auto apply = dyn_cast<affine::AffineApplyOp>(op))
    return range_of(apply.getAffineMap().getResult(0), operands, apply.getAffineMap().getNumDims());
  if (isa<arith::AddIOp>(op))
    return sum(operands[0], operands[1]);
  if (isa<arith::MulIOp>(op))
    return product(operands[0], operands[1]);
  return {};
}

} // namespace heddle::passes
