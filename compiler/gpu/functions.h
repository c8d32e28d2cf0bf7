// The functions of scalars that a GPU has no exact instruction for, written out in arithmetic: exp, log, tanh, erf,
// sin, cos and powers. Errors are those that compiler/halide/math.h states for CPUs.
#pragma once

#include "mlir/IR/PatternMatch.h"

namespace heddle::gpu {

void populate_function_patterns(mlir::RewritePatternSet &patterns);

} // namespace heddle::gpu
