// Numbers without an end in reductions. Halide lets LLVM believe that there are none in ordinary sums and products.
// Scalars asks for IEEE's arithmetic everywhere but where a reduction adds up, which is to be rearranged and
// contracted; here is where that would go wrong.
#pragma once

#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace heddle {

/// The op that yields result 0 of a reduction from its accumulator, or null.
mlir::Operation *combiner_of(mlir::linalg::LinalgOp op);

/// Whether a reduction adds or multiplies terms that may be constants without an end, as the least of no numbers is.
/// LLVM takes a sum with such a constant for anything, so its steps must be taken as they stand.
bool adds_infinities(mlir::linalg::LinalgOp op);

/// Whether a value of a body is x + 1, x - 1 or 1 - x. LLVM makes x * y + y of its product with y, which is NaN where
/// y has no end.
bool is_one_more(mlir::Value value);

} // namespace heddle
