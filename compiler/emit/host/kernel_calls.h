// One host function per kernel: it takes sizes and plain pointers, describes the tensors to Halide, picks the
// schedule row and calls it. Entries call a kernel many times (once per layer); this keeps each such call
// one line and the host object small.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"

namespace heddle {

/// Adds to the host module that `builder` stands in:
///   llvm.func internal @call.k3(session, sizes i64 …, scalars …, tensors ptr …, results ptr …) -> i32
/// and the declarations of the kernel's rows. Null after an error was reported.
mlir::LLVM::LLVMFuncOp build_kernel_call(mlir::OpBuilder &builder, mlir::func::FuncOp kernel);

} // namespace heddle
