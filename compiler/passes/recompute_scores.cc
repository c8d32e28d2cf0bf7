// Scores that several sums over keys need, as the way back through attention does, are computed by each of them from
// what they are products of, rather than kept: S x S numbers of each head would be. What a row of them comes to (their
// largest, their total) is kept, so that no reduction is computed twice.
//
//   %s = product(%q, %k)                          %s1 = product(%q, %k)          {heddle.together = 0}
//   %top = max of %s, by rows                     %top = max of %s1              {heddle.together = 0}
//   %e = exp(%s - %top)                           %e1 = exp(%s1 - %top)          {heddle.together = 0}
//   %total = sum of %e, by rows                   %total = sum of %e1            {heddle.together = 0}
//   %o = product(%e, %v) over keys            →   %s2, %e2, %o = product(%e2, %v)    … 1
//   %dv = product(%e, %do) over rows              %s3, %e3, %dv = product(%e3, %do)  … 2
//
// Those that are `together` become one kernel each, whose scores are computed by tiles (kernels/attention). A score is
// a product of no weight, or an element-wise function of scores at their own places. It is kept where anything but such
// sums needs it, as a gradient of scores that is summed over texts, and where only one product over keys does.
//
// Products over keys that need the same scores for results of the same rows and size, as the gradients of keys and of
// values, are one kernel: %dv and %dk = product(%ds, %q) over rows, for %ds made of %e.
#include "compiler/ir/dialect.h"
#include "compiler/ir/parameters.h"
#include "compiler/ir/shapes.h"
#include "compiler/kernels/attention/match.h"
#include "compiler/kernels/product/micro_kernel.h"
#include "compiler/kernels/product/product.h"
#include "compiler/passes/entry_values.h"
#include "compiler/passes/form_kernels.h"
#include "compiler/passes/loop_classes.h"
#include "compiler/passes/passes.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

namespace heddle::passes {

using namespace mlir;
using linalg::LinalgOp;

namespace {

/// Terms of a product up to which it is worth less to keep it than to compute it again: features of a head.
constexpr int64_t most_terms = 512;

/// Products over keys in one kernel, which compiles longer the more it has.
constexpr size_t most_products = 4;

using Ops = llvm::SetVector<Operation *>;

class Scores {
public:
  Scores(Block &block, const Target &target, int64_t &groups) : block_(block), target_(target), groups_(groups) {}

  void run() {
    find();
    std::vector<Ops> several = components();
    std::erase_if(several, [](const Ops &sums) { return llvm::count_if(sums, is_product) < 2; });
    if (several.empty())
      return;
    number();
    for (const Ops &sums : several)
      separate(sums);
    for (Operation *op : llvm::reverse(scores_))
      if (op->use_empty())
        op->erase();
  }

private:
  // --- what scores are

  static Work work(Operation *op) { return work_of(cast<LinalgOp>(op)); }
  static bool is_product(Operation *op) { return work(op) == Work::reuse; }

  static bool is_place(LinalgOp op, OpOperand &operand) {
    AffineMap map = op.getMatchingIndexingMap(&operand);
    return map.isProjectedPermutation() && map.getNumResults() == op.getNumLoops();
  }

  static bool reads_in_body(LinalgOp op, Value value) {
    bool found = false;
    op.getBlock()->walk([&](tensor::ExtractOp read) { found |= read.getTensor() == value; });
    return found;
  }

  static bool reads_weight(LinalgOp op) {
    return llvm::any_of(reads_of(op), [](const Read &read) { return ir::is_parameter(read.tensor); });
  }

  static bool writes_in_place(LinalgOp op) {
    AffineMap map = op.getMatchingIndexingMap(op.getDpsInitOperand(0));
    return map.isProjectedPermutation() && map.getNumResults() == op.getNumParallelLoops();
  }

  /// A product of two tensors that is larger than each of them.
  static bool may_be_scores(LinalgOp op) {
    if (work_of(op) != Work::reuse || op.getNumDpsInits() != 1 || !writes_in_place(op) || reads_weight(op))
      return false;
    auto product = contraction::product_of(op);
    if (!product)
      return false;
    SmallVector<int64_t> ranges = op.getStaticLoopRanges();
    int64_t terms = 1, rows = 1, columns = 1;
    for (auto [loop, kind] : llvm::enumerate(op.getIteratorTypesArray())) {
      int64_t size = ShapedType::isDynamic(ranges[loop]) ? typical_size : ranges[loop];
      bool left = product->left.loops.test(unsigned(loop)), right = product->right.loops.test(unsigned(loop));
      if (kind == utils::IteratorType::reduction)
        terms = ShapedType::isDynamic(ranges[loop]) ? most_terms + 1 : terms * size;
      else if (left != right)
        (left ? rows : columns) *= size;
    }
    return terms <= most_terms && rows > terms && columns > terms;
  }

