// The packed weights file: every weight of a module, converted and laid out as the kernels read it.
#pragma once

#include "compiler/emit/artifact/progress.h"
#include "compiler/emit/artifact/weights_layout.h"
#include "compiler/io/model_folder.h"

namespace heddle {

/// Whether the files have every weight in the shape that the model stores it in. Cheap: looks at headers only, so it
/// runs before anything is compiled. The message names the tensor, and the nearest name or both shapes.
Status check_weights(mlir::ModuleOp module, const WeightFiles &files);

/// Writes the file of runtime/abi.h to `path`, on all threads. Reads and writes are mapped, so memory stays flat.
/// `files` have passed check_weights; null where the module has no weights.
Status pack_weights(mlir::ModuleOp module, const WeightsLayout &layout, const WeightFiles *files,
                    const std::string &path, Progress &progress);

} // namespace heddle
