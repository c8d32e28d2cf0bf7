// The exported functions of a library, for callers that do not go through heddle.h: one per entry with plain
// pointers and sizes, and one that returns the library's table.
#pragma once

#include "compiler/emit/host/model_interface.h"

#include "mlir/IR/Builders.h"

namespace heddle {

/// Adds to the host module that `builder` stands in:
///   i32 <name>_<entry>(session, the dims it uses as i64 …, inputs …, results …)   runs that entry
///   ptr <name>_heddle_api()                                                       the library's table
void build_c_functions(mlir::OpBuilder &builder, mlir::Location loc, const ModelInterface &model);

} // namespace heddle
