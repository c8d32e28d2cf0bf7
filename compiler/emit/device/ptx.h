// The code of a kernel's launches, as compiler/gpu writes it, → PTX by LLVM's NVPTX.
#pragma once

#include "compiler/targets/target.h"
#include "dsl/errors/result.h"

#include "mlir/IR/BuiltinOps.h"

#include <memory>
#include <string>

namespace llvm {
class LLVMContext;
class Module;
} // namespace llvm

namespace heddle {

/// A module of LLVM's and the context that owns its types.
struct LlvmCode {
  std::unique_ptr<llvm::LLVMContext> context;
  std::unique_ptr<llvm::Module> module;

  LlvmCode();
  LlvmCode(LlvmCode &&);
  ~LlvmCode();
};

/// Changes `code`: for one thread at a time.
Result<LlvmCode> to_llvm(mlir::ModuleOp code);
/// The whole text of a module, and how the head of every text for that GPU reads.
Result<std::string> to_ptx(LlvmCode &code, const Gpu &gpu);
std::string ptx_head(const Gpu &gpu);

} // namespace heddle
