// How much scratch a kernel's thread holds at most, as a function of the kernel's sizes alone: found in the lowered
// statement, so that the runtime can reserve it before a run and no kernel fails half way. An allocation whose size
// depends on more than sizes has no part in it; the kernel itself checks every one.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <Halide.h>

namespace heddle {

/// `int32_t <symbol>_scratch(int32_t size, …)`: lines of HEDDLE_SCRATCH_LINE bytes that the runtime's slab needs for
/// blocks that one thread of the kernel holds at once.
Halide::Internal::LoweredFunc scratch_function(mlir::func::FuncOp kernel, const std::string &symbol,
                                               const Halide::Internal::Stmt &statement);

/// Its name, for a row's symbol.
std::string scratch_symbol(const std::string &symbol);

} // namespace heddle
