// Which values have no sign.
#pragma once

#include "mlir/IR/Value.h"

namespace heddle::passes {

/// Whether an element of a body, or a tensor, is never below 0, as `depth` steps back tell: each may double the work.
bool is_nonnegative(mlir::Value value, int depth = 8);

} // namespace heddle::passes
