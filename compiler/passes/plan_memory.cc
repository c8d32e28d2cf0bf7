// Lifetimes are intervals of op numbers: an op within a loop has a number of its own, and a value from outside that a
// loop reads lives until the loop's end. Slots are chosen greedily, the largest value first (sizes taken at one nominal
// choice of the dims), among those whose values it never meets into the one that grows least, at that choice and at
// smaller ones: where the gradient of a weight, of one size, followed the activations of a batch, each of their slots
// would be as large as the larger of both. Values that a kernel may write over what it reads for the last time
// (written_over.h) go there: half of the traffic of a product with a residual is gone. The order only moves memory
// about; that no two values overlap else holds for every choice of dims. plan_states.cc decides how states get their
// values.
#include "compiler/passes/plan_memory.h"

#include "compiler/ir/dialect.h"
#include "compiler/passes/entry_values.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/plan_states.h"
#include "compiler/passes/written_over.h"

#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <algorithm>
#include <tuple>

namespace heddle::passes {

using namespace mlir;

namespace {

constexpr llvm::StringLiteral places_name = "heddle.places"; // one per result; of a loop an array each
constexpr llvm::StringLiteral slots_name = "heddle.slots";   // entry: how many
constexpr int64_t sampled_dims[] = {64, 16, 4, 1};           // or the bound, where that is smaller; the first: nominal

/// Something that needs a slot from op `first` to op `last` inclusive.
struct Candidate {
  Value value;     // that it is as large as
  unsigned number; // among the results of its op
  int64_t first, last;
  SmallVector<int64_t> bytes;          // at each sample of the dims
  SmallVector<ir::PlaceAttr *> places; // that are this slot
};

/// Whether an op writes its results where they are wanted.
bool makes(Operation *op) { return isa_and_nonnull<func::CallOp, tensor::FromElementsOp, ir::GroupOp>(op); }
bool is_made(Value value) { return makes(value.getDefiningOp()); }

class Planner {
public:
  explicit Planner(func::FuncOp entry) : entry(entry) {}

  /// A tensor.empty that slices are inserted into is memory: no two may share one.
  void unshare_empties() {
    SmallVector<OpOperand *> uses;
    entry.walk([&](Operation *op) {
      if (isa<tensor::InsertSliceOp, scf::ForOp>(op))
        for (OpOperand &operand : op->getOpOperands())
          if (operand.get().getDefiningOp<tensor::EmptyOp>() && !operand.get().hasOneUse())
            uses.push_back(&operand);
    });
    for (OpOperand *use : uses) {
      OpBuilder builder(use->getOwner());
      use->set(builder.clone(*use->get().getDefiningOp())->getResult(0));
    }
  }

  /// Values that the entry returns are written where the caller wants them.
  void place_results() {
    auto ret = cast<func::ReturnOp>(entry.front().getTerminator());
    for (auto [i, value] : llvm::enumerate(ret.getOperands()))
      offer(value, place(ir::PlaceKind::result, int64_t(i)));
  }

  /// Where an update's value can be made in the state's next buffer, it is.
  void place_updates() {
    for (StateUpdate &update : plan_states(entry)) {
      bool there = update.place && offer(update.op.getValue(), update.place);
      ir::CopyTime time = there ? ir::CopyTime::never : update.otherwise;
      update.op->setAttr(copy_name, ir::CopyTimeAttr::get(entry.getContext(), time));
    }
  }

  /// What an iteration makes for the next one is written where that one looks for it.
  void place_iterations() {
    entry.walk<WalkOrder::PreOrder>([&](scf::ForOp loop) {
      for (auto [i, value] : llvm::enumerate(loop.getYieldedValues())) {
        Value root = bytes_of(value);
        bool in_place = root == loop.getRegionIterArgs()[i];
        loops[loop.getResult(i)].twice = !in_place;
        if (!in_place && is_made(root) && root.getParentBlock() == loop.getBody())
          places.try_emplace(root, place(ir::PlaceKind::iteration, int64_t(i)));
      }
    });
  }

  /// What is computed once and read in every call lies in the session's own memory.
  void place_once() {
    int64_t number = 0;
    for (auto call : entry.front().getOps<func::CallOp>())
      for (Value result : call.getResults())
        if (call->hasAttr(ir::names::once) && !is_read_once(result))
          places.try_emplace(result, place(ir::PlaceKind::once, number++));
  }