  void find() {
    for (auto op : block_.getOps<LinalgOp>())
      if (may_be_scores(op) ||
          (work_of(op) == Work::pointwise && op.getNumDpsInits() == 1 && writes_in_place(op) && reads_scores(op)))
        scores_.insert(op);
    for (bool changed = true; changed;) {
      changed = false;
      for (Operation *op : llvm::to_vector(llvm::reverse(scores_)))
        if ((work(op) == Work::pointwise && !reads_scores(cast<LinalgOp>(op))) ||
            !llvm::all_of(op->getUses(), [&](OpOperand &use) { return may_read(use); })) {
          scores_.remove(op);
          changed = true;
        }
    }
  }

  bool reads_scores(LinalgOp op) const {
    return llvm::any_of(op.getDpsInputOperands(), [&](OpOperand *operand) {
      return scores_.contains(operand->get().getDefiningOp()) && is_place(op, *operand);
    });
  }

  /// Whether a reader of scores can compute them.
  bool may_read(OpOperand &use) const {
    auto op = dyn_cast<LinalgOp>(use.getOwner());
    if (!op || op->getBlock() != &block_ || op.isDpsInit(&use) || reads_in_body(op, use.get()))
      return false;
    if (scores_.contains(op))
      return work_of(op) == Work::pointwise && is_place(op, use);
    if (op.getNumReductionLoops() != 1 || op.getNumParallelLoops() == 0 || op.getNumDpsInits() != 1 ||
        !writes_in_place(op))
      return false;
    return work_of(op) == Work::reduction ? is_place(op, use) : multiplies(op, use);
  }

  /// Whether `op` sums scores times what has other axes, of which the last one is the result's.
  bool multiplies(LinalgOp op, OpOperand &use) const {
    auto product = work_of(op) == Work::reuse ? contraction::product_of(op) : std::nullopt;
    if (!product || reads_weight(op))
      return false;
    AffineMap map = op.getMatchingIndexingMap(&use), result = op.getMatchingIndexingMap(op.getDpsInitOperand(0));
    auto lanes = dyn_cast<AffineDimExpr>(result.getResults().back());
    Value element = op.getMatchingBlockArgument(&use);
    bool left = product->left.value == element, right = product->right.value == element;
    const contraction::Factor &other = left ? product->right : product->left;
    auto argument = dyn_cast<BlockArgument>(other.value);
    bool is_score = argument && scores_.contains(op.getMatchingOpOperand(argument)->get().getDefiningOp());
    return left != right && map.isProjectedPermutation() && lanes && !map.isFunctionOfDim(lanes.getPosition()) &&
           !is_score;
  }

  // --- who needs which

  /// The scores that an op is made of, producers first.
  Ops behind(Operation *op) const {
    Ops out;
    std::function<void(Operation *)> visit = [&](Operation *reader) {
      for (Value operand : reader->getOperands())
        if (Operation *made = operand.getDefiningOp(); scores_.contains(made) && !out.contains(made)) {
          visit(made);
          out.insert(made);
        }
    };
    visit(op);
    return out;
  }

  /// The sums over scores, in the order of the block, those that share any in one set.
  std::vector<Ops> components() const {
    llvm::EquivalenceClasses<Operation *> same;
    Ops sums;
    for (Operation &op : block_) {
      if (scores_.contains(&op))
        continue;
      for (Operation *score : behind(&op)) {
        sums.insert(&op);
        same.unionSets(&op, score);
      }
    }
    llvm::MapVector<Operation *, Ops> sets;
    for (Operation *sum : sums)
      sets[same.getLeaderValue(sum)].insert(sum);
    std::vector<Ops> out;
    for (auto &[leader, members] : sets)
      out.push_back(std::move(members));
    return out;
  }

