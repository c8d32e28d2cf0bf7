// heddle-opt: runs passes over MLIR text, one by one or as the compiler's pipeline. For tests of the passes and
// for people who look at one stage; the compiler itself is `heddle`.
//
//   heddle-opt [--heddle-target=NAME] [passes] FILE.mlir       `heddle-opt --help` lists the passes
//   heddle-opt --import FILE.heddle [NAME=VALUE]...            the module that import makes, before any pass
//   heddle-opt [--heddle-target=NAME] --halide FILE.mlir       the loops of its kernels, as their schedules have them
//   heddle-opt --passes                                        docs/passes.md
#include "compiler/emit/kernels/emit.h"
#include "compiler/ir/dialect.h"
#include "compiler/ir/import.h"
#include "compiler/passes/passes.h"
#include "dsl/check/check.h"
#include "dsl/syntax/parser.h"

#include "mlir/IR/AsmState.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <string_view>
#include <vector>

static heddle::Value setting_value(llvm::StringRef text) {
  int64_t whole;
  double real;
  if (!text.getAsInteger(10, whole))
    return {whole};
  if (!text.getAsDouble(real))
    return {real};
  if (text == "true" || text == "false")
    return {text == "true"};
  return {text.str()};
}

static int import_file(mlir::DialectRegistry &registry, const char *path, llvm::ArrayRef<char *> settings) {
  std::string message;
  auto text = mlir::openInputFile(path, &message);
  if (!text) {
    llvm::errs() << "heddle-opt: " << message << "\n";
    return 1;
  }
  heddle::Sources sources;
  int file = sources.add(path, text->getBuffer().str());
  heddle::Diagnostics diagnostics(sources);
  heddle::CheckOptions options;
  for (llvm::StringRef setting : settings) {
    auto [name, value] = setting.split('=');
    options.settings.by_name[name.str()] = setting_value(value);
  }
  options.find_file = [](const std::string &) { return -1; };
  mlir::MLIRContext context(registry);
  context.loadAllAvailableDialects();
  auto tree = heddle::syntax::parse(sources, file, diagnostics);
  auto program = diagnostics.has_errors() ? nullptr : heddle::check(sources, tree, options, diagnostics);
  mlir::OwningOpRef<mlir::ModuleOp> module;
  if (program)
    module = heddle::ir::import_program(*program, context, diagnostics);
  llvm::errs() << diagnostics.render();
  if (!module || failed(mlir::verify(*module)))
    return 1;
  mlir::OpPrintingFlags flags;
  flags.enableDebugInfo();
  module->print(llvm::outs(), flags);
  return 0;
}

static int print_loops(mlir::DialectRegistry &registry, const char *path, const heddle::Target &target) {
  mlir::MLIRContext context(registry);
  auto module = mlir::parseSourceFile<mlir::ModuleOp>(path, &context);
  if (!module)
    return 1; // it has said why
  mlir::PassManager passes(&context);
  passes.addPass(heddle::passes::choose_schedules(target));
  if (failed(passes.run(*module)))
    return 1;
  auto text = heddle::kernel_texts(*module, target, heddle::KernelForm::statement);
  if (!text) {
    llvm::errs() << "heddle-opt: " << text.error().message << "\n";
    return 1;
  }
  llvm::outs() << *text;
  return 0;
}

int main(int argc, char **argv) {
  // Passes are made for a target before the command line is parsed, so it is looked for here.
  std::string_view name = "x86-64-v4", option = "--heddle-target=";
  std::vector<char *> rest;
  for (int i = 0; i < argc; ++i)
    if (std::string_view argument = argv[i]; argument.starts_with(option))
      name = argument.substr(option.size());
    else
      rest.push_back(argv[i]);
  auto target = heddle::find_target(name);
  if (!target) {
    llvm::errs() << "heddle-opt: " << target.error().message << "\n";
    return 2;
  }
  mlir::DialectRegistry registry;
  heddle::ir::register_dialects(registry);
  if (rest.size() == 2 && std::string_view(rest[1]) == "--passes") {
    llvm::outs() << heddle::passes::passes_page();
    return 0;
  }
  if (rest.size() > 2 && std::string_view(rest[1]) == "--import")
    return import_file(registry, rest[2], llvm::ArrayRef(rest).drop_front(3));
  if (rest.size() == 3 && std::string_view(rest[1]) == "--halide")
    return print_loops(registry, rest[2], *target);
  heddle::passes::register_passes(*target);
  mlir::registerTransformsPasses();
  int count = rest.size();
  return mlir::asMainReturnCode(mlir::MlirOptMain(count, rest.data(), "Heddle's passes\n", registry));
}
