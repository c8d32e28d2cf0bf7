// Sizes inside a host function. The index arithmetic of an entry is cloned on demand, each value once, with
// the dims read from the call's array; extents become products of such values.
#pragma once

#include "compiler/passes/entry_values.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

namespace heddle {

class SizeBuilder {
public:
  /// Reads all dims at `builder`'s place. Every later value is made where the builder then stands, so sizes
  /// must be asked for first where the function is still one block.
  SizeBuilder(mlir::OpBuilder &builder, mlir::ModuleOp module, mlir::Value dims);

  /// The counterpart of an index value of the entry.
  mlir::Value index(mlir::Value entry_value);
  /// Another scalar's counterpart: what define or copy made.
  mlir::Value scalar(mlir::Value entry_value) { return mapping_.lookup(entry_value); }
  void define(mlir::Value entry_value, mlir::Value value) { mapping_.map(entry_value, value); }
  /// Repeats an op on scalars, whose operands have counterparts.
  void copy(mlir::Operation *entry_op);
  mlir::ValueRange dims() const { return dims_; }
  /// The extents of a tensor of the entry, as index values. Failure was reported.
  mlir::FailureOr<llvm::SmallVector<mlir::Value>> extents(mlir::Value tensor);

  mlir::Value constant(int64_t value);
  mlir::Value as_i64(mlir::Value index);

private:
  mlir::Value limited(mlir::Value size);

  mlir::OpBuilder &builder_;
  std::vector<passes::ModuleDim> names_;
  llvm::SmallVector<mlir::Value> dims_;
  mlir::IRMapping mapping_;
};

} // namespace heddle
