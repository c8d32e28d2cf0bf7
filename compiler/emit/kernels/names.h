// Names in a lowered kernel that are the same whatever the process has lowered before.
#pragma once

#include <Halide.h>

#include <memory>

namespace heddle {

/// The last lowering pass of a kernel. Halide makes names unique by numbers that count up through the whole process, on
/// all its threads. They come into objects, as the names of allocations and of the functions of parallel loops, and by
/// their order as that of what these functions are given. The pass numbers what a statement names from 0, in order.
std::shared_ptr<Halide::Internal::IRMutator> number_names();

} // namespace heddle
