// The plan of the variants `staged_keys` and `tensor_keys`: what of an attention a block of threads keeps where, in
// numbers.
#pragma once

#include "compiler/kernels/attention/match.h"
#include "compiler/kernels/attention/softmax.h"
#include "compiler/kernels/kinds.h"

namespace heddle::attention {

/// Threads of a block along rows, and as many along keys or features.
inline constexpr int64_t side = 16;

/// Keys have numbers. Where they slide along with the rows, row i with key j of its window is number i + step * j:
/// lines of keys and values depend on the number alone, and of a block's numbers a row has those of its window.
struct StagedKeys {
  /// A product of scores.
  struct Scores {
    mlir::linalg::LinalgOp op;
    int64_t terms;       // -1: a run-time size
    bool staged = false; // or else each score is a sum of its own, whose terms come from memory
    contraction::Factor queries = {}, keys = {};
    int queries_of = -1; // an earlier product whose queries are the same
  };

  Match match;
  Softmax softmax;
  mlir::Value score;                  // the tensor of what is exponentiated
  llvm::SmallVector<Scores> products; // in the kernel's order
  contraction::Factor weights, values;
  mlir::AffineExpr rows, keys, features;
  llvm::SmallVector<std::pair<Role, mlir::AffineExpr>> others; // axes of the result and their extents
  int64_t rows_each, keys_each, features_each;                 // of a thread
  int64_t splits = 1;                                          // of the keys, of a block each
  int64_t warps = 0; // on tensor cores, each with 16 rows, of which a thread has one key of four, and one feature

  /// What a thread has of its rows: of each its largest score, sums and weighted values.
  int64_t numbers_of_thread() const { return rows_each * (int64_t(softmax.sums.size()) + features_each); }
  int64_t threads() const { return warps > 0 ? 32 * warps : side * side; }
  int64_t block_rows() const { return warps > 0 ? 16 * warps : side * rows_each; }
  int64_t block_keys() const { return (warps > 0 ? 4 : side) * keys_each; }
  int64_t block_features() const { return (warps > 0 ? 4 : side) * features_each; }
  // Numbers in shared memory from one line to the next, by which threads of a warp reach different banks.
  int64_t row_pitch() const { return block_rows() + 2; }
  int64_t key_pitch() const { return block_keys() + 2; }
  /// Terms of a product in shared memory.
  static int64_t lines(const Scores &scores) { return (scores.terms + side - 1) / side * side; }
  int64_t feature_pitch() const { return block_features() + (features_each % 2 == 0 ? side : 0); }
};

/// For so many rows of a block, or why the kernel is none.
Result<StagedKeys> staged_keys_plan(mlir::func::FuncOp kernel, int64_t rows, const Gpu &gpu);
Result<StagedKeys> tensor_keys_plan(mlir::func::FuncOp kernel, int64_t rows, const Gpu &gpu);

mlir::LogicalResult write_staged_keys(gpu::Program &program, const StagedKeys &plan);

} // namespace heddle::attention
