// Sums whose terms go to places of the result that numbers name, y[v, d] = sum[n](if ids[n] == v then x[n, d] else 0):
// what the gradient of a lookup is. Structure only: which loop of the result an equation asks for.
#pragma once

#include "compiler/kernels/kinds.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace heddle::scatter {

/// The parallel loop of a sum that each term has one index of: the terms are 0 unless a number that depends on the
/// loops of the sum, and not on that loop, equals its index. -1: there is none.
int place_loop(mlir::linalg::LinalgOp sum);

/// The axis of a kernel's results that the loop is of all of its sums, outermost first.
int place_axis(mlir::func::FuncOp kernel);

extern const Variant blocks;

} // namespace heddle::scatter
