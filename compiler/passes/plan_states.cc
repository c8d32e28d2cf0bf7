// A state is updated in place where that costs nothing but the places that change: their new values are kept until the
// entry's end, when nobody reads the old ones any more; and where a kernel makes all of it element by element, after
// everybody else has read it (written_over.h). Else the entry writes to the state's next buffer: a whole new
// value, by its kernel itself where possible; or, where updates in a loop or of one state from another leave no end to
// wait for, a copy of the old value in which places are overwritten.
#include "compiler/passes/plan_states.h"

#include "compiler/ir/import.h"
#include "compiler/ir/shapes.h"
#include "compiler/passes/entry_values.h"
#include "compiler/passes/plan_memory.h"
#include "compiler/passes/written_over.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"

namespace heddle::passes {

using namespace mlir;

namespace {

constexpr llvm::StringLiteral uses_name = "heddle.uses"; // entry: [{state, reads, updates, in_place, starts_as_old}]

/// Where an update writes, along one axis.
struct Along {
  std::optional<int64_t> offset; // where it is constant
  AffineExpr extent;             // null: not known
};

SmallVector<Along> places_of(ir::UpdateOp update) {
  SmallVector<Along> out;
  MLIRContext *context = update.getContext();
  auto extents = ir::extent_formulas(update.getValue());
  for (Value offset : update.getOffsets()) {
    APInt value;
    std::optional<int64_t> constant;
    if (matchPattern(offset, m_ConstantInt(&value)))
      constant = value.getSExtValue();
    out.push_back({constant, getAffineConstantExpr(1, context)});
  }
  for (auto [i, axis] : llvm::enumerate(*update.getAxes()))
    out[axis].extent = succeeded(extents) ? (*extents)[i] : AffineExpr();
  return out;
}

class StatePlan {
public:
  StatePlan(func::FuncOp entry, ir::StateOp state, int64_t number) : entry(entry), state(state), number(number) {
    entry.walk([&](Operation *op) {
      if (auto read = dyn_cast<ir::ReadOp>(op); read && read.getState() == state.getSymName())
        is_read |= !op->use_empty();
      if (auto update = dyn_cast<ir::UpdateOp>(op); update && update.getState() == state.getSymName())
        updates.push_back(update);
    });
  }

  bool uses() { return is_read || is_mentioned() || !updates.empty(); }

  /// Whether the model's text reads the state: then a call asks for its value and its dims, even where the optimiser
  /// found that nothing depends on it.
  bool is_mentioned() {
    auto reads = entry->getAttrOfType<ArrayAttr>(ir::names::reads);
    return reads && llvm::any_of(reads.getAsRange<StringAttr>(),
                                 [&](StringAttr symbol) { return symbol.getValue() == state.getSymName(); });
  }

  StateUse plan(std::vector<StateUpdate> &out) {
    StateUse use{number, is_read || is_mentioned(), !updates.empty(), false, false};
    if (updates.empty())
      return use;
    if (state.getSlides()) {
      use.reads = use.in_place = true;
      for (ir::UpdateOp update : updates)
        out.push_back({update, {}, ir::CopyTime::at_end});
      return use;
    }
    if (updates[0].getOffsets().empty()) {
      use.in_place = is_written_over(updates[0]);
      use.reads |= use.in_place;
      out.push_back({updates[0], next({}), ir::CopyTime::at_end});
      return use;
    }
    if (auto axis = covered_along()) {
      bool one_piece = llvm::all_of(extents().take_front(*axis), [](AffineExpr e) { return is_constant(e, 1); });
      for (ir::UpdateOp update : updates)
        out.push_back({update, one_piece ? next(constant_offsets(update)) : ir::PlaceAttr(), ir::CopyTime::at_end});
      return use;
    }
    use.reads = true; // what the updates leave alone
    bool at_end = llvm::all_of(updates, [&](ir::UpdateOp update) { return can_wait(update); });
    use.in_place = at_end || nobody_looks();
    use.starts_as_old = !use.in_place;
    for (ir::UpdateOp update : updates)
      out.push_back({update, {}, at_end ? ir::CopyTime::at_end : ir::CopyTime::at_once});
    return use;
  }

private:
  static bool is_constant(AffineExpr e, int64_t value) {
    auto constant = dyn_cast<AffineConstantExpr>(e);
    return constant && constant.getValue() == value;
  }
  ArrayRef<AffineExpr> extents() { return state.getExtents().getResults(); }

