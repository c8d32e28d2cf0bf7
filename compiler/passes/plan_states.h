// How an entry's updates reach its states. Part of plan_memory.
#pragma once

#include "compiler/ir/dialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <vector>

namespace heddle::passes {

inline constexpr llvm::StringLiteral copy_name = "heddle.copy"; // update: #heddle.copy

struct StateUpdate {
  ir::UpdateOp op;
  ir::PlaceAttr place;    // where the value could be made so that nothing is copied; null: nowhere
  ir::CopyTime otherwise; // when it is copied else
};

/// Decides for each state of an entry whether it is updated in place, writes the entry's `heddle.uses`, and says of
/// each update what can be done.
std::vector<StateUpdate> plan_states(mlir::func::FuncOp entry);

/// The number of the module's state of that name.
int64_t state_number(mlir::Operation *inside, mlir::StringRef symbol);

} // namespace heddle::passes
