// The kind for what no other kind takes: correct for every kernel, fast for none. Reductions, and stages that several
// others read, are computed whole before what reads them; lanes run along the innermost axis of each. Sums over rows,
// as the gradient of a bias is, take several vectors of columns at once, so that they read whole lines of each row.
#include "compiler/halide/threads.h"
#include "compiler/kernels/each_element.h"
#include "compiler/kernels/kinds.h"
#include "compiler/kernels/rows.h"

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

/// The update of a sum over rows: tiles of columns, as many in a task as have some 65536 terms.
void by_columns(LoweredOp &stage, int lanes) {
  Halide::Stage update = stage.func.update();
  Halide::Var tile("tile"), tiles("tiles"), column("column"), vector("vector"), lane("lane");
  std::vector<Halide::VarOrRVar> order = {lane, vector};
  constexpr int grain = 65536;
  int width = 4 * lanes;
  Halide::Expr terms = 1, columns = 1;
  for (const LoweredLoop &loop : llvm::reverse(stage.loops))
    if (!loop.reduction) {
      columns = loop.extent;
    } else {
      order.push_back(loop.rvar);
      terms = min(terms, grain) * min(loop.extent, grain / width);
    }
  Halide::Expr of_task = iterations_of_task(max(grain / width / max(terms, 1), 1), (columns + width - 1) / width);
  constexpr auto guarded = Halide::TailStrategy::GuardWithIf;
  update.split(stage.axes.back(), tile, column, width, guarded)
      .split(tile, tiles, tile, Halide::Internal::simplify(of_task), guarded)
      .split(column, vector, lane, lanes);
  order.push_back(tile);
  order.push_back(tiles);
  update.reorder(order).vectorize(lane).unroll(vector).parallel(tiles);
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
    if (stage.axes.size() == 1 && rows::reduces_across(stage.op))
      by_columns(stage, target.lanes);
    else
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

const Variant stages = {.name = "stages",
                        .what = "one stage after the other",
                        .candidates = candidates,
                        .schedule = schedule,
                        .version = 2};
const Variant *const variants[] = {&stages, &each_element};

} // namespace

extern const KernelKind general_kind;
const KernelKind general_kind = {"general", variants, matches};

} // namespace heddle
