// A kernel for a GPU: what is launched, one launch after the other, and the code of each as MLIR. A variant (compiler/
// kernels) writes it through `Program`; compiler/emit/device makes PTX of the code, compiler/emit/host calls launches.
#pragma once

#include "compiler/gpu/elements.h"
#include "dsl/errors/result.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <string>
#include <vector>

namespace heddle::gpu {

/// A tensor that a kernel keeps between its launches, in scratch memory of the device.
struct Kept {
  llvm::SmallVector<mlir::AffineExpr> extents; // over the kernel's sizes
  int64_t element_bytes;
};

/// Items of which each block takes some: the product of extents over the kernel's sizes.
struct Dealt {
  llvm::SmallVector<mlir::AffineExpr> extents;
  int64_t each = 1; // of a block
};

/// One launch. All launches of a kernel have the same parameters: sizes (i32), scalars (an i1 as a byte), the addresses
/// of arguments, of results, and of scratch memory.
struct Launch {
  std::string symbol;
  llvm::SmallVector<Dealt> items; // there is a block for each combination; of none nothing is launched
  int64_t threads;                // of a block
};

/// What a launch takes beside its work, for the costs of variants.
inline constexpr double launch_seconds = 5e-6;

/// Bytes at whose multiples kept tensors begin.
inline constexpr int64_t kept_alignment = 256;

class Program {
public:
  /// For the row called `symbol` of a kernel's schedule.
  Program(mlir::func::FuncOp kernel, std::string symbol);

  /// Gives a tensor room in scratch memory; what is returned lies in memory already. Failure was reported.
  mlir::LogicalResult keep(mlir::Value tensor);
  bool is_kept(mlir::Value tensor) const { return places_.contains(tensor); }

  /// The code of a thread of a launch.
  struct Thread {
    mlir::OpBuilder &b;
    mlir::Location loc;
    Elements &elements;
    mlir::Value block, number; // of the block in the grid, and of the thread in the block: index values
  };
  /// Adds a launch, whose code `write` makes; where it fails it has reported why.
  mlir::LogicalResult launch(llvm::ArrayRef<Dealt> items, int64_t threads,
                             llvm::function_ref<mlir::LogicalResult(Thread &)> write);

  /// Shared memory of the block for so many elements of a type, each of which is reached by its number.
  mlir::Value shared(Thread &thread, int64_t count, mlir::Type element);
  mlir::Value shared_address(Thread &thread, mlir::Value shared, mlir::Value number, mlir::Type element);
  mlir::Value load_shared(Thread &thread, mlir::Value shared, mlir::Value number, mlir::Type element);
  void store_shared(Thread &thread, mlir::Value shared, mlir::Value number, mlir::Value element);
  /// Waits for all threads of the block; of the warp.
  void barrier(Thread &thread);
  void barrier_of_warp(Thread &thread);
  /// What the thread of the warp has whose number differs from this one's in these bits.
  mlir::Value exchanged(Thread &thread, mlir::Value value, int32_t bits);

  /// Exchanges values among lanes whose numbers differ in these bits (two values for one bit, four for two, and so on,
  /// one group of so many behind the other): a lane then has, of all of these lanes, the value of the number that its
  /// own bits make, in the order of the numbers that theirs make.
  llvm::SmallVector<mlir::Value> transposed(Thread &thread, mlir::ValueRange values, llvm::ArrayRef<int32_t> bits);

  mlir::func::FuncOp kernel() const { return kernel_; }
  mlir::ModuleOp code() { return *module_; }
  const std::vector<Launch> &launches() const { return launches_; }
  const std::vector<Kept> &kept() const { return kept_; }

private:
  struct Place {
    unsigned parameter; // a tensor's address
    int64_t kept = -1;  // or else the number of what is kept
  };
  mlir::LogicalResult define_tensors(Thread &thread, mlir::Block &parameters);

  mlir::func::FuncOp kernel_;
  std::string symbol_;
  mlir::OwningOpRef<mlir::ModuleOp> module_;
  std::vector<Launch> launches_;
  int64_t shared_ = 0; // arrays so far
  std::vector<Kept> kept_;
  std::vector<mlir::Value> kept_tensors_;
  llvm::DenseMap<mlir::Value, Place> places_;
};

/// The index values that `item` stands for in a nest of loops of these extents, outermost first.
llvm::SmallVector<mlir::Value> digits(Program::Thread &thread, mlir::Value item, mlir::ValueRange extents);

} // namespace heddle::gpu
