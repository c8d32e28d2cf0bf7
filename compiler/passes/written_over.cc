// A kernel qualifies by its kind (which reads all of an element before it writes any of it, and computes each once) and
// by its ops: the old value is read by element-wise ops at their own places only, whose results are used in that way,
// too, up to what the kernel returns. A call that fails must change no state: there is nothing that can fail behind it.
#include "compiler/passes/written_over.h"

#include "compiler/kernels/kinds.h"
#include "compiler/passes/entry_values.h"

#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace heddle::passes {

using namespace mlir;

namespace {

/// Ops that compute nothing: another name for bytes, or a size.
bool is_name(Operation *op) {
  return isa<tensor::CollapseShapeOp, tensor::ExpandShapeOp, tensor::CastOp, ir::ReadOp, ir::GetOp, ir::DimOp,
             affine::AffineApplyOp>(op) ||
         op->hasTrait<OpTrait::ConstantLike>() || isa_and_nonnull<arith::ArithDialect>(op->getDialect());
}

/// The states' new values that a call makes, or none where it makes anything else.
SmallVector<ir::UpdateOp> updates_of(func::CallOp call) {
  SmallVector<ir::UpdateOp> out;
  SmallVector<Value> values(call.getResults());
  for (size_t i = 0; i < values.size(); ++i)
    for (Operation *user : values[i].getUsers()) {
      auto update = dyn_cast<ir::UpdateOp>(user);
      if (update && update.getOffsets().empty() && !update.getSliding() && update->getBlock() == call->getBlock())
        out.push_back(update);
      else if (isa<tensor::CollapseShapeOp, tensor::ExpandShapeOp, tensor::CastOp>(user))
        llvm::append_range(values, user->getResults());
      else
        return {};
    }
  return out;
}

/// The ops of the entry's block that look at the old value of a state.
llvm::SetVector<Operation *> readers_of(func::FuncOp entry, StringRef state) {
  llvm::SetVector<Operation *> out;
  entry.walk([&](Operation *op) {
    for (Value operand : op->getOperands()) {
      if (!isa<RankedTensorType>(operand.getType()) || is_name(op))
        continue;
      auto read = owner_of(operand).getDefiningOp<ir::ReadOp>();
      if (read && read.getState() == state)
        out.insert(entry.front().findAncestorOpInBlock(*op));
    }
  });
  return out;
}

bool is_at_own_place(linalg::LinalgOp op, OpOperand &operand) {
  auto has_own_place = [&](OpOperand &each) { return op.getMatchingIndexingMap(&each).isIdentity(); };
  return op.getNumReductionLoops() == 0 && op.isDpsInput(&operand) && has_own_place(operand) &&
         llvm::all_of(op.getDpsInitsMutable(), has_own_place);
}

/// Whether elements of an argument reach only results of the kernel, each its own.
bool stays_in_place(BlockArgument argument) {
  llvm::SetVector<Value> values;
  values.insert(argument);
  for (size_t i = 0; i < values.size(); ++i)
    for (OpOperand &use : values[i].getUses()) {
      if (isa<func::ReturnOp>(use.getOwner()))
        continue;
      auto op = dyn_cast<linalg::LinalgOp>(use.getOwner());
      if (!op || !is_at_own_place(op, use))
        return false;
      values.insert(op->result_begin(), op->result_end());
    }
  return true;
}

/// The kernel of a call that may write its results over what it reads, as far as its schedules go; null: it may not.
func::FuncOp kernel_that_writes_over(func::CallOp call) {
  auto kernel = call->getParentOfType<ModuleOp>().lookupSymbol<func::FuncOp>(call.getCallee());
  const KernelKind *kind = kernel ? named_kind(kernel) : nullptr;
  auto rows = kind && kind->writes_over ? schedule_rows(kernel) : Result<std::vector<ScheduleRow>>(Error{""});
  if (!rows || kernel.isDeclaration() || call->hasAttr(ir::names::once))
    return {};
  for (const ScheduleRow &row : *rows)
    if (const Variant *variant = kind->find_variant(row.variant); !variant || variant->write) // for GPUs
      return {};
  return kernel;
}

/// Whether an operand of a call, all of `whole`, is as large as the result, and its elements stay in place.
bool stays_in_place(func::CallOp call, func::FuncOp kernel, unsigned operand, Value whole) {
  Value value = call.getOperand(operand);
  return value.getType() == call.getResult(0).getType() && bytes_of(value) == whole &&
         stays_in_place(kernel.getArgument(operand));
}

/// Whether a call may write over the old values of the states that it updates, as far as its kernel is concerned. It
/// reads them all: a new value of its own may have another shape, and there may be no old one.
bool may_write_over(func::CallOp call, ArrayRef<ir::UpdateOp> updates) {
  func::FuncOp kernel = kernel_that_writes_over(call);
  Type type = call.getResult(0).getType();
  if (!kernel || !llvm::all_of(call.getResultTypes(), [&](Type each) { return each == type; }))
    return false;
  llvm::DenseSet<StringRef> states, read_states;
  for (ir::UpdateOp update : updates)
    states.insert(update.getState());
  for (auto [i, operand] : llvm::enumerate(call.getOperands())) {
    if (!isa<RankedTensorType>(operand.getType()))
      continue;
    auto read = owner_of(operand).getDefiningOp<ir::ReadOp>();
    if (!read || !states.contains(read.getState()))
      continue;
    if (!stays_in_place(call, kernel, unsigned(i), read.getResult()))
      return false;
    read_states.insert(read.getState());
  }
  return llvm::all_of(states, [&](StringRef state) { return read_states.contains(state); });
}

/// The last op of the block that makes any of what `op` needs; null: the block's arguments are enough. What only names
/// it and stands behind that op can be moved there.
Operation *latest_maker(Operation *op, Block &block) {
  Operation *latest = nullptr;
  llvm::SetVector<Value> needed(op->operand_begin(), op->operand_end());
  for (size_t i = 0; i < needed.size(); ++i) {
    Operation *made = needed[i].getDefiningOp();
    if (!made || made->getBlock() != &block)
      continue;
    if (is_name(made))
      needed.insert(made->operand_begin(), made->operand_end());
    else if (!latest || latest->isBeforeInBlock(made))
      latest = made;
  }
  return latest;
}

void move_names_before(Operation *op, Operation *place) {
  for (Value operand : op->getOperands())
    if (Operation *made = operand.getDefiningOp();
        made && made->getBlock() == place->getBlock() && is_name(made) && !made->isBeforeInBlock(place)) {
      move_names_before(made, place);
      made->moveBefore(place);
    }
}

/// What reads the results of an op and stands before `place` goes behind it.
void move_users_behind(Operation *op, Operation *place) {
  for (Operation *user : llvm::to_vector(op->getUsers())) {
    if (user->isBeforeInBlock(place)) {
      move_names_before(user, place);
      user->moveAfter(place);
    }
    move_users_behind(user, user);
  }
}

} // namespace

