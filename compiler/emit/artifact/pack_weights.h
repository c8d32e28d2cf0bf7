// The packed weights file: every weight of a model, converted and laid out as the kernels of each target read it.
#pragma once

#include "compiler/emit/artifact/progress.h"
#include "compiler/emit/host/weights_layout.h"
#include "compiler/io/model_folder.h"

#include <span>

namespace heddle {

/// Size of the packed file.
size_t packed_bytes(const WeightsLayout &layout);

/// Writes the file of runtime/abi.h to `out`, packed_bytes() zeros, on all threads. Both sides may be mapped files:
/// memory stays flat, but for what is computed from weights. `layouts` are those of the modules; `files` have passed
/// check_weights; null where the model has no weights.
Status pack_weights(llvm::ArrayRef<TargetModule> modules, llvm::ArrayRef<WeightsLayout> layouts,
                    const WeightFiles *files, std::span<std::byte> out, Progress &progress);

} // namespace heddle
