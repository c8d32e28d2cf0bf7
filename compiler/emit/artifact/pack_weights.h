// The packed weights file: every weight of a module, converted and laid out as the kernels read it.
#pragma once

#include "compiler/emit/artifact/progress.h"
#include "compiler/emit/artifact/weights_layout.h"
#include "compiler/io/model_folder.h"

#include <span>

namespace heddle {

/// Size of the packed file.
size_t packed_bytes(const WeightsLayout &layout);

/// Writes the file of runtime/abi.h to `out`, packed_bytes() zeros, on all threads. Both sides may be mapped files:
/// memory stays flat. `files` have passed check_weights; null where the module has no weights.
void pack_weights(mlir::ModuleOp module, const WeightsLayout &layout, const WeightFiles *files,
                  std::span<std::byte> out, Progress &progress);

} // namespace heddle
