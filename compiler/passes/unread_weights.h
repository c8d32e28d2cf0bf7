// Weights that no op reads any more.
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace heddle::passes {

/// Drops the module's weights that have no heddle.get: what is not read is not stored.
void erase_unread_weights(mlir::ModuleOp module);

} // namespace heddle::passes
