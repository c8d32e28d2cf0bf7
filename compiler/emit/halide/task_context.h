// The context that runtime functions are given: in a parallel task its own, which says whose scratch it may take.
// Halide 21 hands what a task reads of its surroundings to it by name, and a formula that reads the context
// (math::opaque) would put the caller's in the place of the task's: two threads would then share one's scratch.
#pragma once

#include <Halide.h>

#include <memory>

namespace heddle {

/// The pass that gives formulas the context under another name. After all passes that make such formulas.
std::shared_ptr<Halide::Internal::IRMutator> keep_task_context();

} // namespace heddle
