// The variant `tiles`: accumulators stay in registers over the whole sum.
#include "compiler/kernels/contraction/contraction.h"
#include "compiler/kernels/contraction/problem.h"
#include "compiler/kernels/contraction/schedule.h"

namespace heddle::contraction {

static Result<std::vector<Candidate>> candidates(mlir::func::FuncOp kernel, const Target &target) {
  Problem problem = *problem_of(kernel, target);
  bool one_place = problem.rows_of_tile == 0; // all rows pass over one panel, then over the next
  std::vector<int64_t> blocks = blocks_of_rows(problem, target);
  std::vector<Candidate> out;
  for (int64_t width : panel_widths(problem, target))
    for (int64_t rows : tile_heights(problem, width, target)) {
      for (Ahead ahead : {Ahead::next_panel, Ahead::this_panel, Ahead::nothing})
        for (bool widened : {false, true})
          for (int64_t block : blocks)
            if ((ahead == Ahead::nothing || (one_place && asking_can_pay(rows))) &&
                (ahead != Ahead::this_panel || (problem.weights && !widened)) &&
                (!widened || (one_place && problem.narrow)))
              out.push_back(candidate(problem, tiles.name, {rows, width, 0, ahead, widened, block}, target));
      for (int64_t abreast : panels_abreast(problem, rows, width, target))
        out.push_back(
            candidate(problem, tiles.name, {rows, width, 0, Ahead::nothing, false, blocks.front(), abreast}, target));
    }
  return out;
}

static Status apply(LoweredKernel &kernel, const ScheduleRow &row, const Target &target) {
  return schedule(kernel, shape_of(row), target);
}

static std::vector<Parameter> parameters() {
  std::vector<Parameter> out = tile_parameters({1, 4, 6, 8, 12}, {16, 32, 48, 64});
  out.push_back({"abreast", "panels that a tile computes at a time", 1, 4, {1, 2, 4}});
  return out;
}

const Variant tiles = {.name = "tiles",
                       .what = "rows x width accumulators in registers over the whole sum; the wide factor in panels",
                       .parameters = parameters(),
                       .candidates = candidates,
                       .schedule = apply,
                       .multiplies = true,
                       .version = 3};

} // namespace heddle::contraction
