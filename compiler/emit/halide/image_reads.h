// Reads of arguments that Halide 21 leaves as they were written, x(i, j), in the conditions under which it allocates a
// stage that only some rows need: its flattening passes do not look there, and its code generation stops at them.
#pragma once

#include <Halide.h>

#include <memory>

namespace heddle {

/// The pass that makes loads of these.
std::shared_ptr<Halide::Internal::IRMutator> load_image_reads();

} // namespace heddle
