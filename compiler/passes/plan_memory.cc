// Lifetimes are intervals of op numbers: an op within a loop has a number of its own, and a value from outside that a
// loop reads lives until the loop's end. Slots are chosen greedily, the largest value first (sizes taken at one nominal
// choice of the dims), into the first slot whose values it never meets: a slot is then as large as its first value
// wherever sizes grow together. The order only moves memory about; that no two values overlap holds for every choice of
// dims. plan_states.cc decides how states get their values.
#include "compiler/passes/plan_memory.h"

#include "compiler/ir/dialect.h"
#include "compiler/passes/entry_values.h"
#include "compiler/passes/plan_states.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <algorithm>
#include <tuple>

namespace heddle::passes {

using namespace mlir;

namespace {

constexpr llvm::StringLiteral places_name = "heddle.places"; // "slot 3", "result 0", … per result
constexpr llvm::StringLiteral slots_name = "heddle.slots";   // entry: how many
constexpr int64_t nominal_dim = 64;                          // or the bound, where that is smaller

/// Something that needs a slot from op `first` to op `last` inclusive.
struct Candidate {
  Value value;     // that it is as large as
  unsigned number; // among the results of its op
  int64_t first, last;
  int64_t bytes;
  SmallVector<std::string *> words; // that name the slot
};

bool is_made(Value value) { return isa_and_nonnull<func::CallOp, tensor::FromElementsOp>(value.getDefiningOp()); }

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
      offer(value, "result " + std::to_string(i));
  }

  /// Where an update's value can be made in the state's next buffer, it is.
  void place_updates() {
    for (StateUpdate &update : plan_states(entry))
      if (update.place.empty() || !offer(update.op.getValue(), update.place))
        update.op->setAttr(copy_name, StringAttr::get(entry.getContext(), update.otherwise));
      else
        update.op->setAttr(copy_name, StringAttr::get(entry.getContext(), "none"));
  }

  /// What a turn makes for the next one is written where that one looks for it.
  void place_turns() {
    entry.walk<WalkOrder::PreOrder>([&](scf::ForOp loop) {
      for (auto [i, value] : llvm::enumerate(loop.getYieldedValues())) {
        Value root = bytes_of(value);
        bool in_place = root == loop.getRegionIterArgs()[i];
        LoopWords &words = loops[loop.getResult(i)];
        words.twice = !in_place;
        if (!in_place && is_made(root) && root.getParentBlock() == loop.getBody())
          places.try_emplace(root, "turn " + std::to_string(i));
      }
    });
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
        bool at_end = update && copy_time(op) == CopyTime::at_end;
        int64_t &end = last[root];
        end = std::max(end, at_end ? ends.lookup(entry.front().getTerminator()) : ends.lookup(seen));
      }
    });
    auto module = entry->getParentOfType<ModuleOp>();
    std::vector<int64_t> dims;
    for (const ModuleDim &dim : module_dims(module))
      dims.push_back(dim.most < 0 ? nominal_dim : std::min(dim.most, nominal_dim));
    SizeEvaluator sizes(module, dims);
    auto add = [&](Value value, unsigned number, int64_t first, SmallVector<std::string *> words) -> LogicalResult {
      auto bytes = sizes.bytes(value);
      if (succeeded(bytes))
        candidates.push_back({value, number, first, std::max(first, last.lookup(value)), *bytes, words});
      return success(succeeded(bytes));
    };
    // A loop's places first: the value that it starts from may be made in one of them.
    WalkResult known = entry.walk([&](scf::ForOp loop) {
      for (OpResult result : loop.getResults()) {
        LoopWords &words = loops[result];
        last[result] = std::max(last.lookup(result), ends.lookup(loop));
        int64_t first = numbers.lookup(loop);
        SmallVector<std::string *> names;
        if (words.first.empty()) {
          names.push_back(&words.first);
          Value start = sole_origin(loop.getInitArgs()[result.getResultNumber()], loop);
          if (start && places.try_emplace(start).second) {
            first = numbers.lookup(start.getDefiningOp());
            names.push_back(&places[start]);
            words.start = start;
          }
          if (failed(add(result, 2 * result.getResultNumber(), first, names)))
            return WalkResult::interrupt();
        }
        if (words.twice && failed(add(result, 2 * result.getResultNumber() + 1, numbers.lookup(loop), {&words.second})))
          return WalkResult::interrupt();
      }
      return WalkResult::advance();
    });
    if (known.wasInterrupted())
      return failure();
    known = entry.walk([&](Operation *op) {
      bool inserted = isa<tensor::EmptyOp>(op) && llvm::any_of(op->getUsers(), llvm::IsaPred<tensor::InsertSliceOp>);
      if (isa<func::CallOp, tensor::FromElementsOp>(op) || inserted)
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
      return std::tuple(-a.bytes, a.first, a.number) < std::tuple(-b.bytes, b.first, b.number);
    });
    std::vector<std::vector<const Candidate *>> slots;
    for (const Candidate &candidate : candidates) {
      auto meets = [&](const Candidate *other) {
        return candidate.first <= other->last && other->first <= candidate.last;
      };
      auto slot = llvm::find_if(slots, [&](const auto &members) { return llvm::none_of(members, meets); });
      if (slot == slots.end())
        slot = slots.insert(slots.end(), std::vector<const Candidate *>());
      slot->push_back(&candidate);
      for (std::string *word : candidate.words)
        *word = "slot " + std::to_string(slot - slots.begin());
    }
    slot_count = slots.size();
  }

  void annotate() {
    Builder builder(entry.getContext());
    entry.walk([&](Operation *op) {
      SmallVector<Attribute> words;
      if (auto loop = dyn_cast<scf::ForOp>(op)) {
        for (Value result : loop.getResults()) {
          const LoopWords &places = loops[result];
          words.push_back(builder.getStringAttr(places.twice ? places.first + ", " + places.second : places.first));
        }
      } else if (op->getNumResults() && places.contains(op->getResult(0))) {
        for (Value result : op->getResults())
          words.push_back(builder.getStringAttr(places[result]));
      } else {
        return;
      }
      op->setAttr(places_name, builder.getArrayAttr(words));
    });
    entry->setAttr(slots_name, builder.getI64IntegerAttr(slot_count));
  }

