// A kernel as a Halide pipeline without a schedule: every linalg op a Func, every argument an ImageParam or Param.
// Nothing here knows what a softmax is. Schedules (compiler/kernels) work on the LoweredKernel this makes.
#pragma once

#include "dsl/errors/result.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

#include "llvm/ADT/DenseMap.h"

#include <Halide.h>

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace heddle {

/// One loop of a linalg op.
struct LoweredLoop {
  bool reduction = false;
  Halide::Var var;     // of a parallel loop
  Halide::RVar rvar;   // of a reduction loop
  Halide::Expr extent; // a constant or a formula over the run-time sizes
  int64_t size = -1;   // the extent where it is constant, else -1
};

/// A linalg op. A reduction's Func has its initial value as pure definition and one update; the reduction loops, the
/// last one innermost, are the RVars of the update. Func arguments are the result's axes, innermost first.
struct LoweredOp {
  mlir::linalg::LinalgOp op;
  Halide::Func func;
  std::vector<LoweredLoop> loops; // in the op's order: outermost first
  std::vector<Halide::Var> axes;  // of the result, outermost first

  bool has_update() const { return func.has_update_definition(); }
};

/// One axis of an output.
struct OutputAxis {
  Halide::Var var;
  Halide::Expr extent;
  int64_t size = -1;
};

/// A result of the kernel: always a pure Func that no stage reads and that only copies `source`, which may
/// therefore be inlined into it or computed within its loops. Its bounds and strides are set.
struct KernelOutput {
  Halide::Func func;
  std::vector<OutputAxis> axes; // outermost first
  mlir::Value source;           // the value returned
};

/// An argument that is a tensor. Stages read it through the logical indices; its own dims are those of its layout in
/// memory, innermost first.
struct KernelInput {
  mlir::Value value;
  Halide::ImageParam param;
  mlir::AffineMap layout; // null: row-major
};

/// Stages and inputs stay where they are, so pointers to them may be kept.
struct LoweredKernel {
  mlir::func::FuncOp function;
  std::deque<LoweredOp> stages; // in program order
  std::deque<KernelInput> inputs;
  std::vector<KernelOutput> outputs;
  std::vector<Halide::Argument> arguments; // all but the outputs, in the order of the function

  /// The stage or input behind a value of the function; null where it is something else.
  LoweredOp *stage_of(mlir::Value value);
  KernelInput *input_of(mlir::Value value);

  llvm::DenseMap<mlir::Value, LoweredOp *> stage_by_value;

  /// Whether storage may be made outside of the loop that computes a stage, once per task.
  bool hoists_storage = true;

  /// What a schedule does to the lowered statement, in this order, where Halide's directives have no word for it.
  std::vector<std::shared_ptr<Halide::Internal::IRMutator>> passes;
};

/// A value that Halide's simplifier and solver do not look into: it promises no more than to be itself.
Halide::Expr hidden_value(const Halide::Expr &value);

/// Makes the pipeline of a kernel in the form of docs/ir.md section 2. Named linalg ops need not be generalised.
Result<LoweredKernel> lower_kernel(mlir::func::FuncOp kernel);

} // namespace heddle
