// The cost follows the loop nest of schedule.cc: for each block of places a window of the picture is written out, if it
// can't be read in place, and tiles of places pass over each panel.
#include "compiler/kernels/convolution/problem.h"

#include "compiler/ir/dialect.h"
#include "compiler/kernels/product/cost.h"
#include "compiler/kernels/product/matrix_tile.h"
#include "compiler/kernels/product/nest.h"
#include "compiler/kernels/sizes.h"
#include "compiler/layout/layout.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <algorithm>
#include <cmath>

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

static const Factor *other_factor(const Reached &reached, const Factor *factor) {
  return factor == &reached.product.left ? &reached.product.right : &reached.product.left;
}

/// Whether so many channels are worth lanes where the result has places innermost, which lanes could run along as well:
/// vectors of 16 are no less than three quarters full. Places may be of any number, a row of them is often half a
/// vector.
static bool fills_lanes(int64_t channels) { return channels >= 16 && channels * 4 >= (channels + 15) / 16 * 16 * 3; }

std::optional<Match> match(mlir::func::FuncOp kernel) {
  std::optional<std::vector<std::vector<Reached>>> results = contraction::match(kernel);
  if (!results || !contraction::has_one_product(*results))
    return std::nullopt;
  Match found{results->front().front(), {}};
  Reached &reached = found.reached;
  LinalgOp op = reached.product.op;
  const Factor *wide = contraction::wide_factor(reached);
  const int rows = contraction::row_axis(reached), axes = *llvm::max_element(reached.axis_of_loop) + 1;
  if (rows < 0)
    return std::nullopt;
  auto is_pair = [&](const Factor *weight, const Factor *picture) {
    mlir::OpOperand *operand = operand_of(op, weight->value);
    return operand && llvm::isa<mlir::BlockArgument>(operand->get()) && read_behind(op, picture->value);
  };
  const Factor *narrow = other_factor(reached, wide);
  bool plain = is_pair(wide, narrow);
  for (int axis = 0; axis < axes; ++axis)
    if (plain || axis != rows)
      found.axes.push_back(axis);
  if (plain)
    return found;
  if (!is_pair(narrow, wide) ||
      !llvm::cast<mlir::RankedTensorType>(operand_of(op, narrow->value)->get().getType()).hasStaticShape() ||
      !fills_lanes(op.getStaticLoopRanges()[llvm::find(reached.axis_of_loop, rows) - reached.axis_of_loop.begin()]))
    return std::nullopt;
  found.axes.push_back(rows);
  for (int &axis : reached.axis_of_loop)
    if (axis >= rows)
      axis = axis == rows ? axes - 1 : axis - 1;
  return found;
}

bool is_convolution(mlir::func::FuncOp kernel) { return match(kernel).has_value(); }

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

/// The factor that is read from the picture.
static const Factor *picture_of(const Reached &reached) {
  return other_factor(reached, contraction::wide_factor(reached));
}

/// The loop of the sum that an index of the picture runs along without sliding, such as channels or those of a group:
/// what else the index depends on is the weight's as well. -1: there is none.
static int plain_term(const Reached &reached) {
  LinalgOp op = reached.product.op;
  auto kinds = op.getIteratorTypesArray();
  const llvm::SmallBitVector &of_weight = contraction::wide_factor(reached)->loops;
  for (mlir::Value index : llvm::reverse(read_behind(op, picture_of(reached)->value).getIndices())) {
    int summed = -1, count = 0;
    llvm::SmallBitVector loops = contraction::loops_behind(op, index);
    for (unsigned loop : loops.set_bits())
      if (kinds[loop] == mlir::utils::IteratorType::reduction)
        summed = int(loop), ++count;
    if (count == 1 && !loops.test(of_weight))
      return summed;
  }
  return -1;
}

/// Fewer groups leave a loop over them too short to pay (measured: 3 channels are 2.2 times as slow in pairs).
static constexpr int64_t least_groups = 4;

bool writes_out(const MicroKernel &micro_kernel, int64_t terms) {
  return micro_kernel.takes_tiles() ||
         (micro_kernel.group > 1 && (terms % micro_kernel.group != 0 || terms < least_groups * micro_kernel.group));
}

