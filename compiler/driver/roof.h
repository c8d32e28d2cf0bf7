// The two limits that every measurement is read against: how many floating-point operations and how many bytes from
// memory the machine does per second, right now, on a number of threads.
#pragma once

namespace heddle {

struct Roof {
  double gflops;    // f32, fused multiply-adds counted as two
  double gigabytes; // read from memory per second
};

/// About 0.2 seconds of measuring.
Roof measure_roof(int threads);

} // namespace heddle
