// Chooses again as choose_schedules did, and tells.
#include "compiler/passes/why.h"

#include "compiler/ir/dialect.h"
#include "compiler/layout/layout.h"
#include "compiler/passes/equal_kernels.h"
#include "compiler/passes/kernel_sizes.h"

namespace heddle::passes {

using namespace mlir;

/// Its weights' layouts, with how many were offered.
static std::string layouts_of(func::FuncOp kernel, const Target &target) {
  std::string out;
  func::FuncOp free = kernel.clone();
  for (unsigned argument = 0; argument < free.getNumArguments(); ++argument)
    free.removeArgAttr(argument, ir::names::layout);
  const KernelKind &kind = kind_of(free);
  for (unsigned argument = 0; argument < kernel.getNumArguments(); ++argument)
    if (auto given = kernel.getArgAttrOfType<ir::LayoutAttr>(argument, ir::names::layout)) {
      size_t offered = kind.layouts ? kind.layouts(free, argument, target).size() : 0;
      out += "  argument " + std::to_string(argument) + " lies in " + layout::describe(given.getMap());
      out += offered > 1 ? ", of " + std::to_string(offered) + " layouts\n" : "\n";
    }
  free.erase();
  return out;
}

std::string why_schedules(ModuleOp module, const Target &target) {
  std::string out;
  llvm::StringMap<SmallVector<SizeRange>> expected = kernel_sizes(module, true);
  for (func::FuncOp kernel : kernels_of(module)) {
    Choice choice = choose(kernel, target, size_classes(kernel, expected));
    out +=
        kernel.getName().str() + " " + std::string(choice.kind->name) + "\n" + layouts_of(kernel, target) + why(choice);
  }
  return out;
}

} // namespace heddle::passes