/// The loop of the sum whose terms a micro-kernel takes in groups; -1: there is none. Terms that slide are taken where
/// they lie if all of them are whole groups, as of a patch: past the last one there would be a place of the picture
/// instead of a zero. Else they are written out for each place, zeros where a group is not full, as all terms are for
/// tiles; loops over them join, so that a short one costs nothing but what of its groups is empty.
static int term_in_groups(const Reached &reached, const MicroKernel &micro_kernel) {
  LinalgOp op = reached.product.op;
  llvm::SmallVector<int64_t> extents = op.getStaticLoopRanges();
  const int64_t group = micro_kernel.group;
  auto enough = [&](int64_t terms) {
    int64_t last = micro_kernel.takes_tiles() ? group - 1 : 0; // of a group that is begun
    return mlir::ShapedType::isDynamic(terms) || terms + last >= least_groups * group;
  };
  int plain = plain_term(reached);
  if (plain >= 0 && enough(extents[plain]))
    return plain;
  llvm::SmallVector<unsigned> summed;
  op.getReductionDims(summed);
  bool known = llvm::none_of(summed, [&](unsigned loop) { return mlir::ShapedType::isDynamic(extents[loop]); });
  auto pays = [&](int64_t terms) { // written out: a quarter fewer steps, or more
    return micro_kernel.takes_tiles() || !writes_out(micro_kernel, terms)
               ? enough(terms)
               : known && (terms + group - 1) / group * 4 <= terms * 3;
  };
  mlir::Value read = read_behind(op, picture_of(reached)->value).getResult();
  for (unsigned loop : summed)
    if (!mlir::ShapedType::isDynamic(extents[loop]) && pays(extents[loop]) &&
        contraction::lies_together(op, read, loop, writes_out(micro_kernel, extents[loop])))
      return int(loop);
  return -1;
}

/// Whether a matrix unit's tiles fit: groups of terms that lie side by side in the picture and begin with each place of
/// the filter, all of a number that is known, and columns for more than one tile.
static bool takes_tiles(const Reached &reached, const MicroKernel &micro_kernel) {
  LinalgOp op = reached.product.op;
  llvm::SmallVector<int64_t> extents = op.getStaticLoopRanges();
  int term = term_in_groups(reached, micro_kernel);
  if (term < 0 || !contraction::lies_together(op, read_behind(op, picture_of(reached)->value).getResult(),
                                              unsigned(term), /*clamps=*/true))
    return false;
  llvm::SmallVector<unsigned> summed;
  op.getReductionDims(summed);
  int64_t terms = 1, columns = extents[contraction::lane_loop(reached)];
  for (unsigned loop : summed) {
    if (mlir::ShapedType::isDynamic(extents[loop]))
      return false;
    terms *= extents[loop];
  }
  return terms >= micro_kernel.group * MatrixTile::groups && columns > MatrixTile::width / 2;
}

static const MicroKernel &micro_kernel_of(const Reached &reached, const Target &target) {
  const contraction::Product product = contraction::rows_by_lanes(reached);
  if (const MicroKernel *tiles = tile_kernel_for({&product, 1}, target); tiles && takes_tiles(reached, *tiles))
    return *tiles;
  const MicroKernel &best = fastest_kernel_for({&product, 1}, target);
  return best.group == 1 || term_in_groups(reached, best) >= 0 ? best : micro_kernels().front();
}

/// Steps of an innermost loop that are worth reading the picture across.
static constexpr int64_t least_steps = 8;

