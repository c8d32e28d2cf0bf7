// The variant `chunks`: the sum goes a chunk of its terms at a time, for two panels, so that the rows and the panels of
// a chunk stay in the second cache; what a tile adds up is added to partial sums.
#include "compiler/kernels/contraction/contraction.h"
#include "compiler/kernels/contraction/problem.h"
#include "compiler/kernels/contraction/schedule.h"

namespace heddle::contraction {

/// Terms of a chunk such that the chunks of two panels take 3/16 of the second cache, in chunks of equal length.
static int64_t chunk_depth(const Problem &problem, int64_t width, const Target &target) {
  int64_t most = target.l2 * 3 / 16 / (2 * width * problem.micro_kernel->bytes());
  int64_t chunks = (problem.longest + most - 1) / most, group = problem.micro_kernel->group;
  return ((problem.longest + chunks - 1) / chunks + group - 1) / group * group;
}

static Result<std::vector<Candidate>> candidates(mlir::func::FuncOp kernel, const Target &target) {
  Problem problem = *problem_of(kernel, target);
  if (!problem.has_rows)
    return Error{"no rows share the chunks"};
  if (problem.rows_of_tile > 0)
    return Error{"each tile of rows has its own place in the weights"};
  if (problem.longest <= 0)
    return Error{"the sum has several loops, or a run-time number of terms"};
  std::vector<Candidate> out;
  for (int64_t width : panel_widths(problem, target)) {
    int64_t depth = chunk_depth(problem, width, target);
    if (depth >= problem.longest)
      continue;
    for (int64_t rows : tile_heights(problem, width, target))
      for (bool widened : {false, true})
        for (int64_t block : blocks_of_rows(problem, target, depth))
          if (asking_can_pay(rows) && (problem.narrow || !widened))
            out.push_back(
                candidate(problem, chunks.name, {rows, width, depth, Ahead::next_panel, widened, block}, target));
  }
  if (out.empty())
    return Error{"the sum is no longer than a chunk"};
  return out;
}

static Status apply(LoweredKernel &kernel, const ScheduleRow &row, const Target &target) {
  return schedule(kernel, shape_of(row), target);
}

static std::vector<Parameter> parameters() {
  std::vector<Parameter> out = tile_parameters({6, 8}, {48});
  out.push_back({"depth", "terms of a chunk", 1, 1 << 20, {8, 512}});
  out.push_back({"panels", "panels of a task", 1, 64, {2}});
  return out;
}

const Variant chunks = {
    .name = "chunks",
    .what = "tiles over `depth` terms of the sum at a time for a few panels, so that rows and panels stay in the cache",
    .parameters = parameters(),
    .candidates = candidates,
    .schedule = apply,
    .multiplies = true,
    .version = 2};

} // namespace heddle::contraction
