// Element-wise kernels: y[m, c] = f(x[m, c], b[c], …). No reductions, so every stage is computed inside the loop of the
// output that reads it; lanes along the innermost axis, rows dealt out in tasks.
#include "compiler/kernels/rows.h"

namespace heddle {

namespace {

const Variant variants[] = {{"rows",
                             "lanes along the innermost axis, tasks of about `grain` elements",
                             {{"grain", "elements of a task", 1, 1 << 30, {2048, 65536}}}}};

bool matches(mlir::func::FuncOp kernel) {
  bool reduces = false;
  kernel.walk([&](mlir::linalg::LinalgOp op) { reduces |= op.getNumReductionLoops() > 0; });
  return !reduces;
}

std::vector<ScheduleRow> choose(mlir::func::FuncOp kernel, const Target &) {
  return {{"rows", {{"grain", rows::default_grain(kernel)}}, {}}};
}

Status schedule(LoweredKernel &kernel, const ScheduleRow &row, const Target &target) {
  return rows::schedule(kernel, row, target);
}

} // namespace

extern const KernelKind pointwise_kind;
const KernelKind pointwise_kind = {"pointwise", variants, matches, nullptr, choose, nullptr, schedule};

} // namespace heddle
