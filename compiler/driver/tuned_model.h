// A model as it would be compiled without and with what a search has found, the two run in turns.
#pragma once

#include "compiler/driver/temporary_library.h"

#include <map>
#include <utility>
#include <vector>

namespace heddle {

/// A library in a folder that goes with it, and inputs for the entries that can be called.
class TrialLibrary {
public:
  /// `dims`: of every dim of the model.
  static Result<TrialLibrary> make(Model &model, const CompileGoal &goal, const std::map<std::string, int64_t> &dims,
                                   int threads);

  int threads() const { return made_.library.threads(); }
  /// Entries that ran; an entry may want what another one leaves in the session.
  const std::vector<int> &entries() const { return entries_; }
  double compile_seconds() const { return compile_seconds_; }
  double first_seconds() const { return first_seconds_; } // of the entries' first calls
  /// Seconds of one call, on what the session held before the first one: a cache would be full soon.
  Result<double> run(int entry);

private:
  explicit TrialLibrary(TemporaryLibrary made) : made_(std::move(made)) {}

  TemporaryLibrary made_;
  std::vector<int> entries_;
  std::map<int, TensorMap> inputs_, results_;
  std::map<int, std::vector<std::byte>> states_; // by entry; empty: the model keeps nothing
  double compile_seconds_ = 0, first_seconds_ = 0;
};

struct Comparison {
  double before = 0, after = 0; // seconds of one call of every entry, undisturbed
  int rounds = 0;
};
/// Calls them in turns for so many seconds, at least once each, and `before` once more to begin with.
Result<Comparison> compare_in_turns(TrialLibrary &before, TrialLibrary &after, double seconds);

} // namespace heddle