  ir::PlaceAttr next(ArrayRef<int64_t> offsets) {
    return ir::PlaceAttr::get(entry.getContext(), ir::PlaceKind::next_state, number, offsets);
  }

  static SmallVector<int64_t> constant_offsets(ir::UpdateOp update) {
    return llvm::map_to_vector(places_of(update), [](const Along &along) { return *along.offset; });
  }

  /// The axis along which the updates, each whole along the others, make up the state: they never overlap, so it is
  /// enough to count.
  std::optional<size_t> covered_along() {
    std::optional<size_t> axis;
    int64_t total = 0;
    for (ir::UpdateOp update : updates) {
      if (update->getBlock() != &entry.front())
        return std::nullopt;
      int64_t count = -1;
      for (auto [i, along] : llvm::enumerate(places_of(update))) {
        if (!along.offset || !along.extent)
          return std::nullopt;
        if (*along.offset == 0 && along.extent == extents()[i])
          continue;
        auto extent = dyn_cast<AffineConstantExpr>(along.extent);
        if (!extent || (axis && *axis != i) || count >= 0)
          return std::nullopt;
        axis = i;
        count = extent.getValue();
      }
      if (count < 0) // all of it
        return updates.size() == 1 ? std::optional<size_t>(0) : std::nullopt;
      total += count;
    }
    return axis && is_constant(extents()[*axis], total) ? axis : std::nullopt;
  }

  /// Whether the value is still there at the end of the entry, when states change.
  bool can_wait(ir::UpdateOp update) {
    Value root = owner_of(update.getValue());
    return update->getBlock() == &entry.front() && !root.getDefiningOp<ir::ReadOp>();
  }

  /// Whether no kernel reads the state and no requirement can fail once a place of it is written.
  bool nobody_looks() {
    bool required = false, from_state = false;
    Operation *first = entry.front().findAncestorOpInBlock(*updates.front());
    entry.walk([&](ir::RequireOp op) {
      Operation *top = entry.front().findAncestorOpInBlock(*op);
      required |= !top->isBeforeInBlock(first);
    });
    for (ir::UpdateOp update : updates)
      from_state |= bool(owner_of(update.getValue()).getDefiningOp<ir::ReadOp>());
    return !is_read && !required && !from_state;
  }

  func::FuncOp entry;
  ir::StateOp state;
  int64_t number;
  bool is_read = false;
  SmallVector<ir::UpdateOp> updates;
};

} // namespace

std::vector<StateUpdate> plan_states(func::FuncOp entry) {
  std::vector<StateUpdate> out;
  Builder builder(entry.getContext());
  SmallVector<Attribute> uses;
  for (auto [number, state] : llvm::enumerate(entry->getParentOfType<ModuleOp>().getOps<ir::StateOp>())) {
    StatePlan plan(entry, state, number);
    if (!plan.uses())
      continue;
    StateUse use = plan.plan(out);
    uses.push_back(
        builder.getDictionaryAttr({builder.getNamedAttr("state", builder.getI64IntegerAttr(use.state)),
                                   builder.getNamedAttr("reads", builder.getBoolAttr(use.reads)),
                                   builder.getNamedAttr("updates", builder.getBoolAttr(use.updates)),
                                   builder.getNamedAttr("in_place", builder.getBoolAttr(use.in_place)),
                                   builder.getNamedAttr("starts_as_old", builder.getBoolAttr(use.starts_as_old))}));
  }
  if (!uses.empty())
    entry->setAttr(uses_name, builder.getArrayAttr(uses));
  return out;
}

int64_t state_number(Operation *inside, StringRef symbol) {
  for (auto [number, state] : llvm::enumerate(inside->getParentOfType<ModuleOp>().getOps<ir::StateOp>()))
    if (state.getSymName() == symbol)
      return number;
  return -1;
}

std::vector<StateUse> state_uses(func::FuncOp entry) {
  std::vector<StateUse> out;
  if (auto uses = entry->getAttrOfType<ArrayAttr>(uses_name))
    for (auto use : uses.getAsRange<DictionaryAttr>()) {
      auto is = [&](StringRef name) { return use.getAs<BoolAttr>(name).getValue(); };
      out.push_back(
          {use.getAs<IntegerAttr>("state").getInt(), is("reads"), is("updates"), is("in_place"), is("starts_as_old")});
    }
  return out;
}

ir::CopyTime copy_time(Operation *update) { return update->getAttrOfType<ir::CopyTimeAttr>(copy_name).getValue(); }

} // namespace heddle::passes
