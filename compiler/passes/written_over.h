// Results that may be written over what their kernel reads: the new value of a state that is updated element by
// element, as by an optimiser's step, or a sum over the residual that is added to it. Part of plan_memory.
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

/// Whether the only result of a call may be written over a value that it reads, as far as its kernel is concerned:
/// nobody may read it afterwards.
bool may_write_over(mlir::func::CallOp call, mlir::Value argument);

} // namespace heddle::passes
