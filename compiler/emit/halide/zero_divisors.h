// Quotients by what turns out to be 0 once Halide has simplified it, as a guarded read that is never taken: Halide
// refuses to divide by a constant 0.
#pragma once

#include <Halide.h>

#include <memory>

namespace heddle {

/// The pass that makes a product with infinity of a quotient by 0: infinite, or NaN, all the same.
std::shared_ptr<Halide::Internal::IRMutator> multiply_for_zero_divisors();

} // namespace heddle
