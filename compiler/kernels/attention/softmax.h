// Weights that can be found block by block of keys: exp(s - m), where m is the row's largest score. With the largest of
// a block instead of m, sums over a block differ by the factor exp(m of the block - m), which is known at the end.
#pragma once

#include "compiler/kernels/attention/match.h"

#include <optional>

namespace heddle::attention {

struct Softmax {
  /// An op on the way from a sum's term up to the exponential.
  struct Step {
    unsigned leads;    // number of the operand that leads there
    bool same_for_all; // keys of a row: what it does with that
  };
  mlir::linalg::LinalgOp top = nullptr; // the largest score of a row, or null
  mlir::Value subtracted; // from every score: the result of `top`, or an element-wise choice between it and a number
  llvm::SmallVector<mlir::linalg::LinalgOp> sums; // over keys, in the kernel's order: the weighted values come last
  llvm::DenseMap<mlir::Operation *, Step> steps;

  /// The op that makes what `top` is the largest of, or null.
  mlir::linalg::LinalgOp scores() const;
};

/// The term that a sum over keys, or a maximum, adds to what it has; null where it has another form.
mlir::Value term_of(mlir::linalg::LinalgOp op);
/// The op of the kernel, or null, that makes the operand which a value of an op's body stands for.
mlir::linalg::LinalgOp made_by(mlir::Value value, mlir::linalg::LinalgOp op);

/// Nothing where weights, or any sum over keys, aren't such an exponential times something that `top` has no part in.
/// Factors that are the same for all keys may be anything. Weights that need no reduction over keys, as where
/// statistics of rows are given, may be anything, too: then `top` is null. Where it isn't, one product has the weights.
std::optional<Softmax> softmax_of(const Match &match);

} // namespace heddle::attention
