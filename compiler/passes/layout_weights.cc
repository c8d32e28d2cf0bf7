// Decides how each weight lies in memory: in the layout with which its readers are
// expected to take least time, of those that their kinds offer; else row-major. Every other
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
#include "compiler/choose/choice.h"
#include "compiler/ir/dialect.h"
#include "compiler/passes/equal_kernels.h"
#include "compiler/passes/kernel_sizes.h"
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
  Layouts(ModuleOp module, const Target &target)
      : module_(module), symbols_(module), target_(target), expected_(kernel_sizes(module, true)) {}

  void choose();
  void apply();

private:
  func::FuncOp kernel_of(const Use &use) { return symbols_.lookup<func::FuncOp>(func::CallOp(use.call).getCallee()); }

  /// What a kernel is expected to take at each size class if the argument lies so.
  std::vector<double> seconds(func::FuncOp kernel, unsigned argument, AffineMap layout) {
    kernel.setArgAttr(argument, ir::names::layout, ir::LayoutAttr::get(module_.getContext(), layout));
    std::vector<double> out = least_seconds(kernel, target_, size_classes(kernel, expected_));
    kernel.removeArgAttr(argument, ir::names::layout);
    return out;
  }

  AffineMap best(ArrayRef<Use> uses, ArrayRef<AffineMap> layouts);

  ModuleOp module_;
  SymbolTable symbols_;
  const Target &target_;
  llvm::StringMap<SmallVector<SizeRange>> expected_;
};

/// The layout with which the readers of a weight come closest to the best that each could have: over all size classes
/// of a reader alike, and over all readers.
AffineMap Layouts::best(ArrayRef<Use> uses, ArrayRef<AffineMap> layouts) {
  std::vector<double> loss(layouts.size());
  llvm::DenseSet<std::pair<Operation *, unsigned>> seen;
  for (const Use &use : uses) {
    func::FuncOp kernel = kernel_of(use);
    if (!seen.insert({kernel, use.argument}).second)
      continue;
    std::vector<std::vector<double>> costs;
    for (AffineMap layout : layouts)
      costs.push_back(seconds(kernel, use.argument, layout));
    for (size_t size = 0; size < costs.front().size(); ++size) {
      double least = std::numeric_limits<double>::infinity();
      for (const std::vector<double> &cost : costs)
        least = std::min(least, cost[size]);
      for (size_t i = 0; i < costs.size(); ++i)
        loss[i] += costs[i][size] / least / double(costs[i].size());
    }
  }
  return layouts[size_t(std::ranges::min_element(loss) - loss.begin())];
}

void Layouts::choose() {
  SmallVector<std::pair<func::FuncOp, unsigned>> set; // while choosing: a kernel's weights must suit each other
  for (auto &[weight_op, uses] : uses_of_weights(module_)) {
    ir::WeightOp weight = weight_op;
    std::vector<AffineMap> layouts;
    for (const Use &use : uses)
      if (const KernelKind &kind = kind_of(kernel_of(use)); kind.layouts)
        for (AffineMap layout : kind.layouts(kernel_of(use), use.argument, target_))
          if (!llvm::is_contained(layouts, layout))
            layouts.push_back(layout);
    if (layouts.empty())
      continue;
    func::CallOp call = uses.front().call;
    weight.setType(cast<RankedTensorType>(call.getOperand(uses.front().argument).getType()));
    weight.setLayoutAttr(ir::LayoutAttr::get(module_.getContext(), best(uses, layouts)));
    for (const Use &use : uses)
      if (func::FuncOp kernel = kernel_of(use); !kernel.getArgAttr(use.argument, ir::names::layout)) {
        kernel.setArgAttr(use.argument, ir::names::layout, weight.getLayoutAttr());
        set.push_back({kernel, use.argument});
      }
  }
  for (auto [kernel, argument] : set)
    kernel.removeArgAttr(argument, ir::names::layout);
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
