// The descriptors are halide_buffer_t on the stack, allocated in the entry block so that they cost nothing per
// call; field numbers and type words below are those of HalideRuntime.h (Halide 21).
#include "compiler/emit/host/kernel_calls.h"

#include "compiler/emit/host/device_calls.h"
#include "compiler/emit/host/host_code.h"
#include "compiler/emit/kernels/emit.h"
#include "compiler/emit/kernels/scratch.h"
#include "compiler/ir/dialect.h"
#include "compiler/ir/shapes.h"
#include "compiler/layout/layout.h"
#include "compiler/passes/entry_values.h"

#include "mlir/Dialect/Affine/Utils.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IntegerSet.h"

namespace heddle {

using namespace mlir;

namespace {

/// halide_type_t as one little-endian word: code, bits, lanes.
FailureOr<int32_t> type_word(func::FuncOp kernel, Type element) {
  auto word = [](int code, int bits) { return code | bits << 8 | 1 << 16; };
  enum { signed_int = 0, unsigned_int = 1, floating = 2, bfloat = 4 };
  if (element.isBF16())
    return word(bfloat, 16);
  if (isa<FloatType>(element))
    return word(floating, element.getIntOrFloatBitWidth());
  if (element.isInteger(1))
    return word(unsigned_int, 1);
  if (auto integer = dyn_cast<IntegerType>(element))
    return word(integer.isUnsigned() ? unsigned_int : signed_int, integer.getWidth());
  return kernel.emitError() << "kernel @" << kernel.getName() << " has tensors of " << element, failure();
}

class KernelCall : HostCode {
public:
  KernelCall(OpBuilder &builder, func::FuncOp kernel) : HostCode(builder, kernel.getLoc()), kernel(kernel) {
    dim_type = LLVM::LLVMStructType::getLiteral(b.getContext(), {i32(), i32(), i32(), i32()});
    // device, device_interface, host, flags, type, dimensions, dim, padding
    buffer_type = LLVM::LLVMStructType::getLiteral(b.getContext(),
                                                   {i64(), pointer, pointer, i64(), i32(), i32(), pointer, pointer});
  }

  LLVM::LLVMFuncOp build() {
    OpBuilder::InsertionGuard guard(b);
    SmallVector<Type> types{pointer, pointer}, row_types{pointer};
    for (Type type : kernel.getArgumentTypes()) {
      types.push_back(isa<IndexType>(type) ? i64() : isa<RankedTensorType>(type) ? pointer : type);
      row_types.push_back(isa<IndexType>(type) ? i32() : types.back());
      sizes_count += isa<IndexType>(type);
    }
    types.append(kernel.getNumResults(), pointer);
    row_types.append(kernel.getNumResults(), pointer);

    auto function = LLVM::LLVMFuncOp::create(b, loc, "call." + kernel.getName().str(),
                                             LLVM::LLVMFunctionType::get(i32(), types), LLVM::Linkage::Internal);
    function.setNoInline(true);
    auto row_function = LLVM::LLVMFunctionType::get(i32(), row_types);
    auto rows = kernel->getAttrOfType<ArrayAttr>(ir::names::schedule);
    if (!rows) {
      kernel.emitError() << "kernel @" << kernel.getName() << " has no schedule";
      return {};
    }
    for (int row : rows_with_code(kernel))
      LLVM::LLVMFuncOp::create(b, loc, kernel_symbol(kernel, row), row_function);

    Block *block = function.addEntryBlock(b);
    b.setInsertionPointToStart(block);
    SmallVector<Value> operands{block->getArgument(0)};
    nothing = block->getArgument(1);
    for (unsigned i = 0; i < types.size() - 2; ++i)
      if (failed(add_operand(i, block->getArgument(i + 2), operands)))
        return {};
    for (auto [row, item] : llvm::enumerate(rows.getAsRange<DictionaryAttr>()))
      call_row(function, kernel_symbol(kernel, row), row_function, item.getAs<IntegerSetAttr>("when"), operands);
    return function;
  }

  /// The lines of scratch that the row for these sizes needs.
  LLVM::LLVMFuncOp build_scratch() {
    OpBuilder::InsertionGuard guard(b);
    SmallVector<Type> types, row_types;
    for (Type type : kernel.getArgumentTypes())
      if (isa<IndexType>(type))
        types.push_back(i64()), row_types.push_back(i32());
    sizes_count = types.size();
    auto function = LLVM::LLVMFuncOp::create(b, loc, "scratch." + kernel.getName().str(),
                                             LLVM::LLVMFunctionType::get(i32(), types), LLVM::Linkage::Internal);
    auto row_function = LLVM::LLVMFunctionType::get(i32(), row_types);
    auto rows = kernel->getAttrOfType<ArrayAttr>(ir::names::schedule);
    for (int row : rows_with_code(kernel))
      LLVM::LLVMFuncOp::create(b, loc, scratch_symbol(kernel_symbol(kernel, row)), row_function);
    Block *block = function.addEntryBlock(b);
    b.setInsertionPointToStart(block);
    SmallVector<Value> operands;
    for (Value size : block->getArguments()) {
      sizes.push_back(arith::IndexCastOp::create(b, loc, b.getIndexType(), size));
      operands.push_back(arith::TruncIOp::create(b, loc, i32(), size));
    }
    for (auto [row, item] : llvm::enumerate(rows.getAsRange<DictionaryAttr>()))
      call_row(function, scratch_symbol(kernel_symbol(kernel, row)), row_function, item.getAs<IntegerSetAttr>("when"),
               operands);
    return function;
  }

