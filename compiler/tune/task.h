// What a model's time goes to, as things to measure: each kernel at the sizes that its entries call it with, and the
// ways to compute it there. Layouts of weights are a part of the ways.
#pragma once

#include "compiler/targets/target.h"

#include "mlir/IR/BuiltinOps.h"

#include <cstdint>
#include <string>
#include <vector>

namespace heddle::tune {

struct Option {
  std::string layouts, row; // as records have them
  std::string text;         // the kernel, laid out so, with that row as its only schedule
  double expected;          // seconds on one thread
};

struct Task {
  std::string kernel, structure, kind; // kernel: its name in the module
  std::vector<int64_t> sizes;
  std::vector<int64_t> scalars; // that a call in the middle of the model's loops has
  double calls = 0;             // of one run of every entry
  double operations = 0;        // of products, and bytes that are read or written, in one call
  double bytes = 0;
  double memory = 0;           // bytes of all operands and results
  std::vector<Option> options; // what is compiled without records, then the others from the least expected time on
  double weights = 0;          // bytes of those operands that are the model's weights
};

struct Tasks {
  std::vector<Task> all;
  std::vector<std::string> left_out; // kernels whose sizes change from call to call
};

/// Of a module as the passes leave it, with a value for every dim (`heddle.expected`). Candidates that are expected to
/// take twice as long as the best of their variant are left out.
Tasks tasks_of(mlir::ModuleOp module, const Target &target);

} // namespace heddle::tune
