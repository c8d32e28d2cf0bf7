// Norms, softmax, pooling: y[m, c] = f(x[m, c], sum[i](g(x[m, i])), …). One task computes whole rows: a row is read
// from the cache after the first pass, and its sums never leave the core.
#include "compiler/halide/infinities.h"
#include "compiler/kernels/each_element.h"
#include "compiler/kernels/product/product.h"
#include "compiler/kernels/rows.h"
#include "compiler/kernels/whole_rows.h"

namespace heddle {

namespace {

const Variant rows_variant = rows::variant("one row after the other, tasks of about `grain` elements", 3);
const Variant *const variants[] = {&rows_variant, &whole_rows, &each_element};

bool matches(mlir::func::FuncOp kernel) {
  bool reduces = false, contracts = false, in_order = false; // nothing to rearrange into lanes
  kernel.walk([&](mlir::linalg::LinalgOp op) {
    reduces |= op.getNumReductionLoops() > 0;
    contracts |= contraction::is_matrix_product(op);
    in_order |= adds_infinities(op);
  });
  return reduces && !contracts && !in_order && rows::shared_axes(kernel) > 0;
}

} // namespace

extern const KernelKind row_reduction_kind;
const KernelKind row_reduction_kind = {"row_reduction", variants, matches};

} // namespace heddle
