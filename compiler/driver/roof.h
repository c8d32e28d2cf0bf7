// The limits that every measurement is read against: how many floating-point operations and how many bytes the machine
// does per second, right now, on a number of threads.
#pragma once

#include <cstddef>

namespace heddle {

struct Roof {
  double gflops;    // f32, fused multiply-adds counted as two
  double gigabytes; // read from memory per second
};

/// About 0.2 seconds of measuring.
Roof measure_roof(int threads);

/// GB/s of reading `bytes` again and again: from a cache where they fit one, shared out among the threads, or by one of
/// them, whichever is faster.
double read_gigabytes(int threads, size_t bytes);
/// GB/s, reads and writes together, of copying one half of `bytes` to the other again and again.
double copy_gigabytes(int threads, size_t bytes);

} // namespace heddle
