// Functions of scalars are written out, then MLIR's own conversions lead to the LLVM dialect. Index values have 32
// bits: no tensor has more elements.
#include "compiler/emit/device/ptx.h"

#include "compiler/emit/kernels/machine_code.h"
#include "compiler/gpu/functions.h"

#include "mlir/Conversion/AffineToStandard/AffineToStandard.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

#include <memory>
#include <mutex>

namespace heddle {

using namespace mlir;

namespace {

struct WriteOutFunctions : PassWrapper<WriteOutFunctions, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(WriteOutFunctions)
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    gpu::populate_function_patterns(patterns);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

LogicalResult lower(ModuleOp code) {
  constexpr unsigned index_bits = 32;
  PassManager passes(code.getContext(), ModuleOp::getOperationName());
  passes.addPass(std::make_unique<WriteOutFunctions>());
  passes.addPass(createLowerAffinePass());
  passes.addPass(createSCFToControlFlowPass());
  passes.addPass(arith::createArithExpandOpsPass());
  ArithToLLVMConversionPassOptions arith;
  arith.indexBitwidth = index_bits;
  passes.addPass(createConvertMathToLLVMPass());
  passes.addPass(createArithToLLVMConversionPass(arith));
  ConvertControlFlowToLLVMPassOptions control;
  control.indexBitwidth = index_bits;
  passes.addPass(createConvertControlFlowToLLVMPass(control));
  passes.addPass(createReconcileUnrealizedCastsPass());
  return passes.run(code);
}

Result<std::unique_ptr<llvm::TargetMachine>> machine_for(const Gpu &gpu) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
  llvm::Triple triple("nvptx64-nvidia-cuda");
  std::string error;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return Error{"this LLVM cannot generate PTX: " + error};
  return std::unique_ptr<llvm::TargetMachine>(
      target->createTargetMachine(triple, "sm_" + std::to_string(gpu.sm), "+ptx" + std::to_string(gpu.ptx), {},
                                  std::nullopt, {}, llvm::CodeGenOptLevel::Aggressive));
}

} // namespace

std::string ptx_head(const Gpu &gpu) {
  return ".version " + std::to_string(gpu.ptx / 10) + "." + std::to_string(gpu.ptx % 10) + "\n.target sm_" +
         std::to_string(gpu.sm) + "\n.address_size 64\n";
}

LlvmCode::LlvmCode() : context(std::make_unique<llvm::LLVMContext>()) {}
LlvmCode::LlvmCode(LlvmCode &&) = default;
LlvmCode::~LlvmCode() = default;

Result<LlvmCode> to_llvm(ModuleOp code) {
  DialectRegistry registry;
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  registerNVVMDialectTranslation(registry);
  code.getContext()->appendDialectRegistry(registry);
  std::string name = code.getName().value_or("kernels").str();
  if (failed(lower(code)))
    return Error{"kernel " + name + " did not become LLVM's; this is a bug of Heddle"};
  LlvmCode out;
  out.module = translateModuleToLLVMIR(code, *out.context, name);
  if (!out.module)
    return Error{"kernel " + name + " did not translate to LLVM IR; this is a bug of Heddle"};
  return out;
}

Result<std::string> to_ptx(LlvmCode &code, const Gpu &gpu) {
  auto machine = machine_for(gpu);
  if (!machine)
    return machine.error();
  code.module->setDataLayout((*machine)->createDataLayout());
  code.module->setTargetTriple((*machine)->getTargetTriple());
  optimise(*code.module, **machine, llvm::OptimizationLevel::O3);
  llvm::SmallVector<char> text;
  llvm::raw_svector_ostream stream(text);
  llvm::legacy::PassManager passes;
  if ((*machine)->addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::AssemblyFile))
    return Error{"this LLVM cannot write PTX"};
  passes.run(*code.module);
  return std::string(text.data(), text.size());
}

} // namespace heddle