  /// The bytes from the start of an argument without elements that the kernel may read, at most; -1: too many.
  LLVM::LLVMFuncOp build_nothing() {
    OpBuilder::InsertionGuard guard(b);
    SmallVector<Type> types(llvm::count_if(kernel.getArgumentTypes(), llvm::IsaPred<IndexType>), i64());
    auto function = LLVM::LLVMFuncOp::create(b, loc, "nothing." + kernel.getName().str(),
                                             LLVM::LLVMFunctionType::get(i64(), types), LLVM::Linkage::Internal);
    Block *block = function.addEntryBlock(b);
    b.setInsertionPointToStart(block);
    for (Value size : block->getArguments())
      sizes.push_back(arith::IndexCastOp::create(b, loc, b.getIndexType(), size));
    Value most = number64(0), too_many = arith::ConstantIntOp::create(b, loc, 0, 1);
    for (BlockArgument argument : kernel.getArguments()) {
      auto tensor = dyn_cast<RankedTensorType>(argument.getType());
      if (!tensor)
        continue;
      auto extents = operand_extents(argument.getArgNumber());
      if (failed(extents))
        return {};
      Value empty = is_empty(*extents), count = number64(1), limit = number64(most_elements);
      for (Value extent : *extents) {
        Value wide = arith::ExtSIOp::create(b, loc, i64(), extent);
        wide = arith::MaxSIOp::create(b, loc, wide, number64(1));
        count = arith::MulIOp::create(b, loc, arith::MinUIOp::create(b, loc, count, limit), wide);
      }
      Value over = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ugt, count, limit);
      too_many = arith::OrIOp::create(b, loc, too_many, arith::AndIOp::create(b, loc, empty, over));
      Value bytes = arith::MulIOp::create(b, loc, count, number64(ir::element_bytes(tensor.getElementType())));
      bytes = arith::SelectOp::create(b, loc, empty, bytes, number64(0));
      most = arith::MaxUIOp::create(b, loc, most, bytes);
    }
    LLVM::ReturnOp::create(b, loc, arith::SelectOp::create(b, loc, too_many, number64(-1), most).getResult());
    return function;
  }

private:
  /// Argument or result `i` of the kernel, as its compiled rows want it.
  LogicalResult add_operand(unsigned i, Value value, SmallVector<Value> &operands) {
    bool result = i >= kernel.getNumArguments();
    unsigned index = result ? i - kernel.getNumArguments() : i;
    Type type = result ? kernel.getResultTypes()[index] : kernel.getArgumentTypes()[index];
    if (isa<IndexType>(type)) {
      sizes.push_back(arith::IndexCastOp::create(b, loc, b.getIndexType(), value));
      operands.push_back(arith::TruncIOp::create(b, loc, i32(), value));
      return success();
    }
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor) {
      operands.push_back(value);
      return success();
    }
    auto extents = operand_extents(i);
    auto word = type_word(kernel, tensor.getElementType());
    if (failed(extents) || failed(word))
      return failure();
    if (!result) // a read under a condition that doesn't hold is made all the same, where there is nothing to read, too
      value = LLVM::SelectOp::create(b, loc, is_empty(*extents), nothing, value);
    operands.push_back(describe(value, *extents, *word));
    return success();
  }

  /// Of argument or result `i`, as it lies in memory, outermost first.
  FailureOr<SmallVector<Value>> operand_extents(unsigned i) {
    bool result = i >= kernel.getNumArguments();
    unsigned index = result ? i - kernel.getNumArguments() : i;
    auto tensor = cast<RankedTensorType>(result ? kernel.getResultTypes()[index] : kernel.getArgumentTypes()[index]);
    auto attribute = [&](StringRef name) {
      return result ? kernel.getResultAttr(index, name) : kernel.getArgAttr(index, name);
    };
    auto extents = logical_extents(tensor, dyn_cast_or_null<AffineMapAttr>(attribute(ir::names::extents)), i);
    if (failed(extents))
      return failure();
    if (auto layout = dyn_cast_or_null<ir::LayoutAttr>(attribute(ir::names::layout)))
      extents = llvm::map_to_vector(layout::memory_shape(layout.getMap(), tensor.getShape()),
                                    [&](int64_t extent) { return number32(int32_t(extent)); });
    return extents;
  }

