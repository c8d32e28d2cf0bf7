// The structs of runtime/abi.h are built as LLVM constants, one function per struct, its fields in their order;
// the static_asserts catch a field added there and forgotten here.
#include "compiler/emit/host/descriptor.h"
#include "compiler/emit/host/entry_functions.h"

#include "compiler/emit/host/model_interface.h"
#include "compiler/ir/dialect.h"
#include "compiler/ir/parameters.h"
#include "compiler/passes/entry_values.h"
#include "compiler/passes/plan_memory.h"
#include "compiler/version.h"
#include "runtime/abi.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/IR/Constants.h"
#include "llvm/IR/Module.h"

namespace heddle {

using namespace mlir;

static_assert(sizeof(heddle_extent_desc) == 16 && sizeof(heddle_value_desc) == 56 && sizeof(heddle_dim_desc) == 16 &&
                  sizeof(heddle_entry_desc) == 128 && sizeof(heddle_state_use_desc) == 16 &&
                  sizeof(heddle_state_desc) == 64 && sizeof(heddle_parameter_desc) == 32 &&
                  sizeof(heddle_token_desc) == 16 && sizeof(heddle_model_desc) == 152 &&
                  sizeof(heddle_device_desc) == 64 && sizeof(heddle_constant_desc) == 16,
              "runtime/abi.h has changed: change the builders below");

int abi_type(Type element) {
  if (element.isF32())
    return HEDDLE_T_F32;
  if (element.isBF16())
    return HEDDLE_T_BF16;
  if (element.isF16())
    return HEDDLE_T_F16;
  if (element.isInteger(1))
    return HEDDLE_T_BOOL;
  if (element.isInteger(8))
    return HEDDLE_T_I8;
  if (element.isInteger(32))
    return HEDDLE_T_I32;
  return element.isInteger(64) ? HEDDLE_T_I64 : -1;
}

namespace {

class DescriptorBuilder {
public:
  DescriptorBuilder(const HostProgram &program, llvm::Module &module)
      : program(program), module(module), context(module.getContext()), dims(passes::module_dims(program.module)) {
    dims.resize(passes::given_dims(program.module));
  }

  void build() {
    std::vector<llvm::Constant *> dim_structs, entry_structs;
    for (const passes::ModuleDim &dim : dims)
      dim_structs.push_back(record({text(dim.name), i64(dim.most)}));
    for (auto [number, entry] : llvm::enumerate(passes::entries(program.module)))
      entry_structs.push_back(entry_desc(entry, number));
    std::vector<llvm::Constant *> state_structs;
    for (auto state : mlir::ModuleOp(program.module).getOps<ir::StateOp>())
      state_structs.push_back(state_desc(state));
    std::vector<llvm::Constant *> token_structs;
    for (const auto &[name, token] : module_tokens(program.module))
      token_structs.push_back(record({text(name), i64(token)}));
    std::vector<llvm::Constant *> id;
    for (uint8_t byte : program.weights->id)
      id.push_back(llvm::ConstantInt::get(llvm::Type::getInt8Ty(context), byte));
    auto *id_array = llvm::ConstantArray::get(llvm::ArrayType::get(llvm::Type::getInt8Ty(context), id.size()), id);
    llvm::Constant *model = record({i32(HEDDLE_ABI_VERSION),
                                    i32(program.cpu_features),
                                    text(program.interface.name),
                                    text(program.target),
                                    text(version),
                                    i64(program.weights->payload_bytes),
                                    id_array,
                                    i32(dims.size()),
                                    i32(entry_structs.size()),
                                    array(dim_structs),
                                    array(entry_structs),
                                    i32(state_structs.size()),
                                    i32(token_structs.size()),
                                    array(state_structs),
                                    state_structs.empty() ? null() : module.getFunction("states.extents"),
                                    array(token_structs),
                                    i64(program.weights->build),
                                    embedded(),
                                    i64(program.embedded_bytes),
                                    lower(),
                                    device()});
    auto *global = new llvm::GlobalVariable(module, model->getType(), true, llvm::GlobalValue::ExternalLinkage, model,
                                            descriptor_symbol(program.number));
    global->setVisibility(llvm::GlobalValue::HiddenVisibility);
  }

private:
  llvm::Constant *i32(int64_t value) {
    return llvm::ConstantInt::getSigned(llvm::Type::getInt32Ty(context), value, true);
  }
  llvm::Constant *i64(int64_t value) { return llvm::ConstantInt::getSigned(llvm::Type::getInt64Ty(context), value); }
  llvm::Constant *f64(double value) { return llvm::ConstantFP::get(llvm::Type::getDoubleTy(context), value); }
  llvm::Constant *null() { return llvm::ConstantPointerNull::get(llvm::PointerType::get(context, 0)); }
  llvm::Constant *record(llvm::ArrayRef<llvm::Constant *> fields) { return llvm::ConstantStruct::getAnon(fields); }

