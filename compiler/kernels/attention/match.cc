// A walk from the result up: every op must be read at loops that mean the same thing throughout.
#include "compiler/kernels/attention/match.h"

#include "compiler/ir/shapes.h"
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

struct Sums {
  std::vector<std::pair<LinalgOp, std::vector<Role>>> found; // with the roles of their loops
  llvm::DenseMap<mlir::Operation *, std::vector<Role>> seen; // these, and what reads them
};

/// The reductions behind element-wise ops, such as the rounding of a result. `axes`: of the op's result, the kernel's
/// axes that they run along. False where one isn't read at all of its elements.
bool find_sums(LinalgOp op, const std::vector<Role> &axes, Sums &sums) {
  if (!op || op.getNumDpsInits() != 1 || extracts_from_ops(op))
    return false;
  std::optional<std::vector<Role>> loops = loop_roles(op, axes, keys);
  if (!loops)
    return false;
  auto [known, is_new] = sums.seen.try_emplace(op, *loops);
  if (!is_new)
    return known->second == *loops;
  if (op.getNumReductionLoops() > 0) {
    sums.found.emplace_back(op, *loops);
    return true;
  }
  bool found = false;
  for (mlir::OpOperand *operand : op.getDpsInputOperands())
    if (LinalgOp made = producer(operand->get())) {
      std::optional<std::vector<Role>> read = operand_roles(op, operand, *loops);
      if (!read || read->size() != axes.size() || !find_sums(made, *read, sums))
        return false;
      found = true;
    }
  return found;
}

/// Factors without the conditions under which an element counts for some rows only.
contraction::Reached for_all_rows(contraction::Reached sum) {
  for (Factor *factor : {&sum.product.left, &sum.product.right})
    factor->loops = contraction::loops_behind(sum.product.op, contraction::element_read(factor->value));
  return sum;
}

/// A product over keys, whose rows must be those of the ones before.
bool add_values(Match &match, Walk &walk, LinalgOp op, const std::vector<Role> &loops) {
  if (op.getNumReductionLoops() != 1)
    return false;
  std::optional<Product> product = contraction::product_of(op);
  if (!product)
    return false;
  contraction::Reached sum{*product, {}};
  for (Role role : loops)
    sum.axis_of_loop.push_back(role == keys ? -1 : role);
  std::optional<Rows> rows = rows_of_values(sum);
  bool is_first = match.weighted.empty();
  if (!rows || rows->axis < 0 || (!is_first && *rows != Rows{match.row_axis, match.slide}))
    return false;
  contraction::Reached used = for_all_rows(sum);
  const Factor *wide = contraction::wide_factor(used);
  const Factor *weights = wide == &used.product.left ? &used.product.right : &used.product.left;
  mlir::OpOperand *read = nullptr, *values = nullptr;
  LinalgOp behind = op_behind(op, *weights, read);
  if (!behind || op_behind(op, *wide, values))
    return false;
  match.row_axis = rows->axis;
  match.slide = rows->slide;
  match.rounds_freely = (is_first || match.rounds_freely) && rounds_freely(behind);
  match.weighted.push_back(sum);
  std::optional<std::vector<Role>> roles = operand_roles(op, read, loops);
  if (!roles || !walk.visit(behind, *roles))
    return false;
  match.roles[op] = loops;
  return true;
}

/// Whether all results are of one type and size.
bool are_alike(mlir::ValueRange results) {
  if (llvm::hasSingleElement(results))
    return true;
  auto extents = ir::extent_formulas(results.front());
  return succeeded(extents) && llvm::all_of(results, [&](mlir::Value other) {
           auto others = ir::extent_formulas(other);
           return other.getType() == results.front().getType() && succeeded(others) && *others == *extents;
         });
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
    if (rank == 0 || !op || !walk.visit(op, axes))
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

std::optional<Rows> rows_of_values(const contraction::Reached &weighted) {
  contraction::Reached used = for_all_rows(weighted);
  const Factor *wide = contraction::wide_factor(used);
  if (!wide)
    return std::nullopt;
  // The innermost axis of the result with which the keys of the values slide along, if any.
  Rows out;
  const std::vector<int> &axes = used.axis_of_loop;
  unsigned key = unsigned(llvm::find(axes, -1) - axes.begin());
  for (auto [loop, axis] : llvm::enumerate(axes))
    if (axis > out.axis && axis != *llvm::max_element(axes))
      if (std::optional<Slide> found = slide_of(used.product.op, wide->value, unsigned(loop), key))
        out = {axis, found};
  if (!out.slide)
    out.axis = contraction::row_axis(used);
  return out;
}

std::optional<Match> match(mlir::func::FuncOp kernel) {
  if (!llvm::hasSingleElement(kernel.getBody()))
    return std::nullopt;
  mlir::Operation *last = kernel.getBody().front().getTerminator();
  if (last->getNumOperands() == 0 || !are_alike(last->getOperands()))
    return std::nullopt;
  if (std::optional<Match> statistics = match_statistics(kernel))
    return statistics;
  std::vector<Role> axes;
  for (int64_t axis = 0; axis < llvm::cast<mlir::RankedTensorType>(last->getOperand(0).getType()).getRank(); ++axis)
    axes.push_back(int(axis));
  Sums sums;
  for (mlir::Value value : last->getOperands())
    if (!find_sums(producer(value), axes, sums))
      return std::nullopt;
  Match match;
  match.lane_axis = int(axes.size()) - 1;
  Walk walk(match);
  for (const auto &[op, loops] : sums.found)
    if (!add_values(match, walk, op, loops))
      return std::nullopt;
  if (walk.products == 0)
    return std::nullopt;
  return has_others(kernel, match) ? std::nullopt : std::optional(match);
}

} // namespace heddle::attention
