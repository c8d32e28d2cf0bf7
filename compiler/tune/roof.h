// The limits that every measurement is read against: how many floating-point operations and how many bytes the machine
// does per second, right now, on a number of threads.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace heddle {

struct Roof {
  struct Products {
    std::string_view micro_kernel; // compiler/kernels/product/micro_kernels.def
    std::string_view instruction;  // that it is
    std::string_view type;         // of the numbers that it multiplies, as a reader knows it
    double gflops = 0;             // multiply-adds counted as two
  };
  std::vector<Products> products = {}; // f32 first, then what else this CPU has an instruction for
  double gigabytes = 0;                // read from memory per second

  /// Of a micro-kernel, or null: this CPU has none, or nobody has said how to measure it.
  const Products *find(std::string_view micro_kernel) const;
  double f32() const { return products.front().gflops; }
  /// The better of both in everything: what else the machine does only takes away.
  void raise(const Roof &other);
};

/// About 0.5 seconds of measuring.
Roof measure_roof(int threads);

/// Products of a micro-kernel on this thread, rounds that take as long as so many of f32; how many operations they
/// were. 0: this CPU has none, or nobody has said how to measure it.
double multiply(std::string_view micro_kernel, long rounds);

/// GB/s of reading `bytes` again and again, in one sample: from a cache where they fit one, shared out among the
/// threads, or by one of them, whichever is faster.
double read_gigabytes(int threads, size_t bytes);
/// GB/s, reads and writes together, of copying one half of `bytes` to the other again and again, in one sample.
double copy_gigabytes(int threads, size_t bytes);

} // namespace heddle
