// heddle-opt: runs passes over MLIR text, one by one or as the compiler's pipeline. For tests of the passes and
// for people who look at one stage; the compiler itself is `heddle`. `--heddle-target=NAME` (first argument) chooses
// the target.
#include "compiler/ir/dialect.h"
#include "compiler/passes/passes.h"

#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Support/raw_ostream.h"

#include <string_view>
#include <vector>

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
  heddle::passes::register_passes(*target);
  mlir::registerTransformsPasses();
  int count = rest.size();
  return mlir::asMainReturnCode(mlir::MlirOptMain(count, rest.data(), "Heddle's passes\n", registry));
}
