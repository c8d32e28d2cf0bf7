// The loops of a product by what they mean for a tile of it, y[.., m, n] = f(sum[k](a[.., m, k] * b[.., n, k])): rows,
// columns, terms, and what both factors have in common. A convolution has several loops of each: pictures and places
// are rows, channels and the window's places are terms.
#pragma once

#include "compiler/kernels/product/product.h"
#include "dsl/errors/result.h"

#include "mlir/IR/AffineExpr.h"

#include <vector>

namespace heddle::contraction {

struct Nest {
  Product product;
  std::vector<int> axis_of_loop;        // the results' axis that each loop runs along; -1: a reduction loop
  llvm::SmallVector<unsigned> returned; // numbers of the results that are made from it
  llvm::SmallVector<unsigned> batches, rows, columns, terms; // loops, outermost first
  llvm::SmallVector<mlir::AffineExpr> extents;               // of all loops, over the kernel's sizes

  llvm::SmallVector<mlir::AffineExpr> extents_of(llvm::ArrayRef<unsigned> loops) const {
    return llvm::map_to_vector(loops, [&](unsigned loop) { return extents[loop]; });
  }
};

/// The products of a kernel, each of which some results are element-wise functions of, where all have the same loops;
/// or why there are none. Terms come in the order in which the left factor, or else the right one, lies in memory.
Result<std::vector<Nest>> nests_of(mlir::func::FuncOp kernel);

/// A factor as what it reads: an argument of the body or a tensor.extract, where nothing is done to it but widening
/// and, with a condition, choosing 0 instead; null where it is anything else.
struct PlainRead {
  mlir::Value read;
  llvm::SmallVector<mlir::Value> conditions; // of the body; where one doesn't hold the factor is 0
};
PlainRead plain_read(mlir::Value factor);

/// By how many elements in memory a read moves with a loop of the op: 0 where it doesn't depend on it, nothing where
/// that is no one number.
std::optional<int64_t> step_of(mlir::linalg::LinalgOp op, mlir::Value read, unsigned loop);

/// Whether neighbours along the loop lie one behind the other in memory. `clamps`: as long as none is the nearest place
/// inside.
bool lies_together(mlir::linalg::LinalgOp op, mlir::Value read, unsigned loop, bool clamps = false);

/// Whether so many neighbours along the loop lie together, beginning at a multiple of so many elements of memory, where
/// the loop does.
bool lies_in_groups(mlir::linalg::LinalgOp op, mlir::Value read, unsigned loop, int64_t group);

} // namespace heddle::contraction
