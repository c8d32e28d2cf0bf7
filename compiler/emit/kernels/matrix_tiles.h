// The functions that kernels call where a matrix unit multiplies (compiler/kernels/product/matrix_tile.h): with the
// instructions of the unit, or, for CPUs without one, with the same tiles in plain arithmetic.
#pragma once

#include "llvm/IR/Module.h"

#include <cstdint>

namespace heddle {

/// Writes those that the module calls.
void define_matrix_tiles(llvm::Module &module, uint32_t cpu_features);

} // namespace heddle
