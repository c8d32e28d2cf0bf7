// Asking for lines of memory before they are read.
#pragma once

#include <Halide.h>

namespace heddle {

/// Bytes that a cache takes at a time.
inline constexpr int line_bytes = 64;

/// Arguments of LLVM's prefetch. Halide's own prefetch asks for the least locality, which on x86 leaves the second
/// cache out: it makes loops over weights slower, not faster.
inline constexpr int reading = 0, second_cache = 2, data = 1;

/// Asks for the line at an address, a UInt(64), to be in the second cache.
Halide::Internal::Stmt ask(const Halide::Expr &address);

} // namespace heddle
