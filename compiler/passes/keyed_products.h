// Products of a weight that data chooses, row by row: what of them says which place of the weight a row takes.
#pragma once

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <optional>

namespace heddle::passes {

/// A product one of whose factors is an element of a weight, at a number that is data on one axis and at loops on the
/// others.
struct Keyed {
  mlir::linalg::GenericOp op;
  mlir::tensor::ExtractOp read;
  unsigned axis;                      // of the weight
  int64_t below;                      // its extent
  llvm::SmallVector<unsigned> rows;   // loops, each of which has all of one row of the other factor
  llvm::SmallVector<unsigned> summed; // those of them that the product sums over
};

std::optional<Keyed> keyed(mlir::linalg::GenericOp op);

/// Whether all operands and results are read and written at bare loops.
bool has_plain_maps(mlir::linalg::GenericOp op);

/// A sum over terms of several numbers, such as those of all experts of a row, becomes the sum of such sums, of which
/// this is the inner one: y[b, d] = sum[k, f](h[b, k, f] * w[e[b, k], d, f])  is  sum[k](sum[f](h[b, k, f] * w[e[b, k],
/// d, f])).
mlir::linalg::GenericOp without_sum(mlir::OpBuilder &b, mlir::Operation *entry, const Keyed &found);

/// The numbers as an i32 tensor over the rows: the one that is read, or one that is made of it. Null where an extent is
/// no formula.
mlir::Value numbers_of(mlir::OpBuilder &b, mlir::Operation *entry, const Keyed &found);

/// An extent of an entry's as a constant or a value at the builder's place.
mlir::OpFoldResult extent(mlir::OpBuilder &b, mlir::Operation *entry, mlir::Location loc, mlir::AffineExpr formula);

} // namespace heddle::passes
