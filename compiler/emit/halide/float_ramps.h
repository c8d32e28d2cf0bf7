// Two lanes that are computed one by one, a and b, which Halide 21 writes as a ramp from a with the step b - a. In
// floats that is another number, NaN where one is infinite, and no code at all for 16-bit types.
#pragma once

#include <Halide.h>

#include <memory>

namespace heddle {

/// The pass that puts the two lanes beside each other again.
std::shared_ptr<Halide::Internal::IRMutator> split_float_ramps();

} // namespace heddle
