// Weights that can be found block by block of keys: exp(s - m), where m is the row's largest score. With the largest of
// a block instead of m, sums over a block differ by the factor exp(m of the block - m), which is known at the end.
#pragma once

#include "compiler/kernels/attention/match.h"

#include <optional>

namespace heddle::attention {

struct Softmax {
  mlir::linalg::LinalgOp top; // the largest score of a row
  mlir::Value subtracted; // from every score: the result of `top`, or an element-wise choice between it and a number
};

/// Nothing where weights, or any sum over keys, aren't such an exponential times something that `top` has no part in.
/// Factors that are the same for all keys may be anything.
std::optional<Softmax> softmax_of(const Match &match);

} // namespace heddle::attention
