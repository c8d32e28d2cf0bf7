// One host function per kernel of a GPU: it takes sizes and addresses, picks the schedule row and launches what that
// consists of.
#pragma once

#include "compiler/emit/device/device.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"

namespace heddle {

/// The runtime's functions that a host program for a device calls (runtime/abi.h), declared in the module that
/// `builder` stands in.
void declare_device_functions(mlir::OpBuilder &builder, mlir::Location loc);

/// Calls one of them.
mlir::Value call_device(mlir::OpBuilder &builder, mlir::Location loc, llvm::StringRef name, mlir::Type result,
                        mlir::ValueRange operands);

/// Adds to the host module that `builder` stands in:
///   llvm.func internal @call.k3(context, nothing, sizes i64 …, scalars …, tensors ptr …, results ptr …) -> i32
///   llvm.func internal @scratch.k3(sizes i64 …) -> i64, bytes kept between launches; -1: a tensor is too large
/// Failure was reported.
mlir::LogicalResult build_device_call(mlir::OpBuilder &builder, mlir::func::FuncOp kernel, const DeviceCode &code);

} // namespace heddle
