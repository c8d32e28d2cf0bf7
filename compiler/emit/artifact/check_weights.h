// Whether a weights file fits a model, said before anything is compiled.
#pragma once

#include "compiler/io/model_folder.h"
#include "dsl/check/program.h"
#include "dsl/errors/source.h"

namespace heddle {

/// Whether the files have every tensor that the program reads, in its stored shape and with values that its type holds.
/// The message names the tensor and the line that reads it, and the nearest name of what is not read, or both shapes.
/// Looks at values only where their type is not the model's.
Status check_weights(const Program &program, const Sources &sources, const WeightFiles &files);

/// What packing does to floats whose type in the files is not the model's: "199 rounded from F32 to bf16", or nothing.
std::string weight_conversions(const Program &program, const WeightFiles &files);

/// Names of the files' tensors that the program does not read, in alphabetical order.
std::vector<std::string> unread_tensors(const Program &program, const WeightFiles &files);

} // namespace heddle