  llvm::Constant *constant(llvm::Constant *value) {
    auto *global =
        new llvm::GlobalVariable(module, value->getType(), true, llvm::GlobalValue::PrivateLinkage, value, "desc");
    global->setUnnamedAddr(llvm::GlobalValue::UnnamedAddr::Global);
    return global;
  }
  llvm::Constant *text(llvm::StringRef value) { return constant(llvm::ConstantDataArray::getString(context, value)); }
  /// The address of an array of equal structs.
  llvm::Constant *array(llvm::ArrayRef<llvm::Constant *> items) {
    if (items.empty())
      return null();
    return constant(llvm::ConstantArray::get(llvm::ArrayType::get(items[0]->getType(), items.size()), items));
  }

  llvm::Constant *binary(llvm::StringRef bytes) {
    if (bytes.empty())
      return null();
    auto *global =
        cast<llvm::GlobalVariable>(constant(llvm::ConstantDataArray::getString(context, bytes, /*AddNull=*/false)));
    global->setAlignment(llvm::Align(64));
    return global;
  }

  /// The address of what another object of the library has.
  llvm::Constant *elsewhere(const std::string &symbol) {
    auto *global = new llvm::GlobalVariable(module, llvm::Type::getInt8Ty(context), true,
                                            llvm::GlobalValue::ExternalLinkage, nullptr, symbol);
    global->setVisibility(llvm::GlobalValue::HiddenVisibility);
    return global;
  }
  /// Of the weights file that is linked in (embed_file), where there is one.
  llvm::Constant *embedded() { return program.embedded_bytes == 0 ? null() : elsewhere(embedded_symbol); }
  llvm::Constant *lower() { return program.is_last ? null() : elsewhere(descriptor_symbol(program.number + 1)); }

  /// Of what a GPU runs, where it does.
  llvm::Constant *device() {
    if (!program.device)
      return null();
    std::vector<llvm::Constant *> launches, constants;
    for (const std::string &launch : program.device->launches())
      launches.push_back(text(launch));
    const llvm::DataLayout &layout = module.getDataLayout();
    while (auto *global = module.getGlobalVariable(device_constant_symbol(constants.size()), /*AllowInternal=*/true))
      constants.push_back(record({global, i64(int64_t(layout.getTypeAllocSize(global->getValueType())))}));
    return constant(
        record({elsewhere("heddle_cuda"), i32(program.gpu->sm), i32(program.gpu->driver), i32(launches.size()),
                i32(constants.size()), text(program.device->ptx(*program.gpu)), array(launches), array(constants),
                binary(program.device->cubin), i64(int64_t(program.device->cubin.size()))}));
  }

  llvm::Constant *extent_desc(const passes::Extent &extent) {
    if (extent.factors.empty())
      return record({i32(-1), i32(0), i64(extent.constant)});
    const passes::Extent::Factor &factor = extent.factors[0];
    auto dim = dyn_cast<AffineDimExpr>(factor.map.getResult(0));
    if (extent.factors.size() > 1 || extent.constant != 1 || !dim)
      return record({i32(-2), i32(0), i64(0)});
    int number = dim.getPosition();
    if (!factor.of_dims) {
      auto op = factor.operands[number].getDefiningOp<ir::DimOp>();
      number = op ? ir::dim_number(program.module, op.getName()) : -2;
    }
    if (number >= int(dims.size())) // a product of dims
      number = -2;
    return record({i32(number), i32(0), i64(0)});
  }

  llvm::Constant *value_desc(Value value, DictionaryAttr attributes) {
    auto type = cast<RankedTensorType>(value.getType());
    std::vector<llvm::Constant *> extents;
    SmallVector<passes::Extent> extents_of_value = *passes::extents_of(value); // checked by build_entry
    for (const passes::Extent &extent : extents_of_value)
      extents.push_back(extent_desc(extent));
    auto get = [&](StringRef name) { return attributes ? attributes.get(name) : Attribute(); };
    auto name = dyn_cast_or_null<StringAttr>(get(ir::names::name));
    auto initial = dyn_cast_or_null<FloatAttr>(get(ir::names::initial));
    llvm::Constant *below = record({i32(-1), i32(0), i64(0)});
    Attribute bound = get(ir::names::below);
    if (auto constant = dyn_cast_or_null<IntegerAttr>(bound))
      below = record({i32(-1), i32(0), i64(constant.getInt())});
    else if (auto map = dyn_cast_or_null<AffineMapAttr>(bound))
      below = extent_desc({1, {{map.getValue(), {}, true}}});
    return record({text(name ? name.getValue() : ""), i32(abi_type(type.getElementType())), i32(type.getRank()),
                   array(extents), i32(bool(initial)), i32(bool(bound)), below,
                   f64(initial ? initial.getValueAsDouble() : 0)});
  }

