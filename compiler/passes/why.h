// What `--why` prints.
#pragma once

#include "compiler/targets/target.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace heddle::passes {

/// For people: of each kernel the candidates for its schedule, what they are expected to take, and which won. Of a
/// module whose schedules are chosen.
std::string why_schedules(mlir::ModuleOp module, const Target &target);

} // namespace heddle::passes