  LogicalResult find_lifetimes() {
    number_ops(entry.front());
    DenseMap<Value, int64_t> last;
    entry.walk([&](Operation *op) {
      for (Value operand : op->getOperands()) {
        if (!isa<RankedTensorType>(operand.getType()))
          continue;
        Value root = owner_of(operand);
        Operation *seen = root.getParentBlock()->findAncestorOpInBlock(*op);
        auto update = dyn_cast<ir::UpdateOp>(op);
        bool at_end = update && copy_time(op) == ir::CopyTime::at_end;
        int64_t &end = last[root];
        end = std::max(end, at_end ? ends.lookup(entry.front().getTerminator()) : ends.lookup(seen));
      }
    });
    auto module = entry->getParentOfType<ModuleOp>();
    std::vector<SizeEvaluator> samples;
    for (int64_t sample : sampled_dims) {
      std::vector<int64_t> dims;
      for (const ModuleDim &dim : module_dims(module))
        dims.push_back(dim.most < 0 ? sample : std::min(dim.most, sample));
      samples.emplace_back(module, dims);
    }
    auto add = [&](Value value, unsigned number, int64_t first, SmallVector<ir::PlaceAttr *> own) -> LogicalResult {
      SmallVector<int64_t> bytes;
      for (SizeEvaluator &sizes : samples) {
        auto known = sizes.bytes(value);
        if (failed(known))
          return failure();
        bytes.push_back(*known);
      }
      candidates.push_back({value, number, first, std::max(first, last.lookup(value)), bytes, own});
      return success();
    };
    // A loop's places first: the value that it starts from may be made in one of them.
    WalkResult known = entry.walk([&](scf::ForOp loop) {
      for (OpResult result : loop.getResults()) {
        LoopPlaces &own = loops[result];
        last[result] = std::max(last.lookup(result), ends.lookup(loop));
        int64_t first = numbers.lookup(loop);
        if (!own.first) {
          SmallVector<ir::PlaceAttr *> same{&own.first};
          Value start = sole_origin(loop.getInitArgs()[result.getResultNumber()], loop);
          if (start && places.try_emplace(start).second) {
            first = numbers.lookup(start.getDefiningOp());
            same.push_back(&places[start]);
          }
          if (failed(add(result, 2 * result.getResultNumber(), first, same)))
            return WalkResult::interrupt();
        }
        if (own.twice && failed(add(result, 2 * result.getResultNumber() + 1, numbers.lookup(loop), {&own.second})))
          return WalkResult::interrupt();
      }
      return WalkResult::advance();
    });
    if (known.wasInterrupted())
      return failure();
    known = entry.walk([&](Operation *op) {
      bool inserted = isa<tensor::EmptyOp>(op) && llvm::any_of(op->getUsers(), llvm::IsaPred<tensor::InsertSliceOp>);
      if (makes(op) || inserted)
        for (OpResult result : op->getResults())
          if (places.try_emplace(result).second &&
              failed(add(result, result.getResultNumber(), numbers[op], {&places[result]})))
            return WalkResult::interrupt();
      return WalkResult::advance();
    });
    return success(!known.wasInterrupted());
  }

  void choose_slots() {
    std::sort(candidates.begin(), candidates.end(), [](const Candidate &a, const Candidate &b) {
      return std::tuple(-a.bytes[0], a.first, a.number) < std::tuple(-b.bytes[0], b.first, b.number);
    });
    struct Slot {
      std::vector<const Candidate *> members;
      SmallVector<int64_t> bytes;
    };
    std::vector<Slot> slots;
    for (const Candidate &candidate : candidates) {
      auto meets = [&](const Candidate *other) {
        return candidate.first <= other->last && other->first <= candidate.last && !is_over(candidate, *other);
      };
      auto growth = [&](const Slot &slot) { // as shares of the value, so that samples count alike
        double sum = 0;
        for (auto [value, slot] : llvm::zip(candidate.bytes, slot.bytes))
          sum += double(std::max<int64_t>(value - slot, 0)) / double(std::max<int64_t>(value, 1));
        return sum;
      };
      auto over = [&](const Candidate *other) { return is_over(candidate, *other); };
      size_t best = slots.size();
      for (size_t i = 0; i < slots.size(); ++i) {
        if (llvm::any_of(slots[i].members, meets))
          continue;
        bool is_written_over = llvm::any_of(slots[i].members, over);
        if (is_written_over || best == slots.size() || growth(slots[i]) < growth(slots[best]))
          best = i;
        if (is_written_over)
          break;
      }
      if (best == slots.size())
        slots.push_back({{}, SmallVector<int64_t>(candidate.bytes.size(), 0)});
      slots[best].members.push_back(&candidate);
      for (auto [value, slot] : llvm::zip(candidate.bytes, slots[best].bytes))
        slot = std::max(slot, value);
      for (ir::PlaceAttr *each : candidate.places)
        *each = place(ir::PlaceKind::slot, int64_t(best));
    }
    slot_count = int64_t(slots.size());
  }

