// The passes of the compiler: passes.def lists them in order and says why each stands there.
#pragma once

#include "compiler/targets/target.h"

#include "mlir/Pass/Pass.h"

#include <memory>

namespace heddle::passes {

#define HEDDLE_PASS(name, stage, why) std::unique_ptr<mlir::Pass> name();
#define HEDDLE_TARGET_PASS(name, stage, why) std::unique_ptr<mlir::Pass> name(const Target &target);
#define UPSTREAM_PASS(maker, stage, why)
#include "compiler/passes/passes.def"
#undef HEDDLE_PASS
#undef HEDDLE_TARGET_PASS
#undef UPSTREAM_PASS

/// Makes our passes and the pipelines up to each stage known to heddle-opt, for that target.
void register_passes(const Target &target);

/// The list as docs/passes.md.
std::string passes_page();

} // namespace heddle::passes
