// The scalar functions of the language, each over a run of values. A new builtin adds its case here.
#pragma once

#include "dsl/interp/stage_program.h"

#include <cmath>

namespace heddle::interp {

/// A register: a run of values, or one value for the whole run.
struct Register {
  const double *at = nullptr;
  bool run = false;
  std::vector<double> own; // where `at` points unless the run is read in place
};

/// The larger (smaller); a NaN wins, as in PyTorch.
inline double larger(double a, double b) { return std::isnan(a) ? a : b > a || std::isnan(b) ? b : a; }
inline double smaller(double a, double b) { return std::isnan(a) ? a : b < a || std::isnan(b) ? b : a; }

/// Executes any instruction but a read. `index` is the value of its index (for Expr::index) at the start of
/// the run, `length` the number of values in a run.
void apply(const Instruction &instruction, std::vector<Register> &registers, int64_t index, int64_t length);

} // namespace heddle::interp
