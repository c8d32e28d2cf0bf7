// The conditions of the other kinds, asked again one by one, the most telling first. A kernel without reductions is
// always `pointwise`, so one of the kind `general` has some.
#include "compiler/kernels/general/general.h"

#include "compiler/halide/infinities.h"
#include "compiler/ir/definitions.h"
#include "compiler/kernels/product/product.h"
#include "compiler/kernels/rows.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

namespace heddle {

using contraction::Product;
using contraction::Reached;
using mlir::linalg::LinalgOp;

/// The author's definition that an op computes, or a part of it.
static std::string name_of(LinalgOp op) {
  std::vector<ir::Definition> named = ir::definitions_in(op.getLoc()), all;
  op->getParentOfType<mlir::func::FuncOp>().walk([&](LinalgOp other) {
    for (ir::Definition &definition : ir::definitions_in(other.getLoc()))
      all.push_back(std::move(definition));
  });
  return named.empty() ? "a definition" : "`" + ir::outer_name(named.back().name, all) + "`";
}

static std::string why_not_contraction(mlir::func::FuncOp kernel, LinalgOp product, LinalgOp other) {
  std::string name = name_of(product);
  if (other)
    return "the product " + name + " and the reduction " + name_of(other) +
           " have to be computed together, which only attention's kernels do, and " + name_of(other) +
           " does not go along the keys of one";
  std::optional<int> rows;
  for (mlir::Value value : kernel.getBody().front().getTerminator()->getOperands()) {
    std::optional<std::vector<Reached>> products = contraction::products_behind(value);
    if (!products) {
      auto op = value.getDefiningOp<LinalgOp>();
      return (op ? name_of(op) : "a result") + " reads the product " + name + " elsewhere than at its own index";
    }
    for (const Reached &reached : *products) {
      if (!contraction::wide_factor(reached))
        return "both factors of the product " + name_of(reached.product.op) +
               " depend on the last index of its result, or neither does; an index that only one of them has should "
               "come last";
      if (rows && contraction::row_axis(reached) != *rows)
        return "the products " + name + " and " + name_of(reached.product.op) +
               " have to be computed together, and no index of their results belongs to the same factor in both";
      rows = contraction::row_axis(reached);
    }
  }
  return "the product " + name + " is computed together with others that take other indices";
}

std::string why_general(mlir::func::FuncOp kernel) {
  LinalgOp product, other, in_order, whole;
  kernel.walk([&](LinalgOp op) {
    if (op.getNumReductionLoops() == 0)
      return;
    if (contraction::is_matrix_product(op))
      product = product ? product : op;
    else
      other = other ? other : op;
    if (adds_infinities(op))
      in_order = in_order ? in_order : op;
    if (op.getMatchingIndexingMap(op.getDpsInitOperand(0)).getNumResults() == 0)
      whole = whole ? whole : op;
  });
  if (product)
    return why_not_contraction(kernel, product, other && !contraction::product_of(other) ? other : LinalgOp());
  if (in_order)
    return name_of(in_order) + " may add infinite terms, so they are added one after the other, in their order";
  if (whole)
    return name_of(whole) + " is a single number, made from all elements at once: there are no rows to deal out; a sum "
                            "along one index first, then of these, has some";
  if (other && rows::shared_axes(kernel) < 0)
    return "a reduction, such as " + name_of(other) +
           ", is read at computed places, so all of it has to be there first";
  return (other ? name_of(other) : "a reduction") +
         " shares no leading index with what is computed with it, along which rows could be dealt out; let the indices "
         "that they have in common come first, in the same order";
}

/// sum[j where c](a[i, j] * v[j, e])
static bool is_product_under_condition(LinalgOp op) {
  auto sum = op.getBlock()->getTerminator()->getOperand(0).getDefiningOp<mlir::arith::AddFOp>();
  if (op.getNumReductionLoops() == 0 || op.getNumDpsInits() != 1 || !sum)
    return false;
  for (mlir::Value added : sum->getOperands()) {
    auto chosen = added.getDefiningOp<mlir::arith::SelectOp>();
    auto product = chosen ? chosen.getTrueValue().getDefiningOp<mlir::arith::MulFOp>() : mlir::arith::MulFOp();
    if (!product || !mlir::matchPattern(chosen.getFalseValue(), mlir::m_AnyZeroFloat()))
      continue;
    llvm::SmallBitVector left = contraction::loops_behind(op, product.getLhs()),
                         right = contraction::loops_behind(op, product.getRhs());
    llvm::SmallVector<unsigned> parallel;
    op.getParallelDims(parallel);
    auto reused = [&](const llvm::SmallBitVector &by, const llvm::SmallBitVector &other) {
      return llvm::any_of(parallel, [&](unsigned loop) { return by.test(loop) && !other.test(loop); });
    };
    if (reused(left, right) && reused(right, left))
      return true;
  }
  return false;
}

std::string why_no_product(mlir::func::FuncOp kernel) {
  std::string why;
  kernel.walk([&](LinalgOp op) {
    if (is_product_under_condition(op))
      why = "the sum " + name_of(op) +
            " leaves out terms by a condition, which do not count whatever stands there, and a product would multiply "
            "them; where all is finite, make one of its factors 0 instead (scores of a softmax -inf)";
  });
  return why;
}

} // namespace heddle
