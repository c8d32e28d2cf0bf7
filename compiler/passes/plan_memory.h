// Decides where the values between kernels live during a call.
//
//   %0 = call @k0(%d0, %x)                          {heddle.places = ["slot 0"]}
//   %1 = call @k1(%d0, %0, %w)                      {heddle.places = ["slot 1"]}
//   %2 = call @k2(%d0, %1)                          {heddle.places = ["slot 0"]}
//   %3 = call @k3(%d0, %2)      return %3           {heddle.places = ["result 0"]}
//
// Last pass of the pipeline: every later change of a call would invalidate lifetimes.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace heddle::passes {

/// Gives each result of each kernel call in each entry a place (`heddle.places`, one word per result) and
/// each entry its number of slots (`heddle.slots`). Values that are alive at the same time never share a
/// slot; a value that the entry returns is written into the caller's buffer by its kernel.
mlir::LogicalResult plan_memory(mlir::ModuleOp module);

/// Where a value lies.
struct Place {
  enum Kind { input, result, weight, slot } kind;
  int64_t number = 0;          // of the input, result or slot
  mlir::StringRef weight_name; // of the weight's symbol
};

/// The place of a tensor of a planned entry.
Place place_of(mlir::Value tensor);

/// What remains to be copied at the end of an entry: results that no kernel could write in place, because
/// they are inputs, weights, or returned twice.
struct ResultCopy {
  mlir::Value from;
  int64_t result;
};
llvm::SmallVector<ResultCopy> result_copies(mlir::func::FuncOp entry);

/// Slots of a planned entry: the values that share each.
std::vector<llvm::SmallVector<mlir::Value>> slots(mlir::func::FuncOp entry);

} // namespace heddle::passes
