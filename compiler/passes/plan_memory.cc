// Lifetimes are intervals of call numbers, since an entry is one straight line of kernel calls. Slots are chosen
// greedily, the largest value first (sizes taken at one nominal choice of the dims), into the first slot whose
// values it never meets: a slot is then as large as its first value wherever sizes grow together. The order only
// moves memory about; that no two values overlap holds for every choice of dims.
#include "compiler/passes/plan_memory.h"

#include "compiler/ir/dialect.h"
#include "compiler/passes/entry_values.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <algorithm>
#include <tuple>

namespace heddle::passes {

using namespace mlir;

namespace {

constexpr llvm::StringLiteral places_name = "heddle.places"; // call: "slot 3" or "result 0" per result
constexpr llvm::StringLiteral slots_name = "heddle.slots";   // entry: how many
constexpr int64_t nominal_dim = 64;                          // or the bound, where that is smaller

/// A value of the arena, alive from call `first` to call `last` inclusive.
struct Candidate {
  OpResult value;
  unsigned number; // among the results of its call
  int64_t first, last;
  int64_t bytes;
};

class Planner {
public:
  explicit Planner(func::FuncOp entry) : entry(entry) {}

  /// Values that the entry returns are written where the caller wants them.
  void place_results() {
    auto ret = cast<func::ReturnOp>(entry.front().getTerminator());
    for (auto [i, value] : llvm::enumerate(ret.getOperands())) {
      Value root = bytes_of(value);
      if (root.getDefiningOp<func::CallOp>())
        places.try_emplace(root, "result " + std::to_string(i));
    }
  }

  LogicalResult find_lifetimes() {
    DenseMap<Operation *, int64_t> number;
    for (Operation &op : entry.front()) {
      if (op.getNumRegions())
        return op.emitOpError("stands between kernels; entries are straight lines of kernel calls so far");
      number.try_emplace(&op, number.size());
    }
    DenseMap<Value, int64_t> last;
    for (Operation &op : entry.front())
      for (Value operand : op.getOperands())
        if (isa<RankedTensorType>(operand.getType())) {
          int64_t &end = last[bytes_of(operand)];
          end = std::max(end, number[&op]);
        }
    auto module = entry->getParentOfType<ModuleOp>();
    std::vector<int64_t> dims;
    for (const ModuleDim &dim : module_dims(module))
      dims.push_back(dim.most < 0 ? nominal_dim : std::min(dim.most, nominal_dim));
    SizeEvaluator sizes(module, dims);
    for (auto call : entry.front().getOps<func::CallOp>())
      for (OpResult result : call.getResults()) {
        if (places.contains(result))
          continue;
        auto bytes = sizes.bytes(result);
        if (failed(bytes))
          return failure();
        int64_t first = number[call];
        candidates.push_back({result, result.getResultNumber(), first, std::max(first, last.lookup(result)), *bytes});
      }
    return success();
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
      places[candidate.value] = "slot " + std::to_string(slot - slots.begin());
    }
    slot_count = slots.size();
  }

  void annotate() {
    Builder builder(entry.getContext());
    for (auto call : entry.front().getOps<func::CallOp>()) {
      SmallVector<Attribute> words;
      for (Value result : call.getResults())
        words.push_back(builder.getStringAttr(places[result]));
      call->setAttr(places_name, builder.getArrayAttr(words));
    }
    entry->setAttr(slots_name, builder.getI64IntegerAttr(slot_count));
  }

private:
  func::FuncOp entry;
  DenseMap<Value, std::string> places;
  std::vector<Candidate> candidates;
  int64_t slot_count = 0;
};

} // namespace

LogicalResult plan_memory(ModuleOp module) {
  for (func::FuncOp entry : entries(module)) {
    Planner planner(entry);
    planner.place_results();
    if (failed(planner.find_lifetimes()))
      return failure();
    planner.choose_slots();
    planner.annotate();
  }
  return success();
}

Place place_of(Value tensor) {
  Value root = bytes_of(tensor);
  if (auto argument = dyn_cast<BlockArgument>(root))
    return {Place::input, argument.getArgNumber(), {}};
  if (auto get = root.getDefiningOp<ir::GetOp>())
    return {Place::weight, 0, get.getWeight()};
  auto result = cast<OpResult>(root);
  auto words = result.getOwner()->getAttrOfType<ArrayAttr>(places_name);
  auto [kind, number] = cast<StringAttr>(words[result.getResultNumber()]).getValue().split(' ');
  Place place{kind == "slot" ? Place::slot : Place::result, 0, {}};
  number.getAsInteger(10, place.number);
  return place;
}

SmallVector<ResultCopy> result_copies(func::FuncOp entry) {
  SmallVector<ResultCopy> out;
  auto ret = cast<func::ReturnOp>(entry.front().getTerminator());
  for (auto [i, value] : llvm::enumerate(ret.getOperands())) {
    Place place = place_of(value);
    if (place.kind != Place::result || place.number != int64_t(i))
      out.push_back({value, int64_t(i)});
  }
  return out;
}

std::vector<SmallVector<Value>> slots(func::FuncOp entry) {
  std::vector<SmallVector<Value>> out(entry->getAttrOfType<IntegerAttr>(slots_name).getInt());
  for (auto call : entry.front().getOps<func::CallOp>())
    for (Value result : call.getResults())
      if (Place place = place_of(result); place.kind == Place::slot)
        out[place.number].push_back(result);
  return out;
}

} // namespace heddle::passes
