// The variant `chunks`: tiles add up whole inner loops of the sum, a few terms at a time, so that the part of a panel
// that they read stays in the second cache.
#include "compiler/kernels/convolution/problem.h"
#include "compiler/kernels/convolution/schedule.h"

namespace heddle::convolution {

static Result<std::vector<Candidate>> offered(mlir::func::FuncOp kernel, const Target &target) {
  Problem problem = *problem_of(kernel, target);
  std::vector<Candidate> out;
  for (int64_t width : panel_widths(problem, target))
    if (int64_t depth = target.l2 * 3 / 16 / (width * problem.micro_kernel->bytes()); depth < problem.terms)
      for (Candidate &candidate : candidates(problem, chunks.name, width, depth, target))
        out.push_back(std::move(candidate));
  if (out.empty())
    return Error{"the sum is no longer than a chunk"};
  return out;
}

static std::vector<Parameter> parameters() {
  std::vector<Parameter> out = tile_parameters();
  out.push_back({"depth", "terms of a chunk at most", 1, 1 << 20, {256, 512, 768}});
  return out;
}

static Status apply(LoweredKernel &kernel, const ScheduleRow &row, const Target &target) {
  return schedule(kernel, row, row.params.at("depth"), target);
}

const Variant chunks = {
    .name = "chunks",
    .what =
        "tiles over whole inner loops of the sum, `depth` terms at most, so that panels of long sums stay in the cache",
    .parameters = parameters(),
    .candidates = offered,
    .schedule = apply,
    .multiplies = true,
    .version = 3};

} // namespace heddle::convolution
