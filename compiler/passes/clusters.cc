// The fusion rule: a producer joins its consumer while every member can be computed for one block of the consumer's
// outer (row) loops without computing a contraction twice.
//
// Rows of a cluster are the loops that every member has as a parallel loop. From that follow:
//   - element-wise chains and row reductions with their element-wise neighbours are one cluster (a norm, a softmax), as
//     long as a row fits a core's cache: a larger one is read from memory again anyway, and by all threads if by
//     itself;
//   - an element-wise op over exactly the elements of a contraction is its epilogue (bias, activation, residual);
//   - two contractions share a cluster only where what lies between is not worth storing: passing it through memory
//     moves more elements than reading the second contraction's other operand again for every block of rows. That
//     operand must not be a weight: weights are large, and packed for kernels that read them once. And lanes must run
//     along an axis of that operand, as in attention's kernels. So attention is one cluster, whatever its scores are
//     made of, and two dense layers are two.
// A reduction over a contraction's row (a norm after a product) stays a cluster of its own. So does a sum whose terms
// go to places that numbers name, with what follows it element by element. Long chains, such as the iterations of a
// root finder on each row, are cut where Halide would take long to lower them.
#include "compiler/ir/parameters.h"
#include "compiler/ir/shapes.h"
#include "compiler/kernels/product/product.h"
#include "compiler/passes/partition.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SetOperations.h"
#include "llvm/ADT/SetVector.h"

namespace heddle::passes {

using namespace mlir;
using linalg::LinalgOp;

namespace {
/// Rows that a contraction computes at a time: only for the comparison of what is stored with what is read again.
constexpr int64_t row_block = 48;
/// Elements of a row that a core still keeps between a reduction over it and what reads it again.
constexpr int64_t longest_row = 1 << 19;

/// What Halide lowers in a few seconds. Which stages a place needs it works out along each way from a stage to the
/// results, twice for each reduction on it; kernels of a network have 40 ways at most. And all its passes take four
/// times as long for twice as many stages.
constexpr int64_t most_ways = 128, most_ops = 64;

class Clusters : public Partition {
public:
  Clusters(Block &block, const Target &target) : Partition(block), target_(target) {}
  void join_together();
  void join_contractions();
  void join_neighbours();

private:
  /// The classes that are rows of these members; nullopt where some op would use one of them twice.
  std::optional<DenseSet<unsigned>> rows_of(ArrayRef<LinalgOp> ops, const LoopClasses &classes) const;
  LoopClasses classes_of(ArrayRef<LinalgOp> ops) const;
  bool is_small(const Members &members) const;
  bool shares_rows(const Members &members) const;
  bool keeps_rows(const Members &members) const;
  bool is_epilogue(const Members &producer, const Members &consumer) const;
  bool keeps_lanes(const Members &producer, const Members &consumer) const;
  bool follows_contraction(int producer, int consumer) const;
  bool may_join(int producer, int consumer) const;
  bool has_lanes_beside(int last, const Members &members) const;
  bool not_worth_storing(int last, const Members &members) const;
  int64_t elements(Value tensor) const;
  int64_t iterations(int op, unsigned loop) const;
  bool reads_weight(int op) const {
    return llvm::any_of(reads_[op], [](const Read &read) { return ir::is_parameter(read.tensor); });
  }

