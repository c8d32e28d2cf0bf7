// `layout` computes where each slot of the arena begins for the dims of a call and checks every tensor's size;
// arena_bytes is its total, and run (run_function.cc) calls it again for the offsets; once_layout and once_bytes are
// the same of what a session keeps. scratch_bytes and nothing_bytes ask the kernels what they need. All of it is
// arithmetic on a handful of integers, nothing against the first kernel.
#include "compiler/emit/host/entry_functions.h"

#include "compiler/emit/host/host_code.h"
#include "compiler/ir/dialect.h"
#include "compiler/passes/plan_memory.h"
#include "runtime/abi.h"

#include "mlir/Dialect/Affine/Utils.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <set>

namespace heddle {

using namespace mlir;

std::string entry_symbol(int entry, const char *what) { return "entry" + std::to_string(entry) + "." + what; }

Refusals::Refusals(func::FuncOp entry) {
  auto add = [&](Operation *op, const std::string &message) {
    numbers[op] = messages.size();
    messages.push_back(message);
  };
  entry.walk([&](ir::RequireOp require) { add(require, require.getMessage().str()); });
  entry.walk([&](ir::UpdateOp update) {
    if (update.getOffsets().empty() && !update.getSliding())
      return;
    auto state = SymbolTable::lookupNearestSymbolFrom<ir::StateOp>(update, update.getStateAttr());
    add(update, "state '" + state.getLabel().str() + "' would be updated outside of its shape");
  });
}

namespace {

constexpr int64_t arena_alignment = 64;

class EntryFunctions : HostCode {
public:
  EntryFunctions(OpBuilder &builder, const HostProgram &program, func::FuncOp entry, int number)
      : HostCode(builder, entry.getLoc()), program(program), entry(entry), number(number),
        returned(cast<func::ReturnOp>(entry.front().getTerminator()).getOperands()) {}

  LogicalResult build() {
    if (failed(build_extents()) || failed(build_layout()) || failed(build_scratch_bytes()) ||
        failed(build_nothing_bytes()))
      return failure();
    build_total("arena_bytes", "layout", passes::slots(entry).size());
    if (size_t count = passes::once_values(entry).size()) {
      build_once_layout();
      build_total("once_bytes", "once_layout", count);
    }
    return success();
  }

private:
  LLVM::LLVMFuncOp function(const char *what, Type result, ArrayRef<Type> arguments) {
    auto out = LLVM::LLVMFuncOp::create(b, loc, entry_symbol(number, what),
                                        LLVM::LLVMFunctionType::get(result, arguments), LLVM::Linkage::Internal);
    b.setInsertionPointToStart(out.addEntryBlock(b));
    return out;
  }

  /// void extents(dims, out): of all inputs, then of all results, then bounds of inputs that dims decide.
  LogicalResult build_extents() {
    OpBuilder::InsertionGuard guard(b);
    auto out = function("extents", LLVM::LLVMVoidType::get(b.getContext()), {pointer, pointer});
    SizeBuilder sizes(b, program.module, out.getArgument(0));
    SmallVector<Value> values(entry.getArguments().begin(), entry.getArguments().end());
    llvm::append_range(values, returned);
    int64_t at = 0;
    for (Value value : values) {
      auto extents = sizes.extents(value);
      if (failed(extents))
        return failure();
      for (Value extent : *extents)
        LLVM::StoreOp::create(b, loc, sizes.as_i64(extent), element(out.getArgument(1), i64(), at++));
    }
    for (unsigned i = 0; i < entry.getNumArguments(); ++i) {
      auto below = entry.getArgAttrOfType<AffineMapAttr>(i, ir::names::below);
      AffineExpr limit = below ? below.getValue().getResult(0) : AffineExpr();
      auto dim = dyn_cast_or_null<AffineDimExpr>(limit);
      bool given = dim && dim.getPosition() < passes::given_dims(program.module);
      if (!limit || given || isa<AffineConstantExpr>(limit))
        continue;
      auto bound = affine::expandAffineMap(b, loc, below.getValue(), sizes.dims());
      if (!bound)
        return failure();
      LLVM::StoreOp::create(b, loc, sizes.as_i64(bound->front()), element(out.getArgument(1), i64(), at++));
    }
    LLVM::ReturnOp::create(b, loc, ValueRange());
    return success();
  }

