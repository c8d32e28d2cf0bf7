// Loops of lowered statements by their names.
#pragma once

#include <Halide.h>

#include <string>

namespace heddle {

/// The name that Halide gave a loop, before it let the loop begin at zero.
std::string name_of(const Halide::Internal::For *loop);

/// Whether that name ends so; none ends in nothing.
bool is_loop(const Halide::Internal::For *loop, const std::string &end);

} // namespace heddle