  const Target &target_;
};

bool Clusters::is_small(const Members &members) const {
  if (members.size() > most_ops)
    return false;
  if (!has(members, Work::reduction) && llvm::count_if(members, [&](int m) { return used_outside(m, members); }) == 1)
    return true;               // ops are written into one another
  DenseMap<int, int64_t> ways; // by member: to results
  for (int m : llvm::reverse(members)) {
    int64_t &own = ways[m] = used_outside(m, members);
    for (int c : consumers_[m])
      own += ways.lookup(c) * (work_[c] == Work::reduction ? 2 : 1);
    if (own > most_ways)
      return false;
  }
  return true;
}

LoopClasses Clusters::classes_of(ArrayRef<LinalgOp> ops) const {
  DenseSet<Operation *> inside;
  for (LinalgOp op : ops)
    inside.insert(op);
  return LoopClasses(ops, [&](Value value) { return inside.contains(value.getDefiningOp()); });
}

std::optional<DenseSet<unsigned>> Clusters::rows_of(ArrayRef<LinalgOp> ops, const LoopClasses &classes) const {
  DenseSet<unsigned> rows;
  for (size_t i = 0; i < ops.size(); ++i) {
    LinalgOp op = ops[i];
    DenseSet<unsigned> parallel, all;
    for (auto [loop, type] : llvm::enumerate(op.getIteratorTypesArray())) {
      unsigned c = classes.of_loop(op, loop);
      if (!all.insert(c).second)
        return std::nullopt;
      if (type == utils::IteratorType::parallel)
        parallel.insert(c);
    }
    if (i == 0)
      rows = parallel;
    else
      llvm::set_intersect(rows, parallel);
  }
  return rows;
}

/// Every member has the rows, each result's outermost loop is one of them, and all results have them in one order: a
/// block of rows is then a block of every result.
bool Clusters::shares_rows(const Members &members) const {
  auto ops = ops_of(members);
  LoopClasses classes = classes_of(ops);
  auto rows = rows_of(ops, classes);
  if (!rows)
    return false;
  std::optional<SmallVector<unsigned>> order;
  for (int m : members) {
    if (op(m).getNumParallelLoops() == 0 || !used_outside(m, members))
      continue;
    SmallVector<unsigned> order_here;
    for (unsigned loop = 0; loop < op(m).getNumLoops(); ++loop)
      if (unsigned c = classes.of_loop(op(m), loop); rows->contains(c))
        order_here.push_back(c);
    if (!rows->contains(classes.of_loop(op(m), 0)) || (order && *order != order_here))
      return false;
    order = order_here;
  }
  return true;
}

/// Whether element-wise consumers range over exactly the elements of the producers' contraction, and write them as
/// fast.
bool Clusters::is_epilogue(const Members &producer, const Members &consumer) const {
  Members all(producer);
  all.append(consumer);
  llvm::sort(all);
  auto ops = ops_of(all);
  LoopClasses classes = classes_of(ops);
  auto rows = rows_of(ops, classes);
  return rows && llvm::all_of(all, [&](int m) { return op(m).getNumParallelLoops() == rows->size(); }) &&
         keeps_lanes(producer, consumer);
}

/// Whether lanes can still run along what the kernel writes. A product in which they can, as one factor alone has its
/// last axis, is not written by what has another axis last that both have.
bool Clusters::keeps_lanes(const Members &producer, const Members &consumer) const {
  auto found = llvm::find_if(producer, [&](int m) { return work_[m] == Work::reuse; });
  auto product = found == producer.end() ? std::nullopt : contraction::product_of(op(*found));
  if (!product)
    return true;
  Members all(producer);
  all.append(consumer);
  llvm::sort(all);
  LoopClasses classes = classes_of(ops_of(all));
  auto has_lanes = [&](int m) { // along the last axis of the op's result
    AffineMap map = op(m).getMatchingIndexingMap(op(m).getDpsInitOperand(0));
    AffineExpr back = map.getNumResults() ? map.getResults().back() : AffineExpr();
    auto last = dyn_cast_if_present<AffineDimExpr>(back);
    for (unsigned loop = 0; last && loop < op(*found).getNumLoops(); ++loop)
      if (classes.of_loop(op(*found), loop) == classes.of_loop(op(m), last.getPosition()))
        return product->left.loops.test(loop) != product->right.loops.test(loop);
    return true;
  };
  return !has_lanes(*found) || llvm::all_of(consumer, [&](int m) { return !used_outside(m, all) || has_lanes(m); });
}

/// Whether an op does nothing but round its operand, at the same place.
static bool is_rounding(LinalgOp op) {
  auto rounding = op.getBlock()->getTerminator()->getOperand(0).getDefiningOp<arith::TruncFOp>();
  return rounding && op.getNumDpsInits() == 1 && op.getNumDpsInputs() == 1 &&
         rounding.getIn() == op.getBlock()->getArgument(0) &&
         llvm::all_of(op.getIndexingMapsArray(), [](AffineMap map) { return map.isIdentity(); });
}

/// Whether all that a cluster of several products passes on to an element-wise consumer is the result of its last
/// product, element by element: such as attention, whose result is rounded.
bool Clusters::follows_contraction(int producer, int consumer) const {
  const Members &from = members_[cluster_[producer]], &to = members_[cluster_[consumer]];
  if (work_[producer] != Work::reuse || has(to, Work::reuse) || has(to, Work::reduction))
    return false;
  Members all = joined(producer, consumer);
  bool only_producer = llvm::all_of(to, [&](int m) {
    return llvm::all_of(producers_[m], [&](int p) { return p == producer || !llvm::is_contained(from, p); });
  });
  return only_producer && llvm::none_of(from, [&](int m) { return used_outside(m, all); }) &&
         is_epilogue({producer}, to);
}

bool Clusters::may_join(int producer, int consumer) const {
  const Members &from = members_[cluster_[producer]], &to = members_[cluster_[consumer]];
  if (reads_in_body(to, from))
    return false;
  bool from_reuse = has(from, Work::reuse), to_reuse = has(to, Work::reuse);
  if (from_reuse && to_reuse)
    return false;
  Members all = joined(producer, consumer);
  if (!is_small(all))
    return false;
  if (has(all, Work::scatter))
    return work_[consumer] != Work::scatter && !has(all, Work::reduction) && !from_reuse && !to_reuse &&
           is_epilogue(from, to) && !makes_cycle(all);
  if (from_reuse || to_reuse) {
    if (follows_contraction(producer, consumer))
      return !makes_cycle(all);
    if (has(all, Work::reduction) || llvm::count_if(all, [&](int m) { return work_[m] == Work::reuse; }) > 1)
      return false;
    // What comes before a contraction would be computed again for every block of its columns.
    if (work_[consumer] == Work::reuse)
      return false;
    // A kernel with a product has one result, perhaps rounded to a narrower type beside: one loop nest writes both.
    bool rounds = to.size() == 1 && is_rounding(ops_[to[0]]);
    if (llvm::any_of(from, [&](int m) { return used_outside(m, all) && !(rounds && m == producer); }))
      return false;
    return is_epilogue(from, to) && !makes_cycle(all);
  }
  return shares_rows(all) && keeps_rows(all) && !makes_cycle(all);
}

/// A size, with `typical_size` for each that only the run knows: a memory of 3800 and a segment are 3800 + 512.
static int64_t typical(Value size) {
  IntegerAttr constant;
  if (matchPattern(size, m_Constant(&constant)))
    return constant.getInt();
  auto apply = size.getDefiningOp<affine::AffineApplyOp>();
  if (!apply)
    return typical_size;
  SmallVector<Attribute> operands;
  for (Value operand : apply->getOperands())
    operands.push_back(IntegerAttr::get(IndexType::get(size.getContext()), typical(operand)));
  SmallVector<Attribute> result;
  if (failed(apply.getAffineMap().constantFold(operands, result)))
    return typical_size;
  return std::max<int64_t>(cast<IntegerAttr>(result[0]).getInt(), 1);
}

static int64_t typical_extent(Value tensor, unsigned axis) {
  auto type = cast<RankedTensorType>(tensor.getType());
  if (!type.isDynamicDim(axis))
    return type.getDimSize(axis);
  for (auto made = tensor.getDefiningOp<LinalgOp>(); made; made = tensor.getDefiningOp<LinalgOp>())
    tensor = made.getDpsInits()[cast<OpResult>(tensor).getResultNumber()];
  if (auto empty = tensor.getDefiningOp<tensor::EmptyOp>())
    return typical(empty.getDynamicSizes()[type.getDynamicDimIndex(axis)]);
  return typical_size;
}

int64_t Clusters::elements(Value tensor) const {
  int64_t out = 1;
  for (int64_t axis = 0; axis < cast<RankedTensorType>(tensor.getType()).getRank(); ++axis)
    out *= typical_extent(tensor, unsigned(axis));
  return out;
}

/// Iterations of a loop, as far as known.
int64_t Clusters::iterations(int number, unsigned loop) const {
  for (OpOperand &operand : ops_[number]->getOpOperands()) {
    AffineMap map = op(number).getMatchingIndexingMap(&operand);
    for (auto [axis, expr] : llvm::enumerate(map.getResults()))
      if (expr.isFunctionOfDim(loop))
        return typical_extent(operand.get(), unsigned(axis));
  }
  return typical_size;
}

/// Whether what the members do with a row, of which some are reductions, finds it in a core's cache.
bool Clusters::keeps_rows(const Members &members) const {
  if (!has(members, Work::reduction))
    return true;
  auto ops = ops_of(members);
  LoopClasses classes = classes_of(ops);
  auto rows = rows_of(ops, classes);
  return llvm::all_of(members, [&](int m) {
    int64_t row = 1;
    for (unsigned loop = 0; loop < op(m).getNumLoops(); ++loop)
      if (!rows->contains(classes.of_loop(op(m), loop)))
        row *= iterations(m, loop);
    return row <= longest_row;
  });
}

/// Whether the last axis of the result of `last` belongs to no factor that the other members make: attention's kernels,
/// the only ones that compute several products after one another, have their lanes there.
bool Clusters::has_lanes_beside(int last, const Members &members) const {
  AffineMap result = op(last).getMatchingIndexingMap(op(last).getDpsInitOperand(0));
  auto lanes = dyn_cast_if_present<AffineDimExpr>(result.getNumResults() ? result.getResults().back() : AffineExpr());
  return lanes && llvm::none_of(reads_[last], [&](const Read &read) {
           int p = producer(read.tensor);
           return p >= 0 && llvm::is_contained(members, p) && read.loops.test(lanes.getPosition());
         });
}

/// Compares what passing the members' inner values through memory moves with what `last`, the second contraction,
/// reads again when it runs once per block of rows.
bool Clusters::not_worth_storing(int last, const Members &members) const {
  int64_t stored = 0, again = 0, rows = 1;
  for (int m : members) {
    if (m != last)
      stored += elements(ops_[m]->getResult(0)); // written
    for (const Read &read : reads_[m]) {
      int p = producer(read.tensor);
      if (p >= 0 && llvm::is_contained(members, p))
        stored += elements(read.tensor); // and read
    }
  }
  for (const Read &read : reads_[last]) {
    if (int p = producer(read.tensor); p >= 0 && llvm::is_contained(members, p))
      continue;
    rows = 1; // loops of the result that this operand does not have: it is read again along them
    for (auto [loop, type] : llvm::enumerate(op(last).getIteratorTypesArray()))
      if (type == utils::IteratorType::parallel && !read.loops.test(loop))
        rows *= iterations(last, loop);
    again += elements(read.tensor) * ((rows + row_block - 1) / row_block - 1);
  }
  return stored > again;
}

/// Those of which it was said.
void Clusters::join_together() {
  DenseMap<Attribute, Members> groups;
  for (int i = 0; i < int(ops_.size()); ++i)
    if (Attribute group = op(i)->getAttr(together))
      groups[group].push_back(i);
  for (const auto &[group, members] : groups)
    join(members);
}

/// Contractions that read what another one made, however many element-wise ops and row reductions lie between.
void Clusters::join_contractions() {
  for (int last = 0; last < int(ops_.size()); ++last) {
    if (work_[last] != Work::reuse || reads_weight(last) || members_[cluster_[last]].size() > 1)
      continue;
    llvm::SmallBitVector before(ops_.size()), after(ops_.size());
    SmallVector<int> work{last};
    bool found = false;
    while (!work.empty()) {
      int reader = work.pop_back_val();
      for (int p : producers_[reader]) {
        // What is read at computed places has to be there as a whole (a product that is then shifted).
        if (before.test(p) || reads_in_body({reader}, {p}))
          continue;
        before.set(p);
        if (work_[p] != Work::reuse)
          work.push_back(p);
        else if (!reads_weight(p) && members_[cluster_[p]].size() == 1)
          after.set(p), found = true;
      }
    }
    if (!found || (target_.gpu && contraction::counts_for_some_rows(op(last)))) // as attention on GPUs has none
      continue;
    Members members;
    for (int m : before.set_bits()) { // ascending: producers first
      if (work_[m] != Work::reuse && llvm::any_of(producers_[m], [&](int p) { return after.test(p); }))
        after.set(m);
      if (after.test(m))
        members.push_back(m);
    }
    members.push_back(last);
    bool inner_only = llvm::all_of(members, [&](int m) { return m == last || !used_outside(m, members); });
    auto rows = rows_of(ops_of(members), classes_of(ops_of(members)));
    if (inner_only && is_small(members) && rows && !rows->empty() && shares_rows(members) &&
        !reads_in_body(members, members) && has_lanes_beside(last, members) && not_worth_storing(last, members) &&
        !makes_cycle(members))
      join(members);
  }
}

void Clusters::join_neighbours() {
  for (int consumer = 0; consumer < int(ops_.size()); ++consumer)
    for (int p : llvm::reverse(producers_[consumer])) // the latest first: an epilogue goes to the last product it needs
      if (cluster_[p] != cluster_[consumer] && !op(consumer)->hasAttr(again) && may_join(p, consumer))
        join(joined(p, consumer));
}

} // namespace

std::vector<BlockItem> find_clusters(Block &block, const Target &target) {
  Clusters clusters(block, target);
  clusters.join_together();
  clusters.join_contractions();
  clusters.join_neighbours();
  return clusters.in_order();
}

} // namespace heddle::passes
