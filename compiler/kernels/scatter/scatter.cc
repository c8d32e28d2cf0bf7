// The kind `scatter`: such sums, several of them perhaps, with what follows element by element: the update of the table
// that was looked up. A term is visited once, not once for each place of the table.
#include "compiler/kernels/scatter/scatter.h"

#include "compiler/kernels/each_element.h"
#include "compiler/kernels/product/product.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

namespace heddle {

namespace scatter {

using mlir::Value;
using mlir::linalg::LinalgOp;
namespace arith = mlir::arith;

/// The conditions of which one is the conjunction.
static void conjuncts(Value condition, llvm::SmallVector<Value> &out) {
  if (auto both = condition.getDefiningOp<arith::AndIOp>()) {
    conjuncts(both.getLhs(), out);
    conjuncts(both.getRhs(), out);
  } else {
    out.push_back(condition);
  }
}

/// The loop whose index a value is, or -1.
static int index_of(Value value) {
  if (auto cast = value.getDefiningOp<arith::IndexCastOp>())
    value = cast.getIn();
  auto index = value.getDefiningOp<mlir::linalg::IndexOp>();
  return index ? int(index.getDim()) : -1;
}

int place_loop(LinalgOp sum) {
  if (sum.getNumReductionLoops() == 0 || sum.getNumDpsInits() != 1)
    return -1;
  mlir::Value accumulator = sum.getBlock()->getArgument(sum.getNumDpsInputs());
  mlir::Operation *add = sum.getBlock()->getTerminator()->getOperand(0).getDefiningOp();
  if (!llvm::isa_and_nonnull<arith::AddFOp, arith::AddIOp>(add) || !accumulator.hasOneUse() ||
      !llvm::is_contained(add->getOperands(), accumulator))
    return -1;
  auto term = add->getOperand(add->getOperand(0) == accumulator ? 1 : 0).getDefiningOp<arith::SelectOp>();
  if (!term || !(mlir::matchPattern(term.getFalseValue(), mlir::m_AnyZeroFloat()) ||
                 mlir::matchPattern(term.getFalseValue(), mlir::m_Zero())))
    return -1;
  auto kinds = sum.getIteratorTypesArray();
  llvm::SmallBitVector summed(sum.getNumLoops());
  for (auto [loop, kind] : llvm::enumerate(kinds))
    summed[unsigned(loop)] = kind == mlir::utils::IteratorType::reduction;
  llvm::SmallVector<Value> conditions;
  conjuncts(term.getCondition(), conditions);
  for (Value condition : conditions) {
    auto equal = condition.getDefiningOp<arith::CmpIOp>();
    if (!equal || equal.getPredicate() != arith::CmpIPredicate::eq)
      continue;
    for (bool left : {true, false}) {
      int loop = index_of(left ? equal.getLhs() : equal.getRhs());
      llvm::SmallBitVector number = contraction::loops_behind(sum, left ? equal.getRhs() : equal.getLhs());
      if (loop < 0 || summed.test(unsigned(loop)) || number.test(unsigned(loop)) || !number.anyCommon(summed) ||
          contraction::loops_behind(sum, term.getTrueValue()).test(unsigned(loop)))
        continue;
      return loop;
    }
  }
  return -1;
}

int place_axis(mlir::func::FuncOp kernel) {
  int axis = -1;
  kernel.walk([&](LinalgOp op) {
    if (op.getNumReductionLoops() > 0)
      axis = place_loop(op); // which is written at its loops in their order
  });
  return axis;
}

/// Whether an op writes its own parallel loops in their order, all in front of the others.
static bool is_in_order(LinalgOp op) {
  return llvm::all_of(op.getDpsInitsMutable(), [&](mlir::OpOperand &init) {
    mlir::AffineMap map = op.getMatchingIndexingMap(&init);
    return map.getNumResults() == op.getNumParallelLoops() &&
           map == mlir::AffineMap::getMultiDimIdentityMap(op.getNumLoops(), op.getContext())
                      .getMajorSubMap(op.getNumParallelLoops());
  });
}

static bool matches(mlir::func::FuncOp kernel) {
  auto made = [](Value tensor) {
    auto op = tensor.getDefiningOp<LinalgOp>();
    return op && !llvm::isa<mlir::linalg::FillOp>(*op);
  };
  bool fits = llvm::hasSingleElement(kernel.getBody());
  std::optional<unsigned> axes;
  std::optional<int> place;
  kernel.walk([&](LinalgOp op) {
    if (llvm::isa<mlir::linalg::FillOp>(*op))
      return;
    bool sums = op.getNumReductionLoops() > 0;
    int own = sums ? place_loop(op) : place.value_or(0);
    fits &= own >= 0 && is_in_order(op) && op.getNumParallelLoops() == axes.value_or(op.getNumParallelLoops()) &&
            (!sums || own == place.value_or(own));
    axes = op.getNumParallelLoops();
    if (sums)
      place = own;
    for (mlir::OpOperand *operand : op.getDpsInputOperands())
      fits &= !made(operand->get()) || (!sums && op.getMatchingIndexingMap(operand).isIdentity());
    op.getBlock()->walk([&](mlir::tensor::ExtractOp read) { fits &= !made(read.getTensor()); });
  });
  return place && fits;
}

static const Variant *const variants[] = {&blocks, &each_element};

} // namespace scatter

extern const KernelKind scatter_kind;
const KernelKind scatter_kind = {
    .name = "scatter", .variants = scatter::variants, .matches = scatter::matches, .writes_over = true};

} // namespace heddle