  Value is_empty(ArrayRef<Value> extents) {
    Value empty = arith::ConstantIntOp::create(b, loc, 0, 1), zero = number32(0);
    for (Value extent : extents)
      empty =
          arith::OrIOp::create(b, loc, empty, arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, extent, zero));
    return empty;
  }

  /// Row-major extents of a tensor, as i32 values.
  FailureOr<SmallVector<Value>> logical_extents(RankedTensorType type, AffineMapAttr map, unsigned which) {
    SmallVector<Value> out;
    for (auto [axis, extent] : llvm::enumerate(type.getShape())) {
      if (!ShapedType::isDynamic(extent)) {
        out.push_back(number32(int32_t(extent)));
        continue;
      }
      if (!map)
        return kernel.emitError() << "tensor " << which << " of kernel @" << kernel.getName() << " has no "
                                  << ir::names::extents,
               failure();
      auto value = affine::expandAffineMap(b, loc, map.getValue().getSubMap({unsigned(axis)}), sizes);
      Value wide = arith::IndexCastOp::create(b, loc, i64(), value->front());
      out.push_back(arith::TruncIOp::create(b, loc, i32(), wide));
    }
    return out;
  }

  void set(Value base, Type type, ArrayRef<LLVM::GEPArg> at, Value value) {
    Value address = LLVM::GEPOp::create(b, loc, pointer, type, base, at);
    LLVM::StoreOp::create(b, loc, value, address);
  }

  /// A halide_buffer_t; `extents` are outermost first, Halide's dimensions innermost first.
  Value describe(Value host, ArrayRef<Value> extents, int32_t word) {
    Value one = number32(1), rank = number32(extents.size());
    Value buffer = LLVM::AllocaOp::create(b, loc, pointer, buffer_type, one);
    Value dims = LLVM::AllocaOp::create(b, loc, pointer, dim_type, number32(std::max<size_t>(extents.size(), 1)));
    LLVM::StoreOp::create(b, loc, LLVM::ZeroOp::create(b, loc, buffer_type), buffer);
    set(buffer, buffer_type, {0, 2}, host);
    set(buffer, buffer_type, {0, 4}, number32(word));
    set(buffer, buffer_type, {0, 5}, rank);
    set(buffer, buffer_type, {0, 6}, dims);
    Value stride = one;
    for (auto [i, extent] : llvm::enumerate(llvm::reverse(extents))) {
      LLVM::StoreOp::create(b, loc, LLVM::ZeroOp::create(b, loc, dim_type),
                            LLVM::GEPOp::create(b, loc, pointer, dim_type, dims, ArrayRef<LLVM::GEPArg>{int32_t(i)}));
      set(dims, dim_type, {int32_t(i), 1}, extent);
      set(dims, dim_type, {int32_t(i), 2}, stride);
      stride = arith::MulIOp::create(b, loc, stride, extent);
    }
    return buffer;
  }

  /// Calls the row and returns, where the sizes lie in `when`; else goes on in a new block.
  void call_row(LLVM::LLVMFuncOp function, StringRef symbol, LLVM::LLVMFunctionType type, IntegerSetAttr when,
                ArrayRef<Value> operands) {
    if (Block *block = b.getInsertionBlock(); !block->empty() && block->back().hasTrait<OpTrait::IsTerminator>())
      return; // an earlier row holds always
    Block *next = nullptr;
    if (when) {
      Value holds = in_set(when.getValue());
      Block *taken = &function.getBody().emplaceBlock();
      next = &function.getBody().emplaceBlock();
      LLVM::CondBrOp::create(b, loc, holds, taken, next);
      b.setInsertionPointToStart(taken);
    }
    auto call = LLVM::CallOp::create(b, loc, type, symbol, operands);
    LLVM::ReturnOp::create(b, loc, call.getResult());
    if (next)
      b.setInsertionPointToStart(next);
  }

  Value in_set(IntegerSet set) {
    Value all = arith::ConstantIntOp::create(b, loc, 1, 1), zero = arith::ConstantIndexOp::create(b, loc, 0);
    for (unsigned i = 0; i < set.getNumConstraints(); ++i) {
      Value left = affine::expandAffineExpr(b, loc, set.getConstraint(i), sizes, {});
      auto predicate = set.isEq(i) ? arith::CmpIPredicate::eq : arith::CmpIPredicate::sge;
      Value holds = arith::CmpIOp::create(b, loc, predicate, left, zero);
      all = arith::AndIOp::create(b, loc, all, holds);
    }
    return all;
  }

  func::FuncOp kernel;
  LLVM::LLVMStructType dim_type, buffer_type;
  unsigned sizes_count = 0;
  SmallVector<Value> sizes;
  Value nothing; // what stands for arguments without elements
};

} // namespace

LogicalResult build_kernel_call(OpBuilder &builder, func::FuncOp kernel, const DeviceCode *device) {
  if (device)
    return success(succeeded(build_device_call(builder, kernel, *device)) &&
                   KernelCall(builder, kernel).build_nothing());
  return success(KernelCall(builder, kernel).build() && KernelCall(builder, kernel).build_scratch() &&
                 KernelCall(builder, kernel).build_nothing());
}

} // namespace heddle
