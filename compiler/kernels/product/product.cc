// Structure only: a value's loops are those of the operands and `linalg.index` ops that it is computed from.
#include "compiler/kernels/product/product.h"

#include "compiler/ir/dialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

#include "llvm/ADT/STLExtras.h"

namespace heddle::contraction {

using llvm::SmallBitVector;
using mlir::linalg::LinalgOp;

llvm::SetVector<mlir::Value> values_behind(LinalgOp op, mlir::Value value) {
  llvm::SetVector<mlir::Value> values;
  values.insert(value);
  for (size_t next = 0; next < values.size(); ++next)
    if (mlir::Operation *made = values[next].getDefiningOp(); made && made->getBlock() == op.getBlock())
      for (mlir::Value operand : made->getOperands())
        if (!llvm::isa<mlir::RankedTensorType>(operand.getType()))
          values.insert(operand);
  return values;
}

SmallBitVector loops_behind(LinalgOp op, mlir::Value value) {
  SmallBitVector loops(op.getNumLoops());
  for (mlir::Value behind : values_behind(op, value)) {
    if (auto argument = llvm::dyn_cast<mlir::BlockArgument>(behind)) {
      if (argument.getOwner() != op.getBlock())
        continue;
      mlir::AffineMap map = op.getMatchingIndexingMap(&op->getOpOperand(argument.getArgNumber()));
      for (unsigned loop = 0; loop < op.getNumLoops(); ++loop)
        if (map.isFunctionOfDim(loop))
          loops.set(loop);
    } else if (auto index = behind.getDefiningOp<mlir::linalg::IndexOp>()) {
      loops.set(unsigned(index.getDim()));
    }
  }
  return loops;
}

std::optional<Product> product_of(LinalgOp op) {
  if (op.getNumReductionLoops() == 0 || op.getNumDpsInits() != 1 || !op.getBlock()->mightHaveTerminator())
    return std::nullopt;
  mlir::Operation *add = op.getBlock()->getTerminator()->getOperand(0).getDefiningOp();
  mlir::BlockArgument sum = op.getBlock()->getArgument(op.getNumDpsInputs());
  if (!add || !llvm::isa<mlir::arith::AddFOp, mlir::arith::AddIOp>(add) || !sum.hasOneUse() ||
      !llvm::is_contained(add->getOperands(), sum))
    return std::nullopt;
  mlir::Operation *times = add->getOperand(add->getOperand(0) == sum ? 1 : 0).getDefiningOp();
  if (!times || !llvm::isa<mlir::arith::MulFOp, mlir::arith::MulIOp>(times))
    return std::nullopt;
  Product product{op, {times->getOperand(0), {}}, {times->getOperand(1), {}}};
  for (Factor *factor : {&product.left, &product.right})
    factor->loops = loops_behind(op, factor->value);
  bool summed = false, reused = false;
  for (auto [loop, kind] : llvm::enumerate(op.getIteratorTypesArray())) {
    bool left = product.left.loops.test(unsigned(loop)), right = product.right.loops.test(unsigned(loop));
    if (kind == mlir::utils::IteratorType::reduction)
      summed |= left && right;
    else
      reused |= left != right;
  }
  if (!summed || !reused)
    return std::nullopt;
  return product;
}

bool is_matrix_product(LinalgOp op) {
  std::optional<Product> product = product_of(op);
  if (!product)
    return false;
  bool left_reused = false, right_reused = false;
  for (auto [loop, kind] : llvm::enumerate(op.getIteratorTypesArray()))
    if (kind == mlir::utils::IteratorType::parallel) {
      bool left = product->left.loops.test(unsigned(loop)), right = product->right.loops.test(unsigned(loop));
      left_reused |= right && !left;
      right_reused |= left && !right;
    }
  return left_reused && right_reused;
}

/// The axis of the op's result along which each loop runs; nothing where the result isn't written at plain loops.
static std::optional<std::vector<int>> result_axes(LinalgOp op, unsigned result) {
  std::vector<int> axis_of_loop(op.getNumLoops(), -1);
  mlir::AffineMap map = op.getMatchingIndexingMap(op.getDpsInitOperand(result));
  for (auto [axis, expr] : llvm::enumerate(map.getResults())) {
    auto dim = llvm::dyn_cast<mlir::AffineDimExpr>(expr);
    if (!dim || axis_of_loop[dim.getPosition()] >= 0)
      return std::nullopt;
    axis_of_loop[dim.getPosition()] = int(axis);
  }
  return axis_of_loop;
}

namespace {

/// Walks from a result to the products behind it, keeping track of which axis is which.
class Walk {
public:
  std::vector<Reached> reached;

