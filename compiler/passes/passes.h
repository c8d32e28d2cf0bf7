// The passes of the compiler, one function each; pipeline.cc lists them in order and says why each stands there.
#pragma once

#include "mlir/Pass/Pass.h"

#include <memory>

namespace heddle::passes {

std::unique_ptr<mlir::Pass> form_kernels();
std::unique_ptr<mlir::Pass> outline_kernels();
std::unique_ptr<mlir::Pass> collapse_dims();

/// Makes the passes and the pipelines known to heddle-opt.
void register_passes();

} // namespace heddle::passes
