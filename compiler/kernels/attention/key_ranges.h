// Which keys the rows of a block need, and for which of them each product of scores is read: formulas over places and
// scalars that the conditions on scores say (halide/ranges.h), as code of a launch.
#pragma once

#include "compiler/gpu/program.h"
#include "compiler/kernels/attention/staged_keys.h"

namespace heddle::attention {

/// From the first key to the one after the last; null: no bound on that side.
struct KeyRange {
  mlir::Value first, end;
  explicit operator bool() const { return first || end; }
};

struct KeyRanges {
  KeyRange needed;                         // both bounds, between 0 and the number of keys
  llvm::SmallVector<KeyRange> of_products; // of those that are needed, a bound only where it is another one
};

/// For the rows from `first_row` to `last_row`; keys that slide along with the rows are those of a row's window.
/// Nothing after an error, which was reported.
mlir::FailureOr<KeyRanges> key_ranges(gpu::Program &program, gpu::Program::Thread &thread, const StagedKeys &plan,
                                      mlir::Value first_row, mlir::Value last_row);

} // namespace heddle::attention
