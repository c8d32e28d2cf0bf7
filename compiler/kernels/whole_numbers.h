// Halide's formulas of whole numbers, such as the first key that a row needs (compiler/halide/ranges.h), as code of a
// GPU's kernel.
#pragma once

#include "compiler/gpu/arithmetic.h"

#include <Halide.h>

#include <map>
#include <string>

namespace heddle {

/// An index value; null where the formula has something else than arithmetic of numbers of at most 32 bits, conditions
/// on them, and the variables that have a value here.
mlir::Value whole_number(mlir::OpBuilder &b, mlir::Location loc, const Halide::Expr &formula,
                         const std::map<std::string, mlir::Value> &variables);

} // namespace heddle
