// The multiply-adds of a program's products: of sums whose terms multiply what depends on different indices of the
// result.
#pragma once

#include "dsl/check/program.h"

#include <map>

namespace heddle {

struct MultiplyAdds {
  double forward = 0;
  double backward = 0; // of what gradients are made by

  double all() const { return forward + backward; }
};

/// Of one run of these steps. `dims`: the value of each dim of the program.
MultiplyAdds multiply_adds(const std::vector<Step> &steps, const std::vector<int64_t> &dims);

/// A line for each entry that has gradients: its multiply-adds. `dims` by name; of the others the bound or 64,
/// whichever is less.
std::string gradient_costs(const Program &program, const std::map<std::string, int64_t> &dims);

} // namespace heddle
