// Params that entries update: states that begin as weights.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace heddle::ir::names {

/// Attribute of a state: the weight as which it begins, which the packed file then has row-major.
inline constexpr llvm::StringLiteral begins = "heddle.begins";

} // namespace heddle::ir::names
