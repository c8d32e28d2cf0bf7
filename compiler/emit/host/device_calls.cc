// The parameters of all launches of a kernel are the same: they are laid down once per call, in the order of
// compiler/gpu/program.h and as a struct in C would have them, which is how a kernel finds them, too.
#include "compiler/emit/host/device_calls.h"

#include "compiler/emit/host/host_code.h"
#include "compiler/emit/kernels/emit.h"
#include "compiler/ir/dialect.h"

#include "mlir/Dialect/Affine/Utils.h"
#include "mlir/IR/IntegerSet.h"

namespace heddle {

using namespace mlir;

void declare_device_functions(OpBuilder &builder, Location loc) {
  Type pointer = LLVM::LLVMPointerType::get(builder.getContext()), i32 = builder.getI32Type(),
       i64 = builder.getI64Type();
  auto declare = [&](StringRef name, Type result, ArrayRef<Type> types) {
    LLVM::LLVMFuncOp::create(builder, loc, name, LLVM::LLVMFunctionType::get(result, types))
        .setVisibility_(LLVM::Visibility::Hidden);
  };
  declare("heddle_device_launch", i32, {pointer, i32, i64, i32, pointer, i64});
  for (const char *moves : {"heddle_device_copy", "heddle_device_put", "heddle_device_read"})
    declare(moves, i32, {pointer, pointer, pointer, i64});
  declare("heddle_device_copy_slice", i32, {pointer, pointer, pointer, i64, i32, pointer});
  declare("heddle_device_scratch", pointer, {pointer});
  declare("heddle_device_constant", pointer, {pointer, i32});
}

Value call_device(OpBuilder &builder, Location loc, StringRef name, Type result, ValueRange operands) {
  auto type = LLVM::LLVMFunctionType::get(result, llvm::to_vector(operands.getTypes()));
  return LLVM::CallOp::create(builder, loc, type, name, operands).getResult();
}

namespace {

class DeviceCall : HostCode {
public:
  DeviceCall(OpBuilder &builder, func::FuncOp kernel, const DeviceCode &code)
      : HostCode(builder, kernel.getLoc()), kernel(kernel), code(code) {}

  LogicalResult build() {
    OpBuilder::InsertionGuard guard(b);
    SmallVector<Type> types{pointer, pointer};
    for (Type type : kernel.getArgumentTypes())
      types.push_back(isa<IndexType>(type) ? i64() : isa<RankedTensorType>(type) ? pointer : type);
    types.append(kernel.getNumResults(), pointer);
    function = LLVM::LLVMFuncOp::create(b, loc, "call." + kernel.getName().str(),
                                        LLVM::LLVMFunctionType::get(i32(), types), LLVM::Linkage::Internal);
    function.setNoInline(true);
    Block *block = function.addEntryBlock(b);
    b.setInsertionPointToStart(block);
    for (BlockArgument argument : kernel.getArguments())
      if (isa<IndexType>(argument.getType()))
        sizes.push_back(as_index(block->getArgument(2 + argument.getArgNumber())));
    Value context = block->getArgument(0), nothing = block->getArgument(1);
    SmallVector<Value> values;
    for (unsigned i = 2; i < types.size(); ++i)
      if (failed(add_parameter(i - 2, block->getArgument(i), nothing, values)))
        return failure();
    values.push_back(call_device(b, loc, "heddle_device_scratch", pointer, {context}));
    auto [parameters, bytes] = laid_down(values);
    each_row([&](const DeviceRow &row) {
      for (const gpu::Launch &launch : row.launches) {
        Value blocks = number64(1), zero = number32(0);
        for (const gpu::Dealt &dealt : launch.items) {
          Value items = number64(1);
          for (AffineExpr extent : dealt.extents)
            items = arith::MulIOp::create(b, loc, items, evaluated(extent));
          items = arith::CeilDivUIOp::create(b, loc, items, number64(dealt.each));
          blocks = arith::MulIOp::create(b, loc, blocks, items);
        }
        Value failed = call_device(
            b, loc, "heddle_device_launch", i32(),
            {context, number32(code.number_of(launch.symbol)), blocks, number32(launch.threads), parameters, bytes});
        Block *stop = &function.getBody().emplaceBlock(), *next = &function.getBody().emplaceBlock();
        Value fine = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, failed, zero);
        LLVM::CondBrOp::create(b, loc, fine, next, stop);
        b.setInsertionPointToStart(stop);
        LLVM::ReturnOp::create(b, loc, failed);
        b.setInsertionPointToStart(next);
      }
      LLVM::ReturnOp::create(b, loc, number32(0));
    });
    return success();
  }

