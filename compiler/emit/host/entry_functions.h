// The three functions of an entry that runtime/abi.h asks for: extents of its inputs and results, bytes of
// arena, and the run itself.
#pragma once

#include "compiler/emit/host/host.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"

#include "llvm/ADT/DenseMap.h"

namespace heddle {

/// The runtime's functions that generated code calls (runtime/abi.h).
inline constexpr const char *kernel_event_symbol = "heddle_kernel_event";
inline constexpr const char *copy_slice_symbol = "heddle_copy_slice";
inline constexpr const char *slide_symbol = "heddle_slide";
inline constexpr const char *group_symbol = "heddle_group";

/// What `run` may refuse with a message of its own, in the order of their numbers: requirements, then updates of places
/// of a state, which proofs keep inside it.
struct Refusals {
  explicit Refusals(mlir::func::FuncOp entry);
  std::vector<std::string> messages;
  llvm::DenseMap<mlir::Operation *, int> numbers;
};

/// Adds them to the host module that `builder` stands in. Failure was reported.
mlir::LogicalResult build_entry(mlir::OpBuilder &builder, const HostProgram &program, mlir::func::FuncOp entry,
                                int number);

/// Of these, `run` alone.
mlir::LogicalResult build_run(mlir::OpBuilder &builder, const HostProgram &program, mlir::func::FuncOp entry,
                              int number);

/// Adds void state_extents(dims, out): of all states, one after the other.
mlir::LogicalResult build_state_extents(mlir::OpBuilder &builder, const HostProgram &program);

} // namespace heddle
