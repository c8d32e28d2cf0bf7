// What the threads of a block keep of an attention in registers, and how they multiply queries with keys, and weights
// with values: by multiply-adds of f32, or on tensor cores. What is made of the products, scores and their softmax, is
// the same for both (staged_keys.cc): a thread has some rows, keys and features, and the combinations of these.
#pragma once

#include "compiler/gpu/arithmetic.h"
#include "compiler/gpu/program.h"
#include "compiler/kernels/attention/key_ranges.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

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

  /// Before the first block of keys, which begins at `first_key`. `read`: for which keys each product of scores is
  /// read; empty: for all. Failure was reported.
  virtual mlir::LogicalResult begin(mlir::Value first_key, mlir::Value end_key, llvm::ArrayRef<KeyRange> read) = 0;
  /// For the block of keys from `first_key` on: the sums of each product of scores, by row and key, anything where it
  /// isn't read; none for those that are no part of the tile.
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
  /// The key, or the nearest one of a range.
  mlir::Value inside(mlir::Value key, KeyRange range) {
    if (range.end)
      key = inside(key, range.end);
    return range.first ? greatest(key, range.first) : key;
  }
  /// Whether a block of keys from `first` on has some of a range; null: yes.
  mlir::Value has_some(mlir::Value first, KeyRange range) {
    mlir::Value before = range.end ? before_end(first, range.end) : mlir::Value();
    mlir::Value behind = range.first ? before_end(range.first, add(first, index(plan.block_keys()))) : mlir::Value();
    return before && behind ? both(before, behind) : before ? before : behind;
  }
  /// Where the condition, the same for the block, holds, what `write` makes, zeros elsewhere; null: it holds.
  mlir::FailureOr<llvm::SmallVector<mlir::Value>>
  where(mlir::Value condition, int64_t count,
        llvm::function_ref<mlir::FailureOr<llvm::SmallVector<mlir::Value>>()> write) {
    if (!condition)
      return write();
    llvm::SmallVector<mlir::Type> types(count, b.getF32Type());
    auto choice = mlir::scf::IfOp::create(b, loc, types, condition, /*withElseRegion=*/count > 0);
    mlir::OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(choice.thenBlock());
    auto made = write();
    if (failed(made) || count == 0)
      return made;
    mlir::scf::YieldOp::create(b, loc, *made);
    b.setInsertionPointToStart(choice.elseBlock());
    mlir::scf::YieldOp::create(b, loc, llvm::SmallVector<mlir::Value>(count, real(0)));
    return llvm::SmallVector<mlir::Value>(choice.getResults());
  }

  gpu::Program &program;
  gpu::Program::Thread &thread;
  const StagedKeys &plan;
  const Surroundings around;

private:
  mlir::Value before_end(mlir::Value p, mlir::Value q) {
    return mlir::arith::CmpIOp::create(b, loc, mlir::arith::CmpIPredicate::slt, p, q);
  }
};

std::unique_ptr<KeyTile> multiply_add_keys(gpu::Program &program, gpu::Program::Thread &thread, const StagedKeys &plan,
                                           Surroundings around);
std::unique_ptr<KeyTile> tensor_core_keys(gpu::Program &program, gpu::Program::Thread &thread, const StagedKeys &plan,
                                          Surroundings around);

} // namespace heddle::attention
