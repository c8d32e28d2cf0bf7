// Decides where the values between kernels live during a call, and how states get their new values.
//
//   %0 = call @k0(%d0, %x)                          {heddle.places = [#heddle.place<slot 0>]}
//   %1 = call @k1(%d0, %0, %w)                      {heddle.places = [#heddle.place<slot 1>]}
//   %2 = call @k2(%d0, %1)                          {heddle.places = [#heddle.place<slot 0>]}
//   %3 = call @k3(%d0, %2)                          {heddle.places = [#heddle.place<next 1>]}
//   %5 = call @k5(%d0, %w)                          {heddle.once, heddle.places = [#heddle.place<once 0>]}
//   heddle.update @s1, %3                           {heddle.copy = #heddle.copy<never>}
//   %4 = call @k4(%d0, %2)      return %4           {heddle.places = [#heddle.place<result 0>]}
//
// Last pass of the pipeline: every later change of a call would invalidate lifetimes.
#pragma once

#include "compiler/ir/dialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace heddle::passes {

/// Gives each value that is made between kernels a place (`heddle.places`, one per result of a call), each entry
/// its number of slots (`heddle.slots`) and its uses of states (`heddle.uses`), each update the time when its value is
/// copied (`heddle.copy`). Values that are alive at the same time share no slot, but for a result that is written over
/// an argument (written_over.h); a value that the entry returns, or that a state becomes, is written there by its
/// kernel where that is possible.
mlir::LogicalResult plan_memory(mlir::ModuleOp module);

/// Where a value lies.
struct MemoryPlace {
  enum Kind {
    input,
    result,
    weight,
    slot,
    state,      // the old value
    next_state, // where the new value is written
    once,       // what the session keeps from the call that computed it
    iteration,  // where the next value of what the loop around carries is written
    loop,       // what a loop carries: in the one or the other of its two places, by iteration
    slice,      // a part of another value, one iteration of it
    constant,   // of the library's own data
    nothing,    // a tensor.empty that nothing is written to
  } kind;
  int64_t number = 0;                      // of the input, result, slot, state, or of what the loop carries
  mlir::StringRef weight_name = {};        // of the weight's symbol
  llvm::SmallVector<int64_t> offsets = {}; // next_state: where in it, one per axis; empty: at its start
};

/// The place of a tensor of a planned entry.
MemoryPlace place_of(mlir::Value tensor);

/// Where a planned loop (scf.for) keeps what it carries, by number: one place, in which iterations change it, or two
/// slots that change roles after each iteration.
struct LoopPlace {
  MemoryPlace place;
  int64_t second_slot = -1;
};
LoopPlace loop_place(mlir::Operation *loop, unsigned number);

/// What a planned entry does with a state.
struct StateUse {
  int64_t state; // number of it
  bool reads, updates, in_place;
  bool starts_as_old; // the next value begins as a copy of the old one, because updates leave some of it alone
};
std::vector<StateUse> state_uses(mlir::func::FuncOp entry);

/// When the value of an update is copied to its place.
ir::CopyTime copy_time(mlir::Operation *update);

/// What remains to be copied at the end of an entry: results that no kernel could write in place, because
/// they are inputs, weights, or returned twice.
struct ResultCopy {
  mlir::Value from;
  int64_t result;
};
llvm::SmallVector<ResultCopy> result_copies(mlir::func::FuncOp entry);

/// Slots of a planned entry: the values that share each.
std::vector<llvm::SmallVector<mlir::Value>> slots(mlir::func::FuncOp entry);

/// What a session keeps of a planned entry's calls that it makes once, by number.
std::vector<mlir::Value> once_values(mlir::func::FuncOp entry);

/// The dims that calls tell and that decide them: by number, ascending.
std::vector<int> once_dims(mlir::func::FuncOp entry);

} // namespace heddle::passes