  LogicalResult build_scratch() {
    OpBuilder::InsertionGuard guard(b);
    SmallVector<Type> types(llvm::count_if(kernel.getArgumentTypes(), llvm::IsaPred<IndexType>), i64());
    function = LLVM::LLVMFuncOp::create(b, loc, "scratch." + kernel.getName().str(),
                                        LLVM::LLVMFunctionType::get(i64(), types), LLVM::Linkage::Internal);
    Block *block = function.addEntryBlock(b);
    b.setInsertionPointToStart(block);
    for (Value size : block->getArguments())
      sizes.push_back(as_index(size));
    each_row([&](const DeviceRow &row) {
      Value all = number64(0), none = number64(-1), too_large = arith::ConstantIntOp::create(b, loc, 0, 1);
      for (const gpu::Kept &kept : row.kept) {
        Value count = number64(1), limit = number64(most_elements);
        for (AffineExpr extent : kept.extents) { // extents are no more than the limit: no product overflows
          count = arith::MulIOp::create(b, loc, count, evaluated(extent));
          Value over = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ugt, count, limit);
          too_large = arith::OrIOp::create(b, loc, too_large, over);
          count = arith::MinUIOp::create(b, loc, count, limit);
        }
        Value bytes = arith::MulIOp::create(b, loc, count, number64(kept.element_bytes));
        bytes = arith::AddIOp::create(b, loc, bytes, number64(gpu::kept_alignment - 1));
        bytes = arith::AndIOp::create(b, loc, bytes, number64(-gpu::kept_alignment));
        all = arith::AddIOp::create(b, loc, all, bytes);
      }
      LLVM::ReturnOp::create(b, loc, arith::SelectOp::create(b, loc, too_large, none, all).getResult());
    });
    return success();
  }

private:
  Value as_index(Value size) { return arith::IndexCastOp::create(b, loc, b.getIndexType(), size); }
  Value evaluated(AffineExpr formula) {
    return arith::IndexCastOp::create(b, loc, i64(), affine::expandAffineExpr(b, loc, formula, sizes, {}));
  }
  /// A struct of the values in this function's frame, zeros between them, so that equal parameters are equal bytes; and
  /// its size. It ends with a pointer: nothing is behind that.
  std::pair<Value, Value> laid_down(ValueRange values) {
    auto type = LLVM::LLVMStructType::getLiteral(b.getContext(), llvm::to_vector(values.getTypes()));
    Value place = LLVM::AllocaOp::create(b, loc, pointer, type, number32(1));
    Value end =
        LLVM::GEPOp::create(b, loc, pointer, type, LLVM::ZeroOp::create(b, loc, pointer), ArrayRef<LLVM::GEPArg>{1});
    Value bytes = LLVM::PtrToIntOp::create(b, loc, i64(), end);
    LLVM::MemsetOp::create(b, loc, place, arith::ConstantIntOp::create(b, loc, 0, 8), bytes, false);
    for (auto [i, value] : llvm::enumerate(values)) {
      Value field = LLVM::GEPOp::create(b, loc, pointer, type, place, ArrayRef<LLVM::GEPArg>{0, int32_t(i)});
      LLVM::StoreOp::create(b, loc, value, field);
    }
    return {place, bytes};
  }

  LogicalResult add_parameter(unsigned i, Value value, Value nothing, SmallVector<Value> &values) {
    Type type = i < kernel.getNumArguments() ? kernel.getArgumentTypes()[i] : Type(pointer);
    if (isa<IndexType>(type)) {
      value = arith::TruncIOp::create(b, loc, i32(), value);
    } else if (type.isInteger(1)) {
      value = arith::ExtUIOp::create(b, loc, b.getI8Type(), value);
    } else if (auto tensor = dyn_cast<RankedTensorType>(type)) {
      auto map = kernel.getArgAttrOfType<AffineMapAttr>(i, ir::names::extents);
      if (!map && !tensor.hasStaticShape())
        return kernel.emitError() << "tensor " << i << " of kernel @" << kernel.getName() << " has no "
                                  << ir::names::extents,
               failure();
      Value empty = arith::ConstantIntOp::create(b, loc, 0, 1), zero = number64(0);
      for (auto [axis, extent] : llvm::enumerate(tensor.getShape())) {
        Value own = ShapedType::isDynamic(extent) ? evaluated(map.getValue().getResult(axis)) : number64(extent);
        Value none = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, own, zero);
        empty = arith::OrIOp::create(b, loc, empty, none);
      }
      // A read under a condition that doesn't hold is made all the same, where there is nothing to read, too.
      value = LLVM::SelectOp::create(b, loc, empty, nothing, value);
    }
    values.push_back(value);
    return success();
  }

  /// Writes what is done for each row of the schedule, behind its condition; it ends with a return.
  void each_row(llvm::function_ref<void(const DeviceRow &)> write) {
    auto rows = kernel->getAttrOfType<ArrayAttr>(ir::names::schedule);
    for (auto [number, row] : llvm::enumerate(rows.getAsRange<DictionaryAttr>())) {
      auto when = row.getAs<IntegerSetAttr>("when");
      Block *next = nullptr;
      if (when) {
        Block *taken = &function.getBody().emplaceBlock();
        next = &function.getBody().emplaceBlock();
        LLVM::CondBrOp::create(b, loc, in_set(when.getValue()), taken, next);
        b.setInsertionPointToStart(taken);
      }
      write(code.rows.at(kernel_symbol(kernel, number)));
      if (!next)
        return;
      b.setInsertionPointToStart(next);
    }
    LLVM::UnreachableOp::create(b, loc); // the last row holds always
  }

  Value in_set(IntegerSet set) {
    Value all = arith::ConstantIntOp::create(b, loc, 1, 1), zero = number64(0);
    for (unsigned i = 0; i < set.getNumConstraints(); ++i) {
      auto predicate = set.isEq(i) ? arith::CmpIPredicate::eq : arith::CmpIPredicate::sge;
      Value holds = arith::CmpIOp::create(b, loc, predicate, evaluated(set.getConstraint(i)), zero);
      all = arith::AndIOp::create(b, loc, all, holds);
    }
    return all;
  }

  func::FuncOp kernel;
  const DeviceCode &code;
  LLVM::LLVMFuncOp function;
  SmallVector<Value> sizes;
};

} // namespace

LogicalResult build_device_call(OpBuilder &builder, func::FuncOp kernel, const DeviceCode &code) {
  return success(succeeded(DeviceCall(builder, kernel, code).build()) &&
                 succeeded(DeviceCall(builder, kernel, code).build_scratch()));
}

} // namespace heddle
