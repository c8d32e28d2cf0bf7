// The transcendental functions of kernels as Halide expressions that vectorise, and comparisons that keep to IEEE
// rules. Halide's defaults let LLVM assume that no value is infinite or NaN, and its tanh calls libm per element;
// what is here is exact about -inf and NaN (exp(-inf) = 0, f(NaN) = NaN) whatever the surrounding code assumes.
#pragma once

#include <Halide.h>

namespace heddle::math {

/// e^x within 1.5 ulp; 0 below -86.99 (results below 1.7e-38 are 0), inf above 88.72.
Halide::Expr exp(Halide::Expr x);
/// Relative error 1e-5, for f32, with the same ends: two thirds of the instructions.
Halide::Expr rough_exp(Halide::Expr x);
/// Absolute error 2e-7: a ratio of polynomials, twice as fast as the forms with exp.
Halide::Expr erf(Halide::Expr x);
/// Absolute error 6e-5, for f32: half of the instructions, and no division.
Halide::Expr rough_erf(Halide::Expr x);
/// Within 4 ulp.
Halide::Expr tanh(Halide::Expr x);
/// Absolute error 6e-5, for f32: two thirds of the instructions.
Halide::Expr rough_tanh(Halide::Expr x);
/// Absolute error 2e-7 for |x| up to 1e9; beyond it some number between -1 and 1.
Halide::Expr sin(Halide::Expr x);
Halide::Expr cos(Halide::Expr x);
/// Halide's, but for infinity and NaN, which stay what they are.
Halide::Expr log(Halide::Expr x);
/// x^y; a constant y that is a small integer or a half becomes products and roots. Else the relative error is that of
/// y ln |x|, absolutely: 1e-5 where the result is largest.
Halide::Expr power(Halide::Expr x, Halide::Expr y);

/// x itself, of which LLVM knows nothing. What Halide's own operators make, conversions from f16 among them, LLVM takes
/// to be finite: it would answer whether that is infinite, or NaN, without looking. Costs an instruction.
Halide::Expr opaque(Halide::Expr x);

/// Comparisons and arithmetic that LLVM may not reorder or fold under "no infinities, no NaN".
Halide::Expr less(Halide::Expr a, Halide::Expr b);
Halide::Expr less_equal(Halide::Expr a, Halide::Expr b);
Halide::Expr equal(Halide::Expr a, Halide::Expr b);
Halide::Expr strict_add(Halide::Expr a, Halide::Expr b);
Halide::Expr strict_sub(Halide::Expr a, Halide::Expr b);
Halide::Expr strict_mul(Halide::Expr a, Halide::Expr b);
Halide::Expr strict_div(Halide::Expr a, Halide::Expr b);
Halide::Expr is_nan(Halide::Expr x);

/// The larger (smaller) one; NaN where either is.
Halide::Expr maximum(Halide::Expr a, Halide::Expr b);
Halide::Expr minimum(Halide::Expr a, Halide::Expr b);

} // namespace heddle::math
