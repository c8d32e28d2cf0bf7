// A checked program as a module of stage 1 (docs/ir.md): one function per entry, one linalg.generic per stage.
#pragma once

#include "dsl/check/program.h"
#include "dsl/errors/diagnostics.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace heddle::ir {

namespace names {
/// Attribute of an entry: the symbols of the states whose old values the model's text reads, used or not.
inline constexpr llvm::StringLiteral reads = "heddle.reads";
} // namespace names

/// The context must have the dialects of register_dialects.
mlir::OwningOpRef<mlir::ModuleOp> import_program(const Program &program, mlir::MLIRContext &context,
                                                 Diagnostics &diagnostics);

} // namespace heddle::ir
