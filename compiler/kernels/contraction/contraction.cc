// The kind `contraction`: a product with what follows it element by element (bias, activation, residual), such as
//   y[m, o] = gelu(sum[i](x[m, i] * w[o, i]) + b[o])
// What it takes, the layouts that it may want of its weights, and its variants.
#include "compiler/kernels/contraction/contraction.h"

#include "compiler/kernels/contraction/problem.h"
#include "compiler/kernels/each_element.h"
#include "compiler/kernels/product/few_rows.h"
#include "compiler/kernels/product/matrix_tile.h"
#include "compiler/kernels/product/staged_tiles.h"
#include "compiler/layout/layout.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace heddle {

namespace contraction {

static bool matches(mlir::func::FuncOp kernel) { return match(kernel).has_value(); }

static std::vector<Product> products_of(const std::vector<std::vector<Reached>> &results) {
  std::vector<Product> products;
  for (const std::vector<Reached> &result : results)
    for (const Reached &reached : result)
      products.push_back(rows_by_lanes(reached));
  return products;
}

const MicroKernel &micro_kernel_of(const std::vector<std::vector<Reached>> &results, const Target &target) {
  return micro_kernel_for(products_of(results), target);
}

const MicroKernel *matrix_kernel_of(const std::vector<std::vector<Reached>> &results, const Target &target) {
  return tile_kernel_for(products_of(results), target);
}

const MicroKernel *splitting_kernel_of(const std::vector<std::vector<Reached>> &results, const Target &target) {
  return splitting_kernel_for(products_of(results), target);
}

/// An index of a body as a loop or a loop plus a number; at what is neither, a symbol.
static mlir::AffineExpr loop_at(mlir::Value index) {
  mlir::MLIRContext *context = index.getContext();
  if (auto loop = index.getDefiningOp<mlir::linalg::IndexOp>())
    return mlir::getAffineDimExpr(unsigned(loop.getDim()), context);
  if (auto shifted = index.getDefiningOp<mlir::affine::AffineApplyOp>(); shifted && shifted->getNumOperands() == 1) {
    mlir::AffineExpr own = shifted.getAffineMap().getNumDims() ? mlir::getAffineDimExpr(0, context)
                                                               : mlir::getAffineSymbolExpr(0, context);
    if (llvm::isa<mlir::AffineConstantExpr>(shifted.getAffineMap().getResult(0) - own))
      return loop_at(shifted->getOperand(0)) + (shifted.getAffineMap().getResult(0) - own);
  }
  return mlir::getAffineSymbolExpr(0, context);
}

std::pair<mlir::Value, mlir::AffineMap> place_read(mlir::linalg::LinalgOp op, mlir::Value element) {
  if (auto argument = llvm::dyn_cast<mlir::BlockArgument>(element)) {
    if (argument.getOwner() != op.getBlock())
      return {};
    mlir::OpOperand &operand = op->getOpOperand(argument.getArgNumber());
    return {operand.get(), op.getMatchingIndexingMap(&operand)};
  }
  auto read = element.getDefiningOp<mlir::tensor::ExtractOp>();
  if (!read)
    return {};
  llvm::SmallVector<mlir::AffineExpr> at;
  for (mlir::Value index : read.getIndices())
    at.push_back(loop_at(index));
  return {read.getTensor(), mlir::AffineMap::get(op.getNumLoops(), 1, at, op.getContext())};
}

/// Whether a tensor is read anywhere else than at loops.
static bool reads_symbol(mlir::AffineMap map) {
  return llvm::any_of(map.getResults(), [](mlir::AffineExpr at) { return at.isFunctionOfSymbol(0); });
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
      mlir::Value wide = wide_factor(reached)->value;
      bool has_tiles = tile_axis(reached) >= 0;
      auto [value, map] = place_read(op, has_tiles ? element_read(wide) : unwidened(wide));
      auto tensor = llvm::dyn_cast_if_present<mlir::BlockArgument>(value);
      if (!tensor || tensor.getArgNumber() != argument || (!has_tiles && reads_symbol(map)))
        continue;
      auto type = llvm::cast<mlir::RankedTensorType>(tensor.getType());
      for (auto [axis, expr] : llvm::enumerate(map.getResults())) {
        // A part of a weight whose first column begins a panel; another would cross panels.
        auto first =
            llvm::dyn_cast<mlir::AffineConstantExpr>(expr - mlir::getAffineDimExpr(lanes, kernel.getContext()));
        if (first && first.getValue() >= 0 && first.getValue() % width == 0 && !type.isDynamicDim(unsigned(axis)))
          return panels_for(op, map, unsigned(axis), width, micro_kernel);
      }
    }
  return {};
}

static std::vector<mlir::AffineMap> layouts(mlir::func::FuncOp kernel, unsigned argument, const Target &target) {
  std::vector<mlir::AffineMap> out;
  if (!panels_along_lanes(kernel, argument, target.lanes, target))
    return out;
  std::vector<int64_t> widths = panel_widths(*problem_of(kernel, target), target);
  if (matrix_kernel_of(*match(kernel), target)) // first what its tiles take
    std::ranges::stable_partition(
        widths, [](int64_t width) { return width == MatrixTile::width || width == MatrixTile::wide; });
  for (int64_t width : widths)
    if (mlir::AffineMap panels = panels_along_lanes(kernel, argument, width, target))
      out.push_back(panels);
  return out;
}

static std::vector<mlir::AffineExpr> ranges(mlir::func::FuncOp kernel) {
  mlir::AffineExpr rows = rows_of(kernel);
  return rows ? std::vector<mlir::AffineExpr>{rows} : std::vector<mlir::AffineExpr>();
}

static const Variant *const variants[] = {&tiles,         &matrix_tiles, &split_tiles,  &chunks,   &copied_rows,
                                          &packed_panels, &staged_tiles, &tensor_tiles, &few_rows, &each_element};

} // namespace contraction

extern const KernelKind contraction_kind;
const KernelKind contraction_kind = {.name = "contraction",
                                     .variants = contraction::variants,
                                     .matches = contraction::matches,
                                     .layouts = contraction::layouts,
                                     .ranges = contraction::ranges,
                                     .most_rows = 8, // heights of tiles, the commonest call being a step of one row
                                     .writes_over = true};

} // namespace heddle
