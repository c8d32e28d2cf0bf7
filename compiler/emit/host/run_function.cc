// `run`: the ops of an entry one after the other, kernels as calls, loops as blocks, scalars as they stand. What a loop
// carries in two places is a pair of pointers that iterations exchange. States change last: first what goes to next
// buffers is completed, then places are overwritten that nobody reads any more.
#include "compiler/emit/host/entry_functions.h"

#include "compiler/emit/host/device_calls.h"
#include "compiler/emit/host/host_code.h"
#include "compiler/ir/dialect.h"
#include "compiler/ir/shapes.h"
#include "compiler/passes/plan_memory.h"
#include "compiler/passes/plan_states.h"
#include "runtime/abi.h"

#include "mlir/Dialect/Affine/Utils.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

namespace heddle {

using namespace mlir;

namespace {

/// The order of heddle_call's fields; every one is a pointer, or as wide.
enum class CallField { dims, inputs, results, states, next_states, weights, arena, context, nothing, once, once_done };

class RunFunction : HostCode {
public:
  RunFunction(OpBuilder &builder, const HostProgram &program, func::FuncOp entry, int number)
      : HostCode(builder, entry.getLoc()), program(program), entry(entry), number(number),
        host(builder.getInsertionBlock()), refusals(entry) {}

  /// i32 run(call): 0; or the code of the kernel that failed; or 1 + the number of the requirement that doesn't hold.
  LogicalResult build() {
    OpBuilder::InsertionGuard guard(b);
    auto out = LLVM::LLVMFuncOp::create(b, loc, entry_symbol(number, "run"),
                                        LLVM::LLVMFunctionType::get(i32(), {pointer}), LLVM::Linkage::Internal);
    b.setInsertionPointToStart(out.addEntryBlock(b));
    auto field = [&](CallField which) { return load_pointer(out.getArgument(0), int64_t(which)); };
    Value dims = field(CallField::dims);
    inputs = field(CallField::inputs), results = field(CallField::results);
    weights = field(CallField::weights), arena = field(CallField::arena), session = field(CallField::context);
    nothing = field(CallField::nothing);
    uses = passes::state_uses(entry);
    if (!uses.empty())
      states = field(CallField::states), next_states = field(CallField::next_states);
    offsets = stack_array(i64(), passes::slots(entry).size());
    size_t kept = passes::once_values(entry).size();
    once_offsets = stack_array(i64(), kept);
    slice = stack_array(i64(), 3 * HEDDLE_MAX_RANK);
    auto layout = LLVM::LLVMFunctionType::get(i64(), {pointer, pointer});
    LLVM::CallOp::create(b, loc, layout, entry_symbol(number, "layout"), ValueRange{dims, offsets});
    if (kept > 0) {
      LLVM::CallOp::create(b, loc, layout, entry_symbol(number, "once_layout"), ValueRange{dims, once_offsets});
      once = field(CallField::once);
      Value done =
          LLVM::LoadOp::create(b, loc, i64(), element(out.getArgument(0), pointer, int64_t(CallField::once_done)));
      to_be_done = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, done, number64(0));
    }
    SizeBuilder all_sizes(b, program.module, dims);
    sizes = &all_sizes;
    for (auto dim : entry.front().getOps<ir::DimOp>()) // later places may lie in a loop
      sizes->index(dim);

    failed_block = b.createBlock(&out.getBody(), out.getBody().end(), {i32()}, {loc});
    LLVM::ReturnOp::create(b, loc, failed_block->getArgument(0));
    b.setInsertionPointToEnd(&out.getBody().front());
    if (failed(begin_states()) || failed(run(entry.front())) || failed(end()))
      return failure();
    LLVM::ReturnOp::create(b, loc, number32(0));
    return success();
  }

private:
  // ---- Ops in order

  LogicalResult run(Block &block) {
    for (Operation &op : block.without_terminator())
      if (failed(run(op)))
        return failure();
    return success();
  }