  /// `axes`: for each axis of `value`, the axis of the result that it runs along.
  bool visit(mlir::Value value, const std::vector<int> &axes) {
    auto known = llvm::find_if(visited_, [&](const Visited &one) { return one.value == value && one.axes == axes; });
    if (known != visited_.end())
      return known->holds;
    bool holds = visit_new(value, axes);
    visited_.push_back({value, axes, holds});
    return holds;
  }

private:
  bool visit_new(mlir::Value value, const std::vector<int> &axes) {
    auto op = value.getDefiningOp<LinalgOp>();
    if (!op || llvm::isa<mlir::linalg::FillOp>(*op))
      return true;
    std::optional<std::vector<int>> own = result_axes(op, llvm::cast<mlir::OpResult>(value).getResultNumber());
    if (!own)
      return false;
    for (int &axis : *own)
      axis = axis < 0 ? -1 : axes[axis];
    if (op.getNumReductionLoops() > 0) {
      std::optional<Product> product = product_of(op);
      if (!product || reductions_.are_read_by(op))
        return false;
      for (const Reached &other : reached)
        if (other.product.op == op)
          return other.axis_of_loop == *own;
      reached.push_back({*product, *own});
      return true;
    }
    for (mlir::OpOperand *operand : op.getDpsInputOperands()) {
      if (!reductions_.are_behind(operand->get()))
        continue;
      std::vector<int> below;
      for (mlir::AffineExpr expr : op.getMatchingIndexingMap(operand).getResults()) {
        auto dim = llvm::dyn_cast<mlir::AffineDimExpr>(expr);
        if (!dim || llvm::is_contained(below, (*own)[dim.getPosition()]))
          return false;
        below.push_back((*own)[dim.getPosition()]);
      }
      if (below.size() != own->size() || !visit(operand->get(), below))
        return false;
    }
    bool elsewhere = false; // a product read at another place than the result's own
    op.getBlock()->walk([&](mlir::tensor::ExtractOp read) { elsewhere |= reductions_.are_behind(read.getTensor()); });
    return !elsewhere;
  }

