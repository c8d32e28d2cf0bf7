// What `bench` and `show --measure` have in common: inputs made up for given sizes, and the time of each kernel of a
// run.
#pragma once

#include "compiler/driver/library.h"

namespace heddle {

/// Tensors for all inputs of an entry that must be given: normal numbers, indices in their range.
Result<TensorMap> made_up_inputs(const Library &library, int entry, const std::vector<int64_t> &dims);

/// Calls of a run that belong together.
struct CallTime {
  std::string kernel, definition; // the definition that the first of them computes
  int calls = 0;
  double ms = 0; // of all, in the run where they took least
};

/// Runs the entry again and again for so many seconds; in the order of first calls. `each`: calls for other definitions
/// stand apart; else those of a kernel are one.
Result<std::vector<CallTime>> time_calls(Library &library, int entry, const TensorMap &inputs, TensorMap &results,
                                         bool each, double least_seconds);

/// Three digits or more in the unit that has them: "0.142 us", "5.12 us", "1234 us", "12.345 ms".
std::string time_text(double ms);

} // namespace heddle
