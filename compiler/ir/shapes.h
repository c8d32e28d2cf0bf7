// The extents of tensors as formulas. A *scope* is an entry, a kernel function or a heddle.kernel region; its
// *sizes* are what extents are formulas over: the module's dims in an entry, the leading index arguments in a
// kernel. Passes compare, map and substitute these formulas instead of looking at tensor.dim.
#pragma once

#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/AffineMap.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Value.h"

namespace heddle::ir {

/// The function or heddle.kernel around `op` (or `op` itself).
mlir::Operation *scope_of(mlir::Operation *op);
/// How many sizes a scope has, and the size arguments of a kernel (empty for an entry).
unsigned size_count(mlir::Operation *scope);
llvm::SmallVector<mlir::Value> size_arguments(mlir::Operation *scope);

/// Bytes of one element in memory; i1 takes a byte.
int64_t element_bytes(mlir::Type element);

/// An index value as a formula over its scope's sizes (`d0`, `d1`, …). Null where it is none, such as a
/// product of two run-time sizes.
mlir::AffineExpr size_formula(mlir::Value index);

/// The extents of a tensor over its scope's sizes: constants for a constant shape, else what the tensor
/// was built from (tensor.empty, an argument's heddle.extents, a call's, a view). Fails where some extent is no
/// formula.
mlir::FailureOr<llvm::SmallVector<mlir::AffineExpr>> extent_formulas(mlir::Value tensor);

/// The extents of a linalg op's loops, in the same form, from its operands' extents.
mlir::FailureOr<llvm::SmallVector<mlir::AffineExpr>> loop_extents(mlir::Operation *linalg_op);

/// A formula over the scope's sizes as an index value: the size itself, a constant, or an affine.apply.
/// `sizes` are the values of the scope's sizes at the builder's place.
mlir::Value build_size(mlir::OpBuilder &builder, mlir::Location loc, mlir::AffineExpr formula, mlir::ValueRange sizes);

/// The product of extents of an entry, as a formula over the module's dims. A product of run-time sizes is a dim of the
/// module, which becomes one where it is none yet.
mlir::AffineExpr product_of(mlir::Operation *entry, llvm::ArrayRef<mlir::AffineExpr> extents);

/// The run-time size of that number as a value that an entry has from its beginning.
mlir::Value dim_value(mlir::Operation *entry, unsigned number);

/// A formula over the module's dims and, as symbols, other index values, as a value in an entry. Only the dims that it
/// is made of are asked for.
mlir::Value build_formula(mlir::OpBuilder &builder, mlir::Location loc, mlir::AffineExpr formula,
                          mlir::Operation *entry, mlir::ValueRange symbols = {});

/// The extents of a tensor of an entry as values, with the builder set to the place right behind the tensor and them:
/// what is built there may be used wherever the tensor is. Fails where some extent is no formula.
mlir::FailureOr<llvm::SmallVector<mlir::OpFoldResult>> build_extents_behind(mlir::OpBuilder &builder,
                                                                            mlir::Value tensor);

} // namespace heddle::ir