mlir::AffineMap panels_of_weight(mlir::func::FuncOp kernel, unsigned argument, int64_t width, const Target &target) {
  std::optional<Match> found = match(kernel);
  if (!found)
    return {};
  const Reached *reached = &found->reached;
  auto [weight, axis] = weight_of(*reached);
  auto tensor = llvm::cast<mlir::BlockArgument>(weight->get());
  auto type = llvm::cast<mlir::RankedTensorType>(tensor.getType());
  if (tensor.getArgNumber() != argument || axis < 0 || !type.hasStaticShape())
    return {};
  // The axis along which the picture is contiguous comes last, so that both are read along it; with groups of terms,
  // the one along which they lie. Where windows slide along the former, that is a loop of few steps: channels come last
  // if there are more of them.
  LinalgOp op = reached->product.op;
  const MicroKernel &micro_kernel = micro_kernel_of(*reached, target);
  auto along = read_behind(op, picture_of(*reached)->value).getIndices().back().getDefiningOp<mlir::linalg::IndexOp>();
  bool summed = along && op.getIteratorTypesArray()[along.getDim()] == mlir::utils::IteratorType::reduction;
  const int plain = plain_term(*reached);
  bool many = plain >= 0 && op.getStaticLoopRanges()[unsigned(plain)] >= least_steps;
  int innermost = micro_kernel.group > 1 ? term_in_groups(*reached, micro_kernel)
                  : summed               ? int(along.getDim())
                  : many                 ? plain
                                         : -1;
  llvm::SmallVector<unsigned> others, last;
  for (auto [other, expr] : llvm::enumerate(op.getMatchingIndexingMap(weight).getResults()))
    if (int(other) != axis)
      (innermost >= 0 && expr == mlir::getAffineDimExpr(unsigned(innermost), op.getContext()) ? last : others)
          .push_back(unsigned(other));
  int64_t group = last.empty() ? 1 : micro_kernel.group;
  llvm::append_range(others, last);
  return layout::panels(kernel.getContext(), unsigned(axis), width, others, group);
}

/// Share of the second cache, in percent, that the window of a block should take: the panel needs as much or more.
static constexpr int64_t window_share = 25;

std::optional<Problem> problem_of(mlir::func::FuncOp kernel, const Target &target) {
  std::optional<Match> found = match(kernel);
  if (!found)
    return std::nullopt;
  const Reached *reached = &found->reached;
  Problem out{};
  out.turned = found->is_turned();
  out.micro_kernel = &micro_kernel_of(*reached, target);
  auto type = llvm::cast<mlir::RankedTensorType>(kernel.getResultTypes()[0]);
  int64_t columns = type.getDimSize(unsigned(found->axes.back()));
  out.columns = mlir::ShapedType::isDynamic(columns) ? -1 : columns;
  for (int axis : llvm::ArrayRef(found->axes).drop_back())
    out.others.push_back(sizes::extent_of(kernel, axis));
  out.terms = sizes::terms_of(reached->product.op);
  auto [weight, axis] = weight_of(*reached);
  auto tensor = llvm::cast<mlir::BlockArgument>(weight->get());
  if (std::optional<layout::Panels> panels = contraction::given_panels(kernel, tensor.getArgNumber());
      panels && int(panels->axis) == axis && panels->width % target.lanes == 0 &&
      (!out.micro_kernel->takes_tiles() || panels->width == MatrixTile::width)) // others are packed again
    out.given_width = panels->width;
  return out;
}

std::vector<int64_t> panel_widths(const Problem &problem, const Target &target) {
  if (problem.given_width)
    return {*problem.given_width};
  if (problem.micro_kernel->takes_tiles())
    return {MatrixTile::width};
  std::vector<int64_t> out;
  int64_t needed = problem.columns < 0 ? 2 : (problem.columns + target.lanes - 1) / target.lanes;
  for (int64_t vectors : {4, 3, 2, 1})
    if (vectors == 1 || (vectors <= needed && vectors * 8 <= target.registers))
      out.push_back(vectors * target.lanes);
  return out;
}

/// Panels that share a window. More don't help: their weights come from the third cache for each block of places.
static constexpr int64_t panels_of_task = 8;

