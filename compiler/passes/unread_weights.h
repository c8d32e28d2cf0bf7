// Weights that nothing reads any more.
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace heddle::passes {

/// Drops the module's weights that have no heddle.get and that no state begins as: what is not used is not stored.
void erase_unread_weights(mlir::ModuleOp module);

} // namespace heddle::passes
