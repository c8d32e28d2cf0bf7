// A walk from the result up: every op must be read at loops that mean the same thing throughout.
#include "compiler/kernels/attention/match.h"

#include "compiler/kernels/product/micro_kernel.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include "llvm/ADT/STLExtras.h"

namespace heddle::attention {

using contraction::Factor;
using contraction::Product;
using mlir::linalg::LinalgOp;

namespace {

LinalgOp producer(mlir::Value value) {
  auto op = value.getDefiningOp<LinalgOp>();
  return op && !llvm::isa<mlir::linalg::FillOp>(*op) ? op : LinalgOp();
}

bool extracts_from_ops(LinalgOp op) {
  bool found = false;
  op.getBlock()->walk([&](mlir::tensor::ExtractOp read) { found |= bool(producer(read.getTensor())); });
  return found;
}

/// The roles of an op's loops, given those of its only result's axes; reduction loops get `reduced`.
std::optional<std::vector<Role>> loop_roles(LinalgOp op, const std::vector<Role> &axes, Role reduced) {
  std::vector<Role> roles(op.getNumLoops(), reduced);
  std::vector<bool> seen(op.getNumLoops());
  mlir::AffineMap map = op.getMatchingIndexingMap(op.getDpsInitOperand(0));
  for (auto [axis, expr] : llvm::enumerate(map.getResults())) {
    auto dim = llvm::dyn_cast<mlir::AffineDimExpr>(expr);
    if (!dim || seen[dim.getPosition()])
      return std::nullopt;
    seen[dim.getPosition()] = true;
    roles[dim.getPosition()] = axes[axis];
  }
  return roles;
}

std::optional<std::vector<Role>> operand_roles(LinalgOp op, mlir::OpOperand *operand, const std::vector<Role> &loops) {
  std::vector<Role> roles;
  for (mlir::AffineExpr expr : op.getMatchingIndexingMap(operand).getResults()) {
    auto dim = llvm::dyn_cast<mlir::AffineDimExpr>(expr);
    if (!dim || llvm::is_contained(roles, loops[dim.getPosition()]))
      return std::nullopt;
    roles.push_back(loops[dim.getPosition()]);
  }
  return roles;
}

class Walk {
public:
  explicit Walk(Match &match) : match_(match) {}

  /// An op behind the weights, read at axes of these roles.
  bool visit(LinalgOp op, const std::vector<Role> &axes) {
    if (op.getNumDpsInits() != 1 || extracts_from_ops(op))
      return false;
    bool reduction = op.getNumReductionLoops() > 0;
    bool product = reduction && contraction::product_of(op) && !reads_ops(op) && llvm::is_contained(axes, keys);
    if (reduction && !product && (op.getNumReductionLoops() != 1 || llvm::is_contained(axes, keys)))
      return false;
    std::optional<std::vector<Role>> roles = loop_roles(op, axes, product ? summed : keys);
    if (!roles)
      return false;
    auto [known, fresh] = match_.roles.try_emplace(op, *roles);
    if (!fresh)
      return known->second == *roles;
    products += product;
    for (mlir::OpOperand *operand : op.getDpsInputOperands())
      if (LinalgOp behind = producer(operand->get()))
        if (std::optional<std::vector<Role>> read = operand_roles(op, operand, *roles); !read || !visit(behind, *read))
          return false;
    return true;
  }

  int products = 0;

private:
  static bool reads_ops(LinalgOp op) {
    return llvm::any_of(op.getDpsInputOperands(),
                        [](mlir::OpOperand *operand) { return bool(producer(operand->get())); });
  }

