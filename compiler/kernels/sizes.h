// What costs are computed from: extents of a kernel's result and terms of its sums, at run-time sizes.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

#include <cstdint>

namespace heddle::sizes {

/// What a run-time extent counts as where nothing says how large it is.
constexpr int64_t unknown = 256;

/// The extent of an axis of the kernel's first result, as a formula over its sizes; null where nothing is known.
mlir::AffineExpr extent_of(mlir::func::FuncOp kernel, int axis);

/// The same of what an op of the kernel computes: of its type, or of the tensor.empty behind it.
mlir::AffineExpr extent_of(mlir::linalg::LinalgOp op, unsigned axis);

/// A formula over a kernel's sizes, at these.
int64_t evaluate(mlir::AffineExpr formula, llvm::ArrayRef<int64_t> sizes);

/// An extent at these sizes, at least 1.
double value_of(mlir::AffineExpr extent, llvm::ArrayRef<int64_t> sizes);

/// Terms of a sum, over all its loops.
int64_t terms_of(mlir::linalg::LinalgOp sum);

/// Points of an op's iteration space at these sizes of its kernel.
double points_of(mlir::linalg::LinalgOp op, llvm::ArrayRef<int64_t> sizes);

/// Whether a kernel reads an argument at computed places alone, so that its size says nothing of what is read.
bool is_only_looked_into(mlir::Value argument);

} // namespace heddle::sizes
