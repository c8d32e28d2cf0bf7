// Which loops of a kernel may become one, and which are none: the analysis of collapse_dims.
#pragma once

#include "compiler/passes/loop_classes.h"
#include "compiler/passes/size_ranges.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Utils/ReshapeOpsUtils.h"
#include "llvm/ADT/SmallBitVector.h"

namespace heddle::passes {

/// Two loops merge when every tensor of the kernel has both, one right behind the other, or neither, and every op runs
/// both, as loops of the same type, or neither. A loop whose number a body asks for (linalg.index) merges only with
/// loops of one iteration at most, such as that of a prompt's last token. Parallel loops of one iteration are dropped.
class MergedLoops {
public:
  /// `sizes`: ranges of the kernel's sizes over all calls.
  MergedLoops(mlir::func::FuncOp kernel, llvm::ArrayRef<SizeRange> sizes);

  bool changes_anything() const { return changes_; }
  /// The old axes behind each new axis of a tensor; unit axes go with a neighbour.
  llvm::SmallVector<mlir::ReassociationIndices> groups_of(mlir::Value tensor) const;
  /// The old loops behind each new loop of an op. Dropped loops are in none.
  llvm::SmallVector<llvm::SmallVector<unsigned>> groups_of(mlir::linalg::LinalgOp op) const;
  bool knows(mlir::Value tensor) const { return classes_.has_axes(tensor); }
  /// Whether a loop has one iteration at most.
  bool is_single(mlir::linalg::LinalgOp op, unsigned loop) const { return single_.test(classes_.of_loop(op, loop)); }

private:
  static llvm::SmallVector<mlir::linalg::LinalgOp> ops_of(mlir::func::FuncOp kernel);
  void freeze();
  void find_single(llvm::ArrayRef<SizeRange> sizes);
  void drop_units();
  void find_followers();
  void keep_numbers();
  llvm::SmallVector<unsigned> kept_axes(mlir::Value tensor) const;

  llvm::SmallVector<mlir::linalg::LinalgOp> ops_;
  LoopClasses classes_;
  llvm::SmallVector<mlir::Value> tensors_;
  llvm::SmallBitVector frozen_, dropped_;
  llvm::SmallBitVector asked_, single_; // a body asks for the loop's number; it has one iteration at most
  llvm::SmallVector<int> follower_;     // the class that always stands right behind, or -1
  bool changes_ = false;
};

} // namespace heddle::passes
