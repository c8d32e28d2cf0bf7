// Halide knows CPUs by name and takes their features together: to have a dot product in the LLVM IR that it makes, it
// is told of a CPU that has more besides. Such IR becomes code for what the kernel's own CPUs have here, and so does IR
// for what Halide has no words for (matrix_tiles.h, roundings.h).
#pragma once

#include "compiler/emit/kernels/emit.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace heddle {

/// Halide's bitcode as code that uses these features and no others.
Result<std::string> narrowed(std::string_view bitcode, uint32_t cpu_features, KernelForm form);

} // namespace heddle
