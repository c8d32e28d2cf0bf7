// The texts that go beside a library: its C header and its manifest.
#pragma once

#include "compiler/emit/host/model_interface.h"
#include "compiler/targets/target.h"

#include "mlir/IR/BuiltinOps.h"

namespace heddle {

/// <name>.h: one documented inline function per entry over heddle.h.
std::string c_header(const ModelInterface &model);

/// <name>.json: entries, shapes, types, target, versions, kernels with their schedules, sizes.
std::string manifest(const ModelInterface &model, const Target &target, mlir::ModuleOp module, int64_t weights_bytes);

} // namespace heddle
