#include "compiler/ir/parameters.h"
#include "compiler/ir/dialect.h"

namespace heddle::ir {

bool is_parameter(mlir::Value value) {
  auto read = value.getDefiningOp<ReadOp>();
  if (!read)
    return value.getDefiningOp<GetOp>() != nullptr;
  auto state = mlir::SymbolTable::lookupNearestSymbolFrom<StateOp>(read, read.getStateAttr());
  return state && state->hasAttr(names::begins);
}

} // namespace heddle::ir
