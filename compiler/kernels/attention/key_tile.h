// What the threads of a block keep of an attention in registers, and how they multiply queries with keys, and weights
// with values: by multiply-adds of f32, or on tensor cores. What is made of the products, scores and their softmax, is
// the same for both (staged_keys.cc): a thread has some rows, keys and features, and the combinations of these.
#pragma once

#include "compiler/gpu/arithmetic.h"
#include "compiler/gpu/program.h"
#include "compiler/kernels/attention/staged_keys.h"

#include <functional>
#include <memory>

namespace heddle::attention {

/// Where an element lies on the axes of the problem; null: on all places of that axis it is the same.
struct Place {
  mlir::Value row, key, feature, term;
};

/// What tiles ask of the code around them.
struct Surroundings {
  /// The loops of an op at a place.
  std::function<llvm::SmallVector<mlir::Value>(mlir::linalg::LinalgOp, const Place &)> loops;
  mlir::Value first_row, rows, first_feature, features; // of the block, and how many there are
};

class KeyTile : protected gpu::Arithmetic {
public:
  virtual ~KeyTile() = default;

  /// The places, within the block, of a thread's row, key and feature of that number.
  virtual mlir::Value row(int64_t i) = 0;
  virtual mlir::Value key(int64_t j) = 0;
  virtual mlir::Value feature(int64_t j) = 0;
  /// Bits of a thread's number in which those differ that have the same rows.
  virtual llvm::SmallVector<int32_t> across() const = 0;

  /// Before the first block of keys, which begins at `first_key`. Failure was reported.
  virtual mlir::LogicalResult begin(mlir::Value first_key, mlir::Value end_key) = 0;
  /// For the block of keys from `first_key` on: the sums of each product of scores, by row and key; none for those that
  /// are no part of the tile.
  virtual mlir::FailureOr<llvm::SmallVector<llvm::SmallVector<mlir::Value>>> scores(mlir::Value first_key) = 0;
  /// The sums, by row and feature, with the values that these weights, by row and key, give.
  virtual mlir::FailureOr<llvm::SmallVector<mlir::Value>> weighted(mlir::Value first_key, mlir::ValueRange weights,
                                                                   mlir::ValueRange sums) = 0;

  /// Results, by row and feature, when threads have exchanged them so that what they store lies together in memory, and
  /// the row and the feature of each.
  virtual llvm::SmallVector<mlir::Value> exchanged(mlir::ValueRange own) { return llvm::SmallVector<mlir::Value>(own); }
  virtual std::pair<mlir::Value, mlir::Value> exchanged_place(int64_t number) {
    return {row(number / plan.features_each), feature(number % plan.features_each)};
  }

protected:
  KeyTile(gpu::Program &program, gpu::Program::Thread &thread, const StagedKeys &plan, Surroundings around)
      : Arithmetic(thread.b, thread.loc), program(program), thread(thread), plan(plan), around(std::move(around)) {}

  mlir::Value inside(mlir::Value place, mlir::Value count) { return least(place, sub(count, index(1))); }

  gpu::Program &program;
  gpu::Program::Thread &thread;
  const StagedKeys &plan;
  const Surroundings around;
};

std::unique_ptr<KeyTile> multiply_add_keys(gpu::Program &program, gpu::Program::Thread &thread, const StagedKeys &plan,
                                           Surroundings around);
std::unique_ptr<KeyTile> tensor_core_keys(gpu::Program &program, gpu::Program::Thread &thread, const StagedKeys &plan,
                                          Surroundings around);

} // namespace heddle::attention
