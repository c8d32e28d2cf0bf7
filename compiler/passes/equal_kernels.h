// Kernels that are equal become one function. Used by outline_kernels and again after collapsing dimensions, which
// makes more of them equal.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace heddle::passes {

/// The kernel functions of a module, in order.
llvm::SmallVector<mlir::func::FuncOp> kernels_of(mlir::ModuleOp module);
/// The calls of kernels, in order.
llvm::SmallVector<mlir::func::CallOp> kernel_calls_of(mlir::ModuleOp module);

/// Calls the first of several functions that differ only in name and places; numbers the remaining ones k0, k1, …
/// in the order of their first calls and puts them behind the entries in that order.
void merge_equal_kernels(mlir::ModuleOp module);

} // namespace heddle::passes
