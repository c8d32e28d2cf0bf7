// Formulas of sizes and indices as Halide's, in 32 bits.
#pragma once

#include "mlir/IR/AffineExpr.h"

#include <Halide.h>

#include <vector>

namespace heddle {

/// `expr` of these dims and symbols.
Halide::Expr affine(mlir::AffineExpr expr, const std::vector<Halide::Expr> &dims,
                    const std::vector<Halide::Expr> &symbols = {});

/// Takes from both sides of a comparison of 32-bit whole numbers what they have in common. Halide 21 would solve
/// 4 * y + a == 4 * y + b for the variable y of a loop, as y == 0.
void cancel_common_terms(Halide::Expr &a, Halide::Expr &b);

} // namespace heddle
