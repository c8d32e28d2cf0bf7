// One host function per kernel: it takes sizes and plain pointers, describes the tensors to Halide, picks the
// schedule row and calls it. Entries call a kernel many times (once per layer); this keeps each such call
// one line and the host object small.
#pragma once

#include "compiler/emit/device/device.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"

namespace heddle {

/// Adds to the host module that `builder` stands in, for kernels of a GPU where there is `device`:
///   llvm.func internal @call.k3(context, nothing, sizes i64 …, scalars …, tensors ptr …, results ptr …) -> i32
///   llvm.func internal @scratch.k3(sizes i64 …) -> i32, lines of scratch
///   llvm.func internal @nothing.k3(sizes i64 …) -> i64, bytes that must be readable at `nothing`; -1: too many
/// and the declarations of what the kernel's rows were compiled to. Failure was reported.
mlir::LogicalResult build_kernel_call(mlir::OpBuilder &builder, mlir::func::FuncOp kernel, const DeviceCode *device);

} // namespace heddle
