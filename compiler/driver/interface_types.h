// `--io`: the types of real inputs and results as a caller sees them, whatever the model computes in.
#pragma once

#include "dsl/check/program.h"
#include "dsl/errors/result.h"

namespace heddle {

/// "f32", "bf16" or "f16" for all real inputs and results of the entries: an input is converted before anything reads
/// it, a result behind what computes it. States keep their types.
Status set_interface_types(Program &program, const std::string &type);

} // namespace heddle