  LogicalResult run(Operation &op) {
    if (auto call = dyn_cast<func::CallOp>(op))
      return run_kernel(call);
    if (auto loop = dyn_cast<scf::ForOp>(op))
      return run_loop(loop);
    if (auto insert = dyn_cast<tensor::InsertSliceOp>(op))
      return run_insert(insert);
    if (auto update = dyn_cast<ir::UpdateOp>(op))
      return run_update(update);
    if (auto group = dyn_cast<ir::GroupOp>(op))
      return run_group(group);
    if (auto require = dyn_cast<ir::RequireOp>(op)) {
      go_on_if(sizes->scalar(require.getCondition()), refusal(require));
      return success();
    }
    if (auto extract = dyn_cast<tensor::ExtractOp>(op))
      return run_extract(extract);
    if (auto made = dyn_cast<tensor::FromElementsOp>(op)) {
      if (made.getElements().size() != 1)
        return made.emitOpError("makes a tensor of several scalars; kernels do that");
      store_scalar(in_memory(sizes->scalar(made.getElements()[0])), address(made));
      return success();
    }
    bool tensors = llvm::any_of(llvm::concat<const Type>(op.getOperandTypes(), op.getResultTypes()),
                                llvm::IsaPred<RankedTensorType>);
    if (!tensors)
      sizes->copy(&op);
    return success(); // views, weights and states are addresses
  }

  Value refusal(Operation *op) { return number32(1 + refusals.numbers.at(op)); }

  /// A block in front of the one that leaves with an error.
  Block *new_block(TypeRange arguments = {}) {
    OpBuilder::InsertionGuard guard(b);
    SmallVector<Location> places(arguments.size(), loc);
    return b.createBlock(failed_block->getParent(), failed_block->getIterator(), arguments, places);
  }

  /// Leaves the function with `code` unless the condition holds.
  void go_on_if(Value condition, Value code) {
    Block *next = new_block();
    LLVM::CondBrOp::create(b, loc, condition, next, ValueRange{}, failed_block, ValueRange{code});
    b.setInsertionPointToStart(next);
  }

  LogicalResult run_kernel(func::CallOp call) {
    SmallVector<Value> operands{session, nothing};
    for (Value operand : call.getOperands())
      if (isa<IndexType>(operand.getType()))
        operands.push_back(sizes->as_i64(sizes->index(operand)));
      else
        operands.push_back(isa<RankedTensorType>(operand.getType()) ? address(operand) : sizes->scalar(operand));
    for (Value result : call.getResults())
      operands.push_back(address(result));
    SmallVector<Type> types = llvm::map_to_vector(operands, [](Value value) { return value.getType(); });
    auto type = LLVM::LLVMFunctionType::get(i32(), types);
    Block *next = call->hasAttr(ir::names::once) ? begin_once() : nullptr;
    Value name = kernel_name(call);
    kernel_event(name, 1);
    Value code = LLVM::CallOp::create(b, call.getLoc(), type, "call." + call.getCallee().str(), operands).getResult();
    go_on_if(arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, code, number32(0)), code);
    kernel_event(name, 0);
    if (next) {
      LLVM::BrOp::create(b, loc, next);
      b.setInsertionPointToStart(next);
    }
    return success();
  }

  /// What follows is left out where the session has what is computed once: then the run goes on in the block returned.
  Block *begin_once() {
    Block *computing = new_block(), *next = new_block();
    LLVM::CondBrOp::create(b, loc, to_be_done, computing, next);
    b.setInsertionPointToStart(computing);
    return next;
  }

