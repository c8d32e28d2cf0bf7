#include "compiler/passes/partition.h"

#include "compiler/ir/dialect.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/SetVector.h"

namespace heddle::passes {

using namespace mlir;
using linalg::LinalgOp;

Partition::Partition(Block &block) {
  for (LinalgOp op : block.getOps<LinalgOp>())
    if (!isa<linalg::FillOp>(op.getOperation())) { // goes with its reader
      number_[op] = ops_.size();
      ops_.push_back(op);
    }
  producers_.resize(ops_.size());
  consumers_.resize(ops_.size());
  for (auto [i, op] : llvm::enumerate(ops_)) {
    work_.push_back(work_of(op));
    reads_.push_back(reads_of(op));
    cluster_.push_back(i);
    members_.push_back({int(i)});
    llvm::SmallSetVector<int, 4> from;
    for (const Read &read : reads_.back())
      if (int p = producer(read.tensor); p >= 0)
        from.insert(p);
    for (OpOperand *out : llvm::make_pointer_range(op.getDpsInitsMutable()))
      if (int p = producer(out->get()); p >= 0)
        from.insert(p);
    producers_[i] = from.takeVector();
    llvm::sort(producers_[i]);
    for (int p : producers_[i])
      consumers_[p].push_back(i);
  }
  find_others(block);
}

/// Whether an op does harm where a requirement before it doesn't hold: its reads were proven to be inside under it. But
/// a single number is always there, and what is required of it is tested first: only then are states written over.
static bool relies_on_requirements(Operation &op) {
  auto has_places = [](Type t) { return isa<RankedTensorType>(t) && cast<RankedTensorType>(t).getRank() > 0; };
  return (llvm::any_of(op.getOperandTypes(), has_places) && !isa<tensor::DimOp>(op)) || isa<scf::ForOp>(op) ||
         (!isPure(&op) && !isa<ir::RequireOp>(op));
}

void Partition::find_others(Block &block) {
  other_producers_.resize(ops_.size());
  around_.resize(ops_.size());
  DenseMap<Operation *, int> other_number;
  int last_effect = -1, last_requirement = -1;
  for (Operation &op : block.without_terminator()) {
    if (number_.contains(&op)) {
      int number = number_[&op];
      if (last_requirement >= 0)
        other_producers_[number].push_back(last_requirement);
      for (Value value : needs_of(&op))
        if (auto found = other_number.find(value.getDefiningOp()); found != other_number.end())
          other_producers_[number].push_back(found->second);
      continue;
    }
    Other other{&op, {}, {}};
    for (Value value : needs_of(&op))
      if (int p = producer(value); p >= 0)
        other.producers.push_back(p);
      else if (auto found = other_number.find(value.getDefiningOp()); found != other_number.end())
        other.others.push_back(found->second);
    if (last_requirement >= 0 && relies_on_requirements(op))
      other.others.push_back(last_requirement);
    if (other.producers.empty() && other.others.empty() && !isa<scf::ForOp>(op))
      continue;         // stays in front
    if (!isPure(&op)) { // effects keep their order
      if (last_effect >= 0)
        other.others.push_back(last_effect);
      last_effect = others_.size();
      last_requirement = ir::may_end_call(&op) ? last_effect : last_requirement;
    }
    other_number[&op] = others_.size();
    others_.push_back(std::move(other));
  }
  // What each op leads to through others.
  std::vector<llvm::SmallBitVector> before(others_.size(), llvm::SmallBitVector(ops_.size()));
  for (size_t i = 0; i < others_.size(); ++i) {
    for (int p : others_[i].producers)
      before[i].set(p);
    for (int o : others_[i].others)
      before[i] |= before[o];
  }
  for (size_t i = 0; i < ops_.size(); ++i)
    for (int o : other_producers_[i])
      for (unsigned p : before[o].set_bits())
        around_[p].push_back(i);
}

Partition::Members Partition::joined(int a, int b) const {
  Members out(members_[cluster_[a]]);
  if (cluster_[a] != cluster_[b])
    out.append(members_[cluster_[b]]);
  llvm::sort(out);
  return out;
}

void Partition::join(const Members &members) {
  Members all;
  for (int m : members)
    if (!llvm::is_contained(all, m))
      for (int other : members_[cluster_[m]])
        if (!llvm::is_contained(all, other))
          all.push_back(other);
  llvm::sort(all);
  for (int m : all)
    cluster_[m] = all.front();
  members_[all.front()] = all;
}

SmallVector<LinalgOp> Partition::ops_of(const Members &members) const {
  return llvm::map_to_vector(members, [&](int m) { return ops_[m]; });
}

bool Partition::used_outside(int op, const Members &members) const {
  for (Operation *user : ops_[op]->getUsers()) {
    while (user && !number_.contains(user) && user->getBlock() != ops_[op]->getBlock())
      user = user->getParentOp(); // a tensor.extract in a body
    auto found = number_.find(user);
    if (found == number_.end() || !llvm::is_contained(members, found->second))
      return true;
  }
  return false;
}

bool Partition::reads_in_body(const Members &readers, const Members &read) const {
  for (int reader : readers)
    for (const Read &r : reads_[reader])
      if (!r.is_operand && llvm::is_contained(read, producer(r.tensor)))
        return true;
  return false;
}

/// Whether some path leaves the members and comes back.
bool Partition::makes_cycle(const Members &members) const {
  llvm::SmallBitVector inside(ops_.size()), seen(ops_.size());
  for (int m : members)
    inside.set(m);
  SmallVector<int> work;
  auto returns = [&](int op) { return llvm::any_of(around_[op], [&](int c) { return inside.test(c); }); };
  auto enter = [&](int op) { // an op outside drags its whole cluster along
    for (int m : members_[cluster_[op]])
      if (!seen.test(m)) {
        seen.set(m);
        work.push_back(m);
      }
  };
  for (int m : members) {
    if (returns(m))
      return true;
    for (int c : llvm::concat<const int>(consumers_[m], around_[m]))
      if (!inside.test(c))
        enter(c);
  }
  while (!work.empty()) {
    int op = work.pop_back_val();
    if (returns(op))
      return true;
    for (int c : llvm::concat<const int>(consumers_[op], around_[op])) {
      if (inside.test(c))
        return true;
      if (!seen.test(c))
        enter(c);
    }
  }
  return false;
}

std::vector<BlockItem> Partition::in_order() const {
  std::vector<BlockItem> out;
  llvm::SmallBitVector done(ops_.size()), others_done(others_.size());
  auto is_done = [&](int o) { return others_done.test(o); };
  for (bool progress = true; progress;) {
    progress = false;
    for (int c = 0; c < int(ops_.size()); ++c) {
      if (cluster_[c] != c || done.test(c))
        continue;
      bool ready = llvm::all_of(members_[c], [&](int m) {
        return llvm::all_of(producers_[m], [&](int p) { return cluster_[p] == c || done.test(cluster_[p]); }) &&
               llvm::all_of(other_producers_[m], is_done);
      });
      if (!ready)
        continue;
      done.set(c);
      out.push_back({ops_of(members_[c]), nullptr});
      progress = true;
      c = -1; // what stands before it, and had to wait for it, comes before what stands behind it
    }
    for (auto [i, other] : llvm::enumerate(others_)) {
      bool ready = llvm::all_of(other.producers, [&](int p) { return done.test(cluster_[p]); }) &&
                   llvm::all_of(other.others, is_done);
      if (!ready || others_done.test(i))
        continue;
      others_done.set(i);
      out.push_back({{}, other.op});
      progress = true;
    }
  }
  return out;
}

} // namespace heddle::passes
