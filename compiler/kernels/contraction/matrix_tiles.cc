// The variant `matrix_tiles`: a matrix unit (AMX) multiplies, one call for a block of rows and a panel of 32 or 48
// columns; the loop nest and the panels are those of `tiles` with a vector's dot product, so that calls with few rows
// may take that.
#include "compiler/halide/threads.h"
#include "compiler/kernels/contraction/contraction.h"
#include "compiler/kernels/contraction/problem.h"
#include "compiler/kernels/contraction/schedule.h"
#include "compiler/kernels/product/matrix_tile.h"
#include "compiler/kernels/sizes.h"

#include <algorithm>
#include <cmath>

namespace heddle::contraction {

/// Rows of a call: those that the unit takes at a time. Their sums stay in the first cache until the epilogue reads
/// them, while the rows of the next call arrive (on an Emerald Rapids 96 rows took 4 to 8 % longer).
static constexpr int64_t height = 32;

/// Of the second cache, in percent, what the rows of a block fill; with more a panel would push them out, and with
/// fewer it is read more often (measured on an Emerald Rapids: 3072 terms, blocks of 96 to 224 rows).
static constexpr int64_t block_share = 47;

static int64_t block_of(const Problem &problem, const MicroKernel &micro_kernel, const Target &target) {
  return rows_that_fit(micro_kernel.bytes() * problem.terms, block_share, target) / height * height;
}

/// Rows of a block that all panels pass over in one task, and of how many such blocks it pays: where the weights stay
/// in the cache, results are written and residuals read row by row, in whole. Of the second cache, in percent, what the
/// weights may fill. Measured on an Emerald Rapids: 19200 rows of 64 terms to 256 columns with a residual in blocks of
/// 96 take 10 to 15 % less than panel by panel, of 192 and 384 rows 0 to 8 %; 4800 rows of 128 terms to 512 20 % less,
/// of 256 to 64 and 512 to 128 4 % more.
static constexpr int64_t block_inside = 96, blocks_inside = 32, inside_share = 7;

static bool fits_inside(const Problem &problem, const MicroKernel &micro_kernel, const Target &target) {
  return problem.weights && problem.others.empty() &&
         problem.columns > std::max<int64_t>(problem.terms, MatrixTile::wide) &&
         problem.columns * problem.terms * micro_kernel.bytes() * 100 <= target.l2 * inside_share;
}

/// Cycles for which an instruction keeps the unit busy for each row of its first operand (Intel's optimisation manual:
/// 16 for a whole tile).
static constexpr double cycles_of_row = 1;

/// Cycles of a call of the kernel.
static double cycles(const Problem &problem, const MicroKernel &micro_kernel, int64_t width, bool inside,
                     llvm::ArrayRef<int64_t> given, const Target &target) {
  double rows = sizes::value_of(problem.rows, given), others = 1;
  for (mlir::AffineExpr other : problem.others)
    others *= sizes::value_of(other, given);
  double columns = problem.columns < 0 ? double(sizes::unknown) : double(problem.columns);
  double panels = std::ceil(columns / double(width));
  double steps = std::ceil(double(problem.terms) / (micro_kernel.group * MatrixTile::groups));
  double calls = std::ceil(rows / double(height));
  // A step loads a tile of each operand from the second cache for 16 rows or columns; products of all pairs follow.
  double panel_step = double(width * MatrixTile::bytes);
  double loading = (calls * panel_step + rows * MatrixTile::bytes) / target.l2_bytes_per_cycle;
  double multiplying = double(width) / (MatrixTile::width / 2) * rows * cycles_of_row;
  double computing = problem.products * (steps * std::max(loading, multiplying) + calls * MatrixTile::call_cycles);
  double line =
      inside && rows >= double(blocks_inside * block_inside) ? 20 : 30; // 30 as tiles that ask for nothing ahead
  double storing = rows * (double(width) / double(target.lanes)) * line;
  double arriving = problem.products * steps * panel_step / target.memory_bytes_per_cycle / (problem.weights ? 1 : 4);
  double packing = std::ceil(rows / double(block_of(problem, micro_kernel, target))) * double(width * problem.terms) *
                   problem.packing.cycles(width / target.lanes);
  double first = computing / calls, hidden = 0.5;
  return others * panels *
         (std::max(first, arriving) + (1 - hidden) * std::min(first, arriving) + computing - first + storing + packing);
}

static Result<std::vector<Candidate>> candidates(mlir::func::FuncOp kernel, const Target &target) {
  Problem problem = *problem_of(kernel, target);
  const MicroKernel *micro_kernel = matrix_kernel_of(*match(kernel), target);
  if (!micro_kernel)
    return Error{"no instruction of the target multiplies tiles of these types"};
  if (std::optional<Error> misfit = misfit_of_unit(problem))
    return *misfit;
  if (problem.longest < int64_t(micro_kernel->group) * MatrixTile::groups)
    return Error{"the sum has several loops, a run-time number of terms, or fewer than a tile"};
  Result<std::vector<int64_t>> widths = panel_widths_of_unit(problem);
  if (!widths)
    return widths.error();
  std::vector<Candidate> out;
  for (int64_t width : *widths)
    for (bool inside : {false, true}) {
      if (inside && !fits_inside(problem, *micro_kernel, target))
        continue;
      int64_t block = inside ? block_inside : block_of(problem, *micro_kernel, target);
      ScheduleRow row{.variant = std::string(matrix_tiles.name),
                      .params = {{"rows", height},
                                 {"width", width},
                                 {"ahead", 1},
                                 {"block", block},
                                 {"inside", inside},
                                 {"tasks", least_tasks}},
                      .micro_kernel = std::string(micro_kernel->name)};
      auto seconds = [=](llvm::ArrayRef<int64_t> sizes) {
        return target.seconds(cycles(problem, *micro_kernel, width, inside, sizes, target));
      };
      out.push_back({row, seconds});
    }
  return out;
}

static Status apply(LoweredKernel &kernel, const ScheduleRow &row, const Target &target) {
  Shape shape = shape_of(row);
  shape.inside = row.params.at("inside") != 0;
  if (!shape.micro_kernel->takes_tiles())
    return Error{"`" + row.micro_kernel + "` multiplies no tiles"};
  if (Status fits = check_width_of_unit(shape.width); !fits)
    return fits;
  return schedule(kernel, shape, target);
}

static std::vector<Parameter> parameters() {
  return {{"rows", "rows of a call", 1, 128, {height}},
          {"width", "columns of a panel", MatrixTile::width, MatrixTile::wide, {MatrixTile::wide, MatrixTile::width}},
          {"ahead", "1: the next panel and the rows of the result are asked for ahead", 0, 1, {1, 0}},
          {"block", "rows at most that pass over a panel while it is in the cache", 1, 1 << 20, {96}},
          {"inside", "1: all panels pass over a block in its task, 0: all rows of a block over a panel", 0, 1, {0, 1}},
          {"tasks", "tasks at least, as far as there are tiles", 1, 1 << 16, {least_tasks}}};
}

const Variant matrix_tiles = {
    .name = "matrix_tiles",
    .what = "two by two or three tiles of a matrix unit over the whole sum; the wide factor in panels",
    .parameters = parameters(),
    .candidates = candidates,
    .schedule = apply,
    .multiplies = true};

} // namespace heddle::contraction
