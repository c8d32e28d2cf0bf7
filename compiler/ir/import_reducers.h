// Reducers of the language as MLIR: see import_reducers.cc.
#pragma once

#include "dsl/check/program.h"

#include "mlir/IR/Builders.h"

namespace heddle::ir {

/// The neutral element of a reducer over numbers of this type.
double neutral(Reducer reducer, mlir::Type type);

/// One more `value` taken into `acc`. Not for argmax and argmin.
mlir::Value combine(mlir::OpBuilder &body, mlir::Location loc, Reducer reducer, mlir::Value acc, mlir::Value value);

} // namespace heddle::ir
