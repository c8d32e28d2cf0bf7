// The three functions of an entry that runtime/abi.h asks for: extents of its inputs and results, bytes of
// arena, and the run itself.
#pragma once

#include "compiler/emit/host/host.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"

namespace heddle {

/// The runtime's function that is told of every kernel (runtime/abi.h).
inline constexpr const char *kernel_event_symbol = "heddle_kernel_event";

/// Adds them to the host module that `builder` stands in. Failure was reported.
mlir::LogicalResult build_entry(mlir::OpBuilder &builder, const HostProgram &program, mlir::func::FuncOp entry,
                                int number);

} // namespace heddle
