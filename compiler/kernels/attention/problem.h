// Attention in numbers: what its variants offer candidates from, and what these are expected to cost.
#pragma once

#include "compiler/kernels/attention/match.h"
#include "compiler/kernels/kinds.h"
#include "compiler/kernels/product/micro_kernel.h"

#include <vector>

namespace heddle::attention {

extern const Variant row_blocks, copied_keys, key_blocks, staged_keys, tensor_keys;

struct Problem {
  Match match;
  const MicroKernel *micro_kernel;      // of all products
  const MicroKernel *matrix_kernel;     // of a matrix unit for all of them; null: there is none
  mlir::AffineExpr rows, keys;          // of a head; null where the kernel's body doesn't say
  std::vector<mlir::AffineExpr> others; // extents of the other axes: heads, texts
  int64_t features;                     // of a row of the result, or of statistics' products
  int products;                         // over features: the scores and what else weights are made of
  int64_t window;                       // keys of a row where they slide, as far as known
  bool narrow;   // keys or values are narrower than what they are multiplied as: a copy widens them once
  bool computed; // keys or values are computed where they are read: a copy does so once
  int gathered_by_rows, gathered_by_keys; // reads of a score whose lanes along the rows, or the keys, lie apart
};

/// Nothing where the kernel is no attention.
std::optional<Problem> problem_of(mlir::func::FuncOp kernel, const Target &target);

/// How many rows and how many keys a head has; null where nothing says so.
mlir::AffineExpr rows_of(mlir::func::FuncOp kernel, const Match &match);
mlir::AffineExpr keys_of(const Match &match);

/// A problem at run-time sizes.
struct Sizes {
  double rows, keys, heads; // heads: of all texts
};
Sizes sizes_of(const Problem &problem, llvm::ArrayRef<int64_t> sizes);

/// Cycles of the weighted values of a block of rows, in tiles with lanes along the features.
double value_cycles(const Problem &problem, int64_t rows, double keys, const Target &target);

/// Cycles of a softmax over `scores` of them, and of what lies apart that each of them reads beside the products.
double softmax_cycles(double scores, int gathered, const Target &target);

} // namespace heddle::attention
