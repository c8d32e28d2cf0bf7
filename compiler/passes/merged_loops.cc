// See merged_loops.h.
#include "compiler/passes/merged_loops.h"

#include "compiler/ir/shapes.h"

namespace heddle::passes {

using namespace mlir;
using linalg::LinalgOp;

SmallVector<LinalgOp> MergedLoops::ops_of(func::FuncOp kernel) {
  SmallVector<LinalgOp> out;
  kernel.walk([&](LinalgOp op) { out.push_back(op); });
  return out;
}

MergedLoops::MergedLoops(func::FuncOp kernel, ArrayRef<SizeRange> sizes)
    : ops_(ops_of(kernel)), classes_(ops_, [](Value) { return true; }), frozen_(classes_.size()),
      dropped_(classes_.size()), asked_(classes_.size()), single_(classes_.size()), follower_(classes_.size(), -1) {
  DenseSet<Value> seen;
  for (LinalgOp op : ops_) {
    for (Value operand : op->getOperands())
      if (knows(operand) && seen.insert(operand).second)
        tensors_.push_back(operand);
    for (Value result : op->getResults())
      if (seen.insert(result).second)
        tensors_.push_back(result);
  }
  freeze();
  find_single(sizes);
  drop_units();
  find_followers();
  keep_numbers();
  changes_ |= llvm::any_of(follower_, [](int c) { return c >= 0; });
}

void MergedLoops::freeze() {
  auto freeze_duplicates = [&](ArrayRef<unsigned> classes) {
    DenseSet<unsigned> seen;
    for (unsigned c : classes)
      if (!seen.insert(c).second)
        frozen_.set(c);
  };
  for (LinalgOp op : ops_) {
    SmallVector<unsigned> loops;
    for (unsigned i = 0; i < op.getNumLoops(); ++i)
      loops.push_back(classes_.of_loop(op, i));
    freeze_duplicates(loops);
    op.getBlock()->walk([&](linalg::IndexOp index) { asked_.set(loops[index.getDim()]); });
    for (OpOperand &operand : op->getOpOperands())
      if (knows(operand.get()))
        for (auto [axis, expr] : llvm::enumerate(op.getMatchingIndexingMap(&operand).getResults()))
          if (!isa<AffineDimExpr>(expr)) { // not of our making; leave all of it alone
            frozen_.set(classes_.of_axis(operand.get(), axis));
            for (unsigned c : loops)
              frozen_.set(c);
          }
  }
  for (Value tensor : tensors_) {
    SmallVector<unsigned> axes;
    for (unsigned i = 0; i < cast<RankedTensorType>(tensor.getType()).getRank(); ++i)
      axes.push_back(classes_.of_axis(tensor, i));
    freeze_duplicates(axes);
    bool opaque = llvm::any_of(tensor.getUsers(), [](Operation *user) { return !isa<LinalgOp, func::ReturnOp>(user); });
    Operation *source = tensor.getDefiningOp();
    opaque |= source && !isa<LinalgOp, tensor::EmptyOp>(source);
    if (opaque)
      for (unsigned c : axes)
        frozen_.set(c);
  }
}

void MergedLoops::find_single(ArrayRef<SizeRange> sizes) {
  for (Value tensor : tensors_)
    if (auto extents = ir::extent_formulas(tensor); succeeded(extents))
      for (auto [axis, extent] : llvm::enumerate(*extents))
        if (range_of(extent, sizes, sizes.size()).most <= 1)
          single_.set(classes_.of_axis(tensor, axis));
}

/// Parallel loops of one iteration; a reduction over one element keeps its loop, which tells that it is one.
void MergedLoops::drop_units() {
  llvm::SmallBitVector unit(classes_.size());
  for (Value tensor : tensors_)
    for (auto [axis, extent] : llvm::enumerate(cast<RankedTensorType>(tensor.getType()).getShape()))
      if (extent == 1)
        unit.set(classes_.of_axis(tensor, axis));
  for (LinalgOp op : ops_)
    for (auto [loop, type] : llvm::enumerate(op.getIteratorTypesArray()))
      if (type != utils::IteratorType::parallel)
        unit.reset(classes_.of_loop(op, loop));
  unit.reset(frozen_);
  unit.reset(asked_);
  dropped_ = unit;
  changes_ |= unit.any();
}

SmallVector<unsigned> MergedLoops::kept_axes(Value tensor) const {
  SmallVector<unsigned> out;
  for (unsigned i = 0; i < cast<RankedTensorType>(tensor.getType()).getRank(); ++i)
    if (unsigned c = classes_.of_axis(tensor, i); !dropped_.test(c))
      out.push_back(c);
  return out;
}

void MergedLoops::find_followers() {
  int n = classes_.size();
  constexpr int unknown = -2, none = -1;
  SmallVector<int> next(n, unknown), before(n, unknown);
  auto agree = [&](int &known, int now) { known = known == unknown || known == now ? now : none; };
  for (Value tensor : tensors_) {
    auto axes = kept_axes(tensor);
    for (size_t i = 0; i < axes.size(); ++i) {
      agree(next[axes[i]], i + 1 < axes.size() ? int(axes[i + 1]) : none);
      agree(before[axes[i]], i ? int(axes[i - 1]) : none);
    }
  }
  for (int a = 0; a < n; ++a) {
    int b = next[a];
    if (b < 0 || before[b] != a || frozen_.test(a) || frozen_.test(b))
      continue;
    if ((asked_.test(a) || asked_.test(b)) && !single_.test(a) && !single_.test(b))
      continue;
    bool together = llvm::all_of(ops_, [&](LinalgOp op) {
      std::optional<utils::IteratorType> type_a, type_b;
      for (auto [loop, type] : llvm::enumerate(op.getIteratorTypesArray())) {
        if (classes_.of_loop(op, loop) == unsigned(a))
          type_a = type;
        if (classes_.of_loop(op, loop) == unsigned(b))
          type_b = type;
      }
      return type_a == type_b;
    });
    if (together)
      follower_[a] = b;
  }
}

/// The number of a merged loop is that of its only member with more than one iteration. Where several have more, those
/// that are asked for theirs stay as they are.
void MergedLoops::keep_numbers() {
  llvm::SmallBitVector follows(classes_.size());
  for (int c : follower_)
    if (c >= 0)
      follows.set(c);
  for (int first = 0; first < int(classes_.size()); ++first) {
    if (follows.test(first))
      continue;
    SmallVector<int> chain;
    for (int c = first; c >= 0; c = follower_[c])
      chain.push_back(c);
    if (llvm::none_of(chain, [&](int c) { return asked_.test(c); }) ||
        llvm::count_if(chain, [&](int c) { return !single_.test(c); }) <= 1)
      continue;
    for (int c : ArrayRef(chain).drop_back())
      if (asked_.test(c) || asked_.test(follower_[c]))
        follower_[c] = -1;
  }
}

SmallVector<ReassociationIndices> MergedLoops::groups_of(Value tensor) const {
  SmallVector<ReassociationIndices> out;
  ReassociationIndices leading; // dropped axes before the first kept one
  int last = -1;
  for (int i = 0; i < cast<RankedTensorType>(tensor.getType()).getRank(); ++i) {
    unsigned c = classes_.of_axis(tensor, i);
    if (dropped_.test(c)) {
      (out.empty() ? leading : out.back()).push_back(i);
      continue;
    }
    if (last >= 0 && follower_[last] == int(c)) {
      out.back().push_back(i);
    } else {
      out.push_back(out.empty() ? leading : ReassociationIndices());
      out.back().push_back(i);
    }
    last = c;
  }
  return out;
}

SmallVector<SmallVector<unsigned>> MergedLoops::groups_of(LinalgOp op) const {
  DenseMap<int, unsigned> loop_of;
  llvm::SmallBitVector follows(classes_.size());
  for (unsigned i = 0; i < op.getNumLoops(); ++i)
    loop_of[classes_.of_loop(op, i)] = i;
  for (auto [c, loop] : loop_of)
    if (follower_[c] >= 0)
      follows.set(follower_[c]);
  SmallVector<SmallVector<unsigned>> out;
  for (unsigned i = 0; i < op.getNumLoops(); ++i) {
    int c = classes_.of_loop(op, i);
    if (dropped_.test(c) || follows.test(c))
      continue;
    out.push_back({i}); // not by its class: two loops that read one tensor along the same axis are one class
    while ((c = follower_[c]) >= 0)
      out.back().push_back(loop_of.lookup(c));
  }
  return out;
}

} // namespace heddle::passes