  void number() {
    Operation *effect = nullptr, *requirement = nullptr; // the last ones
    for (Operation &op : block_) {
      unsigned own = unsigned(ancestors_.size());
      number_[&op] = own;
      llvm::BitVector bits(own + 1);
      bits.set(own);
      auto need = [&](Operation *made) { bits |= ancestors_[number_.lookup(made)]; };
      op.walk([&](Operation *nested) {
        for (Value operand : nested->getOperands())
          if (Operation *made = operand.getDefiningOp(); made && made->getBlock() == &block_ && made != &op)
            need(made);
      });
      if (requirement) // what stands behind it waits for it
        need(requirement);
      if (!isPure(&op)) { // effects keep their order
        if (effect)
          need(effect);
        effect = &op;
        requirement = ir::may_end_call(&op) ? &op : requirement;
      }
      ancestors_.push_back(std::move(bits));
    }
  }

  /// Whether `op` needs any of them.
  bool needs(Operation *op, const Ops &any) const {
    return llvm::any_of(any, [&](Operation *one) { return needs(op, one); });
  }
  bool needs(Operation *op, Operation *one) const { return has(ancestors_[number_.lookup(op)], one); }
  bool has(const llvm::BitVector &bits, Operation *one) const {
    unsigned n = number_.lookup(one);
    return n < bits.size() && bits.test(n);
  }

  // --- kernels

  void separate(const Ops &sums) {
    std::vector<Ops> groups; // of reductions, and what lies between them
    for (Operation *sum : sums)
      if (is_product(sum) ? !joins_products(sum, groups) : !joins(sum, groups)) {
        Ops alone;
        alone.insert(sum);
        groups.push_back(alone);
      }
    for (const Ops &group : groups)
      copy_for(group);
  }

  /// A product over keys goes with those before it that have the same rows, and need the same product for scores.
  /// Those that a matrix unit computes stay alone, as its schedule has one.
  bool joins_products(Operation *sum, std::vector<Ops> &groups) {
    contraction::Product product = *contraction::product_of(cast<LinalgOp>(sum));
    if (tile_kernel_for({&product, 1}, target_))
      return false;
    for (Ops &group : groups)
      if (is_product(group.front()) && group.size() < most_products && llvm::all_of(group, [&](Operation *one) {
            return !needs(sum, one) && !needs(one, sum) && fit(cast<LinalgOp>(sum), cast<LinalgOp>(one));
          })) {
        group.insert(sum);
        join_ancestors(group);
        return true;
      }
    return false;
  }

  /// Whether a kernel can have both products over keys: their results have one size and the same rows, and scores that
  /// both need, a product among them, run along the same axes of these.
  bool fit(LinalgOp one, LinalgOp other) const {
    auto extents = ir::extent_formulas(one->getResult(0)), other_extents = ir::extent_formulas(other->getResult(0));
    if (one->getResultTypes() != other->getResultTypes() || failed(extents) || failed(other_extents) ||
        *extents != *other_extents)
      return false;
    auto rows = rows_of(one);
    auto axes = axes_behind(one), others = axes_behind(other);
    if (!rows || rows != rows_of(other) || !axes || !others)
      return false;
    bool shares = false;
    for (auto &[score, here] : *axes)
      if (auto there = others->find(score); there != others->end()) {
        if (there->second != here)
          return false;
        shares |= is_product(score);
      }
    return shares;
  }

  /// Of the axes of an op's result, those that its loops run along; -1 for the keys. `result`: what they are.
  static std::vector<int> axes_of_loops(LinalgOp op, ArrayRef<int> result) {
    std::vector<int> loops(op.getNumLoops(), -1);
    for (auto [expr, axis] : llvm::zip_equal(op.getMatchingIndexingMap(op.getDpsInitOperand(0)).getResults(), result))
      loops[cast<AffineDimExpr>(expr).getPosition()] = axis;
    return loops;
  }
  static SmallVector<int> axes_of_result(LinalgOp op) {
    return llvm::to_vector(llvm::seq(int(cast<RankedTensorType>(op->getResult(0).getType()).getRank())));
  }

  static std::optional<attention::Rows> rows_of(LinalgOp sum) {
    return attention::rows_of_values({*contraction::product_of(sum), axes_of_loops(sum, axes_of_result(sum))});
  }

