// Deep programs are within the limits of the language, but not within the stack that a thread has by default.
#pragma once

#include <functional>

namespace heddle {

/// Runs `work` on a thread with room for the recursions over any program that the checker lets through: calls within
/// calls of high expressions, and the formulas that long unrolled loops make.
int on_large_stack(const std::function<int()> &work);

} // namespace heddle
