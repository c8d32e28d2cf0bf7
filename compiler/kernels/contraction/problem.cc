// LoweredLoop nests of the variants are in schedule.cc; the cost follows them: for each task (panel x block of rows)
// the tiles of the block, of which the first has the panel come from memory.
#include "compiler/kernels/contraction/problem.h"

#include "compiler/halide/threads.h"
#include "compiler/ir/dialect.h"
#include "compiler/kernels/contraction/blocks.h"
#include "compiler/kernels/contraction/contraction.h"
#include "compiler/kernels/product/matrix_tile.h"
#include "compiler/kernels/sizes.h"
#include "compiler/layout/layout.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <algorithm>
#include <cmath>

namespace heddle::contraction {

/// Whether a kernel has weights in panels of fewer bits than it computes with.
static bool has_narrow_panels(mlir::func::FuncOp kernel) {
  for (unsigned argument = 0; argument < kernel.getNumArguments(); ++argument)
    if (kernel.getArgAttr(argument, ir::names::layout) &&
        mlir::getElementTypeOrSelf(kernel.getArgumentTypes()[argument]).getIntOrFloatBitWidth() < 32)
      return true;
  return false;
}

/// Terms of the longest sum; -1 where one isn't known or has several loops.
static int64_t longest_sum(const std::vector<std::vector<Reached>> &results) {
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

mlir::AffineExpr rows_of(mlir::func::FuncOp kernel) {
  const Reached product = match(kernel)->front().front();
  int axis = row_axis(product), tiles = tile_axis(product);
  mlir::AffineExpr rows = axis < 0 ? mlir::AffineExpr() : sizes::extent_of(kernel, axis);
  mlir::AffineExpr of_tiles = tiles < 0 ? mlir::AffineExpr() : sizes::extent_of(kernel, tiles);
  return tiles < 0 ? rows : of_tiles ? of_tiles * rows : mlir::AffineExpr();
}

/// The width of the panels that a weight lies in of which the wide factor reads a part.
static std::optional<int64_t> width_of_part(mlir::func::FuncOp kernel,
                                            const std::vector<std::vector<Reached>> &results) {
  for (const std::vector<Reached> &products : results)
    for (const Reached &reached : products) {
      auto read = element_read(wide_factor(reached)->value).getDefiningOp<mlir::tensor::ExtractOp>();
      auto tensor = read ? llvm::dyn_cast<mlir::BlockArgument>(read.getTensor()) : mlir::BlockArgument();
      if (tensor && tensor.getOwner() == &kernel.getBody().front())
        if (auto panels = given_panels(kernel, tensor.getArgNumber()))
          return panels->width;
    }
  return std::nullopt;
}

/// Cycles of packing, measured on Zen 4 with 32 rows. Lanes that lie side by side are copied vector by vector. Where
/// terms do, they are read in squares (operands.h; 821 columns of 64 terms, 8192 of 1024), else column by column, from
/// as many lines as the panel has columns (20000 of 410): these share the first cache, unless they are so far apart
/// that they fall on the same sets. What else there is, such as a part that crosses its panels, counts as that.
static constexpr Packing of_lanes{0.25, 0}, of_squares{1.2, 0.15}, of_terms{0.9, 0.25}, of_strides{10, 0};

/// Bytes from one column to the next, or a multiple, such that all of them read the same set of the first cache.
static constexpr int64_t same_set = 4096;

/// What packing an element takes that is read from there, row-major.
static Packing packing_of(mlir::linalg::LinalgOp op, mlir::AffineMap at, unsigned lanes, mlir::RankedTensorType type,
                          const MicroKernel &micro_kernel, const Target &target) {
  mlir::AffineExpr last = at.getResults().back();
  if (last.isFunctionOfDim(lanes))
    return of_lanes;
  llvm::SmallVector<unsigned> summed;
  op.getReductionDims(summed);
  if (!last.isFunctionOfDim(summed.back()))
    return of_strides;
  int64_t terms = op.getStaticLoopRanges()[summed.back()], apart = type.getShape().back();
  if (!mlir::ShapedType::isDynamic(terms) && terms % target.lanes == 0 && micro_kernel.group == 1)
    return of_squares;
  int64_t bytes = apart * type.getElementTypeBitWidth() / 8;
  return mlir::ShapedType::isDynamic(apart) || bytes % same_set != 0 ? of_terms : of_strides;
}

/// The slowest of what packing the factors with lanes needs to read; nothing of those that lie in panels.
static Packing packing_of(mlir::func::FuncOp kernel, const std::vector<Reached> &products,
                          const MicroKernel &micro_kernel, const Target &target) {
  Packing sum;
  for (const Reached &reached : products) {
    mlir::linalg::LinalgOp op = reached.product.op;
    unsigned lanes = unsigned(lane_loop(reached));
    Packing slowest;
    auto visit = [&](auto &self, mlir::Value value) -> void {
      if (!loops_behind(op, value).test(lanes)) // a number for all lanes
        return;
      if (auto [tensor, at] = place_read(op, value); tensor) {
        auto argument = llvm::dyn_cast<mlir::BlockArgument>(tensor);
        auto panels = argument ? given_panels(kernel, argument.getArgNumber()) : std::nullopt;
        bool packed =
            panels && panels_along_lanes(kernel, argument.getArgNumber(), panels->width, target) ==
                          kernel.getArgAttrOfType<ir::LayoutAttr>(argument.getArgNumber(), ir::names::layout).getMap();
        auto type = llvm::cast<mlir::RankedTensorType>(tensor.getType());
        Packing own = packed ? Packing{} : panels ? of_strides : packing_of(op, at, lanes, type, micro_kernel, target);
        if (own.cycles(3) > slowest.cycles(3))
          slowest = own;
        return;
      }
      if (mlir::Operation *made = value.getDefiningOp(); made && made->getBlock() == op.getBlock())
        for (mlir::Value operand : made->getOperands())
          self(self, operand);
    };
    visit(visit, wide_factor(reached)->value);
    sum.per_element += slowest.per_element;
    sum.per_vector += slowest.per_vector;
  }
  return sum;
}

/// Bytes from a term of the factor without lanes to the next, where in all products it is an input's as it lies, rows
/// side by side; 0: it isn't, or it is a weight in panels for another kernel.
static int64_t terms_apart(mlir::func::FuncOp kernel, const std::vector<std::vector<Reached>> &results) {
  int64_t least = 0;
  for (const std::vector<Reached> &products : results)
    for (const Reached &reached : products) {
      mlir::linalg::LinalgOp op = reached.product.op;
      mlir::Value rows = rows_by_lanes(reached).left.value;
      auto element = llvm::dyn_cast<mlir::BlockArgument>(rows);
      if (!element || element.getOwner() != op.getBlock() || row_axis(reached) < 0)
        return 0;
      auto [value, at] = place_read(op, rows);
      auto tensor = llvm::dyn_cast_if_present<mlir::BlockArgument>(value);
      auto row = llvm::find(reached.axis_of_loop, row_axis(reached));
      if (!tensor || tensor.getOwner() != &kernel.getBody().front() ||
          kernel.getArgAttr(tensor.getArgNumber(), ir::names::layout) || row == reached.axis_of_loop.end() ||
          at.getResults().back() !=
              mlir::getAffineDimExpr(unsigned(row - reached.axis_of_loop.begin()), op.getContext()))
        return 0;
      auto type = llvm::cast<mlir::RankedTensorType>(tensor.getType());
      int64_t apart = type.getShape().back() * type.getElementTypeBitWidth() / 8;
      if (mlir::ShapedType::isDynamic(type.getShape().back()))
        return 0;
      least = least == 0 ? apart : std::min(least, apart);
    }
  return least;
}

std::optional<Problem> problem_of(mlir::func::FuncOp kernel, const Target &target) {
  std::optional<std::vector<std::vector<Reached>>> results = match(kernel);
  if (!results)
    return std::nullopt;
  Problem out{};
  out.micro_kernel = &micro_kernel_of(*results, target);
  for (const std::vector<Reached> &result : *results)
    out.products = std::max(out.products, int(result.size()));
  auto type = llvm::cast<mlir::RankedTensorType>(kernel.getResultTypes()[0]);
  out.columns = mlir::ShapedType::isDynamic(type.getShape().back()) ? -1 : type.getShape().back();
  int axis = row_axis(results->front().front()), tiles = tile_axis(results->front().front());
  out.has_rows = axis >= 0;
  if (out.has_rows)
    out.rows = rows_of(kernel);
  if (tiles >= 0)
    out.rows_of_tile = rows_of_tile(results->front().front());
  for (int other = 0; other + 1 < int(type.getRank()); ++other)
    if (other != axis && other != tiles)
      out.others.push_back(sizes::extent_of(kernel, other));
  out.terms = sizes::terms_of(results->front().front().product.op);
  out.longest = longest_sum(*results);
  out.narrow = out.micro_kernel->takes_any_type() && has_narrow_panels(kernel);
  for (unsigned argument = 0; argument < kernel.getNumArguments(); ++argument) {
    std::optional<layout::Panels> panels = given_panels(kernel, argument);
    mlir::AffineMap like = panels_along_lanes(kernel, argument, panels ? panels->width : target.lanes, target);
    out.weights |= bool(like);
    if (like)
      out.panel_bytes = std::max<int>(
          out.panel_bytes,
          int(mlir::getElementTypeOrSelf(kernel.getArgumentTypes()[argument]).getIntOrFloatBitWidth()) / 8);
    std::optional<layout::Panels> wanted = layout::panels_of(like);
    if (panels && wanted && panels->axis == wanted->axis && !out.given_width)
      out.given_width = panels->width;
  }
  if (!out.given_width)
    out.given_width = width_of_part(kernel, *results);
  out.packing = packing_of(kernel, results->front(), *out.micro_kernel, target);
  out.terms_apart = terms_apart(kernel, *results);
  if (out.panel_bytes == 0)
    out.panel_bytes = out.micro_kernel->bytes();
  return out;
}

/// Rows of accumulators that the registers hold beside a row of the panel; those of all products of a result share
/// them.
static int64_t most_rows(const Problem &problem, int64_t vectors, const Target &target) {
  int64_t others = vectors + problem.micro_kernel->further_registers();
  return std::max<int64_t>(1, (target.registers - others) / (vectors * problem.products));
}

std::vector<int64_t> panel_widths(const Problem &problem, const Target &target) {
  if (problem.given_width)
    return {*problem.given_width};
  std::vector<int64_t> out;
  int64_t vectors_needed = problem.columns < 0 ? 4 : (problem.columns + target.lanes - 1) / target.lanes;
  for (int64_t vectors : {3, 4, 2, 1})
    if (vectors == 1 || (vectors <= vectors_needed && vectors * 5 <= target.registers && // room for four rows
                         most_rows(problem, vectors, target) >= problem.rows_of_tile))
      out.push_back(vectors * target.lanes);
  return out;
}

std::vector<int64_t> tile_heights(const Problem &problem, int64_t width, const Target &target) {
  if (!problem.has_rows)
    return {1};
  int64_t most = most_rows(problem, std::max<int64_t>(1, width / target.lanes), target);
  if (problem.rows_of_tile > 0) {
    int64_t rows = std::min(most, problem.rows_of_tile);
    while (problem.rows_of_tile % rows != 0)
      --rows;
    return {rows}; // fewer would read the panel more often
  }
  if (auto fixed = llvm::dyn_cast_if_present<mlir::AffineConstantExpr>(problem.rows))
    most = std::min(most, std::max<int64_t>(fixed.getValue(), 1));
  std::vector<int64_t> out;
  for (int64_t rows : {12, 8, 6, 4, 2, 1})
    if (rows <= most)
      out.push_back(rows);
  if (most < 8 && out.front() < most)
    out.insert(out.begin(), most);
  return out;
}

std::vector<int64_t> panels_abreast(const Problem &problem, int64_t rows, int64_t width, const Target &target) {
  std::vector<int64_t> out;
  if (!problem.weights || problem.rows_of_tile > 0 || problem.columns < 0)
    return out;
  int64_t panels = (problem.columns + width - 1) / width, vectors = std::max<int64_t>(1, width / target.lanes);
  for (int64_t abreast : {2, 4})
    if (panels % abreast == 0 && rows * abreast * vectors * problem.products <= target.registers - 4)
      out.push_back(abreast);
  return out;
}

/// Panels of a task that takes the sum in chunks: two share the rows of a chunk, more gain nothing (measured).
static constexpr int64_t panels_of_task = 2;

/// Share of the second cache that the rows of a block may take, in percent: with two panels beside them they should
/// fit. Measured at 768 terms: blocks of 104 rows are 2 to 8 % faster than blocks of 200.
static constexpr int64_t block_share = 33;

/// Rows over which a panel that is packed may pass, whatever fits the cache.
static constexpr int64_t packed_block = 1024;

int64_t rows_that_fit(int64_t bytes_of_row, int64_t share, const Target &target) {
  return std::clamp<int64_t>(target.l2 * share / 100 / bytes_of_row, 96, 512);
}

int64_t rows_of_block(const Problem &problem, const Target &target, int64_t depth) {
  int64_t terms = depth > 0 ? std::min(problem.terms, depth) : problem.terms;
  return rows_that_fit(problem.micro_kernel->bytes() * terms, block_share, target);
}

bool packs(const Problem &problem) { return problem.packing.cycles(1) > 0; }

int64_t rows_of_copied_block(const Problem &problem, const Target &target) {
  constexpr int64_t share = 50;
  return rows_that_fit(problem.micro_kernel->bytes() * problem.terms, share, target);
}

std::vector<int64_t> blocks_of_rows(const Problem &problem, const Target &target, int64_t depth) {
  std::vector<int64_t> out = {rows_of_block(problem, target, depth)};
  if (packs(problem))
    out.push_back(packed_block);
  return out;
}

/// Cycles in which a tile waits for the lines of the result that it writes, unless they are asked for ahead: a core has
/// some 16 requests under way. Measured on Zen 4, 64 terms to 256 columns.
static double store_cycles(const TileShape &tile, bool ahead) {
  double lines = double(tile.rows * tile.vectors);
  return lines * (ahead ? 10 : 30) + std::max(lines - 16, 0.0) * 15;
}

/// Cycles of a step for rows of a tile that a call with fewer rows doesn't have, on top of the latency that they hide
/// behind. Measured on Zen 3: one row in tiles of two takes 8 % longer than in tiles of one.
static double in_vain_cycles(const TileShape &tile, double rows) {
  return 0.25 * double(tile.vectors) * std::max(double(tile.rows) - rows, 0.0);
}

/// What a core reads from memory in so many places at a time, over what it reads in one. Measured with weights of 150
/// MB in panels of 48 KiB and more: on Zen 3 25 GB/s from two or four panels, 20 GB/s from one; on Zen 4 26 to 27 from
/// four, 22 to 23 from two, 21 to 22 from one. The factors lie between the two.
static double streams(int64_t places) { return places >= 4 ? 1.3 : places > 1 ? 1.25 : 1; }

/// Cycles in which a vector of partial sums is added to.
static constexpr double partial_cycles = 3;

/// Of reading from the third cache what a tile multiplies, what multiplying does not hide. Rows beside a panel that was
/// packed, and so is in the second cache, are all that comes from there. Measured on Zen 4, 512 rows of 768 and 3072
/// terms: they take nothing.
static constexpr double seen_of_l3 = 0.15;

/// Which share of a block's rows comes from further away than the second cache each time, where the block and two
/// panels fill that cache so far. Measured on an Emerald Rapids, 3072 terms, blocks of 96 rows (0.94): 512 rows take
/// 8 % longer than in chunks.
static double share_from_l3(double filled) { return std::clamp((filled - 0.9) / 0.1, 0.0, 1.0); }

/// Cycles of a step for each row of a tile whose rows share a few sets of the first cache and are more than it has
/// ways. Measured on Zen 4, rows 2, 4, 8 and 12 KiB apart: 12 rows take 8 % longer than 8 with two vectors, 33 % with
/// one; 3 KiB apart they take as long.
static double crowded_cycles(const Problem &problem, int64_t rows, const Target &target) {
  bool few_sets = problem.terms * problem.micro_kernel->bytes() % (same_set / 2) == 0;
  return few_sets && rows > target.l1 / same_set ? 0.15 * double(rows) : 0;
}

/// Cycles of a step in which a tile waits for rows that lie side by side: each term has its own line, and these share a
/// few sets of the first cache. Where rows are copied, it waits if its panel does not fit there beside them. Measured
/// on an Emerald Rapids, 512 terms 3 and 12 KiB apart, and panels of 256 terms.
static double apart_cycles(const Problem &problem, const Tiling &tiling, const Target &target) {
  if (problem.terms_apart == 0)
    return 0;
  if (tiling.copied)
    return 4 * tiling.width * problem.terms * problem.micro_kernel->bytes() > 3 * target.l1 ? 2 : 0;
  return problem.terms_apart % same_set == 0 ? 24 : 8;
}

/// Cycles of copying an element of such rows.
static constexpr double copying_cycles = 0.5;

bool two_panels_fit(int64_t terms, int64_t width, const MicroKernel &micro_kernel, const Target &target) {
  return 2 * terms * width * micro_kernel.bytes() < target.l2 / 2;
}

/// Of the shorter of loading a panel and multiplying it by a first tile that asks for nothing, what the other hides. A
/// core runs ahead to the next lines past the multiply-adds of one or two rows. Past those of more it hardly does: 4 to
/// 24 rows take the sum of both on Zen 3 and Emerald Rapids, and three quarters of the shorter are hidden on Zen 4.
static double hidden_unasked(int64_t rows) { return rows > 2 ? 0.25 : 0.5; }

/// Cycles of a call.
static double cycles(const Problem &problem, const Tiling &tiling, llvm::ArrayRef<int64_t> given,
                     const Target &target) {
  const MicroKernel &micro_kernel = *problem.micro_kernel;
  int64_t width = tiling.width * tiling.abreast; // of a tile
  TileShape tile{tiling.rows, std::max<int64_t>(1, width / target.lanes)};
  double rows = problem.has_rows ? sizes::value_of(problem.rows, given) : 1, others = 1;
  for (mlir::AffineExpr other : problem.others)
    others *= sizes::value_of(other, given);
  double columns = problem.columns < 0 ? double(sizes::unknown) : double(problem.columns);
  double panels = std::ceil(columns / double(width)), tiles = std::ceil(rows / double(tiling.rows));
  double steps = std::ceil(double(problem.terms) / micro_kernel.group);
  double chunks = tiling.depth > 0 ? std::ceil(double(problem.terms) / double(tiling.depth)) : 1;
  bool unpacked = problem.narrow && !tiling.widened;
  double instruction = instruction_cost(micro_kernel, target);
  double in_vain =
      in_vain_cycles(tile, rows) + crowded_cycles(problem, tiling.rows, target) + apart_cycles(problem, tiling, target);
  double of_tile = problem.products * steps * (step_cycles(tile, unpacked, target, instruction) + in_vain) +
                   chunks * tile_cycles(tile) + store_cycles(tile, tiling.ahead != Ahead::nothing && tiling.depth == 0);
  if (tiling.depth > 0)
    of_tile += chunks * partial_cycles * double(tile.rows * tile.vectors);

  // What comes from further away than the second cache: a panel once for a block of rows, and the rows of a block once
  // for each panel where the block, with two panels beside it, does not fit.
  double block = std::min(rows, double(tiling.block));
  double terms_at_once = tiling.depth > 0 ? double(tiling.depth) : double(problem.terms);
  double panel_bytes = double(width * problem.terms * problem.panel_bytes);
  if (double panel = double(width) * terms_at_once * micro_kernel.bytes(); panel > double(target.l2)) {
    double reading = chunks * panel / target.l3_bytes_per_cycle; // by every tile
    of_tile = std::max(of_tile, reading) + seen_of_l3 * std::min(of_tile, reading);
  }
  double used = (block + 2 * double(width)) * terms_at_once * micro_kernel.bytes();
  double row_bytes = share_from_l3(used / double(target.l2)) * rows * double(problem.terms * micro_kernel.bytes());
  double panel_loading =
      panel_bytes / target.memory_bytes_per_cycle / (problem.weights ? 1 : 4) / streams(tiling.abreast);
  if (tiling.packed)
    panel_loading = std::ceil(rows / block) * panel_bytes / target.l3_bytes_per_cycle;
  double row_loading = row_bytes / target.l3_bytes_per_cycle;
  double computing = tiles * of_tile + row_loading * (packs(problem) ? seen_of_l3 : 1);
  double tasks = std::ceil(panels / (tiling.depth > 0 ? double(panels_of_task) : 1.0));
  double blocks = std::ceil(rows / block);
  if (problem.others.empty()) // else they make tasks enough
    blocks = std::max(
        blocks, std::min(std::max(std::floor(tiles / tiles_that_ask), 1.0), std::ceil(double(least_tasks) / tasks)));
  double packing = (tiling.packed ? 1 : blocks) * double(width * problem.terms) *
                   problem.packing.cycles(tiling.width / target.lanes);
  if (problem.narrow && tiling.widened) // by the first tile of each block, which writes them out, too
    computing += blocks * problem.products * steps *
                 (step_cycles(tile, true, target) - step_cycles(tile, false, target) + double(tile.vectors));
  // A panel that is asked for ahead comes while the one before it is multiplied; otherwise the first tile of a block
  // waits for it. Neither hides the other whole. Tiles so few that they would ask for less than two lines of three ask
  // for nothing (prefetch.cc), as do those whose two panels don't fit, or for lines of the panel that they multiply,
  // which come as if from several places.
  double first = problem.products * steps * (multiply_cycles(tile, problem.narrow, target, instruction) + in_vain);
  double rest = computing - of_tile, hidden = hidden_unasked(tiling.rows);
  double lines = std::ceil(double(tiling.width * problem.panel_bytes * micro_kernel.group) / 64);
  bool few = lines > tiles;
  if (tiling.ahead == Ahead::next_panel && 2 * lines <= 3 * tiles &&
      two_panels_fit(int64_t(terms_at_once), tiling.width, micro_kernel, target)) {
    first = computing * 1.005;
    rest = 0;
    hidden = 0.8;
  } else if (tiling.ahead == Ahead::this_panel) {
    double asking = few ? 1.02 : 1.05; // more than the next panel would take
    first *= asking;
    rest *= asking;
    if (few) {
      hidden = 0.8;
      panel_loading /= streams(2);
    }
  }
  double copying = tiling.copied ? copying_cycles * rows * double(problem.terms) : 0;
  return others * (copying + panels * (std::max(first, panel_loading) + (1 - hidden) * std::min(first, panel_loading) +
                                       std::max(rest, 0.0) + packing));
}

Candidate candidate(const Problem &problem, std::string_view variant, const Tiling &tiling, const Target &target) {
  ScheduleRow row{.variant = std::string(variant),
                  .params = {{"rows", tiling.rows},
                             {"width", tiling.width},
                             {"block", tiling.block},
                             {"tasks", least_tasks},
                             {"ahead", int64_t(tiling.ahead)},
                             {"widened", tiling.widened}},
                  .micro_kernel = std::string(problem.micro_kernel->name)};
  if (tiling.depth > 0) {
    row.params["depth"] = tiling.depth;
    row.params["panels"] = panels_of_task;
  } else {
    row.params["abreast"] = tiling.abreast;
  }
  return {row, [problem, tiling, target](llvm::ArrayRef<int64_t> sizes) {
            return target.seconds(cycles(problem, tiling, sizes, target));
          }};
}

std::optional<Error> misfit_of_unit(const Problem &problem) {
  if (!problem.has_rows)
    return Error{"a row is no tile"};
  if (problem.rows_of_tile > 0)
    return Error{"each tile of rows has its own place in the weights"};
  if (problem.columns >= 0 && problem.columns <= MatrixTile::width / 2)
    return Error{"the columns fill one tile at most"};
  return std::nullopt;
}

Result<std::vector<int64_t>> panel_widths_of_unit(const Problem &problem) {
  if (!problem.given_width)
    return std::vector<int64_t>{MatrixTile::wide, MatrixTile::width};
  if (!check_width_of_unit(*problem.given_width))
    return Error{"the weights have panels of " + std::to_string(*problem.given_width) + " columns; tiles take " +
                 std::to_string(MatrixTile::width) + " or " + std::to_string(MatrixTile::wide)};
  return std::vector<int64_t>{*problem.given_width};
}

Status check_width_of_unit(int64_t width) {
  if (width != MatrixTile::width && width != MatrixTile::wide)
    return Error{"panels of " + std::to_string(width) + " columns are no two or three tiles"};
  return Done();
}

std::vector<Parameter> tile_parameters(std::vector<int64_t> rows, std::vector<int64_t> widths) {
  return {{"rows", "rows of accumulators of a tile", 1, 64, std::move(rows)},
          {"width", "columns of a panel and of a tile", 8, 1024, std::move(widths)},
          {"block", "rows at most that pass over a panel while it is in the cache", 1, 1 << 20, {96}},
          {"tasks", "tasks at least, as far as there are tiles", 1, 1 << 16, {least_tasks}},
          {"ahead", "1: the next panel, 2: this one, and the rows of the result are asked for ahead", 0, 2, {1, 0, 2}},
          {"widened", "1: panels of narrow numbers are widened once for a block of rows", 0, 1, {0, 1}}};
}

} // namespace heddle::contraction
