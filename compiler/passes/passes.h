// The passes of the compiler, one function each; pipeline.cc lists them in order and says why each stands there.
#pragma once

#include "compiler/targets/target.h"

#include "mlir/Pass/Pass.h"

#include <memory>

namespace heddle::passes {

std::unique_ptr<mlir::Pass> split_weights();
std::unique_ptr<mlir::Pass> simplify();
std::unique_ptr<mlir::Pass> slide_states();
std::unique_ptr<mlir::Pass> widen_loops();
std::unique_ptr<mlir::Pass> form_kernels();
std::unique_ptr<mlir::Pass> outline_kernels();
std::unique_ptr<mlir::Pass> collapse_dims();
std::unique_ptr<mlir::Pass> skip_roundings();
std::unique_ptr<mlir::Pass> layout_weights(const Target &target);
std::unique_ptr<mlir::Pass> choose_schedules(const Target &target);

/// Makes the passes and the pipeline (`--compile`) known to heddle-opt, for the target of that name.
void register_passes(const Target &target);

} // namespace heddle::passes
