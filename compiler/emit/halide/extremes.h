// Minima and maxima of reductions, which begin at infinity: Halide's own let LLVM choose between that and a number as
// if neither were infinite.
#pragma once

#include <Halide.h>

#include <memory>

namespace heddle {

/// The pass that makes comparisons as IEEE has them of what Halide's scheduling has taken apart as minima and maxima.
std::shared_ptr<Halide::Internal::IRMutator> compare_extremes_strictly();

} // namespace heddle
