// The variant `split_tiles`: a matrix unit that multiplies bf16 takes factors of f32 as sums of three parts
// (split_factors.h), six products for one. The loop nest is that of `chunks`: for a chunk of terms a task splits a
// block of rows, then for each of its panels that panel, over which the rows pass.
#include "compiler/halide/threads.h"
#include "compiler/kernels/contraction/contraction.h"
#include "compiler/kernels/contraction/problem.h"
#include "compiler/kernels/contraction/schedule.h"
#include "compiler/kernels/product/matrix_tile.h"
#include "compiler/kernels/product/split_factors.h"
#include "compiler/kernels/sizes.h"

#include <algorithm>
#include <cmath>

namespace heddle::contraction {

/// Rows of a call.
static constexpr int64_t height = 32;

/// Terms of a chunk at most: of weights, which are asked for ahead; of panels that lie otherwise, which take longer, so
/// that more rows should pass over each; and where the number of terms is one of run time, when the last chunk has up
/// to twice as many.
static constexpr int64_t terms_of_weights = 768, terms_of_others = 384, run_time_terms = 256;

/// Panels of a task at most: where the sum has several chunks, it keeps sums of all of them.
static constexpr int64_t panels_of_chunk = 64, panels_of_chunks = 12;

/// What the rows of a block and their sums fill of the second cache, in percent, and rows at most: splitting a panel is
/// little work beside so many.
static constexpr int64_t block_share = 52, most_rows = 256;

/// Bytes of a term, in all parts.
static constexpr int64_t term_bytes = 2 * split::parts;

/// Chunks of equal length, in whole steps.
static int64_t depth_of(const Problem &problem) {
  if (problem.longest <= 0)
    return run_time_terms;
  const int64_t most = packs(problem) ? terms_of_others : terms_of_weights;
  int64_t chunks = (problem.longest + most - 1) / most;
  return ((problem.longest + chunks - 1) / chunks + split::terms - 1) / split::terms * split::terms;
}

static bool has_chunks(const Problem &problem, int64_t depth) {
  return problem.longest <= 0 || depth < problem.longest;
}

static int64_t block_of(const Problem &problem, int64_t depth, int64_t width, const Target &target) {
  int64_t terms = problem.longest > 0 ? depth : terms_of_others;
  int64_t sums = has_chunks(problem, depth) ? panels_of_chunks * width * 4 : 0;
  return std::min(rows_that_fit(term_bytes * terms + sums, block_share, target) / height * height, most_rows);
}

/// Cycles in which the unit multiplies a step of 32 rows and 32 columns, a vector of two terms is split, and a vector
/// of partial sums added to (measured on an Emerald Rapids).
static constexpr double step_cycles = 560, splitting_cycles = 28, partial_cycles = 3;

/// Three tiles abreast leave room for one tile of each factor, so that most are loaded again for every product.
static constexpr double wide_loading = 1.3;

/// Cycles of a call of the kernel.
static double cycles(const Problem &problem, int64_t width, int64_t depth, llvm::ArrayRef<int64_t> given,
                     const Target &target) {
  double rows = sizes::value_of(problem.rows, given), others = 1;
  for (mlir::AffineExpr other : problem.others)
    others *= sizes::value_of(other, given);
  double columns = problem.columns < 0 ? double(sizes::unknown) : double(problem.columns);
  double panels = std::ceil(columns / double(width)), tiles = std::ceil(rows / double(height));
  double terms = double(problem.terms), steps = std::ceil(terms / split::terms),
         chunks = std::ceil(terms / double(depth));
  double vectors = double(width) / double(target.lanes);
  const double loading = width > MatrixTile::width ? wide_loading : 1;
  double of_tile = steps * step_cycles * loading * double(width) / MatrixTile::width +
                   chunks * (MatrixTile::call_cycles + partial_cycles * double(height) * vectors) +
                   double(height) * vectors * 3;
  double blocks = std::ceil(rows / double(block_of(problem, depth, width, target)));
  double of_panel = blocks * (terms / 2 * vectors * splitting_cycles +
                              double(width) * terms * problem.packing.cycles(int64_t(vectors)));
  double of_rows = rows * terms / (2 * double(target.lanes)) * splitting_cycles;
  double arriving =
      double(width * problem.panel_bytes) * terms / target.memory_bytes_per_cycle / (packs(problem) ? 4 : 1);
  double computing = tiles * of_tile + of_panel, hidden = 0.8;
  return others * problem.products *
         (of_rows + panels * (std::max(computing, arriving) + (1 - hidden) * std::min(computing, arriving)));
}

static bool has_one_loop(const std::vector<std::vector<Reached>> &results) {
  bool one = true;
  for (const std::vector<Reached> &products : results)
    for (const Reached &reached : products) {
      mlir::linalg::LinalgOp op = reached.product.op;
      one &= op.getNumReductionLoops() == 1;
    }
  return one;
}

static Result<std::vector<Candidate>> candidates(mlir::func::FuncOp kernel, const Target &target) {
  Problem problem = *problem_of(kernel, target);
  const MicroKernel *micro_kernel = splitting_kernel_of(*match(kernel), target);
  if (!micro_kernel)
    return Error{"the target has no instruction for tiles of parts of f32, or the products are of other numbers"};
  if (std::optional<Error> misfit = misfit_of_unit(problem))
    return *misfit;
  if (problem.longest >= 0 && problem.longest < split::terms)
    return Error{"the sum has fewer terms than a tile"};
  if (!has_one_loop(*match(kernel)))
    return Error{"the sum has several loops"};
  if (problem.terms_apart > 0) // measured: to turn them takes what is gained
    return Error{"terms of a row do not lie side by side"};
  Result<std::vector<int64_t>> widths = panel_widths_of_unit(problem);
  if (!widths)
    return widths.error();
  std::vector<Candidate> out;
  const int64_t depth = depth_of(problem);
  for (int64_t width : *widths) {
    ScheduleRow row{.variant = std::string(split_tiles.name),
                    .params = {{"rows", height},
                               {"width", width},
                               {"depth", depth},
                               {"panels", has_chunks(problem, depth) ? panels_of_chunks : panels_of_chunk},
                               {"block", block_of(problem, depth, width, target)},
                               {"ahead", 1},
                               {"tasks", least_tasks}},
                    .micro_kernel = std::string(micro_kernel->name)};
    auto seconds = [=](llvm::ArrayRef<int64_t> sizes) {
      return target.seconds(cycles(problem, width, depth, sizes, target));
    };
    out.push_back({row, seconds});
  }
  return out;
}

static Status apply(LoweredKernel &kernel, const ScheduleRow &row, const Target &target) {
  Shape shape = shape_of(row);
  if (!shape.micro_kernel->splits())
    return Error{"`" + row.micro_kernel + "` multiplies no parts of f32"};
  if (Status fits = check_width_of_unit(shape.width); !fits)
    return fits;
  if (shape.depth % split::terms != 0)
    return Error{"chunks of " + std::to_string(shape.depth) + " terms are no whole steps of " +
                 std::to_string(split::terms)};
  return schedule(kernel, shape, target);
}

static std::vector<Parameter> parameters() {
  return {{"rows", "rows of a call", 1, 128, {height}},
          {"width", "columns of a panel", MatrixTile::width, MatrixTile::wide, {MatrixTile::wide, MatrixTile::width}},
          {"depth", "terms of a chunk of the sum, in whole steps", split::terms, 1 << 20, {64, terms_of_others}},
          {"panels", "panels of a task at most", 1, 1 << 16, {2, 16}},
          {"block", "rows at most that pass over the panels of a task", 1, 1 << 20, {96, 192}},
          {"ahead", "1: the next panel, where it is stored as one, is asked for ahead", 0, 1, {1, 0}},
          {"tasks", "tasks at least, as far as there are tiles", 1, 1 << 16, {least_tasks}}};
}

const Variant split_tiles = {
    .name = "split_tiles",
    .what = "tiles of a matrix unit for bf16 over f32 split in three parts; chunk by chunk of the sum",
    .parameters = parameters(),
    .candidates = candidates,
    .schedule = apply,
    .multiplies = true,
    .by_measurement = true};

} // namespace heddle::contraction
