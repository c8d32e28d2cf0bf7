// LLVM's modules → code for x86-64; what GPUs' modules go through, too.
#pragma once

#include "dsl/errors/result.h"

#include "llvm/IR/Module.h"
#include "llvm/Passes/OptimizationLevel.h"
#include "llvm/Support/CodeGen.h"
#include "llvm/Target/TargetMachine.h"

#include <memory>
#include <string>

namespace heddle {

/// What generates code for any x86-64, where a function has no attributes that allow it more.
Result<std::unique_ptr<llvm::TargetMachine>> x86_machine(llvm::CodeGenOptLevel level);

/// LLVM's own passes of that level, as for that machine.
void optimise(llvm::Module &module, llvm::TargetMachine &machine, llvm::OptimizationLevel level);

/// An object file, or assembly. The module is not to be used afterwards.
Result<std::string> machine_code(llvm::Module &module, llvm::CodeGenFileType type,
                                 llvm::CodeGenOptLevel level = llvm::CodeGenOptLevel::Default);

} // namespace heddle
