// Whether a weights file fits a model, said before anything is compiled.
#pragma once

#include "compiler/io/model_folder.h"
#include "dsl/check/program.h"

namespace heddle {

/// Whether the files have every tensor that the program reads, in its stored shape. The message names the tensor,
/// and the nearest name or both shapes. Looks at headers only.
Status check_weights(const Program &program, const WeightFiles &files);

} // namespace heddle
