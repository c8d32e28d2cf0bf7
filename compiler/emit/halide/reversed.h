// Reads whose vector reaches before the row where lanes are masked, most of all of a row from its end, x[N - 1 - i]:
// Halide 21 loads such a vector forwards and then turns it round, and for places known to be negative it stops with an
// internal error ("base >= 0").
#pragma once

#include <Halide.h>

#include <memory>

namespace heddle {

/// The pass that reads these lane by lane.
std::shared_ptr<Halide::Internal::IRMutator> gather_reversed_reads();

} // namespace heddle
