// Each function gathers its arguments into the arrays of heddle_run_typed and calls that through the table, so
// that validation has one place.
#include "compiler/emit/host/c_functions.h"

#define HEDDLE_ONLY_TYPES
#include "runtime/heddle.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

namespace heddle {

using namespace mlir;

// The runtime's table by its hidden name: the exported one may be bound to another library's in the same program.
static constexpr const char *table_name = "heddle_table";

namespace {

class CFunctions {
public:
  CFunctions(OpBuilder &builder, Location loc)
      : b(builder), module(builder.getInsertionBlock()), loc(loc), pointer(LLVM::LLVMPointerType::get(b.getContext())) {
  }

  void build(const ModelInterface &model) {
    // Only its address is taken here: its type does not matter.
    auto table_symbol =
        LLVM::GlobalOp::create(b, loc, b.getI8Type(), true, LLVM::Linkage::External, table_name, Attribute());
    table_symbol.setVisibility_(LLVM::Visibility::Hidden);
    OpBuilder::InsertionGuard guard(b);
    begin(model.name + "_heddle_api", pointer, {});
    LLVM::ReturnOp::create(b, loc, table());
    for (auto [number, entry] : llvm::enumerate(model.entries))
      build_entry(model, entry, number);
  }

private:
  LLVM::LLVMFuncOp begin(const std::string &name, Type result, ArrayRef<Type> arguments) {
    b.setInsertionPointToEnd(module);
    auto function = LLVM::LLVMFuncOp::create(b, loc, name, LLVM::LLVMFunctionType::get(result, arguments));
    b.setInsertionPointToStart(function.addEntryBlock(b));
    return function;
  }
  Value table() { return LLVM::AddressOfOp::create(b, loc, pointer, table_name); }

  /// An array on the stack that holds `values`, with nothing in the places where there is no value.
  Value array(Type element, ArrayRef<Value> values) {
    auto type = LLVM::LLVMArrayType::get(element, std::max<size_t>(1, values.size()));
    Value array = LLVM::AllocaOp::create(b, loc, pointer, type, arith::ConstantIntOp::create(b, loc, 1, 32));
    LLVM::StoreOp::create(b, loc, LLVM::ZeroOp::create(b, loc, type), array);
    for (auto [i, value] : llvm::enumerate(values))
      if (value)
        LLVM::StoreOp::create(b, loc, value,
                              LLVM::GEPOp::create(b, loc, pointer, element, array, ArrayRef<LLVM::GEPArg>{int32_t(i)}));
    return array;
  }

  void build_entry(const ModelInterface &model, const InterfaceEntry &entry, int64_t number) {
    Type i64 = b.getI64Type(), i32 = b.getI32Type();
    SmallVector<Type> types{pointer};
    types.append(entry.dims.size(), i64);
    types.append(entry.inputs.size() + entry.results.size(), pointer);
    auto function = begin(entry.symbol, i32, types);
    auto argument = function.getArguments().begin();
    Value session = *argument++;
    SmallVector<Value> dims(model.dims.size()), inputs, results;
    for (int dim : entry.dims)
      dims[dim] = *argument++;
    for (size_t i = 0; i < entry.inputs.size(); ++i)
      inputs.push_back(*argument++);
    for (size_t i = 0; i < entry.results.size(); ++i)
      results.push_back(*argument++);
    Value field = LLVM::GEPOp::create(b, loc, pointer, b.getI8Type(), table(),
                                      ArrayRef<LLVM::GEPArg>{int32_t(offsetof(heddle_api, run_typed))});
    Value run_typed = LLVM::LoadOp::create(b, loc, pointer, field);
    auto type = LLVM::LLVMFunctionType::get(i32, {pointer, i32, i32, pointer, pointer, pointer});
    Value which = arith::ConstantIntOp::create(b, loc, number, 32);
    Value signature = arith::ConstantIntOp::create(b, loc, int32_t(entry.signature), 32);
    auto call = LLVM::CallOp::create(b, loc, type,
                                     ValueRange{run_typed, session, which, signature, array(i64, dims),
                                                array(pointer, inputs), array(pointer, results)});
    LLVM::ReturnOp::create(b, loc, call.getResult());
  }

  OpBuilder &b;
  Block *module;
  Location loc;
  Type pointer;
};

} // namespace

void build_c_functions(OpBuilder &builder, Location loc, const ModelInterface &model) {
  CFunctions(builder, loc).build(model);
}

} // namespace heddle
