// Vectors read at places that follow each other, except where a bound holds them back: x[min(M + i - j, N - 1)]. Of
// most vectors all lanes are before the bound, or all are at it; only the few across it want a read lane by lane.
#pragma once

#include <Halide.h>

#include <memory>

namespace heddle {

/// The pass that asks, before such a read, which of the three it is.
std::shared_ptr<Halide::Internal::IRMutator> split_clamped_reads();

} // namespace heddle
