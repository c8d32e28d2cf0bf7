// The ops of a block, what each of them needs, and which of them are together so far. The rule by which they come
// together is in clusters.cc.
#pragma once

#include "compiler/passes/form_kernels.h"
#include "compiler/passes/loop_classes.h"

namespace heddle::passes {

/// An op has the number of its place in program order; a cluster that of its lowest member.
class Partition {
public:
  using Members = llvm::SmallVector<int>; // numbers of ops, ascending

  /// Each op by itself.
  explicit Partition(mlir::Block &block);
  void join(const Members &members);
  /// Clusters, and what stands between them, in an order in which they can be done.
  std::vector<BlockItem> in_order() const;

protected:
  mlir::linalg::LinalgOp op(int number) const { return ops_[number]; }
  llvm::SmallVector<mlir::linalg::LinalgOp> ops_of(const Members &members) const;
  /// The op that makes a value; -1 where none does.
  int producer(mlir::Value value) const {
    mlir::Operation *op = value.getDefiningOp();
    auto found = op ? number_.find(op) : number_.end();
    return found == number_.end() ? -1 : found->second;
  }
  /// The members of the clusters of two ops.
  Members joined(int a, int b) const;
  bool used_outside(int op, const Members &members) const;
  bool reads_in_body(const Members &readers, const Members &read) const;
  bool makes_cycle(const Members &members) const;
  bool has(const Members &members, Work work) const {
    return llvm::any_of(members, [&](int m) { return work_[m] == work; });
  }

  std::vector<mlir::linalg::LinalgOp> ops_;
  llvm::DenseMap<mlir::Operation *, int> number_;
  std::vector<Work> work_;
  std::vector<llvm::SmallVector<Read>> reads_;
  std::vector<llvm::SmallVector<int>> producers_, consumers_; // by number of op, ascending
  std::vector<int> cluster_;                                  // of each op: its lowest member
  std::vector<Members> members_;                              // by lowest member

private:
  void find_others(mlir::Block &block);

  /// What stands between kernels and needs what they compute: loops, slices, scalars, updates, requirements.
  struct Other {
    mlir::Operation *op;
    llvm::SmallVector<int> producers; // ops it needs
    llvm::SmallVector<int> others;    // numbers of others that it needs, or that must come first
  };
  std::vector<Other> others_;
  std::vector<llvm::SmallVector<int>> other_producers_; // by number of op: others that it needs
  std::vector<llvm::SmallVector<int>> around_;          // by number of op: ops that need it through others only
};

} // namespace heddle::passes