  struct Visited {
    mlir::Value value;
    std::vector<int> axes;
    bool holds;
  };
  std::vector<Visited> visited_; // the same values are reached along many ways
  Reductions reductions_;
};

} // namespace

bool Reductions::are_read_by(LinalgOp op) {
  bool found =
      llvm::any_of(op.getDpsInputOperands(), [&](mlir::OpOperand *operand) { return are_behind(operand->get()); });
  op.getBlock()->walk([&](mlir::tensor::ExtractOp read) { found = found || are_behind(read.getTensor()); });
  return found;
}

bool Reductions::are_behind(mlir::Value value) {
  auto op = value.getDefiningOp<LinalgOp>();
  if (!op || llvm::isa<mlir::linalg::FillOp>(*op))
    return false;
  if (auto known = known_.find(op.getOperation()); known != known_.end())
    return known->second;
  bool found = op.getNumReductionLoops() > 0 || are_read_by(op);
  return known_[op.getOperation()] = found;
}

std::optional<std::vector<Reached>> products_behind(mlir::Value value) {
  std::vector<int> axes;
  for (int64_t axis = 0; axis < llvm::cast<mlir::RankedTensorType>(value.getType()).getRank(); ++axis)
    axes.push_back(int(axis));
  Walk walk;
  if (axes.empty() || !walk.visit(value, axes) || walk.reached.empty())
    return std::nullopt;
  return std::move(walk.reached);
}

int lane_loop(const Reached &reached) {
  auto innermost = llvm::max_element(reached.axis_of_loop);
  return int(innermost - reached.axis_of_loop.begin());
}

const Factor *wide_factor(const Reached &reached) {
  unsigned lanes = unsigned(lane_loop(reached));
  bool left = reached.product.left.loops.test(lanes), right = reached.product.right.loops.test(lanes);
  return left == right ? nullptr : left ? &reached.product.left : &reached.product.right;
}

Product rows_by_lanes(const Reached &reached) {
  Product product = reached.product;
  if (wide_factor(reached) == &reached.product.left)
    std::swap(product.left, product.right);
  return product;
}

int row_axis(const Reached &reached) {
  const Factor *wide = wide_factor(reached);
  int innermost = -1;
  for (auto [loop, axis] : llvm::enumerate(reached.axis_of_loop))
    if (!wide->loops.test(unsigned(loop)))
      innermost = std::max(innermost, axis);
  return innermost;
}

mlir::Value element_read(mlir::Value factor) {
  while (mlir::Operation *made = factor.getDefiningOp()) {
    if (llvm::isa<mlir::arith::ExtFOp, mlir::arith::ExtSIOp, mlir::arith::ExtUIOp>(made))
      factor = made->getOperand(0);
    else if (auto choice = llvm::dyn_cast<mlir::arith::SelectOp>(made);
             choice && (mlir::matchPattern(choice.getFalseValue(), mlir::m_AnyZeroFloat()) ||
                        mlir::matchPattern(choice.getFalseValue(), mlir::m_Zero())))
      factor = choice.getTrueValue();
    else
      break;
  }
  return factor;
}

bool counts_for_some_rows(LinalgOp op) {
  std::optional<Product> product = product_of(op);
  return product && (product->left.loops != loops_behind(op, element_read(product->left.value)) ||
                     product->right.loops != loops_behind(op, element_read(product->right.value)));
}

bool is_data(LinalgOp op, mlir::Value index) {
  return llvm::any_of(values_behind(op, index), [&](mlir::Value value) {
    auto argument = llvm::dyn_cast<mlir::BlockArgument>(value);
    if (argument)
      return argument.getOwner() == op.getBlock();
    auto read = value.getDefiningOp<mlir::tensor::ExtractOp>();
    return read && read->getBlock() == op.getBlock();
  });
}

int tile_axis(const Reached &reached) {
  LinalgOp op = reached.product.op;
  const Factor *wide = wide_factor(reached);
  auto read = element_read(wide->value).getDefiningOp<mlir::tensor::ExtractOp>();
  if (!read || row_axis(reached) < 0 || rows_of_tile(reached) < 0)
    return -1;
  int axis = -1;
  for (mlir::Value index : read.getIndices()) {
    if (index.getDefiningOp<mlir::linalg::IndexOp>())
      continue;
    SmallBitVector loops = loops_behind(op, index);
    if (axis >= 0 || !is_data(op, index) || loops.count() != 1 || reached.axis_of_loop[loops.find_first()] < 0)
      return -1;
    axis = reached.axis_of_loop[loops.find_first()];
  }
  return axis;
}

int64_t rows_of_tile(const Reached &reached) {
  LinalgOp op = reached.product.op;
  auto loop = llvm::find(reached.axis_of_loop, row_axis(reached)) - reached.axis_of_loop.begin();
  int64_t rows = op.getStaticLoopRanges()[loop];
  return mlir::ShapedType::isDynamic(rows) ? -1 : rows;
}

bool has_one_product(const std::vector<std::vector<Reached>> &results) {
  return llvm::all_of(results, [&](const std::vector<Reached> &result) {
    return result.size() == 1 && result[0].product.op == results[0][0].product.op &&
           result[0].axis_of_loop == results[0][0].axis_of_loop;
  });
}

std::optional<std::vector<std::vector<Reached>>> match(mlir::func::FuncOp kernel) {
  if (!llvm::hasSingleElement(kernel.getBody()))
    return std::nullopt;
  for (mlir::Operation &nested : kernel.getBody().front())
    if (auto op = llvm::dyn_cast<LinalgOp>(nested); op && op.getNumReductionLoops() > 0 && !product_of(op))
      return std::nullopt;
  std::vector<std::vector<Reached>> results;
  for (mlir::Value value : kernel.getBody().front().getTerminator()->getOperands()) {
    std::optional<std::vector<Reached>> products = products_behind(value);
    if (!products)
      return std::nullopt;
    for (const Reached &reached : *products)
      if (!wide_factor(reached) || row_axis(reached) != row_axis(products->front()) ||
          tile_axis(reached) != tile_axis(products->front()))
        return std::nullopt;
    results.push_back(std::move(*products));
  }
  return results;
}

std::optional<layout::Panels> given_panels(mlir::func::FuncOp kernel, unsigned argument) {
  auto given = kernel.getArgAttrOfType<ir::LayoutAttr>(argument, ir::names::layout);
  return given ? layout::panels_of(given.getMap()) : std::nullopt;
}

} // namespace heddle::contraction