  LogicalResult run_group(ir::GroupOp group) {
    auto extents = sizes->extents(group.getNumbers());
    if (failed(extents))
      return failure();
    Value count = sizes->constant(1);
    for (Value extent : *extents)
      count = arith::MulIOp::create(b, loc, count, extent);
    int64_t height = cast<RankedTensorType>(group.getRows().getType()).getDimSize(1);
    SmallVector<Value> operands{address(group.getNumbers()), sizes->as_i64(count), number64(group.getBelow()),
                                sizes->as_i64(sizes->index(group.getTiles())), number64(height)};
    for (Value result : group.getResults())
      operands.push_back(address(result));
    auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()),
                                            llvm::to_vector(ValueRange(operands).getTypes()));
    LLVM::CallOp::create(b, group.getLoc(), type, group_symbol, operands);
    return success();
  }

  // ---- Loops

  LogicalResult run_loop(scf::ForOp loop) {
    SmallVector<passes::LoopPlace> places;
    SmallVector<Value> pointers; // the place with the value, and the other one
    for (auto [i, init] : llvm::enumerate(loop.getInitArgs())) {
      places.push_back(passes::loop_place(loop, i));
      Value at = address(places[i].place, loop.getResult(i));
      if (failed(copy_whole(init, at, places[i].place)))
        return failure();
      pointers.push_back(at);
      pointers.push_back(places[i].second_slot < 0 ? at
                                                   : address({passes::MemoryPlace::slot, places[i].second_slot}, {}));
    }
    auto bound = [&](Value index) { return sizes->as_i64(sizes->index(index)); };
    Value first = bound(loop.getLowerBound()), last = bound(loop.getUpperBound()), step = bound(loop.getStep());
    SmallVector<Type> types{i64()};
    types.append(pointers.size(), pointer);
    Block *head = new_block(types), *iteration = new_block();
    SmallVector<Value> start{first};
    llvm::append_range(start, pointers);
    LLVM::BrOp::create(b, loc, start, head);
    b.setInsertionPointToStart(head);
    Value number = head->getArgument(0);
    Value more = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, number, last);
    auto now = [&](unsigned i) { return head->getArgument(1 + 2 * i); };
    auto next = [&](unsigned i) { return head->getArgument(2 + 2 * i); };
    b.setInsertionPointToStart(iteration);
    sizes->define(loop.getInductionVar(), arith::IndexCastOp::create(b, loc, b.getIndexType(), number));
    for (unsigned i = 0; i < loop.getNumRegionIterArgs(); ++i) {
      carried[loop.getRegionIterArgs()[i]] = {now(i), next(i)};
      carried[loop.getResult(i)] = {now(i), next(i)};
    }
    if (failed(run(*loop.getBody())))
      return failure();
    for (unsigned i = 0; i < loop.getNumRegionIterArgs(); ++i)
      if (places[i].second_slot >= 0 && failed(copy_turn(loop, i, next(i))))
        return failure();
    SmallVector<Value> again{arith::AddIOp::create(b, loc, number, step)};
    for (unsigned i = 0; i < loop.getNumRegionIterArgs(); ++i) {
      bool twice = places[i].second_slot >= 0;
      again.push_back(twice ? next(i) : now(i));
      again.push_back(twice ? now(i) : next(i));
    }
    LLVM::BrOp::create(b, loc, again, head);
    Block *exit = new_block();
    b.setInsertionPointToEnd(head);
    LLVM::CondBrOp::create(b, loc, more, iteration, ValueRange{}, exit, ValueRange{});
    b.setInsertionPointToStart(exit);
    return success();
  }

  /// What the next iteration starts with, unless a kernel has written it there.
  LogicalResult copy_turn(scf::ForOp loop, unsigned i, Value to) {
    Value value = loop.getYieldedValues()[i];
    Value root = passes::bytes_of(value);
    passes::MemoryPlace place = passes::place_of(value);
    bool there = place.kind == passes::MemoryPlace::iteration && root.getParentBlock() == loop.getBody() &&
                 place.number == int64_t(i);
    return there ? success() : copy_bytes(value, to);
  }

  LogicalResult copy_bytes(Value from, Value to) {
    auto count = bytes(*sizes, from);
    if (failed(count))
      return failure();
    move(to, address(from), *count);
    return success();
  }

  /// Copies a value to where it is wanted, unless it lies there or is nothing.
  LogicalResult copy_whole(Value from, Value to, const passes::MemoryPlace &wanted) {
    passes::MemoryPlace place = passes::place_of(from);
    bool there = place.kind == wanted.kind && place.number == wanted.number && place.kind != passes::MemoryPlace::loop;
    return there || place.kind == passes::MemoryPlace::nothing ? success() : copy_bytes(from, to);
  }

  // ---- What is done to memory, which may be a device's

  /// Leaves the function where a call of the runtime's failed.
  void device(StringRef name, ValueRange operands) {
    SmallVector<Value> all{session};
    llvm::append_range(all, operands);
    Value code = call_device(b, loc, name, i32(), all);
    go_on_if(arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, code, number32(0)), code);
  }

  void move(Value to, Value from, Value bytes) {
    if (program.device)
      device("heddle_device_copy", {to, from, bytes});
    else
      LLVM::MemcpyOp::create(b, loc, to, from, bytes, false);
  }

  Value bytes_of(Type scalar) { return number64(int64_t(scalar.getIntOrFloatBitWidth()) / 8); }

  void store_scalar(Value scalar, Value to) {
    if (!program.device) {
      LLVM::StoreOp::create(b, loc, scalar, to);
      return;
    }
    LLVM::StoreOp::create(b, loc, scalar, slice);
    device("heddle_device_put", {to, slice, bytes_of(scalar.getType())});
  }

  /// What lies at `from`, or any value where `exists` doesn't hold.
  Value load_scalar(Type type, Value exists, Value from) {
    if (program.device) {
      Value none = LLVM::ZeroOp::create(b, loc, pointer);
      from = LLVM::SelectOp::create(b, loc, exists, from, none);
      device("heddle_device_read", {slice, from, bytes_of(type)});
      from = slice;
    } else {
      from = LLVM::SelectOp::create(b, loc, exists, from, slice);
    }
    return LLVM::LoadOp::create(b, loc, type, from);
  }

  // ---- Scalars and slices

  Value in_memory(Value scalar) {
    return scalar.getType().isInteger(1) ? Value(arith::ExtUIOp::create(b, loc, b.getI8Type(), scalar)) : scalar;
  }

  LogicalResult run_extract(tensor::ExtractOp extract) {
    auto extents = sizes->extents(extract.getTensor());
    if (failed(extents))
      return failure();
    Value at = sizes->constant(0), zero = sizes->constant(0);
    Value inside = arith::ConstantIntOp::create(b, loc, 1, 1), empty = arith::ConstantIntOp::create(b, loc, 0, 1);
    for (auto [index, extent] : llvm::zip_equal(extract.getIndices(), *extents)) {
      Value own = sizes->index(index);
      at = arith::MulIOp::create(b, loc, at, extent);
      at = arith::AddIOp::create(b, loc, at, own);
      Value below = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, own, extent);
      Value none = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, extent, zero);
      inside = arith::AndIOp::create(b, loc, inside, below);
      empty = arith::OrIOp::create(b, loc, empty, none);
    }
    // A read that is not taken is made all the same; of a tensor without elements it has nothing to read.
    go_on_if(arith::OrIOp::create(b, loc, inside, empty), number32(HEDDLE_OUTSIDE));
    Type type = extract.getType(), stored = type.isInteger(1) ? Type(b.getI8Type()) : type;
    Value place = LLVM::GEPOp::create(b, loc, pointer, stored, address(extract.getTensor()),
                                      ArrayRef<LLVM::GEPArg>{sizes->as_i64(at)});
    Value value = load_scalar(stored, inside, place);
    if (type.isInteger(1)) {
      Value zero = arith::ConstantIntOp::create(b, loc, 0, 8);
      value = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, value, zero);
    }
    sizes->define(extract, value);
    return success();
  }

  /// heddle_copy_slice to `to`, a tensor of these extents; the run ends with `wrong` where that would not lie inside.
  void copy_slice(Value to, ArrayRef<Value> extents, ArrayRef<Value> offsets, ArrayRef<Value> counts, Value from,
                  Value wrong) {
    SmallVector<Value> all(extents);
    llvm::append_range(all, offsets);
    llvm::append_range(all, counts);
    for (auto [i, value] : llvm::enumerate(all))
      LLVM::StoreOp::create(b, loc, sizes->as_i64(value), element(slice, i64(), i));
    int64_t each = ir::element_bytes(cast<RankedTensorType>(from.getType()).getElementType());
    if (program.device) {
      Value code = call_device(b, loc, "heddle_device_copy_slice", i32(),
                               {session, to, address(from), number64(each), number32(extents.size()), slice});
      Value outside = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, code, number32(1));
      Value reason = arith::SelectOp::create(b, loc, outside, wrong, code);
      go_on_if(arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, code, number32(0)), reason);
      return;
    }
    auto type = LLVM::LLVMFunctionType::get(i32(), {pointer, pointer, i64(), i32(), pointer});
    auto call = LLVM::CallOp::create(b, loc, type, copy_slice_symbol,
                                     ValueRange{to, address(from), number64(each), number32(extents.size()), slice});
    go_on_if(arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, call.getResult(), number32(0)), wrong);
  }

  LogicalResult run_insert(tensor::InsertSliceOp insert) {
    auto extents = sizes->extents(insert.getDest());
    if (failed(extents))
      return failure();
    auto value = [&](OpFoldResult at) {
      auto constant = getConstantIntValue(at);
      return constant ? sizes->constant(*constant) : sizes->index(cast<Value>(at));
    };
    SmallVector<Value> offsets = llvm::map_to_vector(insert.getMixedOffsets(), value);
    SmallVector<Value> counts = llvm::map_to_vector(insert.getMixedSizes(), value);
    copy_slice(address(insert.getDest()), *extents, offsets, counts, insert.getSource(), number32(HEDDLE_OUTSIDE));
    return success();
  }

  // ---- States

  LogicalResult begin_states() {
    for (const passes::StateUse &use : uses)
      if (use.starts_as_old) {
        auto extents = state_extents(use.state);
        if (failed(extents))
          return failure();
        auto type = cast<RankedTensorType>(state_op(use.state).getType());
        Value count = number64(ir::element_bytes(type.getElementType()));
        for (Value extent : *extents)
          count = arith::MulIOp::create(b, loc, count, sizes->as_i64(extent));
        move(load_pointer(next_states, use.state), load_pointer(states, use.state), count);
      }
    return success();
  }

  ir::StateOp state_op(int64_t number) {
    ModuleOp module = program.module;
    return *std::next(module.getOps<ir::StateOp>().begin(), number);
  }

  FailureOr<SmallVector<Value>> state_extents(int64_t state) {
    auto extents = affine::expandAffineMap(b, loc, state_op(state).getExtents(), sizes->dims());
    if (!extents)
      return failure();
    return llvm::to_vector_of<Value>(*extents);
  }

  const passes::StateUse &use_of(int64_t state) {
    return *llvm::find_if(uses, [=](const passes::StateUse &use) { return use.state == state; });
  }

  LogicalResult run_update(ir::UpdateOp update) {
    ir::CopyTime time = passes::copy_time(update);
    if (time == ir::CopyTime::at_end)
      waiting.push_back(update);
    return time == ir::CopyTime::at_once ? copy_update(update) : success();
  }

  LogicalResult copy_update(ir::UpdateOp update) {
    int64_t state = passes::state_number(update, update.getState());
    Value to = load_pointer(next_states, state);
    if (update.getOffsets().empty() && !update.getSliding())
      return copy_bytes(update.getValue(), to);
    auto extents = state_extents(state);
    auto own = sizes->extents(update.getValue());
    if (failed(extents) || failed(own))
      return failure();
    if (update.getSliding()) {
      slide_state(update, state, *extents, *own);
      return success();
    }
    SmallVector<Value> offsets, counts(extents->size(), sizes->constant(1));
    for (Value offset : update.getOffsets())
      offsets.push_back(sizes->index(offset));
    for (auto [axis, extent] : llvm::zip_equal(*update.getAxes(), *own))
      counts[axis] = extent;
    copy_slice(to, *extents, offsets, counts, update.getValue(), refusal(update));
    return success();
  }

  /// heddle_slide of the parts of a state that the update appends to.
  void slide_state(ir::UpdateOp update, int64_t state, ArrayRef<Value> extents, ArrayRef<Value> own) {
    size_t axis = *state_op(state).getSlides(), placed = extents.size() - own.size();
    Value part = sizes->constant(0), parts = sizes->constant(1);
    for (size_t i = 0; i < axis; ++i) {
      part = arith::MulIOp::create(b, loc, part, extents[i]);
      if (i < placed)
        part = arith::AddIOp::create(b, loc, part, sizes->index(update.getOffsets()[i]));
      else
        parts = arith::MulIOp::create(b, loc, parts, extents[i]);
    }
    auto type = LLVM::LLVMFunctionType::get(i32(), {pointer, i32(), i64(), i64(), i64(), pointer});
    auto call = LLVM::CallOp::create(b, loc, type, slide_symbol,
                                     ValueRange{session, number32(state), sizes->as_i64(part), sizes->as_i64(parts),
                                                sizes->as_i64(own[axis - placed]), address(update.getValue())});
    go_on_if(arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, call.getResult(), number32(0)), refusal(update));
  }

  LogicalResult end() {
    for (const passes::ResultCopy &copy : passes::result_copies(entry))
      if (failed(copy_bytes(copy.from, load_pointer(results, copy.result))))
        return failure();
    for (bool in_place : {false, true})
      for (ir::UpdateOp update : waiting)
        if (use_of(passes::state_number(update, update.getState())).in_place == in_place && failed(copy_update(update)))
          return failure();
    return success();
  }

  // ---- Names and addresses

  /// What observers are told: the kernel's symbol and the definition that this call computes.
  Value kernel_name(func::CallOp call) {
    std::string text = call.getCallee().str();
    call.getLoc()->walk([&](Location at) {
      auto named = dyn_cast<NameLoc>(at);
      text += named ? " " + named.getName().str() : "";
      return named ? WalkResult::interrupt() : WalkResult::advance();
    });
    return text_address(host, entry_symbol(number, "kernel") + std::to_string(kernels++), text);
  }

  void kernel_event(Value name, int begins) {
    auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()), {pointer, pointer, i32()});
    LLVM::CallOp::create(b, loc, type, kernel_event_symbol, ValueRange{session, name, number32(begins)});
  }

  Value address(Value tensor) { return address(passes::place_of(tensor), tensor); }

  Value address(const passes::MemoryPlace &place, Value tensor) {
    switch (place.kind) {
    case passes::MemoryPlace::input:
      return load_pointer(inputs, place.number);
    case passes::MemoryPlace::result:
      return load_pointer(results, place.number);
    case passes::MemoryPlace::weight:
      return plus_bytes(weights, number64((*program.weights)[place.weight_name].offset));
    case passes::MemoryPlace::slot:
      return plus_bytes(arena, LLVM::LoadOp::create(b, loc, i64(), element(offsets, i64(), place.number)));
    case passes::MemoryPlace::once:
      return plus_bytes(once, LLVM::LoadOp::create(b, loc, i64(), element(once_offsets, i64(), place.number)));
    case passes::MemoryPlace::state:
      return load_pointer(states, place.number);
    case passes::MemoryPlace::next_state:
      return next_address(place, tensor);
    case passes::MemoryPlace::iteration: {
      auto loop = cast<scf::ForOp>(passes::bytes_of(tensor).getParentBlock()->getParentOp());
      return carried.at(loop.getRegionIterArgs()[place.number]).second;
    }
    case passes::MemoryPlace::loop:
      return carried.at(passes::bytes_of(tensor)).first;
    case passes::MemoryPlace::slice:
      return slice_address(cast<tensor::ExtractSliceOp>(passes::bytes_of(tensor).getDefiningOp()));
    case passes::MemoryPlace::constant:
      return constant_address(passes::bytes_of(tensor).getDefiningOp<arith::ConstantOp>());
    case passes::MemoryPlace::nothing:
      return LLVM::ZeroOp::create(b, loc, pointer);
    }
    llvm_unreachable("every kind of place is handled");
  }

  /// A global of the library with the elements of a constant tensor, one per constant.
  Value constant_address(arith::ConstantOp constant) {
    std::string &symbol = constants[constant];
    if (symbol.empty()) {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(host);
      symbol = program.device ? device_constant_symbol(device_constants())
                              : entry_symbol(number, "constant") + std::to_string(constants.size());
      auto elements = cast<DenseElementsAttr>(constant.getValue());
      Type element = elements.getElementType();
      if (element.isInteger(1)) { // a byte each in memory
        element = b.getI8Type();
        elements = elements.mapValues(element, [](const APInt &bit) { return bit.zext(8); });
      }
      Type type = LLVM::LLVMArrayType::get(element, elements.getNumElements());
      auto flat = elements.reshape(RankedTensorType::get({elements.getNumElements()}, element));
      LLVM::GlobalOp::create(b, loc, type, true, LLVM::Linkage::Private, symbol, flat, 64);
    }
    if (program.device) {
      int64_t number = std::stoll(symbol.substr(device_constant_symbol({}).size()));
      return call_device(b, loc, "heddle_device_constant", pointer, {session, number32(number)});
    }
    return LLVM::AddressOfOp::create(b, loc, pointer, symbol);
  }

  /// How many constants for a device the host module has.
  int64_t device_constants() {
    std::string prefix = device_constant_symbol({});
    return llvm::count_if(host->getOps<LLVM::GlobalOp>(),
                          [&](LLVM::GlobalOp global) { return global.getSymName().starts_with(prefix); });
  }

  /// Of a slice that lies in one piece: whole behind its first axis.
  Value slice_address(tensor::ExtractSliceOp slice) {
    SmallVector<Value> extents = *sizes->extents(slice.getSource()); // its maker was called: it has extents
    Value at = sizes->constant(0);
    for (auto [offset, extent] : llvm::zip_equal(slice.getMixedOffsets(), extents)) {
      auto constant = getConstantIntValue(offset);
      at = arith::MulIOp::create(b, loc, at, extent);
      at = arith::AddIOp::create(b, loc, at, constant ? sizes->constant(*constant) : sizes->index(cast<Value>(offset)));
    }
    int64_t each = ir::element_bytes(slice.getType().getElementType());
    Value bytes = arith::MulIOp::create(b, loc, sizes->as_i64(at), number64(each));
    return plus_bytes(address(slice.getSource()), bytes);
  }

  Value next_address(const passes::MemoryPlace &place, Value tensor) {
    Value start = load_pointer(next_states, place.number);
    if (llvm::all_of(place.offsets, [](int64_t offset) { return offset == 0; }))
      return start;
    Value at = number64(0);
    SmallVector<Value> extents = *state_extents(place.number); // of a map that begins as an op's: it expands
    for (auto [offset, extent] : llvm::zip_equal(place.offsets, extents)) {
      at = arith::MulIOp::create(b, loc, at, sizes->as_i64(extent));
      at = arith::AddIOp::create(b, loc, at, number64(offset));
    }
    int64_t each = ir::element_bytes(cast<RankedTensorType>(tensor.getType()).getElementType());
    return plus_bytes(start, arith::MulIOp::create(b, loc, at, number64(each)));
  }

  struct ByAddress {
    bool operator()(Value a, Value b) const { return a.getAsOpaquePointer() < b.getAsOpaquePointer(); }
  };

  const HostProgram &program;
  func::FuncOp entry;
  int number;
  Block *host; // of the host module
  Refusals refusals;
  int kernels = 0; // so far
  SizeBuilder *sizes = nullptr;
  std::vector<passes::StateUse> uses;
  SmallVector<ir::UpdateOp> waiting;                           // for the end
  std::map<Value, std::pair<Value, Value>, ByAddress> carried; // the place with the value, and the other one
  std::map<Operation *, std::string> constants;                // symbols of what is in the library's own data
  Block *failed_block = nullptr;                               // returns its argument
  Value inputs, results, states, next_states, weights, arena, session, nothing, offsets, slice;
  Value once, once_offsets, to_be_done; // null where nothing is computed once
};

} // namespace

LogicalResult build_run(OpBuilder &builder, const HostProgram &program, func::FuncOp entry, int number) {
  return RunFunction(builder, program, entry, number).build();
}

} // namespace heddle
