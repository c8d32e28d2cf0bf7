// heddle-opt: runs passes over MLIR text, one by one or as the compiler's pipeline. For tests of the passes and
// for people who look at one stage; the compiler itself is `heddle`.
#include "compiler/ir/dialect.h"
#include "compiler/passes/passes.h"

#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  heddle::ir::register_dialects(registry);
  heddle::passes::register_passes();
  mlir::registerTransformsPasses();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "Heddle's passes\n", registry));
}