  /// i64 layout(dims, offsets): offsets of all slots; the total, or -1 where a tensor is too large.
  LogicalResult build_layout() {
    OpBuilder::InsertionGuard guard(b);
    auto out = function("layout", i64(), {pointer, pointer});
    SizeBuilder sizes(b, program.module, out.getArgument(0));
    Value too_large = arith::ConstantIntOp::create(b, loc, 0, 1), most = number64(most_elements);
    for (Value size : sizes.dims()) {
      Value dim = sizes.as_i64(size);
      Value over = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ugt, dim, most);
      too_large = arith::OrIOp::create(b, loc, too_large, over);
    }
    for (Value argument : entry.getArguments())
      if (failed(elements(sizes, argument, too_large)))
        return failure();
    WalkResult known = entry.walk([&](Operation *op) {
      if (isa<func::CallOp>(op))
        for (Value operand : op->getOperands())
          if (isa<IndexType>(operand.getType())) {
            Value size = sizes.as_i64(sizes.index(operand));
            Value over = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ugt, size, most);
            too_large = arith::OrIOp::create(b, loc, too_large, over);
          }
      if (isa<func::CallOp, scf::ForOp, ir::ReadOp>(op))
        for (Value result : op->getResults())
          if (failed(elements(sizes, result, too_large)))
            return WalkResult::interrupt();
      return WalkResult::advance();
    });
    if (known.wasInterrupted())
      return failure();
    Value total = store_offsets(sizes, passes::slots(entry), out.getArgument(1));
    total = arith::SelectOp::create(b, loc, too_large, number64(-1), total);
    LLVM::ReturnOp::create(b, loc, total);
    return success();
  }

  /// Offsets of memory for one after the other of these, each as large as its largest member; the total.
  Value store_offsets(SizeBuilder &sizes, ArrayRef<SmallVector<Value>> places, Value to) {
    Value offset = number64(0);
    for (auto [i, members] : llvm::enumerate(places)) {
      LLVM::StoreOp::create(b, loc, offset, element(to, i64(), i));
      Value largest = number64(0);
      for (Value member : members)
        largest = arith::MaxUIOp::create(b, loc, largest, *bytes(sizes, member));
      Value padded = arith::AddIOp::create(b, loc, largest, number64(arena_alignment - 1));
      padded = arith::AndIOp::create(b, loc, padded, number64(-arena_alignment));
      offset = arith::AddIOp::create(b, loc, offset, padded);
    }
    return offset;
  }

  /// i64 once_layout(dims, offsets): the same of what is computed once, where arena_bytes has found no tensor too
  /// large.
  void build_once_layout() {
    OpBuilder::InsertionGuard guard(b);
    auto out = function("once_layout", i64(), {pointer, pointer});
    SizeBuilder sizes(b, program.module, out.getArgument(0));
    std::vector<SmallVector<Value>> places;
    for (Value value : passes::once_values(entry))
      places.push_back({value});
    LLVM::ReturnOp::create(b, loc, store_offsets(sizes, places, out.getArgument(1)));
  }

  /// i64 `what`(dims): the total of `layout`, a function that gives this many offsets.
  void build_total(const char *what, const char *layout, size_t count) {
    OpBuilder::InsertionGuard guard(b);
    auto out = function(what, i64(), {pointer});
    auto type = LLVM::LLVMFunctionType::get(i64(), {pointer, pointer});
    Value offsets = stack_array(i64(), count);
    auto call =
        LLVM::CallOp::create(b, loc, type, entry_symbol(number, layout), ValueRange{out.getArgument(0), offsets});
    LLVM::ReturnOp::create(b, loc, call.getResult());
  }

