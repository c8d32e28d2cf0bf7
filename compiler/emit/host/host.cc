// Upstream conversions do the lowering: affine and arith to the LLVM dialect, then translation to LLVM IR. The
// object is generic x86-64 code: the host program only moves pointers, the kernels have the machine's vectors.
#include "compiler/emit/host/host.h"

#include "compiler/emit/host/c_functions.h"
#include "compiler/emit/host/descriptor.h"
#include "compiler/emit/host/device_calls.h"
#include "compiler/emit/host/entry_functions.h"
#include "compiler/emit/host/kernel_calls.h"
#include "compiler/emit/kernels/machine_code.h"
#include "compiler/ir/dialect.h"
#include "compiler/passes/entry_values.h"
#include "runtime/abi.h"

#include "mlir/Conversion/AffineToStandard/AffineToStandard.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"

#include "llvm/IR/Module.h"
#include "llvm/Target/TargetMachine.h"

namespace heddle {

using namespace mlir;

OwningOpRef<ModuleOp> build_host(const HostProgram &program) {
  ModuleOp module = program.module;
  MLIRContext *context = module.getContext();
  context->getOrLoadDialect<LLVM::LLVMDialect>();
  OwningOpRef<ModuleOp> host = ModuleOp::create(module.getLoc(), program.interface.name);
  OpBuilder builder(context);
  builder.setInsertionPointToEnd(host->getBody());
  for (auto function : module.getOps<func::FuncOp>())
    if (function->hasAttr(ir::names::kernel) && failed(build_kernel_call(builder, function, program.device)))
      return {};
  auto pointer = LLVM::LLVMPointerType::get(context);
  auto event = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(context), {pointer, pointer, builder.getI32Type()});
  LLVM::LLVMFuncOp::create(builder, module.getLoc(), kernel_event_symbol, event)
      .setVisibility_(LLVM::Visibility::Hidden);
  auto copy = LLVM::LLVMFunctionType::get(builder.getI32Type(),
                                          {pointer, pointer, builder.getI64Type(), builder.getI32Type(), pointer});
  LLVM::LLVMFuncOp::create(builder, module.getLoc(), copy_slice_symbol, copy).setVisibility_(LLVM::Visibility::Hidden);
  auto slide = LLVM::LLVMFunctionType::get(builder.getI32Type(), {pointer, builder.getI32Type(), builder.getI64Type(),
                                                                  builder.getI64Type(), builder.getI64Type(), pointer});
  LLVM::LLVMFuncOp::create(builder, module.getLoc(), slide_symbol, slide).setVisibility_(LLVM::Visibility::Hidden);
  auto i64 = builder.getI64Type();
  auto group = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(context),
                                           {pointer, i64, i64, i64, i64, pointer, pointer, pointer});
  LLVM::LLVMFuncOp::create(builder, module.getLoc(), group_symbol, group).setVisibility_(LLVM::Visibility::Hidden);
  if (program.device)
    declare_device_functions(builder, module.getLoc());
  if (failed(build_state_extents(builder, program)))
    return {};
  for (auto [number, entry] : llvm::enumerate(passes::entries(module)))
    if (failed(build_entry(builder, program, entry, number)))
      return {};
  if (program.number == 0)
    build_c_functions(builder, module.getLoc(), program.interface);

  PassManager passes(context);
  passes.addPass(createLowerAffinePass());
  passes.addPass(arith::createArithExpandOpsPass());
  passes.addPass(createArithToLLVMConversionPass());
  passes.addPass(createReconcileUnrealizedCastsPass());
  if (failed(passes.run(*host)))
    return {};
  return host;
}

Result<std::unique_ptr<llvm::Module>> host_to_llvm(const HostProgram &program, ModuleOp host,
                                                   llvm::LLVMContext &context) {
  DialectRegistry registry;
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  host.getContext()->appendDialectRegistry(registry);
  std::unique_ptr<llvm::Module> module = translateModuleToLLVMIR(host, context, program.interface.name);
  if (!module)
    return Error{"the host program did not translate to LLVM IR; this is a bug of Heddle"};
  auto machine = x86_machine(llvm::CodeGenOptLevel::Default);
  if (!machine)
    return machine.error();
  module->setDataLayout((*machine)->createDataLayout());
  module->setTargetTriple((*machine)->getTargetTriple());
  add_descriptor(program, *module);
  optimise(*module, **machine, llvm::OptimizationLevel::O2);
  return module;
}

/// What an assembler makes of the text.
static Result<std::string> assemble(const std::string &text) {
  auto machine = x86_machine(llvm::CodeGenOptLevel::Default);
  if (!machine)
    return machine.error();
  llvm::LLVMContext context;
  llvm::Module module("data", context);
  module.setDataLayout((*machine)->createDataLayout());
  module.setTargetTriple((*machine)->getTargetTriple());
  module.setModuleInlineAsm(text);
  return machine_code(module, llvm::CodeGenFileType::ObjectFile);
}

Result<std::string> embed_file(const std::string &path) {
  std::string quoted;
  for (char c : path) {
    if (c == '"' || c == '\\')
      quoted += '\\';
    quoted += c;
  }
  std::string symbol = embedded_symbol;
  return assemble(".section .rodata." + symbol + ", \"a\"\n.balign 64\n.hidden " + symbol + "\n.globl " + symbol +
                  "\n" + symbol + ":\n.incbin \"" + quoted + "\"\n");
}

Result<std::string> pool_note() {
  std::string name = HEDDLE_POOL_NOTE;
  return assemble(".section .note.heddle, \"a\", @note\n.balign 4\n.long " + std::to_string(name.size() + 1) +
                  "\n.long 8\n.long " + std::to_string(HEDDLE_POOL_NOTE_TYPE) + "\n.asciz \"" + name +
                  "\"\n.balign 4\n.hidden rt_own_pool\n0:\n.quad rt_own_pool - 0b\n");
}

Result<std::string> compile_host(llvm::Module &module) {
  return machine_code(module, llvm::CodeGenFileType::ObjectFile);
}
Result<std::string> host_assembly(llvm::Module &module) {
  return machine_code(module, llvm::CodeGenFileType::AssemblyFile);
}

} // namespace heddle
