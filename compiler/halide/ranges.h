// How far a reduction has to run: `if j < seen then … else -inf` under a maximum, exp of it under a sum, and that times
// a value under another sum, all stop at `seen`, however much room the tensor has. So a step that reads a cache costs
// what is in the cache, not what fits.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

#include <Halide.h>

#include <vector>

namespace heddle {

/// The first index of reduction loop `loop` from which on every term is neutral, for all values of the other loops, as
/// a formula over the kernel's arguments (`arguments` by number) and the loops' extents. Undefined where the body
/// doesn't say so, or says it without a run-time scalar: bounds that only sizes decide are not worth another form of
/// loop.
Halide::Expr needed_extent(mlir::func::FuncOp kernel, mlir::linalg::LinalgOp op, unsigned loop,
                           const std::vector<Halide::Expr> &extents, const std::vector<Halide::Expr> &arguments);

/// The first and the last index of reduction loop `loop` at which a term may be anything but neutral while the other
/// loops stay in these ranges (that of `loop` itself is not looked at). Unbounded where the body doesn't say. For
/// causal scores of the queries from i0 to i1, no key after i1.
Halide::Internal::Interval needed_range(mlir::func::FuncOp kernel, mlir::linalg::LinalgOp op, unsigned loop,
                                        const std::vector<Halide::Internal::Interval> &loops,
                                        const std::vector<Halide::Expr> &arguments);

/// The same for the indices at which a term depends on an element of `tensor`, which a reduction of the kernel makes:
/// of the keys before `seen` in `if j < seen then kept[j] else new[j - seen]`. All of them where the body doesn't say.
Halide::Internal::Interval reading_range(mlir::func::FuncOp kernel, mlir::linalg::LinalgOp op, unsigned loop,
                                         const std::vector<Halide::Internal::Interval> &loops,
                                         const std::vector<Halide::Expr> &arguments, mlir::Value tensor);

} // namespace heddle