  /// i64 scratch_bytes(dims): of the kernel that needs most.
  LogicalResult build_scratch_bytes() {
    OpBuilder::InsertionGuard guard(b);
    auto out = function("scratch_bytes", i64(), {pointer});
    if (program.device) {
      Value bytes = number64(0); // -1 is the largest
      ask_kernels("scratch.", i64(), out.getArgument(0),
                  [&](Value own) { bytes = arith::MaxUIOp::create(b, loc, bytes, own); });
      LLVM::ReturnOp::create(b, loc, bytes);
      return success();
    }
    Value most = number32(0);
    ask_kernels("scratch.", i32(), out.getArgument(0),
                [&](Value lines) { most = arith::MaxSIOp::create(b, loc, most, lines); });
    Value bytes =
        arith::MulIOp::create(b, loc, arith::ExtSIOp::create(b, loc, i64(), most), number64(HEDDLE_SCRATCH_LINE));
    LLVM::ReturnOp::create(b, loc, bytes);
    return success();
  }

  /// i64 nothing_bytes(dims): of the kernel that needs most; -1 where one's are too many.
  LogicalResult build_nothing_bytes() {
    OpBuilder::InsertionGuard guard(b);
    auto out = function("nothing_bytes", i64(), {pointer});
    Value most = number64(0); // -1 is the largest
    ask_kernels("nothing.", i64(), out.getArgument(0),
                [&](Value bytes) { most = arith::MaxUIOp::create(b, loc, most, bytes); });
    LLVM::ReturnOp::create(b, loc, most);
    return success();
  }

  /// Calls what each kernel has under this name with its sizes, once for equal ones.
  void ask_kernels(StringRef name, Type answer, Value dims, llvm::function_ref<void(Value)> take) {
    SizeBuilder sizes(b, program.module, dims);
    std::set<std::vector<const void *>> seen; // kernels with their sizes
    entry.walk([&](func::CallOp call) {
      std::vector<const void *> key{call.getCalleeAttr().getAttr().getAsOpaquePointer()};
      SmallVector<Value> operands;
      for (Value operand : call.getOperands())
        if (isa<IndexType>(operand.getType())) {
          key.push_back(operand.getAsOpaquePointer());
          operands.push_back(sizes.as_i64(sizes.index(operand)));
        }
      if (!seen.insert(key).second)
        return;
      auto type = LLVM::LLVMFunctionType::get(answer, SmallVector<Type>(operands.size(), i64()));
      take(LLVM::CallOp::create(b, loc, type, (name + call.getCallee()).str(), operands).getResult());
    });
  }

  const HostProgram &program;
  func::FuncOp entry;
  int number;
  ValueRange returned;
};

} // namespace

LogicalResult build_entry(OpBuilder &builder, const HostProgram &program, func::FuncOp entry, int number) {
  if (failed(EntryFunctions(builder, program, entry, number).build()))
    return failure();
  return build_run(builder, program, entry, number);
}

LogicalResult build_state_extents(OpBuilder &builder, const HostProgram &program) {
  OpBuilder::InsertionGuard guard(builder);
  ModuleOp module = program.module;
  HostCode code(builder, module.getLoc());
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(builder.getContext()), {code.pointer, code.pointer});
  auto out = LLVM::LLVMFuncOp::create(builder, code.loc, "states.extents", type, LLVM::Linkage::Internal);
  builder.setInsertionPointToStart(out.addEntryBlock(builder));
  SizeBuilder sizes(builder, module, out.getArgument(0));
  int64_t at = 0;
  for (auto state : module.getOps<ir::StateOp>()) {
    auto extents = affine::expandAffineMap(builder, code.loc, state.getExtents(), sizes.dims());
    if (!extents)
      return failure();
    for (Value extent : *extents)
      LLVM::StoreOp::create(builder, code.loc, sizes.as_i64(extent),
                            code.element(out.getArgument(1), code.i64(), at++));
  }
  LLVM::ReturnOp::create(builder, code.loc, ValueRange());
  return success();
}

} // namespace heddle