  void annotate() {
    Builder builder(entry.getContext());
    entry.walk([&](Operation *op) {
      SmallVector<Attribute> all;
      if (auto loop = dyn_cast<scf::ForOp>(op)) {
        for (Value result : loop.getResults()) {
          const LoopPlaces &own = loops[result];
          SmallVector<Attribute> both{own.first};
          if (own.twice)
            both.push_back(own.second);
          all.push_back(builder.getArrayAttr(both));
        }
      } else if (op->getNumResults() && places.contains(op->getResult(0))) {
        for (Value result : op->getResults())
          all.push_back(places[result]);
      } else {
        return;
      }
      op->setAttr(places_name, builder.getArrayAttr(all));
    });
    entry->setAttr(slots_name, builder.getI64IntegerAttr(slot_count));
  }

private:
  struct LoopPlaces {
    ir::PlaceAttr first, second;
    bool twice = false;
  };

  /// Whether one of two values is written over the other.
  static bool is_over(const Candidate &one, const Candidate &other) {
    auto is_last_read_by = [](const Candidate &value, const Candidate &result) {
      auto call = result.value.getDefiningOp<func::CallOp>();
      return value.last == result.first && call && is_made(value.value) && may_write_over(call, value.value);
    };
    return is_last_read_by(one, other) || is_last_read_by(other, one);
  }

  ir::PlaceAttr place(ir::PlaceKind kind, int64_t number) {
    return ir::PlaceAttr::get(entry.getContext(), kind, number, {});
  }

  /// Gives a value of the entry's own block this place, unless it has one or can't be made there.
  bool offer(Value value, ir::PlaceAttr place) {
    Value root = bytes_of(value);
    if (root.getParentBlock() != &entry.front())
      return false;
    if (auto loop = root.getDefiningOp<scf::ForOp>()) {
      unsigned number = cast<OpResult>(root).getResultNumber();
      bool in_place = bytes_of(loop.getYieldedValues()[number]) == loop.getRegionIterArgs()[number];
      ir::PlaceAttr &first = loops[root].first;
      if (!in_place || first)
        return false;
      first = place;
      return true;
    }
    return is_made(root) && places.try_emplace(root, place).second;
  }

  /// The value of the loop's own block that a loop starts from, where a kernel makes it for the loop only.
  static Value sole_origin(Value start, scf::ForOp loop) {
    while (start.hasOneUse() && start.getDefiningOp() && !is_made(start) && bytes_of(start) != start)
      start = isa<tensor::InsertSliceOp>(start.getDefiningOp()) ? Value() : start.getDefiningOp()->getOperand(0);
    return start && start.hasOneUse() && is_made(start) && start.getParentBlock() == loop->getBlock() ? start : Value();
  }

  void number_ops(Block &block) {
    for (Operation &op : block) {
      numbers.try_emplace(&op, count++);
      for (Region &region : op.getRegions())
        for (Block &inner : region)
          number_ops(inner);
      ends.try_emplace(&op, op.getNumRegions() ? count++ : numbers[&op]);
    }
  }

  func::FuncOp entry;
  int64_t count = 0;
  DenseMap<Operation *, int64_t> numbers, ends; // of an op, and of the end of its regions
  struct ByAddress {
    bool operator()(Value a, Value b) const { return a.getAsOpaquePointer() < b.getAsOpaquePointer(); }
  };
  std::map<Value, ir::PlaceAttr, ByAddress> places; // are pointed to: a std::map leaves them where they are
  std::map<Value, LoopPlaces, ByAddress> loops;     // by result
  std::vector<Candidate> candidates;
  int64_t slot_count = 0;
};

} // namespace

namespace {

struct PlanMemory : PassWrapper<PlanMemory, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(PlanMemory)
  StringRef getArgument() const override { return "plan_memory"; }
  StringRef getDescription() const override { return "a place for each value between kernels"; }
  void runOnOperation() override {
    if (failed(plan_memory(getOperation())))
      signalPassFailure();
  }
};

} // namespace

std::unique_ptr<Pass> plan_memory() { return std::make_unique<PlanMemory>(); }

LogicalResult plan_memory(ModuleOp module) {
  for (func::FuncOp entry : entries(module)) {
    Planner planner(entry);
    move_updates(entry);
    planner.unshare_empties();
    planner.place_results();
    planner.place_updates();
    planner.place_iterations();
    planner.place_once();
    if (failed(planner.find_lifetimes()))
      return failure();
    planner.choose_slots();
    planner.annotate();
  }
  return success();
}

