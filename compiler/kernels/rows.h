// Kernels that go row by row: element-wise chains, row reductions (softmax, norms, pooling) and lookups. The leading
// axes that all stages share are the rows; rows are dealt out to threads in tasks, and within a row the lanes run
// along the innermost axis. Used by the kinds pointwise, row_reduction and lookup.
#pragma once

#include "compiler/kernels/kinds.h"

#include <vector>

namespace heddle::rows {

/// Number of leading axes that every output and every reduction of the kernel has in common, such that one index of
/// them needs only that index of everything it reads. -1: there is no such order (reductions meet at other axes).
int shared_axes(mlir::func::FuncOp kernel);

/// Whether lanes can run along the innermost axis of a reduction's result: the largest tensor that is summed over is
/// contiguous there, not along the reduction.
bool reduces_across(mlir::linalg::LinalgOp op);

/// The one variant of these kinds, `rows`: all stages at the row loop of the outputs.
Variant variant(std::string_view what, int version = 1);

} // namespace heddle::rows
