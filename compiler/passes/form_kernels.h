// Which ops of an entry become one kernel. The rule is in clusters.cc.
#pragma once

#include "compiler/targets/target.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace heddle::passes {

/// On ops: the number of the kernel that they are to be (recompute_scores).
inline constexpr llvm::StringLiteral together = "heddle.together";
/// On an op that computes something again: no kernel that makes what it reads has it, too (recompute_kept).
inline constexpr llvm::StringLiteral again = "heddle.again";

/// One thing that a block does: a cluster, in program order, or an op between kernels (a loop, a slice, a scalar, an
/// update, a requirement) that needs what kernels compute.
struct BlockItem {
  llvm::SmallVector<mlir::linalg::LinalgOp> cluster;
  mlir::Operation *other = nullptr;
};

/// What a block (an entry's, or the body of a loop) does, in an order in which it can be done. What needs no kernel is
/// not in it: it stays in front.
std::vector<BlockItem> find_clusters(mlir::Block &block, const Target &target);

} // namespace heddle::passes
