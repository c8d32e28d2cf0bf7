// Which ops of an entry become one kernel. The rule is in form_kernels.cc.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace heddle::passes {

/// The clusters of an entry, each in program order, in an order in which they can run.
std::vector<llvm::SmallVector<mlir::linalg::LinalgOp>> find_clusters(mlir::func::FuncOp entry);

} // namespace heddle::passes
