// Vectors of any width and operations of LLVM's own are legal on every CPU. What isn't is an instruction by name that
// the CPU lacks: LLVM would end the process over it, so it is looked for.
#include "compiler/emit/kernels/narrowed.h"

#include "compiler/emit/kernels/machine_code.h"
#include "compiler/emit/kernels/matrix_tiles.h"
#include "compiler/emit/kernels/roundings.h"
#include "runtime/cpu_features.h"

#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/Support/MemoryBuffer.h"

namespace heddle {

/// Whether a function is an instruction that a CPU with these features has. The dot products of AVX-VNNI have the names
/// of AVX-512's.
static bool has(uint32_t cpu_features, llvm::StringRef function) {
  if (function.starts_with("llvm.x86.avx512bf16"))
    return cpu_features & HEDDLE_CPU_AVX512_BF16;
  if (function.starts_with("llvm.x86.avx512.vpdp") && !function.ends_with(".512"))
    return cpu_features & (HEDDLE_CPU_AVX512_VNNI | HEDDLE_CPU_AVX_VNNI);
  if (function.starts_with("llvm.x86.avx512.vpdp"))
    return cpu_features & HEDDLE_CPU_AVX512_VNNI;
  return !function.starts_with("llvm.x86.avx512") || (cpu_features & HEDDLE_CPU_AVX512);
}

/// Halide lets LLVM take a number that is rounded to f16 and widened again for the number itself; LLVM 22 does.
static void keep_roundings(llvm::Function &function) {
  for (llvm::Instruction &instruction : llvm::instructions(function))
    if (llvm::isa<llvm::FPTruncInst>(instruction))
      instruction.copyFastMathFlags(llvm::FastMathFlags());
}

/// Takes the CPU that Halide was told of from a function, and gives it these features.
static void allow(llvm::Function &function, const std::string &features) {
  function.removeFnAttr("target-cpu");
  function.removeFnAttr("tune-cpu");
  function.addFnAttr("target-features", features);
}

Result<std::string> narrowed(std::string_view bitcode, uint32_t cpu_features, KernelForm form) {
  llvm::LLVMContext context;
  auto module = llvm::parseBitcodeFile(llvm::MemoryBufferRef(bitcode, "kernels"), context);
  if (!module)
    return Error{"LLVM does not read Halide's bitcode: " + llvm::toString(module.takeError())};
  define_matrix_tiles(**module, cpu_features);
  std::string features = llvm_features(cpu_features);
  for (llvm::Function &function : **module)
    if (!function.isDeclaration()) {
      if (cpu_features & HEDDLE_CPU_AVX512_BF16)
        round_by_instruction(function);
      keep_roundings(function);
      allow(function, features);
    } else if (!function.use_empty() && !has(cpu_features, function.getName())) {
      return Error{"Halide's code has the instruction " + function.getName().str() + ", which the target lacks"};
    }
  if (form == KernelForm::llvm) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    stream << **module;
    return text;
  }
  return machine_code(
      **module, form == KernelForm::assembly ? llvm::CodeGenFileType::AssemblyFile : llvm::CodeGenFileType::ObjectFile,
      llvm::CodeGenOptLevel::Aggressive);
}

} // namespace heddle
