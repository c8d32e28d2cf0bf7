// Factors of f32 for a matrix unit that multiplies bf16. A number is the sum of three of bf16, of which each has eight
// bits of its significand:
//
//   x = x0 + x1 + x2:   x0 = the bf16 nearest to x,   x1 = the one nearest to x - x0,   x2 = what is left, exactly
//   x * y ≈ x0 y0 + (x0 y1 + x1 y0) + (x0 y2 + x1 y1 + x2 y0)
//
// What is left out is below 2^-24 of the product, as the rounding of a sum of f32 is (Henry, Tang and Heinecke,
// Leveraging the bfloat16 Artificial Intelligence Datatype For Higher-Precision Computations, 2019). A number without
// an end makes its products NaN, as does one so close to the largest that no bf16 is near; parts below the least normal
// number count as zero.
//
// Both factors are copied, a step of 32 terms after the other. Terms 16 apart lie side by side in a word, so that words
// are made of whole vectors: [step][part][word] of each row, [step][part][word][column] of a panel.
#pragma once

#include "compiler/kernels/product/operands.h"

namespace heddle {

namespace split {

/// Numbers that a factor is the sum of, words of one of them in a step, and terms of a step.
constexpr int parts = 3, words = 16, terms = 2 * words;

/// The loops over the words of a sum, of so many terms from 0 on, innermost first.
Halide::Region loops(const Halide::Expr &terms);
/// A copy of the factor without lanes over `term`, 0 .. terms - 1, and `others`, innermost first: for so many rows;
/// further ones repeat the last.
Copy rows(const Halide::Expr &factor, const Halide::Var &term, const Halide::Expr &terms, const Halide::Var &row,
          const Halide::Expr &rows, const std::vector<Halide::Var> &others);
/// A copy of the factor with lanes in panels of `width` columns. `columns`: how many there are, behind which is zero;
/// undefined: the factor has whole panels.
Copy panels(const Halide::Expr &factor, const Halide::Var &term, const Halide::Expr &terms, const Halide::Var &column,
            int width, const Halide::Expr &columns, const std::vector<Halide::Var> &others);

/// What a tile over these loops, of which the first takes term `first` of the factor, a step's first, reads of a copy.
Halide::Expr read(const Copy &copy, const RegisterTile &tile, const Halide::Expr &first);

/// They are written by whole vectors. `steps`: of which there is room for a copy of rows.
void schedule_rows(Copy &copy, const Halide::Expr &steps);
void schedule_panels(Copy &copy, int width);

} // namespace split

} // namespace heddle
