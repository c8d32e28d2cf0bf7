// Extents become text in the names of the model's dims.
#include "compiler/emit/host/model_interface.h"

#include "compiler/emit/host/c_names.h"
#include "compiler/emit/host/descriptor.h"
#include "compiler/ir/dialect.h"
#include "compiler/ir/parameters.h"
#include "compiler/passes/entry_values.h"
#include "compiler/passes/plan_memory.h"
#include "runtime/abi.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/Support/xxhash.h"

#include <algorithm>
#include <cctype>

namespace heddle {

using namespace mlir;

namespace {

struct TypeNames {
  const char *ours, *c;
};

} // namespace

static const TypeNames &type_names(int abi_type) {
  static const TypeNames names[] = {{"f32", "float"},   {"bf16", "uint16_t"}, {"f16", "uint16_t"}, {"i8", "int8_t"},
                                    {"i32", "int32_t"}, {"bool", "uint8_t"},  {"i64", "int64_t"},  {"u8", "uint8_t"}};
  return names[abi_type];
}
const char *abi_type_name(int abi_type) { return type_names(abi_type).ours; }
const char *c_type_name(int abi_type) { return type_names(abi_type).c; }

static std::string expression_text(AffineExpr expr, ArrayRef<std::string> operands) {
  if (auto dim = dyn_cast<AffineDimExpr>(expr))
    return operands[dim.getPosition()];
  if (auto constant = dyn_cast<AffineConstantExpr>(expr))
    return std::to_string(constant.getValue());
  auto binary = cast<AffineBinaryOpExpr>(expr);
  const char *word = expr.getKind() == AffineExprKind::Add        ? " + "
                     : expr.getKind() == AffineExprKind::Mul      ? " * "
                     : expr.getKind() == AffineExprKind::Mod      ? " % "
                     : expr.getKind() == AffineExprKind::FloorDiv ? " / "
                                                                  : " ceildiv ";
  return "(" + expression_text(binary.getLHS(), operands) + word + expression_text(binary.getRHS(), operands) + ")";
}

static std::string extent_text(const passes::Extent &extent, ArrayRef<std::string> dims) {
  std::string out = extent.constant != 1 || extent.factors.empty() ? std::to_string(extent.constant) : "";
  for (const passes::Extent::Factor &factor : extent.factors) {
    SmallVector<std::string> operands(dims);
    if (!factor.of_dims) {
      operands.clear();
      for (Value operand : factor.operands) {
        auto dim = operand.getDefiningOp<ir::DimOp>();
        operands.push_back(dim ? dim.getName().str() : "?");
      }
    }
    std::string text = expression_text(factor.map.getResult(0), operands);
    if (text.find('?') != std::string::npos)
      return "?";
    if (text.front() == '(' && extent.factors.size() == 1 && extent.constant == 1)
      text = text.substr(1, text.size() - 2);
    out += (out.empty() ? "" : " * ") + text;
  }
  return out;
}

static InterfaceValue describe(Value value, DictionaryAttr attributes, ArrayRef<std::string> dims) {
  auto type = cast<RankedTensorType>(value.getType());
  InterfaceValue out{.abi_type = abi_type(type.getElementType())};
  auto get = [&](StringRef name) { return attributes ? attributes.get(name) : Attribute(); };
  if (auto name = dyn_cast_or_null<StringAttr>(get(ir::names::name)))
    out.name = name.str();
  if (auto initial = dyn_cast_or_null<FloatAttr>(get(ir::names::initial))) {
    out.optional = true;
    out.initial = initial.getValueAsDouble();
  }
  if (auto below = dyn_cast_or_null<IntegerAttr>(get(ir::names::below)))
    out.below = std::to_string(below.getInt());
  else if (auto map = dyn_cast_or_null<AffineMapAttr>(get(ir::names::below)))
    out.below = expression_text(map.getValue().getResult(0), dims);
  SmallVector<passes::Extent> extents_of_value = *passes::extents_of(value); // checked by build_entry
  for (const passes::Extent &extent : extents_of_value)
    out.extents.push_back(extent_text(extent, dims));
  return out;
}

/// The dims that the caller tells: those of the inputs. Others come from the session's states.
static std::vector<int> dims_of_inputs(func::FuncOp entry) {
  auto module = entry->getParentOfType<ModuleOp>();
  std::vector<int> out;
  std::vector<bool> given(passes::given_dims(module));
  for (unsigned i = 0; i < entry.getNumArguments(); ++i)
    if (auto map = entry.getArgAttrOfType<AffineMapAttr>(i, ir::names::extents))
      for (auto [number, used] : llvm::enumerate(passes::dims_in(module, map.getValue())))
        given[number] = given[number] || used;
  for (size_t number = 0; number < given.size(); ++number)
    if (given[number])
      out.push_back(number);
  return out;
}

static InterfaceState describe(ir::StateOp state, ArrayRef<std::string> dims) {
  auto type = cast<RankedTensorType>(state.getType());
  InterfaceState out{.name = state.getLabel().str(), .abi_type = abi_type(type.getElementType())};
  for (AffineExpr extent : state.getExtents().getResults())
    out.extents.push_back(expression_text(extent, dims));
  if (auto initial = state.getInitialAttr())
    out.initial = initial.getValueAsDouble();
  if (auto begins = state->getAttrOfType<FlatSymbolRefAttr>(ir::names::begins)) {
    auto weight = SymbolTable::lookupNearestSymbolFrom<ir::WeightOp>(state, begins);
    out.parameter = cast<StringAttr>(weight.getNames()[0]).str();
  }
  return out;
}

std::vector<std::pair<std::string, int64_t>> module_tokens(ModuleOp module) {
  std::vector<std::pair<std::string, int64_t>> out;
  if (auto tokens = module->getAttrOfType<ArrayAttr>(ir::names::tokens))
    for (DictionaryAttr token : tokens.getAsRange<DictionaryAttr>())
      out.emplace_back(token.getAs<StringAttr>("name").str(), token.getAs<IntegerAttr>("id").getInt());
  return out;
}

/// The names that the header declares beside <model>_load and <model>_heddle_api.
static void name_symbols(ModelInterface &model) {
  std::set<std::string> taken = {model.name + "_load", model.name + "_heddle_api"};
  for (InterfaceEntry &entry : model.entries)
    entry.symbol = free_c_name(model.name + "_" + entry.name, taken);
  for (InterfaceState &state : model.states) {
    std::string name = model.name + "_state_" + state.name;
    std::replace_if(name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
    state.symbol = free_c_name(name, taken);
  }
}

/// Number of an entry's parameters: names, types and shapes, and where heddle_run_dense has them.
static uint32_t signature_of(const ModelInterface &model, const InterfaceEntry &entry) {
  std::string text = std::to_string(model.dims.size());
  for (int dim : entry.dims)
    text += " " + std::to_string(dim) + " " + model.dims[dim];
  for (const std::vector<InterfaceValue> *values : {&entry.inputs, &entry.results}) {
    text += "\n";
    for (const InterfaceValue &value : *values) {
      text += "\n" + value.name + " " + abi_type_name(value.abi_type);
      for (const std::string &extent : value.extents)
        text += "," + extent;
    }
  }
  return uint32_t(llvm::xxh3_64bits(text));
}

ModelInterface model_interface(ModuleOp module, const std::string &name) {
  ModelInterface out{.name = name, .tokens = module_tokens(module)};
  std::vector<std::string> dims; // those that are products, too: they stand in extents
  for (const passes::ModuleDim &dim : passes::module_dims(module)) {
    dims.push_back(dim.name);
    if (dim.product)
      continue;
    out.dims.push_back(dim.name);
    out.most.push_back(dim.most);
  }
  for (auto state : module.getOps<ir::StateOp>())
    out.states.push_back(describe(state, dims));
  for (func::FuncOp entry : passes::entries(module)) {
    InterfaceEntry item{.name = entry.getName().str(), .dims = dims_of_inputs(entry)};
    for (BlockArgument argument : entry.getArguments())
      item.inputs.push_back(describe(argument, entry.getArgAttrDict(argument.getArgNumber()), dims));
    for (auto [i, value] : llvm::enumerate(entry.front().getTerminator()->getOperands()))
      item.results.push_back(describe(value, entry.getResultAttrDict(i), dims));
    for (const passes::StateUse &use : passes::state_uses(entry))
      item.uses.push_back({out.states[use.state].name, use.reads, use.updates, use.in_place});
    entry.walk([&](ir::RequireOp require) { item.requirements.push_back(require.getMessage().str()); });
    item.signature = signature_of(out, item);
    out.entries.push_back(std::move(item));
  }
  name_symbols(out);
  return out;
}

std::vector<std::string> exported_symbols(const ModelInterface &model) {
  std::vector<std::string> out = {model.name + "_heddle_api"};
  for (const InterfaceEntry &entry : model.entries)
    out.push_back(entry.symbol);
  return out;
}

} // namespace heddle
