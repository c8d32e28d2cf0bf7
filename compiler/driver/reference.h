// The evaluator as commands use it: a loaded model with its weights and calls as they stand in files. Which entry a
// call is for follows the rule of heddle_entry_find.
#pragma once

#include "compiler/driver/model.h"
#include "compiler/driver/tensors.h"
#include "dsl/interp/interp.h"

#include <functional>

namespace heddle {

/// The name in `entries` (none; one for all calls; or one per call) that call number `call` is for.
std::string entry_of_call(const std::vector<std::string> &entries, size_t call);

/// The entry of that name; of an empty name the one that a model has alone, or the one that is called forward.
Result<const Entry *> find_entry(const Program &program, const std::string &name);

class Reference {
public:
  /// `model` must outlive this. `keep_all`: every tensor that a call computes can be asked for.
  explicit Reference(const Model &model, bool keep_all = false);

  Result<TensorMap> run(const Entry &entry, const TensorMap &inputs);
  /// What the last call has computed, by name, where all is kept.
  TensorMap kept() const;

private:
  std::map<std::string, Type> weight_types_;
  Interpreter interpreter_;
};

} // namespace heddle
