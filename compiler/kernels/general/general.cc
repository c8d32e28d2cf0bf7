// The kind for what no other kind takes: correct for every kernel, fast for none. Reductions, and stages that several
// others read, are computed whole before what reads them; lanes run along the innermost axis of each.
#include "compiler/kernels/each_element.h"
#include "compiler/kernels/kinds.h"

namespace heddle {

namespace {

bool matches(mlir::func::FuncOp) { return true; }

/// Nothing is known of what a stage costs, and there is nothing to compare it with: a number above 0, which sums over
/// an entry (layout_weights) count once per call.
constexpr double any_seconds = 1e-6;

Result<std::vector<Candidate>> candidates(mlir::func::FuncOp, const Target &) {
  return std::vector<Candidate>{{{"stages", {}}, [](llvm::ArrayRef<int64_t>) { return any_seconds; }}};
}

/// Lanes along the innermost axis, the outermost one dealt out to threads.
void spread(Halide::Stage definition, const std::vector<Halide::Var> &axes, int lanes) {
  if (axes.empty())
    return;
  Halide::Var block("block"), lane("lane");
  definition.split(axes.back(), block, lane, lanes, Halide::TailStrategy::GuardWithIf).vectorize(lane);
  if (axes.size() > 1)
    definition.parallel(axes.front());
}

Status schedule(LoweredKernel &kernel, const ScheduleRow &row, const Target &target) {
  for (LoweredOp &stage : kernel.stages) {
    size_t users = 0;
    for (mlir::OpResult result : stage.op->getResults())
      users += size_t(std::distance(result.use_begin(), result.use_end()));
    if (!stage.has_update() && users < 2)
      continue; // inlined
    stage.func.compute_root();
    spread(Halide::Stage(stage.func), stage.axes, target.lanes);
    if (!stage.has_update())
      continue;
    // The reduction stays inside of the lanes, so that each result has one order of summation.
    spread(stage.func.update(), stage.axes, target.lanes);
  }
  for (KernelOutput &output : kernel.outputs) {
    output.func.compute_root();
    std::vector<Halide::Var> axes;
    for (const OutputAxis &axis : output.axes)
      axes.push_back(axis.var);
    spread(Halide::Stage(output.func), axes, target.lanes);
  }
  return Done{};
}

const Variant stages = {
    .name = "stages", .what = "one stage after the other", .candidates = candidates, .schedule = schedule};
const Variant *const variants[] = {&stages, &each_element};

} // namespace

extern const KernelKind general_kind;
const KernelKind general_kind = {"general", variants, matches};

} // namespace heddle
