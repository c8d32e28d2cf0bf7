// What is known of the values between the kernels of an entry: which of them are the same bytes, and how
// large they are, as formulas over index values of the entry. The memory plan and the host program read
// entries through this file only. Relies on the form after outline_kernels (docs/ir.md, section 2).
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/AffineMap.h"
#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace heddle::passes {

/// The run-time sizes of a module, in the order in which a call passes them (`heddle.dims`); behind them those that no
/// call tells, which are products of formulas over the ones before.
struct ModuleDim {
  std::string name;
  int64_t most = -1;       // declared bound, or -1
  mlir::AffineMap product; // the factors, over all dims; or null
};
std::vector<ModuleDim> module_dims(mlir::ModuleOp module);
/// How many of them calls tell.
size_t given_dims(mlir::ModuleOp module);
/// The dims that calls tell and `map` (over all dims) depends on, through products too: by number.
std::vector<bool> dims_in(mlir::ModuleOp module, mlir::AffineMap map);

/// The functions that are entries, in the order of the model file.
std::vector<mlir::func::FuncOp> entries(mlir::ModuleOp module);

/// The value that owns the bytes of `tensor`: collapse_shape, expand_shape and cast only rename them, and a slice is
/// inserted where its destination lies.
mlir::Value bytes_of(mlir::Value tensor);
/// The same, and of a slice (tensor.extract_slice) the value that it is a part of.
mlir::Value owner_of(mlir::Value tensor);

/// Whether nothing but calls that a session makes once reads a value.
bool is_read_once(mlir::Value value);

/// One extent, as a product. A factor is an affine expression of index values of the entry, or (`of_dims`)
/// of the dims of the module.
struct Extent {
  struct Factor {
    mlir::AffineMap map; // one result
    llvm::SmallVector<mlir::Value> operands;
    bool of_dims = false;
  };
  int64_t constant = 1;
  llvm::SmallVector<Factor> factors;
};

/// The extents of a tensor of an entry: an argument, a state, a kernel's or a loop's result or a view of one. Emits an
/// error at the value's place and returns failure where the form does not tell.
mlir::FailureOr<llvm::SmallVector<Extent>> extents_of(mlir::Value tensor);

/// Sizes for given values of the dims, by constant folding.
class SizeEvaluator {
public:
  /// `dims`: those that a call tells.
  SizeEvaluator(mlir::ModuleOp module, std::vector<int64_t> dims);

  /// Each emits an error where a size is computed by an op that does not fold.
  mlir::FailureOr<int64_t> index(mlir::Value value);
  mlir::FailureOr<int64_t> extent(const Extent &extent);
  mlir::FailureOr<int64_t> bytes(mlir::Value tensor);

private:
  std::vector<ModuleDim> names_;
  std::vector<int64_t> dims_;
  llvm::DenseMap<mlir::Value, int64_t> known_;
};

} // namespace heddle::passes
