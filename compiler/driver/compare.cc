// Places carry the definitions' names through all passes, and a call's is the list of its kernel's members.
#include "compiler/driver/compare.h"

#include "compiler/driver/tensors.h"
#include "compiler/ir/definitions.h"
#include "compiler/ir/dialect.h"
#include "compiler/passes/entry_values.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace heddle {

using namespace mlir;

Result<std::map<std::string, std::vector<EntryKernel>>> kernels_of_entries(Model &model, const CompileGoal &goal) {
  Progress progress(Progress::Show::nothing);
  auto compiled = compile_module(model, goal, passes::PipelineStage::kernels, progress);
  if (!compiled)
    return compiled.error();
  std::map<std::string, std::vector<EntryKernel>> out;
  for (func::FuncOp entry : passes::entries(*compiled->module))
    entry.walk([&](func::CallOp call) {
      EntryKernel kernel;
      for (const ir::Definition &definition : ir::definitions_in(call.getLoc()))
        if (std::find(kernel.definitions.begin(), kernel.definitions.end(), definition.name) ==
            kernel.definitions.end())
          kernel.definitions.push_back(definition.name);
      if (!kernel.definitions.empty())
        out[entry.getName().str()].push_back(std::move(kernel));
    });
  return out;
}

std::vector<const Tensor *> definitions_of(const Entry &entry) {
  std::vector<const Tensor *> out;
  for (const Step &step : entry.steps)
    if (auto *stage = std::get_if<Stage>(&step.what))
      out.push_back(stage->result);
    else if (auto *loop = std::get_if<Loop>(&step.what))
      for (const Loop::Collected &collected : loop->collected)
        if (collected.whole->kind == Tensor::stage)
          out.push_back(collected.whole);
  return out;
}

Result<Model> showing_model(const ModelOptions &options, const Shown &shown) {
  auto model = load_model(options);
  if (!model)
    return model.error();
  if (Status fits = require_weights(*model); !fits)
    return fits.error();
  if (!shown)
    return model;
  for (Entry &entry : model->program->entries) {
    std::set<std::string> taken;
    for (const Output &output : entry.outputs)
      taken.insert(output.name);
    for (const Tensor *tensor : shown(entry))
      if (taken.insert(tensor->name).second)
        entry.outputs.push_back({tensor->name, tensor});
  }
  return model;
}

double distance(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b)))
    return 0;
  return std::isfinite(a) && std::isfinite(b) ? std::abs(a - b) : INFINITY;
}

Result<std::vector<TensorMap>> read_compared_calls(const CompareCommand &options) {
  return read_calls(options.in, options.entries, "--against", options.against);
}

} // namespace heddle
