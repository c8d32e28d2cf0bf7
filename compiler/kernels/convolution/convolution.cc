// The kind `convolution`: a product with a factor that is read at computed places, with what follows it element by
// element (a norm with fixed statistics, a residual, an activation), such as
//   y[b, i, j, o] = relu(sum[c, u, v](x[b, S * i + u - P, S * j + v - P, c | 0] * w[o, c, u, v]) + shift[o])
// What it takes, how it wants its weights, and which register tiles it uses.
#include "compiler/kernels/convolution/schedule.h"
#include "compiler/kernels/kinds.h"
#include "compiler/kernels/product/micro_kernel.h"

#include "compiler/ir/dialect.h"
#include "compiler/layout/layout.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <algorithm>

namespace heddle::convolution {

using contraction::Factor;
using contraction::Reached;
using mlir::linalg::LinalgOp;

/// The operand that a factor is, apart from casts; null where it is anything else.
static mlir::OpOperand *operand_of(LinalgOp op, mlir::Value value) {
  while (mlir::Operation *cast = value.getDefiningOp()) {
    if (!llvm::isa<mlir::arith::ExtFOp, mlir::arith::ExtSIOp, mlir::arith::ExtUIOp>(cast))
      return nullptr;
    value = cast->getOperand(0);
  }
  auto element = llvm::dyn_cast<mlir::BlockArgument>(value);
  return element && element.getOwner() == op.getBlock() ? &op->getOpOperand(element.getArgNumber()) : nullptr;
}

/// The first read at computed places that a value of the body is made from.
static mlir::tensor::ExtractOp read_behind(LinalgOp op, mlir::Value value) {
  mlir::Operation *made = value.getDefiningOp();
  if (!made || made->getBlock() != op.getBlock())
    return {};
  if (auto read = llvm::dyn_cast<mlir::tensor::ExtractOp>(made))
    return read;
  for (mlir::Value operand : made->getOperands())
    if (mlir::tensor::ExtractOp read = read_behind(op, operand))
      return read;
  return {};
}

static std::optional<Reached> match(mlir::func::FuncOp kernel) {
  std::optional<std::vector<std::vector<Reached>>> results = contraction::match(kernel);
  if (!results || !contraction::has_one_product(*results))
    return std::nullopt;
  Reached reached = results->front().front();
  const Factor *wide = contraction::wide_factor(reached);
  const Factor *narrow = wide == &reached.product.left ? &reached.product.right : &reached.product.left;
  mlir::OpOperand *weight = operand_of(reached.product.op, wide->value);
  if (contraction::row_axis(reached) < 0 || !weight || !llvm::isa<mlir::BlockArgument>(weight->get()) ||
      !read_behind(reached.product.op, narrow->value))
    return std::nullopt;
  return reached;
}

/// Share of the second cache, in percent, that the window of a block should take: the panel needs as much or more.
static constexpr int64_t window_share = 25;

static bool matches(mlir::func::FuncOp kernel) { return match(kernel).has_value(); }

/// The weight's operand and the axis that lanes run along.
static std::pair<mlir::OpOperand *, int> weight_of(const Reached &reached) {
  LinalgOp op = reached.product.op;
  mlir::OpOperand *weight = operand_of(op, contraction::wide_factor(reached)->value);
  mlir::AffineExpr lanes = mlir::getAffineDimExpr(unsigned(contraction::lane_loop(reached)), op.getContext());
  for (auto [axis, expr] : llvm::enumerate(op.getMatchingIndexingMap(weight).getResults()))
    if (expr == lanes)
      return {weight, int(axis)};
  return {weight, -1};
}

/// Terms of the sum, as far as known.
static int64_t depth_of(const Reached &reached) {
  LinalgOp op = reached.product.op;
  int64_t depth = 1;
  auto kinds = op.getIteratorTypesArray();
  for (auto [loop, extent] : llvm::enumerate(op.getStaticLoopRanges()))
    if (kinds[loop] == mlir::utils::IteratorType::reduction)
      depth *= mlir::ShapedType::isDynamic(extent) ? 256 : extent;
  return depth;
}

/// Columns that a panel should have: wide ones read the picture seldom, but a panel should leave half of the second
/// cache to it, and padding the last panel is waste. Shares of the peak as measured on Cascade Lake, K = 576.
static int64_t panel_width(int64_t columns, int64_t depth, const MicroKernel &micro_kernel, const Target &target) {
  int64_t bytes = micro_kernel.bytes();
  static constexpr std::pair<int, double> widths[] = {{4, 1.0}, {3, 0.95}, {2, 0.92}, {1, 0.7}};
  int64_t best = target.lanes;
  double best_cost = 0;
  for (auto [vectors, share] : widths) {
    if (target.registers < 32 && vectors > 2)
      continue;
    int64_t width = vectors * target.lanes, panels = (columns + width - 1) / width;
    bool fits = vectors == 1 || depth * width * bytes <= target.l2 / 2;
    double cost = double(panels * width) / (fits ? share : share * 0.8);
    if (best_cost == 0 || cost < best_cost * 0.999) {
      best = width;
      best_cost = cost;
    }
  }
  return best;
}

/// The factor that is read from the picture.
static const Factor *picture_of(const Reached &reached) {
  return contraction::wide_factor(reached) == &reached.product.left ? &reached.product.right : &reached.product.left;
}

/// The loop of the sum that the picture is read along at plain places, innermost in the picture, such as its channels:
/// no window slides along it. -1: there is none.
static int plain_term(const Reached &reached) {
  LinalgOp op = reached.product.op;
  auto kinds = op.getIteratorTypesArray();
  for (mlir::Value index : llvm::reverse(read_behind(op, picture_of(reached)->value).getIndices()))
    if (auto loop = index.getDefiningOp<mlir::linalg::IndexOp>();
        loop && kinds[loop.getDim()] == mlir::utils::IteratorType::reduction)
      return int(loop.getDim());
  return -1;
}

/// Terms that slide are not taken in groups: past the last one there would be a place of the picture instead of a zero.
/// Few terms aren't, either: the loop over groups would be too short (measured: 3 channels are 2.2 times as slow in
/// pairs).
static const MicroKernel &micro_kernel_of(const Reached &reached, const Target &target) {
  constexpr int64_t least_groups = 4;
  const MicroKernel &best = micro_kernel_for({&reached.product, 1}, target);
  LinalgOp op = reached.product.op;
  int term = plain_term(reached);
  int64_t terms = term < 0 ? 0 : op.getStaticLoopRanges()[term];
  return best.group == 1 || mlir::ShapedType::isDynamic(terms) || terms >= least_groups * best.group
             ? best
             : micro_kernels().front();
}

static mlir::AffineMap wanted_layout(mlir::func::FuncOp kernel, unsigned argument, const Target &target) {
  std::optional<Reached> reached = match(kernel);
  if (!reached)
    return {};
  auto [weight, axis] = weight_of(*reached);
  auto tensor = llvm::cast<mlir::BlockArgument>(weight->get());
  auto type = llvm::cast<mlir::RankedTensorType>(tensor.getType());
  if (tensor.getArgNumber() != argument || axis < 0 || !type.hasStaticShape())
    return {};
  // The axis along which the picture is contiguous comes last, so that both are read along it; with groups of terms,
  // the one along which they lie.
  LinalgOp op = reached->product.op;
  const MicroKernel &micro_kernel = micro_kernel_of(*reached, target);
  auto along = read_behind(op, picture_of(*reached)->value).getIndices().back().getDefiningOp<mlir::linalg::IndexOp>();
  bool summed = along && op.getIteratorTypesArray()[along.getDim()] == mlir::utils::IteratorType::reduction;
  int innermost = micro_kernel.group > 1 ? plain_term(*reached) : summed ? int(along.getDim()) : -1;
  llvm::SmallVector<unsigned> others, last;
  for (auto [other, expr] : llvm::enumerate(op.getMatchingIndexingMap(weight).getResults()))
    if (int(other) != axis)
      (innermost >= 0 && expr == mlir::getAffineDimExpr(unsigned(innermost), op.getContext()) ? last : others)
          .push_back(unsigned(other));
  int64_t group = last.empty() ? 1 : micro_kernel.group;
  llvm::append_range(others, last);
  int64_t width = panel_width(type.getDimSize(unsigned(axis)), depth_of(*reached), micro_kernel, target);
  return layout::panels(kernel.getContext(), unsigned(axis), width, others, group);
}

static std::vector<ScheduleRow> choose(mlir::func::FuncOp kernel, const Target &target) {
  Reached reached = *match(kernel);
  int64_t width = 0;
  auto [weight, axis] = weight_of(reached);
  auto tensor = llvm::cast<mlir::BlockArgument>(weight->get());
  if (auto given = kernel.getArgAttrOfType<ir::LayoutAttr>(tensor.getArgNumber(), ir::names::layout))
    if (std::optional<layout::Panels> panels = layout::panels_of(given.getMap()))
      width = int(panels->axis) == axis ? panels->width : 0;
  const MicroKernel &micro_kernel = micro_kernel_of(reached, target);
  int64_t bytes = micro_kernel.bytes();
  int64_t columns = llvm::cast<mlir::RankedTensorType>(kernel.getResultTypes()[0]).getShape().back();
  if (width == 0 || width % target.lanes != 0)
    width = mlir::ShapedType::isDynamic(columns) ? 2 * target.lanes
                                                 : panel_width(columns, depth_of(reached), micro_kernel, target);
  int64_t vectors = width / target.lanes;
  // Accumulators, a row of the weight and one broadcast share the registers.
  int64_t rows = std::clamp<int64_t>((target.registers - 2 - vectors) / vectors, 1, 12);
  std::string name(micro_kernel.name);
  int64_t window = target.l2 * window_share / 100;
  if (depth_of(reached) * width * bytes <= target.l2 * 3 / 4)
    return {{"tiles", {{"rows", rows}, {"width", width}, {"window", window}}, {}, name}};
  return {{"chunks",
           {{"rows", rows}, {"width", width}, {"window", window}, {"depth", target.l2 * 3 / 16 / (width * bytes)}},
           {},
           name}};
}

static const Parameter places_of_tile = {"rows", "places of the result of a tile", 1, 32, {1, 6, 12}};
static const Parameter width_of_panel = {"width", "columns of a panel and of a tile", 8, 256, {16, 32, 64}};
static const Parameter bytes_of_window = {
    "window", "bytes that the window of a block of places may take", 1, 1 << 30, {1 << 18}};
static const Variant variants[] = {
    {"tiles",
     "rows x width accumulators in registers over the whole sum; weights in panels, places of the result in one row",
     {places_of_tile, width_of_panel, bytes_of_window},
     true},
    {"chunks",
     "tiles over whole inner loops of the sum, `depth` terms at most, so that panels of long sums stay in the cache",
     {places_of_tile,
      width_of_panel,
      bytes_of_window,
      {"depth", "terms of a chunk at most", 1, 1 << 20, {256, 512, 768}}},
     true},
};

} // namespace heddle::convolution

namespace heddle {

extern const KernelKind convolution_kind;
const KernelKind convolution_kind = {
    "convolution", convolution::variants, convolution::matches, convolution::wanted_layout, convolution::choose,
    nullptr,       convolution::schedule,
};

} // namespace heddle
