// What a list of steps mentions: tensors (for their lifetimes), dims, and the states with what is done to them.
#pragma once

#include "dsl/check/program.h"

#include <span>

namespace heddle {

/// Tensors that the steps read or update, and dims that any of their extents or expressions mention.
struct Uses {
  std::vector<const Tensor *> tensors; // in the order of their first use
  std::vector<bool> dims;
  struct OfState {
    const Tensor *state;
    bool reads = false; // its old value, be it only to keep the places that updates leave alone
    bool updates = false;
  };
  std::vector<OfState> states;
};
/// Marks the dims that `size` mentions.
void note_dims(const Size &size, std::vector<bool> &dims);
Uses uses_of(const Program &program, std::span<const Step> steps);

} // namespace heddle
