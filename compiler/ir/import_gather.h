// Stages that take elements of one weight at places that are known without a call.
#pragma once

#include "dsl/check/program.h"

#include "mlir/IR/AffineMap.h"

#include <optional>

namespace heddle::ir {

struct Gather {
  const Tensor *weight;
  mlir::AffineMap map; // from the stage's index to the weight's
};
/// `w[2 * r + (p + 1) % 2]`, and with `| 0` what lies outside.
std::optional<Gather> gather_of(const Stage &stage, mlir::MLIRContext *context);

} // namespace heddle::ir
