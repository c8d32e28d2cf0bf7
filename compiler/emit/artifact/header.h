// The texts that go beside a library: its C header and its manifest.
#pragma once

#include "compiler/emit/artifact/artifact.h"
#include "compiler/emit/host/model_interface.h"
#include "compiler/emit/host/weights_layout.h"

namespace heddle {

/// <name>.h: one documented inline function per entry over heddle.h. `targets` as in --target; the module tells what
/// its products multiply.
std::string c_header(const ModelInterface &model, const std::vector<std::string> &targets, mlir::ModuleOp module);

/// <name>.json: entries, shapes, types, targets, versions, kernels with their schedules, sizes.
std::string manifest(const ModelInterface &model, const ArtifactJob &job, llvm::ArrayRef<WeightsLayout> weights);

} // namespace heddle
