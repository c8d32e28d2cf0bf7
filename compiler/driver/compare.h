// Which definitions the compiler puts into which kernel, for `heddle compare`.
#pragma once

#include "compiler/driver/compile_model.h"

#include <map>
#include <string>
#include <vector>

namespace heddle {

/// One call of a kernel.
struct EntryKernel {
  std::vector<std::string> definitions; // names of the program's tensors, in the order of the computation
};

/// The kernels of each entry by its name, in the order of their calls; calls without a named definition are left out.
Result<std::map<std::string, std::vector<EntryKernel>>> kernels_of_entries(Model &model, const CompileGoal &goal);

} // namespace heddle