  llvm::Constant *entry_desc(func::FuncOp entry, int number) {
    std::vector<llvm::Constant *> inputs, results;
    for (BlockArgument argument : entry.getArguments())
      inputs.push_back(value_desc(argument, entry.getArgAttrDict(argument.getArgNumber())));
    auto returned = entry.front().getTerminator()->getOperands();
    for (auto [i, value] : llvm::enumerate(returned))
      results.push_back(value_desc(value, entry.getResultAttrDict(i)));
    std::vector<llvm::Constant *> uses, messages;
    for (const passes::StateUse &use : passes::state_uses(entry))
      uses.push_back(record({i32(use.state), i32(use.reads), i32(use.updates), i32(use.in_place)}));
    for (const std::string &message : Refusals(entry).messages)
      messages.push_back(text(message));
    auto function = [&](const char *what) { return module.getFunction(entry_symbol(number, what)); };
    llvm::Constant *once_bytes = function("once_bytes");
    std::vector<llvm::Constant *> once_dims;
    for (int dim : passes::once_dims(entry))
      once_dims.push_back(i32(dim));
    return record({text(entry.getName()), text(""), i32(inputs.size()), i32(results.size()), array(inputs),
                   array(results), function("extents"), function("arena_bytes"), function("run"), i32(uses.size()),
                   i32(messages.size()), array(uses), array(messages), function("scratch_bytes"),
                   function("nothing_bytes"), once_bytes ? once_bytes : null(), array(once_dims), i32(once_dims.size()),
                   i32(program.interface.entries[number].signature)});
  }

  llvm::Constant *state_desc(ir::StateOp state) {
    auto type = cast<RankedTensorType>(state.getType());
    AffineMap map = state.getExtents();
    std::vector<llvm::Constant *> extents, depends;
    for (AffineExpr extent : map.getResults()) {
      auto constant = dyn_cast<AffineConstantExpr>(extent);
      extents.push_back(
          extent_desc(constant ? passes::Extent{constant.getValue(), {}}
                               : passes::Extent{1, {{AffineMap::get(map.getNumDims(), 0, extent), {}, true}}}));
    }
    for (auto [dim, used] : llvm::enumerate(passes::dims_in(program.module, map)))
      if (used)
        depends.push_back(i32(dim));
    auto initial = state.getInitialAttr();
    return record({text(state.getLabel()), i32(abi_type(type.getElementType())), i32(type.getRank()), array(extents),
                   i32(initial || state->hasAttr(ir::names::begins)), i32(depends.size()), array(depends),
                   f64(initial ? initial.getValueAsDouble() : 0), i32(state.getSlides() ? *state.getSlides() + 1 : 0),
                   i32(state.getBelow().value_or(0)), parameter(state)});
  }

  /// Of the weights file, where a state begins as it.
  llvm::Constant *parameter(ir::StateOp state) {
    auto begins = state->getAttrOfType<FlatSymbolRefAttr>(ir::names::begins);
    if (!begins)
      return null();
    auto weight = SymbolTable::lookupNearestSymbolFrom<ir::WeightOp>(state, begins);
    std::vector<llvm::Constant *> shape;
    for (int64_t extent : weight.getStored())
      shape.push_back(i64(extent));
    auto name = cast<StringAttr>(weight.getNames()[0]); // the one that the file has: the checker has seen to it
    return constant(record({text(name.getValue()), i64((*program.weights)[weight.getSymName()].offset), array(shape),
                            i32(shape.size()), i32(0)}));
  }

  const HostProgram &program;
  llvm::Module &module;
  llvm::LLVMContext &context;
  std::vector<passes::ModuleDim> dims;
};

} // namespace

std::string descriptor_symbol(int number) {
  return "heddle_model_descriptor" + (number == 0 ? "" : "_" + std::to_string(number));
}

std::string device_constant_symbol(std::optional<int64_t> number) {
  return "device_constant." + (number ? std::to_string(*number) : std::string());
}

void add_descriptor(const HostProgram &program, llvm::Module &module) { DescriptorBuilder(program, module).build(); }

} // namespace heddle
