// `layout` computes where each slot of the arena begins for the dims of a call and checks every tensor's size;
// arena_bytes is its total, and run calls it again for the offsets. All of it is arithmetic on a handful of
// integers, nothing against the first kernel.
#include "compiler/emit/host/entry_functions.h"

#include "compiler/emit/host/size_builder.h"
#include "compiler/ir/dialect.h"
#include "compiler/passes/entry_values.h"
#include "compiler/passes/plan_memory.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

#include <limits>

namespace heddle {

using namespace mlir;

std::string entry_symbol(int entry, const char *what) { return "entry" + std::to_string(entry) + "." + what; }

namespace {

constexpr int64_t arena_alignment = 64;
constexpr int64_t most_elements = std::numeric_limits<int32_t>::max(); // Halide indexes with 32 bits

/// The order of heddle_call's fields; every one is a pointer.
enum class CallField { dims, inputs, results, states, next_states, weights, arena, session, count };

class EntryFunctions {
public:
  EntryFunctions(OpBuilder &builder, const HostProgram &program, func::FuncOp entry, int number)
      : b(builder), program(program), entry(entry), number(number), loc(entry.getLoc()),
        pointer(LLVM::LLVMPointerType::get(builder.getContext())), host(builder.getInsertionBlock()),
        returned(cast<func::ReturnOp>(entry.front().getTerminator()).getOperands()) {}

  LogicalResult build() {
    return success(succeeded(build_extents()) && succeeded(build_layout()) && succeeded(build_arena_bytes()) &&
                   succeeded(build_run()));
  }

private:
  Type i64() { return b.getI64Type(); }
  Value number64(int64_t value) { return arith::ConstantIntOp::create(b, loc, value, 64); }
  Value element(Value base, Type type, int64_t at) {
    return LLVM::GEPOp::create(b, loc, pointer, type, base, ArrayRef<LLVM::GEPArg>{int32_t(at)});
  }
  Value load_pointer(Value array, int64_t at) {
    return LLVM::LoadOp::create(b, loc, pointer, element(array, pointer, at));
  }

  LLVM::LLVMFuncOp function(const char *what, Type result, ArrayRef<Type> arguments) {
    auto out = LLVM::LLVMFuncOp::create(b, loc, entry_symbol(number, what),
                                        LLVM::LLVMFunctionType::get(result, arguments), LLVM::Linkage::Internal);
    b.setInsertionPointToStart(out.addEntryBlock(b));
    return out;
  }

  /// void extents(dims, out): of all inputs, then of all results.
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
    LLVM::ReturnOp::create(b, loc, ValueRange());
    return success();
  }

  /// Number of elements of a tensor, or 0 with `too_large` set. No product here can overflow.
  FailureOr<Value> elements(SizeBuilder &sizes, Value tensor, Value &too_large) {
    auto extents = sizes.extents(tensor);
    if (failed(extents))
      return failure();
    Value product = number64(1), zero = number64(0), most = number64(most_elements);
    // Unsigned, so that a negative extent is too large as well.
    auto limit = [&](Value value) {
      Value over = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ugt, value, most);
      too_large = arith::OrIOp::create(b, loc, too_large, over);
      return arith::SelectOp::create(b, loc, over, zero, value);
    };
    for (Value extent : *extents) {
      Value bounded = limit(sizes.as_i64(extent));
      Value next = arith::MulIOp::create(b, loc, product, bounded);
      product = limit(next);
    }
    return product;
  }