static MemoryPlace planned(ir::PlaceAttr attr) {
  MemoryPlace place{MemoryPlace::slot, attr.getNumber(), {}, SmallVector<int64_t>(attr.getOffsets())};
  switch (attr.getKind()) {
  case ir::PlaceKind::slot:
    break;
  case ir::PlaceKind::result:
    place.kind = MemoryPlace::result;
    break;
  case ir::PlaceKind::next_state:
    place.kind = MemoryPlace::next_state;
    break;
  case ir::PlaceKind::iteration:
    place.kind = MemoryPlace::iteration;
    break;
  case ir::PlaceKind::once:
    place.kind = MemoryPlace::once;
    break;
  }
  return place;
}

MemoryPlace place_of(Value tensor) {
  Value root = bytes_of(tensor);
  if (auto argument = dyn_cast<BlockArgument>(root)) {
    if (auto loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp()))
      return {MemoryPlace::loop, argument.getArgNumber() - loop.getNumInductionVars()};
    return {MemoryPlace::input, argument.getArgNumber()};
  }
  auto result = cast<OpResult>(root);
  if (auto get = root.getDefiningOp<ir::GetOp>())
    return {MemoryPlace::weight, 0, get.getWeight()};
  if (auto read = root.getDefiningOp<ir::ReadOp>())
    return {MemoryPlace::state, state_number(read, read.getState())};
  if (root.getDefiningOp<scf::ForOp>())
    return {MemoryPlace::loop, result.getResultNumber()};
  if (root.getDefiningOp<tensor::ExtractSliceOp>())
    return {MemoryPlace::slice};
  if (root.getDefiningOp<arith::ConstantOp>())
    return {MemoryPlace::constant};
  auto all = result.getOwner()->getAttrOfType<ArrayAttr>(places_name);
  return all ? planned(cast<ir::PlaceAttr>(all[result.getResultNumber()])) : MemoryPlace{MemoryPlace::nothing};
}

LoopPlace loop_place(Operation *loop, unsigned number) {
  auto both = cast<ArrayAttr>(loop->getAttrOfType<ArrayAttr>(places_name)[number]);
  return {planned(cast<ir::PlaceAttr>(both[0])), both.size() > 1 ? cast<ir::PlaceAttr>(both[1]).getNumber() : -1};
}

SmallVector<ResultCopy> result_copies(func::FuncOp entry) {
  SmallVector<ResultCopy> out;
  auto ret = cast<func::ReturnOp>(entry.front().getTerminator());
  for (auto [i, value] : llvm::enumerate(ret.getOperands())) {
    MemoryPlace place = place_of(value);
    if (auto loop = bytes_of(value).getDefiningOp<scf::ForOp>())
      place = loop_place(loop, place.number).place;
    if ((place.kind != MemoryPlace::result || place.number != int64_t(i)) && place.kind != MemoryPlace::nothing)
      out.push_back({value, int64_t(i)});
  }
  return out;
}

std::vector<Value> once_values(func::FuncOp entry) {
  std::vector<Value> out; // numbered as they stand
  for (auto call : entry.front().getOps<func::CallOp>())
    for (Value result : call.getResults())
      if (place_of(result).kind == MemoryPlace::once)
        out.push_back(result);
  return out;
}

std::vector<int> once_dims(func::FuncOp entry) {
  auto module = entry->getParentOfType<ModuleOp>();
  std::vector<ModuleDim> dims = module_dims(module);
  llvm::SetVector<Operation *> slice;
  for (auto call : entry.front().getOps<func::CallOp>())
    if (call->hasAttr(ir::names::once))
      (void)getBackwardSlice(call.getOperation(), &slice);
  std::vector<bool> needed(given_dims(module));
  for (Operation *op : slice)
    if (auto dim = dyn_cast<ir::DimOp>(op)) {
      int number = ir::dim_number(module, dim.getName());
      auto map = AffineMap::get(dims.size(), 0, getAffineDimExpr(number, entry.getContext()));
      for (auto [i, used] : llvm::enumerate(dims_in(module, map)))
        needed[i] = needed[i] || used;
    }
  std::vector<int> out;
  for (auto [i, used] : llvm::enumerate(needed))
    if (used)
      out.push_back(i);
  return out;
}

std::vector<SmallVector<Value>> slots(func::FuncOp entry) {
  std::vector<SmallVector<Value>> out(entry->getAttrOfType<IntegerAttr>(slots_name).getInt());
  entry.walk([&](Operation *op) {
    if (!op->hasAttr(places_name))
      return;
    for (OpResult result : op->getResults()) {
      MemoryPlace place = place_of(result);
      if (isa<scf::ForOp>(op)) {
        LoopPlace both = loop_place(op, result.getResultNumber());
        place = both.place;
        if (both.second_slot >= 0)
          out[both.second_slot].push_back(result);
      }
      if (place.kind == MemoryPlace::slot)
        out[place.number].push_back(result);
    }
  });
  return out;
}

} // namespace heddle::passes