void move_updates(func::FuncOp entry) {
  Block &block = entry.front();
  for (auto call : llvm::to_vector(block.getOps<func::CallOp>())) {
    SmallVector<ir::UpdateOp> updates = updates_of(call);
    if (updates.empty() || !may_write_over(call, updates))
      continue;
    Operation *latest = latest_maker(call, block);
    for (ir::UpdateOp update : updates)
      for (Operation *reader : readers_of(entry, update.getState()))
        if (reader != call && (!latest || latest->isBeforeInBlock(reader)))
          latest = reader;
    if (latest && latest->hasTrait<OpTrait::IsTerminator>())
      continue;
    OpBuilder builder(entry.getContext());
    latest ? builder.setInsertionPointAfter(latest) : builder.setInsertionPointToStart(&block);
    Operation *place = arith::ConstantIndexOp::create(builder, call.getLoc(), 0); // stands for it, whatever moves
    move_names_before(call, place);
    call->moveBefore(place);
    move_users_behind(call, place);
    place->erase();
  }
}

bool may_write_over(func::CallOp call, Value argument) {
  func::FuncOp kernel = kernel_that_writes_over(call);
  if (!kernel || call.getNumResults() != 1)
    return false;
  bool reads = false;
  for (auto [i, operand] : llvm::enumerate(call.getOperands())) {
    if (!isa<RankedTensorType>(operand.getType()) || owner_of(operand) != argument)
      continue;
    if (!stays_in_place(call, kernel, unsigned(i), argument))
      return false;
    reads = true;
  }
  return reads;
}

bool is_written_over(ir::UpdateOp update) {
  auto call = bytes_of(update.getValue()).getDefiningOp<func::CallOp>();
  auto entry = update->getParentOfType<func::FuncOp>();
  if (!call || call->getBlock() != &entry.front() || update->getBlock() != &entry.front())
    return false;
  SmallVector<ir::UpdateOp> updates = updates_of(call);
  if (updates.empty() || !may_write_over(call, updates))
    return false;
  for (Operation *reader : readers_of(entry, update.getState()))
    if (call->isBeforeInBlock(reader))
      return false;
  bool may_fail = false;
  entry.walk([&](Operation *op) {
    if (auto other = dyn_cast<ir::UpdateOp>(op))
      may_fail |= !other.getOffsets().empty() || other.getSliding();
    else if (isa<ir::RequireOp>(op))
      may_fail |= call->isBeforeInBlock(entry.front().findAncestorOpInBlock(*op));
  });
  return !may_fail;
}

} // namespace heddle::passes
