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

const Variant tiles = {
    "tiles",
    "rows x width accumulators in registers over the whole sum; weights in panels, places of the result in one row",
    tile_parameters(),
    offered,
    schedule,
    true,
    3};

} // namespace heddle::convolution
