// How f32 becomes bf16: to nearest even by integer instructions, NaN kept, the same on every machine. Halide's own
// conversion lets LLVM assume that there is no NaN, and where the CPU has an instruction, that one drops denormals.
#pragma once

#include <Halide.h>

#include <memory>

namespace heddle {

/// The pass that writes out all such conversions of a lowered kernel.
std::shared_ptr<Halide::Internal::IRMutator> round_to_bfloat();

} // namespace heddle
