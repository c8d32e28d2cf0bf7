// Weights that packing computes from other weights (heddle.computed).
#pragma once

#include "compiler/emit/kernels/evaluate.h"
#include "compiler/io/host_tensor.h"
#include "compiler/ir/dialect.h"

#include <functional>
#include <map>

namespace heddle {

class ComputedWeights {
public:
  /// Reads a whole weight that is in a file, in the type `dtype`.
  using ReadStored = std::function<void(ir::WeightOp weight, DType dtype, std::span<std::byte> out)>;

  /// All computed weights of a module that are packed, and what they are made of.
  Status compute(mlir::ModuleOp module, const ReadStored &read);

  /// The elements of a computed weight, as the function that computes them has them.
  TensorView find(ir::WeightOp weight) const;

private:
  Status compute(ir::WeightOp weight, const mlir::SymbolTable &symbols, const ReadStored &read);

  std::map<const void *, HostTensor> done_;                              // by the weight's attribute
  std::map<const void *, std::unique_ptr<EvaluatedFunction>> functions_; // by the op
};

/// The element type of a tensor of a module in files and packed weights.
DType dtype_of_element(mlir::Type element);

} // namespace heddle
