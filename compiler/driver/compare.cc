// Places carry the definitions' names through all passes, and a call's is the list of its kernel's members.
#include "compiler/driver/compare.h"

#include "compiler/ir/definitions.h"
#include "compiler/ir/dialect.h"
#include "compiler/passes/entry_values.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <algorithm>

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

} // namespace heddle
