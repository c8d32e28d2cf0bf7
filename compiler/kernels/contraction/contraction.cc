// The kind `contraction`: a product with what follows it element by element (bias, activation, residual), such as
//   y[m, o] = gelu(sum[i](x[m, i] * w[o, i]) + b[o])
// What it takes, the layouts that it may want of its weights, and its variants.
#include "compiler/kernels/contraction/contraction.h"

#include "compiler/kernels/contraction/problem.h"
#include "compiler/kernels/each_element.h"
#include "compiler/layout/layout.h"

namespace heddle {

namespace contraction {

static bool matches(mlir::func::FuncOp kernel) { return match(kernel).has_value(); }

const MicroKernel &micro_kernel_of(const std::vector<std::vector<Reached>> &results, const Target &target) {
  std::vector<Product> products;
  for (const std::vector<Reached> &result : results)
    for (const Reached &reached : result)
      products.push_back(reached.product);
  return micro_kernel_for(products, target);
}

/// The axis that the innermost loop of a sum runs along in `map`, or -1.
static int innermost_term_axis(mlir::linalg::LinalgOp op, mlir::AffineMap map) {
  llvm::SmallVector<unsigned> summed;
  op.getReductionDims(summed);
  for (auto [axis, expr] : llvm::enumerate(map.getResults()))
    if (expr == mlir::getAffineDimExpr(summed.back(), op.getContext()))
      return int(axis);
  return -1;
}

/// The layout in panels along `lanes`, with the terms of a group side by side, of a weight that `op` reads through
/// `map`.
static mlir::AffineMap panels_for(mlir::linalg::LinalgOp op, mlir::AffineMap map, unsigned lanes, int64_t width,
                                  const MicroKernel &micro_kernel) {
  int terms = innermost_term_axis(op, map);
  llvm::SmallVector<unsigned> others;
  for (unsigned axis = 0; axis < map.getNumResults(); ++axis)
    if (axis != lanes && int(axis) != terms)
      others.push_back(axis);
  if (terms < 0)
    return layout::panels(op.getContext(), lanes, width, others);
  if (micro_kernel.group == 1) // in their order
    others.insert(llvm::lower_bound(others, unsigned(terms)), unsigned(terms));
  else
    others.push_back(unsigned(terms));
  return layout::panels(op.getContext(), lanes, width, others, micro_kernel.group);
}

mlir::AffineMap panels_along_lanes(mlir::func::FuncOp kernel, unsigned argument, int64_t width, const Target &target) {
  std::optional<std::vector<std::vector<Reached>>> results = match(kernel);
  if (!results)
    return {};
  const MicroKernel &micro_kernel = micro_kernel_of(*results, target);
  for (const std::vector<Reached> &products : *results)
    for (const Reached &reached : products) {
      mlir::linalg::LinalgOp op = reached.product.op;
      unsigned lanes = unsigned(lane_loop(reached));
      auto element = llvm::dyn_cast<mlir::BlockArgument>(unwidened(wide_factor(reached)->value));
      if (!element || element.getOwner() != op.getBlock())
        continue;
      mlir::OpOperand &operand = op->getOpOperand(element.getArgNumber());
      auto tensor = llvm::dyn_cast<mlir::BlockArgument>(operand.get());
      if (!tensor || tensor.getArgNumber() != argument)
        continue;
      auto type = llvm::cast<mlir::RankedTensorType>(tensor.getType());
      mlir::AffineMap map = op.getMatchingIndexingMap(&operand);
      for (auto [axis, expr] : llvm::enumerate(map.getResults()))
        if (expr == mlir::getAffineDimExpr(lanes, kernel.getContext()) && !type.isDynamicDim(unsigned(axis)))
          return panels_for(op, map, unsigned(axis), width, micro_kernel);
    }
  return {};
}

static std::vector<mlir::AffineMap> layouts(mlir::func::FuncOp kernel, unsigned argument, const Target &target) {
  std::vector<mlir::AffineMap> out;
  if (panels_along_lanes(kernel, argument, target.lanes, target))
    for (int64_t width : panel_widths(*problem_of(kernel, target), target))
      out.push_back(panels_along_lanes(kernel, argument, width, target));
  return out;
}

static std::vector<mlir::AffineExpr> ranges(mlir::func::FuncOp kernel) {
  mlir::AffineExpr rows = rows_of(kernel);
  return rows ? std::vector<mlir::AffineExpr>{rows} : std::vector<mlir::AffineExpr>();
}

static const Variant *const variants[] = {&tiles, &chunks, &staged_tiles, &each_element};

} // namespace contraction

extern const KernelKind contraction_kind;
const KernelKind contraction_kind = {
    "contraction",        contraction::variants, contraction::matches,
    contraction::layouts, contraction::ranges,   6}; // heights of tiles: a step of one row is the commonest call

} // namespace heddle
