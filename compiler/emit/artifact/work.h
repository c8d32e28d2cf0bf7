// What the kernels of an entry have to do, as formulas over the model's dims, so that a measured time can be read
// against the machine's limits without the compiler at hand. Part of the manifest; `heddle bench` evaluates it.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>
#include <string>
#include <vector>

namespace heddle {

/// All calls of one kernel in one run of an entry. A formula is made of numbers, names of dims, + - * // % and
/// parentheses; it is absent where a call's sizes are only known during the run (in a loop).
struct KernelWork {
  /// A micro-kernel (micro_kernels.def), for sizes at which no formula of `when` is negative.
  struct Multiplies {
    std::string micro_kernel;
    std::vector<std::string> when;
  };

  std::string kernel;
  int64_t calls = 0;                     // in the text; a loop repeats them
  std::optional<std::string> operations; // multiplications and additions of products
  std::vector<Multiplies> multiplies;    // what does them: the first that holds, and the last holds always
  std::optional<std::string> weights;    // bytes of weights that are read
  std::optional<std::string> values;     // bytes of other tensors, read or written, each counted once per call
};

/// In the order of the kernels' first calls.
std::vector<KernelWork> work_of(mlir::func::FuncOp entry);

} // namespace heddle