  /// i64 layout(dims, offsets): offsets of all slots; the total, or -1 where a tensor is too large.
  LogicalResult build_layout() {
    OpBuilder::InsertionGuard guard(b);
    auto out = function("layout", i64(), {pointer, pointer});
    SizeBuilder sizes(b, program.module, out.getArgument(0));
    Value too_large = arith::ConstantIntOp::create(b, loc, 0, 1), most = number64(most_elements);
    for (size_t i = 0; i < passes::module_dims(program.module).size(); ++i) {
      Value dim = LLVM::LoadOp::create(b, loc, i64(), element(out.getArgument(0), i64(), i));
      Value over = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ugt, dim, most);
      too_large = arith::OrIOp::create(b, loc, too_large, over);
    }
    for (Value argument : entry.getArguments())
      if (failed(elements(sizes, argument, too_large)))
        return failure();
    for (auto call : entry.front().getOps<func::CallOp>()) {
      for (Value operand : call.getOperands())
        if (isa<IndexType>(operand.getType())) {
          Value over =
              arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ugt, sizes.as_i64(sizes.index(operand)), most);
          too_large = arith::OrIOp::create(b, loc, too_large, over);
        }
      for (Value result : call.getResults())
        if (failed(elements(sizes, result, too_large)))
          return failure();
    }
    Value offset = number64(0);
    for (auto [i, members] : llvm::enumerate(passes::slots(entry))) {
      LLVM::StoreOp::create(b, loc, offset, element(out.getArgument(1), i64(), i));
      Value bytes = number64(0), ignored = arith::ConstantIntOp::create(b, loc, 0, 1);
      for (Value member : members) {
        auto count = elements(sizes, member, ignored);
        int64_t each = passes::element_bytes(cast<RankedTensorType>(member.getType()).getElementType());
        Value size = arith::MulIOp::create(b, loc, *count, number64(each));
        bytes = arith::MaxUIOp::create(b, loc, bytes, size);
      }
      Value padded = arith::AddIOp::create(b, loc, bytes, number64(arena_alignment - 1));
      padded = arith::AndIOp::create(b, loc, padded, number64(-arena_alignment));
      offset = arith::AddIOp::create(b, loc, offset, padded);
    }
    Value total = arith::SelectOp::create(b, loc, too_large, number64(-1), offset);
    LLVM::ReturnOp::create(b, loc, total);
    return success();
  }

  Value offsets_array() {
    auto array = LLVM::LLVMArrayType::get(i64(), std::max<size_t>(1, passes::slots(entry).size()));
    return LLVM::AllocaOp::create(b, loc, pointer, array, arith::ConstantIntOp::create(b, loc, 1, 32));
  }
  Value call_layout(Value dims, Value offsets) {
    auto type = LLVM::LLVMFunctionType::get(i64(), {pointer, pointer});
    return LLVM::CallOp::create(b, loc, type, entry_symbol(number, "layout"), ValueRange{dims, offsets}).getResult();
  }

  LogicalResult build_arena_bytes() {
    OpBuilder::InsertionGuard guard(b);
    auto out = function("arena_bytes", i64(), {pointer});
    Value total = call_layout(out.getArgument(0), offsets_array());
    LLVM::ReturnOp::create(b, loc, total);
    return success();
  }

  /// i32 run(call): the kernels in order, until one fails.
  LogicalResult build_run() {
    OpBuilder::InsertionGuard guard(b);
    auto out = function("run", b.getI32Type(), {pointer});
    auto field = [&](CallField which) { return load_pointer(out.getArgument(0), int64_t(which)); };
    dims = field(CallField::dims), inputs = field(CallField::inputs), results = field(CallField::results);
    weights = field(CallField::weights), arena = field(CallField::arena), session = field(CallField::session);
    offsets = offsets_array();
    call_layout(dims, offsets);
    SizeBuilder sizes(b, program.module, dims);
    for (auto call : entry.front().getOps<func::CallOp>()) // all sizes stand in the first block
      for (Value operand : call.getOperands())
        if (isa<IndexType>(operand.getType()))
          sizes.index(operand);
    SmallVector<std::pair<Value, int64_t>> copies; // bytes and result
    for (const passes::ResultCopy &copy : passes::result_copies(entry)) {
      Value ignored = arith::ConstantIntOp::create(b, loc, 0, 1);
      auto count = elements(sizes, copy.from, ignored);
      if (failed(count))
        return failure();
      int64_t each = passes::element_bytes(cast<RankedTensorType>(copy.from.getType()).getElementType());
      copies.push_back({arith::MulIOp::create(b, loc, *count, number64(each)), copy.result});
    }

    Block *failed_block = b.createBlock(&out.getBody(), out.getBody().end(), {b.getI32Type()}, {loc});
    LLVM::ReturnOp::create(b, loc, failed_block->getArgument(0));
    b.setInsertionPointToEnd(&out.getBody().front());
    for (auto call : entry.front().getOps<func::CallOp>())
      if (failed(run_kernel(call, sizes, failed_block)))
        return failure();
    for (auto [bytes, result] : copies)
      LLVM::MemcpyOp::create(b, loc, load_pointer(results, result), address(returned[result]), bytes, false);
    LLVM::ReturnOp::create(b, loc, arith::ConstantIntOp::create(b, loc, 0, 32).getResult());
    return success();
  }

  LogicalResult run_kernel(func::CallOp call, SizeBuilder &sizes, Block *failed_block) {
    SmallVector<Value> operands{session};
    for (Value operand : call.getOperands()) {
      if (isa<IndexType>(operand.getType()))
        operands.push_back(sizes.as_i64(sizes.index(operand)));
      else if (isa<RankedTensorType>(operand.getType()))
        operands.push_back(address(operand));
      else
        return call.emitOpError() << "passes a scalar of type " << operand.getType()
                                  << "; only sizes and tensors are lowered";
    }
    for (Value result : call.getResults())
      operands.push_back(address(result));
    SmallVector<Type> types = llvm::map_to_vector(operands, [](Value value) { return value.getType(); });
    auto type = LLVM::LLVMFunctionType::get(b.getI32Type(), types);
    Value name = kernel_name(call);
    kernel_event(name, 1);
    Value code = LLVM::CallOp::create(b, call.getLoc(), type, "call." + call.getCallee().str(), operands).getResult();
    Value zero = arith::ConstantIntOp::create(b, loc, 0, 32);
    Value wrong = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, code, zero);
    Region *body = failed_block->getParent();
    Block *next = b.createBlock(body, failed_block->getIterator());
    b.setInsertionPointToEnd(next->getPrevNode());
    LLVM::CondBrOp::create(b, loc, wrong, failed_block, ValueRange{code}, next, ValueRange{});
    b.setInsertionPointToStart(next);
    kernel_event(name, 0);
    return success();
  }

  /// What observers are told: the kernel's symbol and the definition that this call computes.
  Value kernel_name(func::CallOp call) {
    std::string text = call.getCallee().str();
    call.getLoc()->walk([&](Location at) {
      auto named = dyn_cast<NameLoc>(at);
      if (!named)
        return WalkResult::advance();
      text += " " + named.getName().str();
      return WalkResult::interrupt();
    });
    auto type = LLVM::LLVMArrayType::get(b.getI8Type(), text.size() + 1);
    std::string symbol = entry_symbol(number, "kernel") + std::to_string(kernels++);
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(host);
      LLVM::GlobalOp::create(b, loc, type, true, LLVM::Linkage::Private, symbol,
                             b.getStringAttr(StringRef(text.c_str(), text.size() + 1)));
    }
    return LLVM::AddressOfOp::create(b, loc, pointer, symbol);
  }

  void kernel_event(Value name, int begins) {
    auto type =
        LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()), {pointer, pointer, b.getI32Type()});
    Value when = arith::ConstantIntOp::create(b, loc, begins, 32);
    LLVM::CallOp::create(b, loc, type, kernel_event_symbol, ValueRange{session, name, when});
  }

  Value address(Value tensor) {
    passes::Place place = passes::place_of(tensor);
    auto plus = [&](Value base, Value bytes) -> Value {
      return LLVM::GEPOp::create(b, loc, pointer, b.getI8Type(), base, ArrayRef<LLVM::GEPArg>{bytes});
    };
    switch (place.kind) {
    case passes::Place::input:
      return load_pointer(inputs, place.number);
    case passes::Place::result:
      return load_pointer(results, place.number);
    case passes::Place::weight:
      return plus(weights, number64((*program.weights)[place.weight_name].offset));
    case passes::Place::slot:
      return plus(arena, LLVM::LoadOp::create(b, loc, i64(), element(offsets, i64(), place.number)));
    }
    llvm_unreachable("every kind of place is handled");
  }

  OpBuilder &b;
  const HostProgram &program;
  func::FuncOp entry;
  int number;
  Location loc;
  Type pointer;
  Block *host; // of the host module
  ValueRange returned;
  int kernels = 0;                                               // called so far
  Value dims, inputs, results, weights, arena, session, offsets; // in `run`
};

} // namespace

LogicalResult build_entry(OpBuilder &builder, const HostProgram &program, func::FuncOp entry, int number) {
  return EntryFunctions(builder, program, entry, number).build();
}

} // namespace heddle