private:
  struct LoopWords {
    std::string first, second;
    bool twice = false;
    Value start; // made in the first place
  };

  /// Gives a value of the entry's own block this place, unless it has one or can't be made there.
  bool offer(Value value, const std::string &place) {
    Value root = bytes_of(value);
    if (root.getParentBlock() != &entry.front())
      return false;
    if (auto loop = root.getDefiningOp<scf::ForOp>()) {
      unsigned number = cast<OpResult>(root).getResultNumber();
      bool in_place = bytes_of(loop.getYieldedValues()[number]) == loop.getRegionIterArgs()[number];
      LoopWords &words = loops[root];
      if (!in_place || !words.first.empty())
        return false;
      words.first = place;
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
  std::map<Value, std::string, ByAddress> places; // words are pointed to: a std::map leaves them where they are
  std::map<Value, LoopWords, ByAddress> loops;    // by result
  std::vector<Candidate> candidates;
  int64_t slot_count = 0;
};

} // namespace

LogicalResult plan_memory(ModuleOp module) {
  for (func::FuncOp entry : entries(module)) {
    Planner planner(entry);
    planner.unshare_empties();
    planner.place_results();
    planner.place_updates();
    planner.place_turns();
    if (failed(planner.find_lifetimes()))
      return failure();
    planner.choose_slots();
    planner.annotate();
  }
  return success();
}

static Place parse(StringRef word) {
  auto [kind, rest] = word.split(' ');
  auto [number, offsets] = rest.split(" at ");
  Place place{kind == "slot"     ? Place::slot
              : kind == "result" ? Place::result
              : kind == "next"   ? Place::next_state
                                 : Place::turn};
  number.getAsInteger(10, place.number);
  SmallVector<StringRef> parts;
  offsets.split(parts, ' ', -1, false);
  for (StringRef part : parts)
    part.getAsInteger(10, place.offsets.emplace_back());
  return place;
}

Place place_of(Value tensor) {
  Value root = bytes_of(tensor);
  if (auto argument = dyn_cast<BlockArgument>(root)) {
    if (auto loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp()))
      return {Place::loop, argument.getArgNumber() - loop.getNumInductionVars()};
    return {Place::input, argument.getArgNumber()};
  }
  auto result = cast<OpResult>(root);
  if (auto get = root.getDefiningOp<ir::GetOp>())
    return {Place::weight, 0, get.getWeight()};
  if (auto read = root.getDefiningOp<ir::ReadOp>())
    return {Place::state, state_number(read, read.getState())};
  if (root.getDefiningOp<scf::ForOp>())
    return {Place::loop, result.getResultNumber()};
  if (root.getDefiningOp<tensor::ExtractSliceOp>())
    return {Place::slice};
  if (root.getDefiningOp<arith::ConstantOp>())
    return {Place::constant};
  auto words = result.getOwner()->getAttrOfType<ArrayAttr>(places_name);
  return words ? parse(cast<StringAttr>(words[result.getResultNumber()]).getValue()) : Place{Place::nothing};
}

LoopPlace loop_place(Operation *loop, unsigned number) {
  StringRef word = cast<StringAttr>(loop->getAttrOfType<ArrayAttr>(places_name)[number]).getValue();
  auto [first, second] = word.split(", ");
  return {parse(first), second.empty() ? -1 : parse(second).number};
}

SmallVector<ResultCopy> result_copies(func::FuncOp entry) {
  SmallVector<ResultCopy> out;
  auto ret = cast<func::ReturnOp>(entry.front().getTerminator());
  for (auto [i, value] : llvm::enumerate(ret.getOperands())) {
    Place place = place_of(value);
    if (auto loop = bytes_of(value).getDefiningOp<scf::ForOp>())
      place = loop_place(loop, place.number).place;
    if ((place.kind != Place::result || place.number != int64_t(i)) && place.kind != Place::nothing)
      out.push_back({value, int64_t(i)});
  }
  return out;
}

std::vector<SmallVector<Value>> slots(func::FuncOp entry) {
  std::vector<SmallVector<Value>> out(entry->getAttrOfType<IntegerAttr>(slots_name).getInt());
  entry.walk([&](Operation *op) {
    if (!op->hasAttr(places_name))
      return;
    for (OpResult result : op->getResults()) {
      Place place = place_of(result);
      if (isa<scf::ForOp>(op)) {
        LoopPlace both = loop_place(op, result.getResultNumber());
        place = both.place;
        if (both.second_slot >= 0)
          out[both.second_slot].push_back(result);
      }
      if (place.kind == Place::slot)
        out[place.number].push_back(result);
    }
  });
  return out;
}

} // namespace heddle::passes
