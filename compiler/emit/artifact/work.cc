// Formulas of a kernel are over its size arguments; at a call these become what the entry computes them from, down to
// dims. A tensor that is only looked into (tensor.extract) counts as much as the kernel writes: nobody reads a whole
// table of embeddings.
#include "compiler/emit/artifact/work.h"

#include "compiler/ir/dialect.h"
#include "compiler/ir/shapes.h"
#include "compiler/kernels/kinds.h"
#include "compiler/kernels/product/micro_kernel.h"
#include "compiler/kernels/sizes.h"
#include "compiler/passes/entry_values.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Interfaces/LoopLikeInterface.h"

#include <map>

namespace heddle {

using namespace mlir;

namespace {

using Text = std::optional<std::string>;

Text formula_text(AffineExpr expr, ArrayRef<Text> operands) {
  if (auto constant = dyn_cast<AffineConstantExpr>(expr))
    return constant.getValue() < 0 ? "(0 - " + std::to_string(-constant.getValue()) + ")"
                                   : std::to_string(constant.getValue());
  if (auto dim = dyn_cast<AffineDimExpr>(expr))
    return dim.getPosition() < operands.size() ? operands[dim.getPosition()] : Text();
  auto binary = dyn_cast<AffineBinaryOpExpr>(expr);
  if (!binary)
    return std::nullopt;
  Text left = formula_text(binary.getLHS(), operands), right = formula_text(binary.getRHS(), operands);
  if (!left || !right)
    return std::nullopt;
  switch (expr.getKind()) {
  case AffineExprKind::Add:
    return "(" + *left + " + " + *right + ")";
  case AffineExprKind::Mul:
    return *left + " * " + *right;
  case AffineExprKind::FloorDiv:
    return "(" + *left + " // " + *right + ")";
  case AffineExprKind::CeilDiv:
    return "((" + *left + " + " + *right + " - 1) // " + *right + ")";
  case AffineExprKind::Mod:
    return "(" + *left + " % " + *right + ")";
  default:
    return std::nullopt;
  }
}

/// An index value of an entry.
Text size_text(mlir::Value size) {
  Operation *op = size.getDefiningOp();
  if (!op)
    return std::nullopt; // a loop's number
  if (auto dim = dyn_cast<ir::DimOp>(op))
    return dim.getName().str();
  if (auto constant = dyn_cast<arith::ConstantIndexOp>(op))
    return std::to_string(constant.value());
  if (auto product = dyn_cast<arith::MulIOp>(op)) {
    Text left = size_text(product.getLhs()), right = size_text(product.getRhs());
    return left && right ? Text(*left + " * " + *right) : Text();
  }
  auto apply = dyn_cast<affine::AffineApplyOp>(op);
  if (!apply)
    return std::nullopt;
  SmallVector<Text> operands;
  for (mlir::Value operand : apply.getMapOperands())
    operands.push_back(size_text(operand));
  AffineMap map = apply.getAffineMap();
  SmallVector<AffineExpr> symbols; // stand after the dims among the operands
  for (unsigned i = 0; i < map.getNumSymbols(); ++i)
    symbols.push_back(getAffineDimExpr(map.getNumDims() + i, map.getContext()));
  return formula_text(map.getResult(0).replaceSymbols(symbols), operands);
}

/// A sum of products of formulas, equal ones counted together.
class FormulaSum {
public:
  /// A term: the number times the product of these.
  void add(int64_t number, ArrayRef<Text> factors) {
    std::string product;
    for (const Text &factor : factors) {
      if (!factor)
        known_ = false;
      else if (factor->find_first_not_of("0123456789") == std::string::npos)
        number *= std::stoll(*factor);
      else
        product += " * " + *factor;
    }
    terms_[product] += number;
  }
  Text text() const {
    if (!known_)
      return std::nullopt;
    std::string out;
    for (auto &[product, number] : terms_)
      out += (out.empty() ? "" : " + ") + std::to_string(number) + product;
    return out.empty() ? "0" : out;
  }

private:
  std::map<std::string, int64_t> terms_;
  bool known_ = true;
};

struct Sums {
  int64_t calls = 0;
  FormulaSum operations, weights, values;
  std::vector<KernelWork::Multiplies> multiplies; // of a call
};

void add_bytes(FormulaSum &sum, mlir::Type type, AffineMapAttr extents, ArrayRef<Text> sizes) {
  auto tensor = cast<RankedTensorType>(type);
  SmallVector<Text> factors;
  for (auto [axis, extent] : llvm::enumerate(tensor.getShape()))
    factors.push_back(!ShapedType::isDynamic(extent) ? Text(std::to_string(extent))
                      : extents                      ? formula_text(extents.getValue().getResult(axis), sizes)
                                                     : Text());
  sum.add(ir::element_bytes(tensor.getElementType()), factors);
}

/// A condition on the sizes of a call as formulas that aren't negative where it holds.
std::optional<std::vector<std::string>> condition_text(IntegerSet when, ArrayRef<Text> sizes) {
  std::vector<std::string> out;
  for (unsigned i = 0; i < when.getNumConstraints(); ++i) {
    AffineExpr expr = when.getConstraint(i);
    for (AffineExpr side : when.isEq(i) ? std::vector{expr, -expr} : std::vector{expr}) {
      Text text = formula_text(side, sizes);
      if (!text)
        return std::nullopt;
      out.push_back(*text);
    }
  }
  return out;
}

/// What multiplies in a call of these sizes, as the rows of the kernel's schedule say; nothing where that depends on
/// sizes of which there is no formula.
std::vector<KernelWork::Multiplies> multiplies(func::FuncOp kernel, ArrayRef<Text> sizes) {
  Result<std::vector<ScheduleRow>> rows = schedule_rows(kernel);
  std::vector<KernelWork::Multiplies> out;
  if (!rows)
    return out;
  auto name = [](const ScheduleRow &row) { // what multiplies in no tiles does so term by term
    return row.micro_kernel.empty() ? std::string(micro_kernels().front().name) : row.micro_kernel;
  };
  while (rows->size() > 1 && name((*rows)[rows->size() - 2]) == name(rows->back()))
    rows->erase(rows->end() - 2);
  for (const ScheduleRow &row : *rows) {
    auto when = row.when && &row != &rows->back() ? condition_text(*row.when, sizes) : std::vector<std::string>();
    if (!when)
      return {};
    out.push_back({name(row), std::move(*when)});
  }
  return out;
}

void add_call(Sums &sums, func::FuncOp kernel, func::CallOp call) {
  ++sums.calls;
  SmallVector<Text> sizes;
  bool repeated = call->getParentOfType<LoopLikeOpInterface>() != nullptr;
  for (unsigned i = 0; i < ir::size_count(kernel); ++i)
    sizes.push_back(repeated ? Text() : size_text(call.getOperand(i)));
  if (repeated) // how often is not known here
    for (FormulaSum *sum : {&sums.operations, &sums.weights, &sums.values})
      sum->add(0, {Text()});
  bool has_products = false;
  kernel.walk([&](linalg::LinalgOp op) {
    auto product = op.getNumReductionLoops() > 0 ? contraction::product_of(op) : std::nullopt;
    if (!product)
      return;
    auto loops = ir::loop_extents(op);
    SmallVector<Text> factors;
    if (succeeded(loops))
      for (AffineExpr extent : *loops)
        factors.push_back(formula_text(extent, sizes));
    else
      factors.push_back(std::nullopt);
    sums.operations.add(2, factors);
    has_products = true;
  });
  if (has_products)
    sums.multiplies = multiplies(kernel, sizes);
  auto results = [&](FormulaSum &sum) {
    for (unsigned i = 0; i < kernel.getNumResults(); ++i)
      add_bytes(sum, kernel.getResultTypes()[i], kernel.getResultAttrOfType<AffineMapAttr>(i, ir::names::extents),
                sizes);
  };
  results(sums.values);
  for (auto [i, operand] : llvm::enumerate(call.getOperands())) {
    if (!isa<RankedTensorType>(operand.getType()))
      continue;
    FormulaSum &sum = passes::bytes_of(operand).getDefiningOp<ir::GetOp>() ? sums.weights : sums.values;
    if (sizes::is_only_looked_into(kernel.getArgument(i)))
      results(sum);
    else
      add_bytes(sum, kernel.getArgumentTypes()[i], kernel.getArgAttrOfType<AffineMapAttr>(i, ir::names::extents),
                sizes);
  }
}

} // namespace

std::vector<KernelWork> work_of(func::FuncOp entry) {
  SmallVector<StringRef> order;
  std::map<StringRef, Sums> sums;
  entry.walk([&](func::CallOp call) {
    auto kernel = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(call, call.getCalleeAttr());
    if (!kernel || !kernel->hasAttr(ir::names::kernel) || call->hasAttr(ir::names::once))
      return;
    if (!sums.contains(kernel.getName()))
      order.push_back(kernel.getName());
    add_call(sums[kernel.getName()], kernel, call);
  });
  std::vector<KernelWork> out;
  for (StringRef name : order) {
    const Sums &all = sums[name];
    out.push_back(
        {name.str(), all.calls, all.operations.text(), all.multiplies, all.weights.text(), all.values.text()});
  }
  return out;
}

} // namespace heddle
