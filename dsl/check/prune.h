// Keeps what an entry's outputs, updates and requirements need.
#pragma once

#include "dsl/check/program.h"

#include <map>

namespace heddle::checking {

/// `also`: what else is needed.
void keep_needed(Entry &entry, const std::vector<const Tensor *> &also = {});
/// Enters into the program the weights and states that its entries read or update, in the order of their first use.
void list_used(Program &program, const std::map<const Tensor *, Weight> &weights, const std::vector<State> &states);

} // namespace heddle::checking
