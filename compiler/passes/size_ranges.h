// Between which numbers a run-time size lies, from the bounds of the dims that it is computed from.
#pragma once

#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Value.h"

namespace heddle::passes {

/// Both ends included. An end that nothing is known of is -open or open, and sums and products stop there.
struct SizeRange {
  static constexpr int64_t open = int64_t(1) << 62;
  int64_t least = -open, most = open;

  void include(const SizeRange &other) {
    least = std::min(least, other.least);
    most = std::max(most, other.most);
  }
};

/// The range of an index value of an entry. `dims`: values that dims are taken to have, by name.
SizeRange range_of(mlir::ModuleOp module, mlir::Value size, mlir::DictionaryAttr dims = {});

/// The range of an expression whose dims and symbols (behind them) lie in these ranges.
SizeRange range_of(mlir::AffineExpr expr, llvm::ArrayRef<SizeRange> operands, unsigned dims);

} // namespace heddle::passes
