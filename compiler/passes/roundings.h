// Where passes round elements of tensors and widen them again.
#pragma once

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace heddle::passes {

/// The rounding of a result from f32 that may be left out (`fastmath<contract>`); null where there is none, or where an
/// author asked for it.
mlir::arith::TruncFOp free_rounding(mlir::linalg::GenericOp op, unsigned result);

/// A tensor of reals rounded to a narrow type by an op of its own, one that may be left out.
mlir::Value build_free_rounding(mlir::OpBuilder &builder, mlir::Value tensor,
                                llvm::ArrayRef<mlir::OpFoldResult> extents, mlir::FloatType narrow);

/// A real as f32.
mlir::Value widened(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value element);

/// Makes an element that a body reads one of a narrower type, or of the other narrow one. What reads it sees its type
/// of before; formulas see f32.
void narrow_element(mlir::Value element, mlir::Type narrow);

/// Widens what a linalg.generic, or a tensor.extract, reads at an operand whose tensor has become one of narrower
/// elements.
void widen_read(mlir::OpOperand &use);

/// Marks functions (`fastmath<afn>`) of a tensor that is only ever read rounded: their last digits would be rounded
/// off, so they are computed with fewer (math::rough_erf and others). They stand in the body that makes the
/// tensor, or, where that is a softmax, in the one before.
void approximate_functions(mlir::Value tensor);

} // namespace heddle::passes
