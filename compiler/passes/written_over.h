// New values that may be written over the old ones: those of a state that a kernel updates element by element, as an
// optimiser's step does. Part of plan_memory.
#pragma once

#include "compiler/ir/dialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace heddle::passes {

/// Moves each such kernel to where what it needs has been made and nobody reads the old values of its states any more:
/// the new ones can then be written over them, and what else it reads, a gradient, is not kept until the entry's end.
void move_updates(mlir::func::FuncOp entry);

/// Whether the kernel that makes this whole new value reads the old one, element by element, and nobody does so after
/// it.
bool is_written_over(ir::UpdateOp update);

} // namespace heddle::passes
