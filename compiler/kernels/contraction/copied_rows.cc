// The variant `copied_rows`: the tiles of `tiles`, of rows that lie side by side (terms apart), as the gradient of a
// weight sums over the places of a batch. A tile takes a few elements of each term's line, which are so far apart that
// they share a few sets of the first cache; so a task copies a block of rows as its tiles read them, and all panels
// pass over the copy.
#include "compiler/kernels/contraction/contraction.h"
#include "compiler/kernels/contraction/problem.h"
#include "compiler/kernels/contraction/schedule.h"

namespace heddle::contraction {

static Result<std::vector<Candidate>> candidates(mlir::func::FuncOp kernel, const Target &target) {
  Problem problem = *problem_of(kernel, target);
  if (problem.terms_apart == 0)
    return Error{"rows do not lie side by side in an input"};
  if (problem.rows_of_tile > 0)
    return Error{"each tile of rows has its own place in the weights"};
  if (problem.micro_kernel->group > 1)
    return Error{"the terms of a group do not lie side by side"};
  std::vector<Candidate> out;
  for (int64_t width : panel_widths(problem, target))
    for (int64_t rows : tile_heights(problem, width, target)) {
      Tiling tiling{rows, width, 0, Ahead::next_panel, false, rows_of_copied_block(problem, target), 1, true};
      Candidate made = candidate(problem, copied_rows.name, tiling, target);
      made.row.params = {{"rows", rows}, {"width", width}, {"block", tiling.block}, {"tasks", copying_tasks}};
      out.push_back(std::move(made));
    }
  return out;
}

static Status apply(LoweredKernel &kernel, const ScheduleRow &row, const Target &target) {
  Shape shape = shape_of(row);
  shape.ahead = Ahead::next_panel;
  shape.copied = true;
  return schedule(kernel, shape, target);
}

static std::vector<Parameter> parameters() {
  return {{"rows", "rows of accumulators of a tile", 1, 64, {6, 8, 12}},
          {"width", "columns of a panel and of a tile", 8, 1024, {32, 48}},
          {"block", "rows at most that are copied at a time", 1, 1 << 20, {96, 512}},
          {"tasks", "tasks at least, as far as there are tiles", 1, 1 << 16, {copying_tasks}}};
}

const Variant copied_rows = {.name = "copied_rows",
                             .what =
                                 "tiles of rows that lie side by side, which are copied block by block for all panels",
                             .parameters = parameters(),
                             .candidates = candidates,
                             .schedule = apply,
                             .multiplies = true};

} // namespace heddle::contraction
