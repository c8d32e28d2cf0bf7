// Says of each kernel what kind it is and which schedules it gets, from the table of kinds.
//
//   func.func private @k0(…) attributes {heddle.kernel = "general"}
//     → attributes {heddle.kernel = "contraction", heddle.schedule = [{variant = "rows", params = {rows = 8, width =
//     48}}]}
//
// After layout_weights: a schedule must suit the panels that its kernel's weights have.
#include "compiler/kernels/kinds.h"
#include "compiler/passes/equal_kernels.h"
#include "compiler/passes/passes.h"

namespace heddle::passes {

using namespace mlir;

namespace {

struct ChooseSchedules : PassWrapper<ChooseSchedules, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ChooseSchedules)
  explicit ChooseSchedules(const Target &target) : target(target) {}
  StringRef getArgument() const override { return "choose_schedules"; }
  StringRef getDescription() const override { return "the kind of each kernel and its schedules"; }

  void runOnOperation() override {
    for (func::FuncOp kernel : kernels_of(getOperation()))
      assign_schedule(kernel, target);
  }

  Target target;
};

} // namespace

std::unique_ptr<Pass> choose_schedules(const Target &target) { return std::make_unique<ChooseSchedules>(target); }

} // namespace heddle::passes