  /// Which axis of a sum's result, or -1 for the keys, each dimension of the scores behind it runs along; nothing where
  /// that differs from reader to reader.
  using Axes = llvm::MapVector<Operation *, SmallVector<int>>;
  std::optional<Axes> axes_behind(LinalgOp sum) const {
    Axes out;
    std::function<bool(LinalgOp, ArrayRef<int>)> visit = [&](LinalgOp op, ArrayRef<int> result) {
      std::vector<int> loops = axes_of_loops(op, result);
      return llvm::all_of(op.getDpsInputOperands(), [&](OpOperand *operand) {
        auto score = operand->get().getDefiningOp<LinalgOp>();
        if (!scores_.contains(score))
          return true;
        SmallVector<int> axes;
        for (AffineExpr expr : op.getMatchingIndexingMap(operand).getResults())
          axes.push_back(loops[cast<AffineDimExpr>(expr).getPosition()]);
        auto [known, is_new] = out.insert({score, axes});
        return is_new ? is_product(score) || visit(score, axes) : known->second == axes;
      });
    };
    return visit(sum, axes_of_result(sum)) ? std::optional(out) : std::nullopt;
  }

  /// What needs one of them needs what the others do, now that they are one kernel.
  void join_ancestors(const Ops &group) {
    llvm::BitVector all;
    for (Operation *op : group)
      all |= ancestors_[number_.lookup(op)];
    for (llvm::BitVector &bits : ancestors_)
      if (llvm::any_of(group, [&](Operation *op) { return has(bits, op); }))
        bits |= all;
  }

  /// A reduction that needs what one before it found, of the same scores, such as a total of exp(score - largest), goes
  /// with that; unless something else that it needs does, too.
  bool joins(Operation *sum, std::vector<Ops> &groups) {
    Ops scores = behind(sum);
    unsigned rows = cast<LinalgOp>(sum).getNumParallelLoops();
    for (Ops &group : groups) {
      if (is_product(group.front()))
        continue;
      Ops between; // element-wise ops of rows
      bool reads = false, fits = true;
      std::function<void(Value)> visit = [&](Value value) {
        Operation *made = value.getDefiningOp();
        if (!made || made->getBlock() != &block_ || scores.contains(made) || !needs(made, group))
          return;
        auto op = dyn_cast<LinalgOp>(made);
        if (group.contains(made)) {
          reads = true;
        } else if (op && work_of(op) == Work::pointwise && op.getNumLoops() == rows) {
          between.insert(op);
          for (Value other : needs_of(op))
            visit(other);
        } else {
          fits = false;
        }
      };
      for (Operation *score : scores)
        for (Value other : needs_of(score))
          visit(other);
      for (Value other : needs_of(sum))
        visit(other);
      if (!reads || !fits)
        continue;
      for (Operation *op : llvm::reverse(between))
        group.insert(op);
      group.insert(sum);
      join_ancestors(group);
      return true;
    }
    return false;
  }

  void copy_for(const Ops &group) {
    auto id = IntegerAttr::get(IntegerType::get(block_.getParentOp()->getContext(), 64), groups_++);
    IRMapping map;
    for (Operation *op : group)
      for (Operation *score : behind(op))
        if (!map.contains(score->getResult(0))) {
          OpBuilder builder(score->getContext());
          builder.setInsertionPointAfter(score);
          Operation *copy = builder.clone(*score, map);
          copy->setAttr(together, id);
        }
    for (Operation *op : group) {
      op->setAttr(together, id);
      for (OpOperand &operand : op->getOpOperands())
        if (Value copy = map.lookupOrNull(operand.get()))
          operand.set(copy);
    }
  }

  Block &block_;
  const Target &target_;
  int64_t &groups_;
  Ops scores_;
  llvm::DenseMap<Operation *, unsigned> number_;
  std::vector<llvm::BitVector> ancestors_; // of each op in the block, itself among them
};

struct RecomputeScores : PassWrapper<RecomputeScores, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(RecomputeScores)
  explicit RecomputeScores(const Target &target) : target_(target) {}
  StringRef getArgument() const override { return "recompute_scores"; }
  StringRef getDescription() const override { return "scores that several sums over keys need, once for each"; }
  void getDependentDialects(DialectRegistry &registry) const override { ir::register_dialects(registry); }

  void runOnOperation() override {
    if (target_.gpu) // whose kernels of attention have one product and its softmax
      return;
    int64_t groups = 0;
    for (func::FuncOp entry : entries(getOperation()))
      entry.walk([&](Block *block) {
        if (isa<func::FuncOp, scf::ForOp>(block->getParentOp()))
          Scores(*block, target_, groups).run();
      });
  }

  Target target_;
};

} // namespace

std::unique_ptr<Pass> recompute_scores(const Target &target) { return std::make_unique<RecomputeScores>(target); }

} // namespace heddle::passes
