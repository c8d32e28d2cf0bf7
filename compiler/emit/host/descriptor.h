// The constant `heddle_model_descriptor` (runtime/abi.h): names, types, extents and functions of all entries.
#pragma once

#include "compiler/emit/host/host.h"

namespace heddle {

/// Adds it to the host program's LLVM IR, which holds the entries' functions already.
void add_descriptor(const HostProgram &program, llvm::Module &module);

/// HEDDLE_T_* of a tensor's element type; -1 for a type that the C interface has no name for.
int abi_type(mlir::Type element);

} // namespace heddle
