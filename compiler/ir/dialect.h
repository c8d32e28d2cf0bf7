// The heddle dialect as C++: the generated ops and attributes of heddle.td, and the names of the attributes that
// other ops carry. Everything is in namespace heddle::ir; docs/ir.md says what each attribute means.
#pragma once

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "compiler/ir/heddle_dialect_decls.inc"

#include "compiler/ir/heddle_enum_decls.inc"

#define GET_ATTRDEF_CLASSES
#include "compiler/ir/heddle_attr_decls.inc"

#define GET_OP_CLASSES
#include "compiler/ir/heddle_op_decls.inc"

namespace heddle::ir {

namespace names {
inline constexpr llvm::StringLiteral dims = "heddle.dims";           // module: [{name, most}, …, {name, product}]
inline constexpr llvm::StringLiteral tokens = "heddle.tokens";       // module: [{name, id}] of the configuration
inline constexpr llvm::StringLiteral precision = "heddle.precision"; // module: what products multiply; absent: f32
inline constexpr llvm::StringLiteral keep = "heddle.keep";           // module: {path = precision} of parts of the model
inline constexpr llvm::StringLiteral single_copy = "heddle.single_copy"; // module: no weight is stored twice
inline constexpr llvm::StringLiteral second_copy = "heddle.second_copy"; // weight: of another one that lies otherwise
inline constexpr llvm::StringLiteral expected = "heddle.expected"; // module: {dim = value} to choose schedules for
inline constexpr llvm::StringLiteral entry = "heddle.entry";       // function: an entry of the model
inline constexpr llvm::StringLiteral name = "heddle.name";         // argument, result: the author's name
inline constexpr llvm::StringLiteral below = "heddle.below";       // argument: values lie in 0 .. below - 1
inline constexpr llvm::StringLiteral initial = "heddle.initial";   // argument: every element where it is absent
inline constexpr llvm::StringLiteral extents = "heddle.extents";   // argument, result: its shape over the sizes
inline constexpr llvm::StringLiteral layout = "heddle.layout";     // argument of a kernel: #heddle.layout
inline constexpr llvm::StringLiteral kernel = "heddle.kernel";     // function: a kernel of that kind
inline constexpr llvm::StringLiteral computes = "heddle.computes"; // function: of weights, evaluated when packing
inline constexpr llvm::StringLiteral schedule = "heddle.schedule"; // function: rows of {variant, params, when}
inline constexpr llvm::StringLiteral once =
    "heddle.once"; // call of a kernel: made once in a session for the same sizes
} // namespace names

/// The module's run-time sizes by number, and the number of the one with that name (-1: there is none).
llvm::SmallVector<llvm::StringRef> dim_names(mlir::ModuleOp module);
int dim_number(mlir::ModuleOp module, llvm::StringRef name);

/// The weights that some `heddle.get` reads, in order: those of the packed file. What only computed weights are made of
/// is none of them.
llvm::SmallVector<WeightOp> packed_weights(mlir::ModuleOp module);

/// Whether an op, or one inside of it, may end the call with a message: what the author wrote after it relies on that.
bool may_end_call(mlir::Operation *op);

/// Every dialect that a module of Heddle may hold, at any stage before the LLVM dialect.
void register_dialects(mlir::DialectRegistry &registry);

} // namespace heddle::ir
