#include "compiler/passes/kernel_sizes.h"

#include "compiler/ir/dialect.h"
#include "compiler/passes/equal_kernels.h"

namespace heddle::passes {

using namespace mlir;

llvm::StringMap<SmallVector<SizeRange>> kernel_sizes(ModuleOp module, bool expected) {
  auto dims = expected ? module->getAttrOfType<DictionaryAttr>(ir::names::expected) : DictionaryAttr();
  llvm::StringMap<SmallVector<SizeRange>> sizes;
  for (func::CallOp call : kernel_calls_of(module)) {
    auto [known, first] = sizes.try_emplace(call.getCallee());
    for (auto [i, operand] : llvm::enumerate(call.getOperands())) {
      if (!isa<IndexType>(operand.getType()))
        break;
      SizeRange range = range_of(module, operand, dims);
      if (first)
        known->second.push_back(range);
      else
        known->second[i].include(range);
    }
  }
  return sizes;
}

std::vector<SizeClass> size_classes(func::FuncOp kernel, const llvm::StringMap<SmallVector<SizeRange>> &expected) {
  std::vector<Bounds> bounds;
  auto known = expected.find(kernel.getName());
  for (auto [i, type] : llvm::enumerate(kernel.getArgumentTypes()))
    if (isa<IndexType>(type)) {
      SizeRange range = known == expected.end() ? SizeRange() : known->second[i];
      bounds.push_back({std::max<int64_t>(range.least, 0), std::min<int64_t>(range.most, INT32_MAX)});
    }
  return heddle::size_classes(bounds);
}

} // namespace heddle::passes
