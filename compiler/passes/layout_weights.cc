// Decides how each weight lies in memory: in the layout that a kernel wants which reads it, else row-major. Every other
// kernel that reads the same weight (a lookup of tied embeddings) reads through the map; nothing is stored twice.
//
// clang-format off
//   heddle.weight @w : tensor<12x64x768xf32> …
//   call @k0(%M, %x, %w)
//   func @k0(…, %w: tensor<768x768xf32>)
//     →
//   heddle.weight @w : tensor<768x768xf32> … layout <(n, k) -> (n floordiv 48, k, n mod 48)>
//   call @k0(%M, %x, %w)
//   func @k0(…, %w: … {heddle.layout = #heddle.layout<(n, k) -> (n floordiv 48, k, n mod 48)>})
// clang-format on
//
// A kernel that is called with weights of different layouts becomes one function per combination of layouts.
#include "compiler/ir/dialect.h"
#include "compiler/kernels/kinds.h"
#include "compiler/passes/equal_kernels.h"
#include "compiler/passes/passes.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"

namespace heddle::passes {

using namespace mlir;

namespace {

struct Use {
  func::CallOp call;
  unsigned argument;
};

/// The weights' uses; a weight that something else than one kernel's argument of one shape reads has none.
llvm::MapVector<ir::WeightOp, SmallVector<Use>> uses_of_weights(ModuleOp module) {
  SymbolTable symbols(module);
  llvm::MapVector<ir::WeightOp, SmallVector<Use>> out;
  DenseSet<Operation *> unfit, kernel_calls;
  for (func::CallOp call : kernel_calls_of(module))
    kernel_calls.insert(call);
  DenseMap<Operation *, Type> seen_as;
  module.walk([&](ir::GetOp get) {
    auto weight = symbols.lookup<ir::WeightOp>(get.getWeight());
    auto [type, is_first] = seen_as.try_emplace(weight, get.getType());
    if (type->second != get.getType())
      unfit.insert(weight);
    for (OpOperand &use : get->getUses())
      if (kernel_calls.contains(use.getOwner()))
        out[weight].push_back({cast<func::CallOp>(use.getOwner()), use.getOperandNumber()});
      else
        unfit.insert(weight);
  });
  out.remove_if([&](auto &row) { return unfit.contains(row.first); });
  return out;
}

class Layouts {
public:
  Layouts(ModuleOp module, const Target &target) : module_(module), symbols_(module), target_(target) {}

  void choose();
  void apply();

private:
  AffineMap wanted(func::FuncOp kernel, unsigned argument) {
    auto [found, is_new] = wanted_.try_emplace({kernel, argument});
    if (is_new) {
      const KernelKind &kind = kind_of(kernel);
      found->second = kind.layout ? kind.layout(kernel, argument, target_) : AffineMap();
    }
    return found->second;
  }

  ModuleOp module_;
  SymbolTable symbols_;
  const Target &target_;
  DenseMap<std::pair<Operation *, unsigned>, AffineMap> wanted_;
};

void Layouts::choose() {
  for (auto &[weight_op, uses] : uses_of_weights(module_)) {
    ir::WeightOp weight = weight_op;
    for (const Use &use : uses) {
      func::CallOp call = use.call;
      AffineMap layout = wanted(symbols_.lookup<func::FuncOp>(call.getCallee()), use.argument);
      if (!layout)
        continue;
      weight.setType(cast<RankedTensorType>(call.getOperand(use.argument).getType()));
      weight.setLayoutAttr(ir::LayoutAttr::get(module_.getContext(), layout));
      break; // the first kernel that wants a layout decides
    }
  }
}

void Layouts::apply() {
  // The layouts of a call's operands, as an array with a unit for each row-major one.
  std::map<std::pair<Operation *, const void *>, func::FuncOp> versions;
  DenseSet<Operation *> taken;
  Builder builder(module_.getContext());
  unsigned number = 0;
  for (func::CallOp call : kernel_calls_of(module_)) {
    auto kernel = symbols_.lookup<func::FuncOp>(call.getCallee());
    SmallVector<Attribute> layouts;
    for (Value operand : call.getOperands()) {
      auto get = operand.getDefiningOp<ir::GetOp>();
      auto weight = get ? symbols_.lookup<ir::WeightOp>(get.getWeight()) : ir::WeightOp();
      layouts.push_back(weight && weight.getLayoutAttr() ? Attribute(weight.getLayoutAttr()) : builder.getUnitAttr());
    }
    auto key = std::make_pair(kernel.getOperation(), builder.getArrayAttr(layouts).getAsOpaquePointer());
    func::FuncOp &version = versions[key];
    if (!version) {
      version = kernel;
      if (!taken.insert(kernel).second) { // the function has other layouts already
        version = kernel.clone();
        version.setName(kernel.getName().str() + ".layout" + std::to_string(number++));
        symbols_.insert(version);
      }
    }
    call.setCallee(version.getName());
  }
  for (auto &[key, version] : versions)
    for (auto [i, layout] : llvm::enumerate(cast<ArrayAttr>(Attribute::getFromOpaquePointer(key.second))))
      if (isa<ir::LayoutAttr>(layout))
        version.setArgAttr(i, ir::names::layout, layout);
  merge_equal_kernels(module_);
}

struct LayoutWeights : PassWrapper<LayoutWeights, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(LayoutWeights)
  explicit LayoutWeights(const Target &target) : target(target) {}
  StringRef getArgument() const override { return "layout_weights"; }
  StringRef getDescription() const override { return "weights in the layouts that kernels want"; }

  void runOnOperation() override {
    Layouts layouts(getOperation(), target);
    layouts.choose();
    layouts.apply();
  }

  Target target;
};

} // namespace

std::unique_ptr<Pass> layout_weights(const Target &target) { return std::make_unique<LayoutWeights>(target); }

} // namespace heddle::passes
