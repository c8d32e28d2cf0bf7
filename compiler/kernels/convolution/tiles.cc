// The variant `tiles`: accumulators stay in registers over the whole sum.
#include "compiler/kernels/convolution/problem.h"
#include "compiler/kernels/convolution/schedule.h"

namespace heddle::convolution {

static Result<std::vector<Candidate>> offered(mlir::func::FuncOp kernel, const Target &target) {
  Problem problem = *problem_of(kernel, target);
  std::vector<Candidate> out;
  for (int64_t width : panel_widths(problem, target))
    for (Candidate &candidate : candidates(problem, tiles.name, width, 0, target))
      out.push_back(std::move(candidate));
  return out;
}

static Status apply(LoweredKernel &kernel, const ScheduleRow &row, const Target &target) {
  return schedule(kernel, row, 0, target);
}

const Variant tiles = {
    .name = "tiles",
    .what =
        "rows x width accumulators in registers over the whole sum; weights in panels, places of the result in one row",
    .parameters = tile_parameters(),
    .candidates = offered,
    .schedule = apply,
    .multiplies = true,
    .version = 3};

} // namespace heddle::convolution
