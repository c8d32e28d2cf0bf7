// Says of each kernel what kind it is and which schedules it gets, from the table of kinds.
//
// clang-format off
//   func.func private @k0(…) attributes {heddle.kernel = "general"}
//     →
//   func.func private @k0(…) attributes {heddle.kernel = "contraction",
//                                        heddle.schedule = [{variant = "tiles", params = {rows = 8, width = 48, …}}]}
// clang-format on
//
// A row whose `when` holds for no size that a call can have is left out, and so is what comes behind a row whose `when`
// always holds: a model for at most 128 tokens has no code for more.
//
// After layout_weights: a schedule must suit the panels that its kernel's weights have.
#include "compiler/choose/choice.h"
#include "compiler/ir/dialect.h"
#include "compiler/passes/equal_kernels.h"
#include "compiler/passes/kernel_sizes.h"
#include "compiler/passes/passes.h"

namespace heddle::passes {

using namespace mlir;

namespace {

enum class Holds { never, sometimes, always };

/// What a condition says of sizes in these ranges, each constraint taken for itself.
Holds holds(const IntegerSet &when, ArrayRef<SizeRange> sizes) {
  Holds out = Holds::always;
  for (unsigned i = 0; i < when.getNumConstraints(); ++i) {
    SizeRange value = range_of(when.getConstraint(i), sizes, when.getNumDims());
    if (value.most < 0 || (when.isEq(i) && value.least > 0))
      return Holds::never;
    if (when.isEq(i) ? value.least != 0 || value.most != 0 : value.least < 0)
      out = Holds::sometimes;
  }
  return out;
}

struct ChooseSchedules : PassWrapper<ChooseSchedules, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ChooseSchedules)
  explicit ChooseSchedules(const Target &target) : target(target) {}
  StringRef getArgument() const override { return "choose_schedules"; }
  StringRef getDescription() const override { return "the kind of each kernel and its schedules"; }

  void runOnOperation() override {
    llvm::StringMap<SmallVector<SizeRange>> possible = kernel_sizes(getOperation(), false),
                                            expected = kernel_sizes(getOperation(), true);
    for (func::FuncOp kernel : kernels_of(getOperation())) {
      set_schedule(kernel, choose(kernel, target, size_classes(kernel, expected)));
      if (auto called = possible.find(kernel.getName()); called != possible.end())
        keep_used_rows(kernel, called->second);
    }
  }

  static void keep_used_rows(func::FuncOp kernel, ArrayRef<SizeRange> sizes) {
    Builder builder(kernel.getContext());
    SmallVector<Attribute> kept;
    for (auto row : kernel->getAttrOfType<ArrayAttr>(ir::names::schedule).getAsRange<DictionaryAttr>()) {
      auto when = row.getAs<IntegerSetAttr>("when");
      Holds used = when ? holds(when.getValue(), sizes) : Holds::always;
      if (used == Holds::never)
        continue;
      NamedAttrList fields(row);
      if (used == Holds::always)
        fields.erase("when");
      kept.push_back(fields.getDictionary(kernel.getContext()));
      if (used == Holds::always)
        break;
    }
    kernel->setAttr(ir::names::schedule, builder.getArrayAttr(kept));
  }

  Target target;
};

} // namespace

std::unique_ptr<Pass> choose_schedules(const Target &target) { return std::make_unique<ChooseSchedules>(target); }

} // namespace heddle::passes
