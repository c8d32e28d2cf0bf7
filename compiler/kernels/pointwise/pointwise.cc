// Element-wise kernels: y[m, c] = f(x[m, c], b[c], …). No reductions, so every stage is computed inside the loop of the
// output that reads it; lanes along the innermost axis, rows, or pieces of long ones, dealt out in tasks.
#include "compiler/kernels/each_element.h"
#include "compiler/kernels/rows.h"

namespace heddle {

namespace {

const Variant rows_variant = rows::variant("lanes along the innermost axis, tasks of about `grain` elements", 2);
const Variant *const variants[] = {&rows_variant, &each_element};

bool matches(mlir::func::FuncOp kernel) {
  bool reduces = false;
  kernel.walk([&](mlir::linalg::LinalgOp op) { reduces |= op.getNumReductionLoops() > 0; });
  return !reduces;
}

} // namespace

extern const KernelKind pointwise_kind;
const KernelKind pointwise_kind = {.name = "pointwise", .variants = variants, .matches = matches, .writes_over = true};

} // namespace heddle