  Match &match_;
};

/// The innermost axis of the result with which the keys of the values slide along, if any.
void find_slide(Match &match, const Factor &values) {
  const std::vector<int> &axes = match.weighted.axis_of_loop;
  unsigned key = unsigned(llvm::find(axes, -1) - axes.begin());
  for (auto [loop, axis] : llvm::enumerate(axes))
    if (axis > match.row_axis && axis != match.lane_axis)
      if (std::optional<Slide> slide = slide_of(match.weighted.product.op, values.value, unsigned(loop), key)) {
        match.slide = slide;
        match.row_axis = axis;
      }
}

/// Whether the result of an op is rounded, and may stay as it was.
bool rounds_freely(LinalgOp op) {
  auto rounding = op.getBlock()->getTerminator()->getOperand(0).getDefiningOp<mlir::arith::TruncFOp>();
  return rounding && mlir::arith::bitEnumContainsAll(rounding.getFastmath().value_or(mlir::arith::FastMathFlags::none),
                                                     mlir::arith::FastMathFlags::contract);
}

/// The op that a factor of a product reads as an operand, perhaps widened, or null.
LinalgOp op_behind(LinalgOp product, const Factor &factor, mlir::OpOperand *&operand) {
  auto argument = llvm::dyn_cast<mlir::BlockArgument>(unwidened(factor.value));
  if (!argument || argument.getOwner() != product.getBlock())
    return {};
  operand = &product->getOpOperand(argument.getArgNumber());
  return producer(operand->get());
}

/// The op behind element-wise ones, such as the rounding of a result. `axes`: of the value, then of the op's result,
/// the kernel's axes that they run along. Null where more than one op is behind it, or not all of its elements.
LinalgOp behind_epilogue(LinalgOp op, std::vector<Role> &axes) {
  while (op && op.getNumReductionLoops() == 0) {
    if (op.getNumDpsInits() != 1 || extracts_from_ops(op))
      return {};
    std::optional<std::vector<Role>> loops = loop_roles(op, axes, keys);
    LinalgOp next;
    for (mlir::OpOperand *operand : op.getDpsInputOperands()) {
      LinalgOp made = producer(operand->get());
      if (!made)
        continue;
      std::optional<std::vector<Role>> read = loops ? operand_roles(op, operand, *loops) : std::nullopt;
      if (next || !read || read->size() != axes.size())
        return {};
      next = made;
      axes = *read;
    }
    op = next;
  }
  return op;
}

/// Whether there is a reduction in the kernel but those that were found.
bool has_others(mlir::func::FuncOp kernel, const Match &match) {
  return llvm::any_of(kernel.getBody().front(), [&](mlir::Operation &nested) {
    auto other = llvm::dyn_cast<LinalgOp>(nested);
    return other && other.getNumReductionLoops() > 0 && !match.roles.contains(other);
  });
}

/// Results that are reductions over the keys, or element-wise functions of them. Their last axis is that of the rows:
/// of a product, one factor has it.
std::optional<Match> match_statistics(mlir::func::FuncOp kernel) {
  mlir::Operation *last = kernel.getBody().front().getTerminator();
  Match match;
  Walk walk(match);
  int64_t rank = llvm::cast<mlir::RankedTensorType>(last->getOperand(0).getType()).getRank();
  std::vector<Role> axes;
  for (int64_t axis = 0; axis < rank; ++axis)
    axes.push_back(int(axis));
  match.row_axis = match.lane_axis = int(rank) - 1;
  for (mlir::Value value : last->getOperands()) {
    LinalgOp op = producer(value);
    if (rank == 0 || !op || value.getType() != last->getOperand(0).getType() || !walk.visit(op, axes))
      return std::nullopt;
  }
  for (auto &[op, roles] : match.roles)
    if (llvm::is_contained(roles, summed)) {
      Product product = *contraction::product_of(llvm::cast<LinalgOp>(op));
      unsigned row = unsigned(llvm::find(roles, match.row_axis) - roles.begin());
      if (row == roles.size() || product.left.loops.test(row) == product.right.loops.test(row))
        return std::nullopt;
    }
  return walk.products > 0 && !has_others(kernel, match) ? std::optional(match) : std::nullopt;
}

} // namespace

std::optional<Match> match(mlir::func::FuncOp kernel) {
  if (!llvm::hasSingleElement(kernel.getBody()))
    return std::nullopt;
  mlir::Operation *last = kernel.getBody().front().getTerminator();
  if (last->getNumOperands() == 0)
    return std::nullopt;
  if (std::optional<Match> statistics = match_statistics(kernel))
    return statistics;
  if (last->getNumOperands() != 1)
    return std::nullopt;
  mlir::Value value = last->getOperand(0);
  std::vector<Role> axes;
  for (int64_t axis = 0; axis < llvm::cast<mlir::RankedTensorType>(value.getType()).getRank(); ++axis)
    axes.push_back(int(axis));
  LinalgOp op = behind_epilogue(producer(value), axes);
  if (!op || op.getNumReductionLoops() != 1 || op.getNumDpsInits() != 1 || extracts_from_ops(op))
    return std::nullopt;
  std::optional<Product> product = contraction::product_of(op);
  if (!product)
    return std::nullopt;
  std::optional<std::vector<Role>> loops = loop_roles(op, axes, keys);
  if (!loops)
    return std::nullopt;
  Match match;
  match.weighted.product = *product;
  match.lane_axis = int(axes.size()) - 1;
  for (Role role : *loops)
    match.weighted.axis_of_loop.push_back(role == keys ? -1 : role);
  contraction::Reached used = match.weighted; // whichever rows an element counts for
  for (Factor *factor : {&used.product.left, &used.product.right})
    factor->loops = contraction::loops_behind(op, contraction::element_read(factor->value));
  const Factor *wide = contraction::wide_factor(used);
  if (!wide)
    return std::nullopt;
  find_slide(match, *wide);
  if (!match.slide)
    match.row_axis = contraction::row_axis(used);
  const Factor *weights = wide == &used.product.left ? &used.product.right : &used.product.left;
  mlir::OpOperand *read = nullptr, *values = nullptr;
  LinalgOp behind = op_behind(op, *weights, read);
  if (match.row_axis < 0 || !behind || op_behind(op, *wide, values))
    return std::nullopt;
  std::optional<std::vector<Role>> roles = operand_roles(op, read, *loops);
  Walk walk(match);
  if (!roles || !walk.visit(behind, *roles) || walk.products == 0)
    return std::nullopt;
  match.roles[op] = *loops;
  match.rounds_freely = rounds_freely(behind);
  return has_others(kernel, match) ? std::nullopt : std::optional(match);
}

} // namespace heddle::attention
