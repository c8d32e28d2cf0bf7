// Places carry the definitions' names through all passes, and a call's is the list of its kernel's members.
#include "compiler/driver/compare.h"

#include "compiler/ir/dialect.h"
#include "compiler/passes/entry_values.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <algorithm>

namespace heddle {

using namespace mlir;

static void add_names(Location loc, std::vector<std::string> &out) {
  if (auto fused = dyn_cast<FusedLoc>(loc)) {
    for (Location part : fused.getLocations())
      add_names(part, out);
  } else if (auto name = dyn_cast<NameLoc>(loc)) {
    std::string text = name.getName().str();
    if (std::find(out.begin(), out.end(), text) == out.end())
      out.push_back(text);
  }
}

Result<std::map<std::string, std::vector<EntryKernel>>> kernels_of_entries(Model &model, const Target &target) {
  Progress progress(Progress::Show::nothing);
  auto compiled = compile_module(model, target, passes::Stage::kernels, progress);
  if (!compiled)
    return compiled.error();
  std::map<std::string, std::vector<EntryKernel>> out;
  for (func::FuncOp entry : passes::entries(*compiled->module))
    entry.walk([&](func::CallOp call) {
      EntryKernel kernel;
      add_names(call.getLoc(), kernel.definitions);
      if (!kernel.definitions.empty())
        out[entry.getName().str()].push_back(std::move(kernel));
    });
  return out;
}

} // namespace heddle
