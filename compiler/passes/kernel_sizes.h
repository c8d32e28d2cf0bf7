// Between which numbers the run-time sizes of kernels lie, over all their calls.
#pragma once

#include "compiler/choose/choice.h"
#include "compiler/passes/size_ranges.h"

#include "llvm/ADT/StringMap.h"

namespace heddle::passes {

/// By name of the kernel, one range for each of its `index` arguments, which come first. `expected`: as far as the dims
/// have the values that the module's `heddle.expected` names, which the choice of schedules may count on but no code
/// may.
llvm::StringMap<llvm::SmallVector<SizeRange>> kernel_sizes(mlir::ModuleOp module, bool expected);

/// Classes of the sizes that a kernel is expected to be called with; of any sizes where it has no call.
std::vector<SizeClass> size_classes(mlir::func::FuncOp kernel,
                                    const llvm::StringMap<llvm::SmallVector<SizeRange>> &expected);

} // namespace heddle::passes
