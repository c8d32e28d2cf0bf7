// Candidates of a GPU's kernels as files that time them on another machine: the PTX of each, a list of what is launched
// on what, and the programs of there/, which need Python and NVIDIA's driver and nothing else. They write `timings`:
// text as read_records reads it.
#pragma once

#include "compiler/emit/artifact/progress.h"
#include "compiler/io/output.h"
#include "compiler/tune/task.h"

namespace heddle::tune {

struct Packed {
  size_t tasks = 0, candidates = 0, bytes = 0;
  std::vector<std::string> left_out; // kernels and candidates, each with why
};

/// Compiles all options of the tasks that have several, for a target that is a GPU. `model`: its name and sizes, for
/// readers.
Result<Packed> pack(const std::vector<Task> &tasks, const Target &target, const std::string &model, Progress &progress,
                    OutputFolder &folder);

} // namespace heddle::tune
