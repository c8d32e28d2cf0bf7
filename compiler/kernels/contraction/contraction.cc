// The kind `contraction`: a product with what follows it element by element (bias, activation, residual), such as
//   y[m, o] = gelu(sum[i](x[m, i] * w[o, i]) + b[o])
// What it takes, how it wants its weights, and which register tiles it uses.
#include "compiler/kernels/contraction/schedule.h"
#include "compiler/kernels/kinds.h"
#include "compiler/kernels/product/micro_kernel.h"
#include "compiler/kernels/product/product.h"

#include "compiler/ir/dialect.h"
#include "compiler/layout/layout.h"

#include <algorithm>

namespace heddle {

namespace contraction {

/// Panels of a task that takes the sum in chunks: two share the rows of a chunk, more gain nothing (measured).
static constexpr int64_t panels_of_task = 2;

/// Rows from which on it pays to widen a panel of narrow weights once, before its tiles: two or three instructions a
/// vector against as many at every tile. Measured at 768 and 3072 terms: 12 % slower at 48 rows, 13 % faster at 1024.
static constexpr int64_t rows_to_widen = 96;

/// Tasks that a kernel should at least have, so that threads finish together.
static constexpr int64_t least_tasks = 16;

/// Rows of a tile from which on asking ahead pays: with fewer a tile waits for memory all the time.
static constexpr int64_t rows_to_ask_ahead = 6;

/// Share of the second cache that the rows of a block may take, in percent: with two panels beside them they should
/// fit. Measured at 768 terms: blocks of 104 rows are 2 to 8 % faster than blocks of 200.
static constexpr int64_t block_share = 33;

static bool matches(mlir::func::FuncOp kernel) { return match(kernel).has_value(); }

/// Whether a kernel has weights in panels of fewer bits than it computes with.
static bool has_narrow_panels(mlir::func::FuncOp kernel) {
  for (unsigned argument = 0; argument < kernel.getNumArguments(); ++argument)
    if (kernel.getArgAttr(argument, ir::names::layout) &&
        mlir::getElementTypeOrSelf(kernel.getArgumentTypes()[argument]).getIntOrFloatBitWidth() < 32)
      return true;
  return false;
}

/// The extent of an axis of result `result`, as an expression over the sizes of the kernel.
static mlir::AffineExpr extent_of(mlir::func::FuncOp kernel, unsigned result, int axis) {
  auto type = llvm::cast<mlir::RankedTensorType>(kernel.getResultTypes()[result]);
  if (!type.isDynamicDim(unsigned(axis)))
    return mlir::getAffineConstantExpr(type.getDimSize(unsigned(axis)), kernel.getContext());
  auto extents = kernel.getResultAttrOfType<mlir::AffineMapAttr>(result, ir::names::extents);
  return extents ? extents.getValue().getResult(unsigned(axis)) : mlir::AffineExpr();
}

/// Columns that a panel should have: as many as registers like, unless padding the last panel costs more.
static int64_t panel_width(int64_t columns, const Target &target) {
  // Share of the FMA peak that full tiles of 3, 4, 2 and 1 vectors reach (measured on Cascade Lake, K = 768).
  static constexpr std::pair<int, double> widths[] = {{3, 1.0}, {4, 0.98}, {2, 0.94}, {1, 0.7}};
  int64_t best = 3 * target.lanes;
  double best_cost = 0;
  for (auto [vectors, share] : widths) {
    if (target.registers < 32 && vectors > 3) // 4 vectors leave room for 2 rows only
      continue;
    int64_t width = vectors * target.lanes, panels = (columns + width - 1) / width;
    double cost = double(panels * width) / share;
    if (best_cost == 0 || cost < best_cost * 0.999) {
      best = width;
      best_cost = cost;
    }
  }
  return best;
}

/// The micro-kernel for all products of a kernel.
static const MicroKernel &micro_kernel_of(const std::vector<std::vector<Reached>> &results, const Target &target) {
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

static mlir::AffineMap wanted_layout(mlir::func::FuncOp kernel, unsigned argument, const Target &target) {
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
          return panels_for(op, map, unsigned(axis), panel_width(type.getDimSize(unsigned(axis)), target),
                            micro_kernel);
    }
  return {};
}

/// The panels that a kernel's weights already have along its lanes, where it has such weights. Of weights that are the
/// rows of a product, too, those along its lanes.
static std::optional<layout::Panels> given_panels(mlir::func::FuncOp kernel, const Target &target) {
  for (unsigned argument = 0; argument < kernel.getNumArguments(); ++argument)
    if (auto given = kernel.getArgAttrOfType<ir::LayoutAttr>(argument, ir::names::layout)) {
      std::optional<layout::Panels> panels = layout::panels_of(given.getMap()),
                                    wanted = layout::panels_of(wanted_layout(kernel, argument, target));
      if (panels && wanted && panels->axis == wanted->axis)
        return panels;
    }
  return std::nullopt;
}

/// Terms of the longest sum; -1 where one isn't known or has several loops.
static int64_t terms_of(const std::vector<std::vector<Reached>> &results) {
  int64_t terms = 0;
  for (const std::vector<Reached> &products : results)
    for (const Reached &reached : products) {
      mlir::linalg::LinalgOp op = reached.product.op;
      llvm::SmallVector<int64_t> extents = op.getStaticLoopRanges();
      llvm::SmallVector<unsigned> summed;
      op.getReductionDims(summed);
      if (summed.size() != 1 || mlir::ShapedType::isDynamic(extents[summed[0]]))
        return -1;
      terms = std::max(terms, extents[summed[0]]);
    }
  return terms;
}

/// All terms of the first sum, as far as known.
static int64_t depth_of(const std::vector<std::vector<Reached>> &results) {
  mlir::linalg::LinalgOp op = results.front().front().product.op;
  int64_t depth = 1;
  auto kinds = op.getIteratorTypesArray();
  for (auto [loop, extent] : llvm::enumerate(op.getStaticLoopRanges()))
    if (kinds[loop] == mlir::utils::IteratorType::reduction)
      depth *= mlir::ShapedType::isDynamic(extent) ? 256 : extent;
  return depth;
}

/// Terms of a chunk where a sum is so long that the chunks of two panels leave the rows too little of the second
/// cache; 0: it stays whole.
static int64_t chunk_depth(const std::vector<std::vector<Reached>> &results, int64_t width,
                           const MicroKernel &micro_kernel, const Target &target) {
  int64_t terms = terms_of(results);
  if (terms <= 0)
    return 0;
  int64_t bytes = micro_kernel.bytes();
  int64_t two_panels = 2 * width * bytes, most = target.l2 * 3 / 16 / two_panels;
  if (terms * two_panels < target.l2 / 2)
    return 0;
  int64_t chunks = (terms + most - 1) / most, group = micro_kernel.group;
  return ((terms + chunks - 1) / chunks + group - 1) / group * group;
}

static std::vector<ScheduleRow> choose(mlir::func::FuncOp kernel, const Target &target) {
  std::vector<std::vector<Reached>> results = *match(kernel);
  auto type = llvm::cast<mlir::RankedTensorType>(kernel.getResultTypes()[0]);
  const MicroKernel &micro_kernel = micro_kernel_of(results, target);
  std::optional<layout::Panels> given = given_panels(kernel, target);
  int64_t columns = type.getShape().back(), width = given ? given->width : 0;
  if (width == 0)
    width = mlir::ShapedType::isDynamic(columns) ? 3 * target.lanes : panel_width(columns, target);
  int64_t vectors = std::max<int64_t>(1, width / target.lanes);
  // Accumulators of all products of a result, a row of the wide factor and one broadcast share the registers.
  int64_t products = 1;
  for (const std::vector<Reached> &result : results)
    products = std::max<int64_t>(products, int64_t(result.size()));
  int64_t most = std::max<int64_t>(1, (target.registers - 2 - vectors) / (vectors * products));
  if (most > 8)
    most = most >= 12 ? 12 : 8;

  int axis = row_axis(results[0][0]);
  mlir::AffineExpr rows = axis < 0 ? mlir::AffineExpr() : extent_of(kernel, 0, axis);
  auto fixed = llvm::dyn_cast_if_present<mlir::AffineConstantExpr>(rows);
  bool narrow = micro_kernel.takes_any_type() && has_narrow_panels(kernel);
  auto row = [&](int64_t tile, int64_t least) {
    ScheduleRow row{"tiles", {{"rows", tile}, {"width", width}}, std::nullopt, std::string(micro_kernel.name)};
    int64_t terms = depth_of(results), bytes = micro_kernel.bytes();
    if (int64_t depth = tile > 4 && axis >= 0 ? chunk_depth(results, width, micro_kernel, target) : 0) {
      row.variant = "chunks";
      row.params["depth"] = depth;
      row.params["panels"] = panels_of_task;
      terms = std::min(terms, depth);
    }
    row.params["block"] = std::clamp<int64_t>(target.l2 * block_share / 100 / (bytes * terms), 96, 512);
    row.params["tasks"] = least_tasks;
    row.params["ahead"] = tile >= rows_to_ask_ahead;
    row.params["widened"] = narrow && (least >= rows_to_widen || (fixed && fixed.getValue() >= rows_to_widen));
    if (least > 0)
      row.when = mlir::IntegerSet::get(
          unsigned(llvm::count_if(kernel.getArgumentTypes(), [](mlir::Type t) { return t.isIndex(); })), 0,
          {rows - least}, {false});
    return row;
  };
  if (axis < 0)
    return {row(1, 0)};
  if (!rows || fixed)
    return {row(fixed ? std::min(most, fixed.getValue()) : most, 0)};
  // A few rows wait for memory, not for arithmetic: no work on rows that aren't there.
  std::vector<ScheduleRow> table;
  if (narrow)
    table.push_back(row(most, rows_to_widen));
  if (most > 4)
    table.push_back(row(most, 5));
  table.push_back(row(std::min<int64_t>(most, 4), 2));
  table.push_back(row(1, 0));
  return table;
}

static const Parameter rows_of_tile = {"rows", "rows of accumulators of a tile", 1, 64, {1, 4, 6, 8, 12}};
static const Parameter width_of_panel = {"width", "columns of a panel and of a tile", 8, 1024, {16, 32, 48, 64}};
static const Parameter rows_of_block = {
    "block", "rows at most that pass over a panel while it is in the cache", 1, 1 << 20, {96}};
static const Parameter tasks_wanted = {"tasks", "tasks at least, as far as there are tiles", 1, 1 << 16, {16}};
static const Parameter asks_ahead = {
    "ahead", "1: the next panel and the rows of the result are asked for ahead", 0, 1, {1, 0}};
static const Parameter widens = {"widened", "1: panels of narrow numbers are widened once for a task", 0, 1, {0, 1}};
static const Variant variants[] = {
    {"tiles",
     "rows x width accumulators in registers over the whole sum; the wide factor in panels",
     {rows_of_tile, width_of_panel, rows_of_block, tasks_wanted, asks_ahead, widens},
     true},
    {"chunks",
     "tiles over `depth` terms of the sum at a time for a few panels, so that rows and panels stay in the cache",
     {{"rows", rows_of_tile.what, 1, 64, {6, 8}},
      {"width", width_of_panel.what, 8, 1024, {48}},
      rows_of_block,
      tasks_wanted,
      asks_ahead,
      widens,
      {"depth", "terms of a chunk", 1, 1 << 20, {8, 512}},
      {"panels", "panels of a task", 1, 64, {2}}},
     true},
};

} // namespace contraction

extern const KernelKind contraction_kind;
const KernelKind contraction_kind = {
    "contraction", contraction::variants, contraction::matches, contraction::wanted_layout, contraction::choose,
    nullptr,       contraction::schedule,
};

} // namespace heddle
