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

/// A loop whose tasks threads share: what each took, in milliseconds, in the run where it took least.
using LoopTime = std::vector<double>;

/// A kernel's call, and its loops; what it does outside of them, one thread does.
struct SharedCallTime {
  std::string kernel;
  double ms = 0; // in the run where it took least
  std::vector<LoopTime> loops;
};

/// One call of an entry that can be made again and again: what the library's session keeps is put back before each, so
/// that every call finds the caches as full as the first did.
class RepeatedCall {
public:
  /// Makes the first call.
  static Result<RepeatedCall> begin(Library &library, int entry, TensorMap inputs);
  /// Makes another, and says how many milliseconds it took.
  Result<double> again();
  /// Makes calls for so many seconds; in the order of their first kernels. `each`: kernels that compute other
  /// definitions stand apart; else the calls of a kernel are one.
  Result<std::vector<CallTime>> time_kernels(bool each, double least_seconds);
  /// Makes calls for so many seconds, each on one thread; the kernels in their order, and the tasks of each.
  Result<std::vector<SharedCallTime>> time_tasks(double least_seconds);

private:
  RepeatedCall(Library &library, int entry, TensorMap inputs)
      : library_(&library), entry_(entry), inputs_(std::move(inputs)) {}
  Library *library_;
  int entry_;
  TensorMap inputs_, results_;
  std::vector<std::byte> state_; // none: the model keeps nothing
};

/// Three digits or more in the unit that has them: "0.142 us", "5.12 us", "1234 us", "12.345 ms".
std::string time_text(double ms);

} // namespace heddle
