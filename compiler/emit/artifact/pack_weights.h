// The packed weights file: every weight of a module, converted and laid out as the kernels read it.
#pragma once

#include "compiler/emit/artifact/progress.h"
#include "compiler/emit/artifact/weights_layout.h"
#include "compiler/io/model_folder.h"

namespace heddle {

/// Writes the file of runtime/abi.h to `path`, on all threads. Reads and writes are mapped, so memory stays flat.
/// `files` have passed check_weights; null where the module has no weights.
Status pack_weights(mlir::ModuleOp module, const WeightsLayout &layout, const WeightFiles *files,
                    const std::string &path, Progress &progress);

} // namespace heddle
