// Which loops of several linalg ops are the same loop: a result's axis and every use of that axis belong together.
// Fusion asks which loops all members of a cluster share, collapsing asks which loops always stand side by side.
#pragma once

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "llvm/ADT/IntEqClasses.h"
#include "llvm/ADT/SetVector.h"

namespace heddle::passes {

/// What a size that only the run knows is taken for where work, or elements of tensors, are compared.
inline constexpr int64_t typical_size = 512;

/// Everything that an op and its regions take from outside.
llvm::SetVector<mlir::Value> needs_of(mlir::Operation *op);

/// What a loop nest reads: its operands, and tensor.extract in its body.
struct Read {
  mlir::Value tensor;
  llvm::SmallBitVector loops; // the loops that the place depends on
  bool is_operand;
};
/// Shape-only operands (which the body ignores) are left out.
llvm::SmallVector<Read> reads_of(mlir::linalg::LinalgOp op);

/// What fusion asks: no reduction loop; a reduction each term of which is read from one tensor; a reduction no operand
/// of which covers all loops, which reuses what it reads: it computes more than that, and must not be computed twice.
/// Whether it is a product is a question of kinds (kernels/product). And a sum whose terms go to places that numbers
/// name, which is computed as a whole (kernels/scatter).
enum class Work { pointwise, reduction, reuse, scatter };
Work work_of(mlir::linalg::LinalgOp op);

/// Numbers of the classes of loops, and of axes of values, of some linalg ops.
class LoopClasses {
public:
  /// `links`: whether the axes of a value tie together the loops that define and use them.
  LoopClasses(llvm::ArrayRef<mlir::linalg::LinalgOp> ops, llvm::function_ref<bool(mlir::Value)> links);

  unsigned size() const { return classes_.getNumClasses(); }
  unsigned of_loop(mlir::Operation *op, unsigned loop) const { return classes_[loop_base_.lookup(op) + loop]; }
  /// Of a value that links.
  unsigned of_axis(mlir::Value value, unsigned axis) const { return classes_[axis_base_.lookup(value) + axis]; }
  bool has_axes(mlir::Value value) const { return axis_base_.contains(value); }

private:
  llvm::IntEqClasses classes_;
  llvm::DenseMap<mlir::Operation *, unsigned> loop_base_;
  llvm::DenseMap<mlir::Value, unsigned> axis_base_;
};

} // namespace heddle::passes
