// What a model learns: weights, and states that begin as weights, where entries update them.
#pragma once

#include "mlir/IR/Value.h"

namespace heddle::ir {

namespace names {

/// Attribute of a state: the weight as which it begins, which the packed file then has row-major.
inline constexpr llvm::StringLiteral begins = "heddle.begins";

} // namespace names

/// Whether a weight, or such a state, is read there.
bool is_parameter(mlir::Value value);

} // namespace heddle::ir
