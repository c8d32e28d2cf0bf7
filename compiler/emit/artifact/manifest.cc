// JSON with stable key order, so that two compilations of one model differ only where they must.
#include "compiler/emit/artifact/header.h"
#include "compiler/emit/artifact/work.h"

#include "compiler/emit/kernels/emit.h"
#include "compiler/ir/dialect.h"
#include "compiler/ir/precision.h"
#include "compiler/passes/entry_values.h"
#include "compiler/version.h"
#include "runtime/cpu_features.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <nlohmann/json.hpp>

namespace heddle {

using namespace mlir;
using Json = nlohmann::ordered_json;

static Json value_json(const InterfaceValue &value) {
  Json out = {{"name", value.name}, {"dtype", abi_type_name(value.abi_type)}, {"shape", Json::array()}};
  for (const std::string &extent : value.extents) {
    bool constant = extent.find_first_not_of("0123456789") == std::string::npos;
    out["shape"].push_back(constant ? Json(std::stoll(extent)) : Json(extent));
  }
  if (value.below)
    out["below"] = *value.below;
  if (value.optional)
    out["default"] = value.initial;
  return out;
}

static std::string print(Attribute attribute) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  attribute.print(stream);
  return text;
}

static Json kernel_json(func::FuncOp kernel, int64_t calls) {
  Json rows = Json::array();
  auto schedule = kernel->getAttrOfType<ArrayAttr>(ir::names::schedule);
  for (auto [i, row] : llvm::enumerate(schedule.getAsRange<DictionaryAttr>())) {
    Json item = {{"symbol", kernel_symbol(kernel, i)},
                 {"variant", row.getAs<StringAttr>("variant").str()},
                 {"params", Json::object()}};
    if (auto params = row.getAs<DictionaryAttr>("params"))
      for (NamedAttribute param : params)
        if (auto number = dyn_cast<IntegerAttr>(param.getValue()))
          item["params"][param.getName().str()] = number.getInt();
    if (auto micro_kernel = row.getAs<StringAttr>("micro_kernel"))
      item["micro_kernel"] = micro_kernel.str();
    if (auto when = row.get("when"))
      item["when"] = print(when);
    rows.push_back(item);
  }
  return {{"name", kernel.getName().str()},
          {"kind", kernel->getAttrOfType<StringAttr>(ir::names::kernel).str()},
          {"calls", calls},
          {"schedule", rows}};
}

static Json work_json(func::FuncOp entry) {
  Json out = Json::array();
  for (const KernelWork &work : work_of(entry)) {
    Json item = {{"kernel", work.kernel}, {"calls", work.calls}};
    if (work.operations)
      item["operations"] = *work.operations;
    for (const KernelWork::Multiplies &one : work.multiplies) {
      item["multiplies"].push_back({{"micro_kernel", one.micro_kernel}});
      if (!one.when.empty())
        item["multiplies"].back()["when"] = one.when;
    }
    if (work.weights)
      item["weights_bytes"] = *work.weights;
    if (work.values)
      item["values_bytes"] = *work.values;
    out.push_back(item);
  }
  return out;
}

/// As runtime/cpu_features.def names them.
static std::vector<std::string> names_of(uint32_t cpu_features) {
  std::vector<std::string> out;
#define HEDDLE_CPU_FEATURE(name, text, registers, c1, b7, c7, d7, a71, cx, halide, beyond, llvm)                       \
  if (cpu_features & HEDDLE_CPU_##name)                                                                                \
    out.push_back(#name);
#include "runtime/cpu_features.def"
#undef HEDDLE_CPU_FEATURE
  return out;
}

static Json kernels_json(ModuleOp module) {
  std::map<std::string, int64_t> calls;
  module.walk([&](func::CallOp call) { ++calls[call.getCallee().str()]; });
  Json out = Json::array();
  for (auto function : module.getOps<func::FuncOp>())
    if (function->hasAttr(ir::names::kernel))
      out.push_back(kernel_json(function, calls[function.getName().str()]));
  return out;
}

/// What a target has of its own, where the library has others before it.
static Json lower_target_json(TargetModule lower) {
  Json out = {{"target", lower.target.name},
              {"cpu_features", names_of(cpu_features(lower.module, lower.target))},
              {"kernels", kernels_json(lower.module)},
              {"entries", Json::array()}};
  for (func::FuncOp entry : passes::entries(lower.module))
    out["entries"].push_back({{"name", entry.getName().str()}, {"work", work_json(entry)}});
  return out;
}

std::string manifest(const ModelInterface &model, const ArtifactJob &job, ArrayRef<WeightsLayout> weights) {
  auto [module, target] = job.modules.front();
  Json out = {{"name", model.name},
              {"compiler", std::string("heddle ") + version},
              {"build", llvm::utohexstr(weights.front().build, /*LowerCase=*/true, /*Width=*/16)},
              {"target", target.name},
              {"cpu_features", names_of(cpu_features(module, target))},
              {"precision", ir::precision_of(module)}};
  if (auto kept = module->getAttrOfType<DictionaryAttr>(ir::names::keep))
    for (NamedAttribute part : kept)
      out["kept"][part.getName().str()] = cast<StringAttr>(part.getValue()).str();
  if (auto scales = module->getAttrOfType<DictionaryAttr>(ir::names::scales))
    for (NamedAttribute activation : scales)
      out["scales"][activation.getName().str()] = cast<FloatAttr>(activation.getValue()).getValueAsDouble();
  out["dims"] = Json::array();
  for (size_t i = 0; i < model.dims.size(); ++i) {
    out["dims"].push_back({{"name", model.dims[i]}});
    if (model.most[i] >= 0)
      out["dims"].back()["most"] = model.most[i];
  }
  out["entries"] = Json::array();
  std::vector<func::FuncOp> functions = passes::entries(module);
  for (auto [number, entry] : llvm::enumerate(model.entries)) {
    Json item = {{"name", entry.name}, {"inputs", Json::array()}, {"results", Json::array()}};
    for (const InterfaceValue &value : entry.inputs)
      item["inputs"].push_back(value_json(value));
    for (const InterfaceValue &value : entry.results)
      item["results"].push_back(value_json(value));
    for (const InterfaceUse &use : entry.uses)
      item["states"].push_back(
          {{"name", use.state}, {"reads", use.reads}, {"updates", use.updates}, {"in_place", use.in_place}});
    if (!entry.requirements.empty())
      item["requires"] = entry.requirements;
    item["work"] = work_json(functions[number]);
    out["entries"].push_back(item);
  }
  for (const InterfaceState &state : model.states) {
    Json item = value_json({.name = state.name, .abi_type = state.abi_type, .extents = state.extents});
    if (state.initial)
      item["initial"] = *state.initial;
    if (!state.parameter.empty())
      item["parameter"] = state.parameter;
    out["states"].push_back(item);
  }
  if (!model.tokens.empty())
    out["tokens"] = Json::object();
  for (const auto &[token, id] : model.tokens)
    out["tokens"][token].push_back(id);
  for (const ManifestSetting &setting : job.settings) {
    Json plain = Json::parse(setting.value, nullptr, /*allow_exceptions=*/false); // not where it is infinite
    out["settings"][setting.name] = {{"value", plain.is_discarded() ? Json(setting.value) : plain},
                                     {"from", setting.from}};
  }
  out["kernels"] = kernels_json(module);
  for (const TargetModule &lower : ArrayRef(job.modules).drop_front())
    out["lower_targets"].push_back(lower_target_json(lower));
  out["weights_bytes"] = weights.front().payload_bytes;
  return out.dump(2) + "\n";
}

} // namespace heddle
