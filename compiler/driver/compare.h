// What the forms of `heddle compare` have in common: which definitions the compiler puts into which kernel, and models
// that return them.
#pragma once

#include "compiler/driver/commands.h"

#include <functional>
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

/// What an entry computes outside of loops, and what it collects from one, in the order of the computation.
std::vector<const Tensor *> definitions_of(const Entry &entry);

/// The model of the options, with its weights; its entries return the `shown` tensors, if any, besides their results.
using Shown = std::function<std::vector<const Tensor *>(const Entry &)>;
Result<Model> showing_model(const ModelOptions &options, const Shown &shown = {});

/// Between two elements: NaN equals NaN, an infinity itself only, and is endlessly far from all else.
double distance(double a, double b);

/// The calls of --in, each with an entry and what it is compared with, where these are given.
Result<std::vector<TensorMap>> read_compared_calls(const CompareCommand &options);

/// `compare --parts`: what each kernel's last definition loses by the goal's precisions, and its kernel's time.
Status compare_parts(const CompareCommand &options);

} // namespace heddle