static double cycles(const Problem &problem, int64_t rows, int64_t width, int64_t depth, llvm::ArrayRef<int64_t> given,
                     const Target &target) {
  double places = 1;
  for (mlir::AffineExpr other : problem.others)
    places *= sizes::value_of(other, given);
  double columns = problem.columns < 0 ? double(sizes::unknown) : double(problem.columns);
  double panels = std::ceil(columns / double(width)), tiles_of_panel = std::ceil(places / double(rows));
  TileShape tile{rows, width / target.lanes};
  double terms = double(problem.terms), steps = std::ceil(terms / problem.micro_kernel->group);
  double chunks = depth > 0 ? std::ceil(terms / double(depth)) : 1;
  double bytes = problem.micro_kernel->bytes(), panel = terms * double(width) * bytes;
  double computing = tiles_of_panel * (steps * step_cycles(tile, false, target) + chunks * tile_cycles(tile));
  // A whole panel that leaves no room for the window comes from the third cache for every tile.
  if (depth == 0 && panel > 0.75 * double(target.l2))
    computing += tiles_of_panel * panel / target.l3_bytes_per_cycle;
  // The window is written out once for the panels of a task.
  double window = places * terms * bytes / target.l3_bytes_per_cycle / 8 / std::min(panels, double(panels_of_task));
  return panels * (computing + window + panel / target.memory_bytes_per_cycle);
}

/// Of a matrix unit, which finds the terms of each place written out.
static double matrix_cycles(const Problem &problem, llvm::ArrayRef<int64_t> given, const Target &target) {
  constexpr double step = MatrixTile::step_cycles, piece = MatrixTile::call_cycles;
  double places = 1;
  for (mlir::AffineExpr other : problem.others)
    places *= sizes::value_of(other, given);
  double columns = problem.columns < 0 ? double(sizes::unknown) : double(problem.columns);
  double panels = std::ceil(columns / MatrixTile::width), terms = double(problem.terms);
  double bytes = problem.micro_kernel->bytes(), panel = terms * MatrixTile::width * bytes;
  double steps = std::ceil(terms / (problem.micro_kernel->group * MatrixTile::groups));
  double pieces = std::ceil(places / (2.0 * problem.micro_kernel->rows));
  double window = places * terms * bytes / 16 / std::min(panels, double(panels_of_task));
  return panels * (pieces * (steps * step + piece) + window + panel / target.memory_bytes_per_cycle);
}

static std::vector<Candidate> matrix_candidates(const Problem &problem, int64_t width, const Target &target) {
  if (width != MatrixTile::width)
    return {};
  ScheduleRow row{.variant = std::string(tiles.name),
                  .params = {{"rows", 2 * problem.micro_kernel->rows},
                             {"width", width},
                             {"panels", panels_of_task},
                             {"window", target.l2 * window_share / 100}},
                  .micro_kernel = std::string(problem.micro_kernel->name)};
  return {{row, [=](llvm::ArrayRef<int64_t> sizes) { return target.seconds(matrix_cycles(problem, sizes, target)); }}};
}

std::vector<Candidate> candidates(const Problem &problem, std::string_view variant, int64_t width, int64_t depth,
                                  const Target &target) {
  if (problem.micro_kernel->takes_tiles())
    return depth > 0 ? std::vector<Candidate>() : matrix_candidates(problem, width, target);
  // Accumulators and a row of the weight share the registers with what else there is.
  int64_t others = std::max(problem.micro_kernel->further_registers(), 2);
  int64_t vectors = width / target.lanes, most = std::max<int64_t>((target.registers - others - vectors) / vectors, 1);
  std::vector<Candidate> out;
  for (int64_t rows : {12, 9, 8, 6, 4, 1}) {
    if (rows > most && rows > 1)
      continue;
    ScheduleRow row{.variant = std::string(variant),
                    .params = {{"rows", rows},
                               {"width", width},
                               {"panels", panels_of_task},
                               {"window", target.l2 * window_share / 100}},
                    .micro_kernel = std::string(problem.micro_kernel->name)};
    if (depth > 0)
      row.params["depth"] = depth;
    out.push_back({row, [=](llvm::ArrayRef<int64_t> sizes) {
                     return target.seconds(cycles(problem, rows, width, depth, sizes, target));
                   }});
  }
  return out;
}

std::vector<Parameter> tile_parameters() {
  return {{"rows", "places of the result of a tile", 1, 32, {1, 6, 12}},
          {"width", "columns of a panel and of a tile", 8, 256, {16, 32, 64}},
          {"panels", "panels at most that share a window", 1, 64, {2, 8}},
          {"window", "bytes that the window of a block of places may take", 1, 1 << 30, {1 << 18}}};
}

} // namespace heddle::convolution
