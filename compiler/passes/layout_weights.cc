// Decides how each weight lies in memory: in the layout with which its readers are expected to take least time, of
// those that their kinds offer; else row-major. Every other kernel that reads the same weight (a lookup of tied
// embeddings) reads through the map. A weight whose readers want different layouts is stored twice where that makes an
// entry faster, unless the module's `heddle.single_copy` forbids it.
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

/// How many times as fast an entry must become for a weight to be stored twice.
constexpr double worth_a_copy = 1.03;

/// Values of all dims, as far as their bounds allow, at which entries are compared.
constexpr int64_t sampled_dims[] = {1, 8, 64, 512};

/// A kernel's argument at which weights arrive.
using Reader = std::pair<func::FuncOp, unsigned>;

/// The layouts that each reader of a weight may profit from; none: row-major.
using Wanted = llvm::MapVector<Reader, std::vector<AffineMap>>;

/// A weight's uses, where it is stored twice.
struct Shares {
  AffineMap first, second;
  SmallVector<Use> of_first, of_second;
  DenseSet<Reader> readers_of_second;
};

class Layouts {
public:
  Layouts(ModuleOp module, const Target &target)
      : module_(module), symbols_(module), target_(target), expected_(kernel_sizes(module, true)) {}

  void choose();
  void apply();

private:
  func::FuncOp kernel_of(const Use &use) { return symbols_.lookup<func::FuncOp>(func::CallOp(use.call).getCallee()); }
  Reader reader_of(const Use &use) { return {kernel_of(use), use.argument}; }

  /// What `measure` says of a reader's kernel if what it reads lies so; null: row-major. Weights that are not laid out
  /// yet lie as the kernel then wants them, since no kernel will pack them at every call.
  template <class Measure> auto with_layout(const Reader &reader, AffineMap layout, const Measure &measure) {
    auto [kernel, argument] = reader;
    SmallVector<unsigned> set;
    auto lay_out = [&, &kernel = kernel](unsigned of, AffineMap map) {
      kernel.setArgAttr(of, ir::names::layout, ir::LayoutAttr::get(module_.getContext(), map));
      set.push_back(of);
    };
    if (layout)
      lay_out(argument, layout);
    if (auto layouts = kind_of(kernel).layouts)
      for (unsigned other : weights_of_[kernel])
        if (other != argument && !kernel.getArgAttr(other, ir::names::layout))
          if (std::vector<AffineMap> wanted = layouts(kernel, other, target_); !wanted.empty())
            lay_out(other, wanted.front());
    auto out = measure(kernel);
    for (unsigned of : set)
      kernel.removeArgAttr(of, ir::names::layout);
    return out;
  }

  Wanted wanted(ArrayRef<Use> uses);
  std::vector<double> losses(const Reader &reader, bool packs, ArrayRef<AffineMap> layouts);
  bool pays(ArrayRef<Use> uses, AffineMap one, const Shares &two);
  void store(ir::WeightOp weight, ArrayRef<Use> uses, AffineMap layout);
  ir::WeightOp copy(ir::WeightOp weight, ArrayRef<Use> uses);

  ModuleOp module_;
  SymbolTable symbols_;
  const Target &target_;
  llvm::StringMap<SmallVector<SizeRange>> expected_;
  DenseMap<func::FuncOp, SmallVector<unsigned>> weights_of_; // arguments that weights arrive at
  SmallVector<Reader> set_;                                  // while choosing: a kernel's weights must suit each other
};

Wanted Layouts::wanted(ArrayRef<Use> uses) {
  Wanted out;
  for (const Use &use : uses) {
    auto [kernel, argument] = reader_of(use);
    if (auto layouts = kind_of(kernel).layouts; layouts && !out.contains({kernel, argument}))
      out[{kernel, argument}] = layouts(kernel, argument, target_);
    else
      out.try_emplace({kernel, argument});
  }
  return out;
}

/// The layouts that any reader of a weight may profit from, and row-major where one asks for nothing else.
std::vector<AffineMap> offered(const Wanted &wanted) {
  std::vector<AffineMap> out;
  bool row_major = false;
  for (auto &[reader, of_reader] : wanted) {
    row_major |= of_reader.empty();
    for (AffineMap layout : of_reader)
      if (!llvm::is_contained(out, layout))
        out.push_back(layout);
  }
  if (row_major && !out.empty())
    out.push_back({});
  return out;
}

/// How many times as long as with the best layout for it a reader is expected to take with each, in the mean over its
/// size classes. Row-major is nothing for readers that profit from another one: they pack what they read at every call.
std::vector<double> Layouts::losses(const Reader &reader, bool packs, ArrayRef<AffineMap> layouts) {
  constexpr double never = std::numeric_limits<double>::infinity();
  std::vector<SizeClass> classes = size_classes(reader.first, expected_);
  std::vector<std::vector<double>> costs;
  for (AffineMap layout : layouts)
    costs.push_back(packs && !layout ? std::vector<double>(classes.size(), never)
                                     : with_layout(reader, layout, [&](func::FuncOp kernel) {
                                         return least_seconds(kernel, target_, classes);
                                       }));
  std::vector<double> out(layouts.size());
  for (size_t size = 0; size < costs.front().size(); ++size) {
    double least = never;
    for (const std::vector<double> &cost : costs)
      least = std::min(least, cost[size]);
    for (size_t i = 0; i < costs.size(); ++i)
      out[i] += costs[i][size] / least / double(costs[i].size());
  }
  return out;
}

/// Whether some entry becomes faster, in the mean over its sizes, with two layouts instead of one.
bool Layouts::pays(ArrayRef<Use> uses, AffineMap one, const Shares &two) {
  llvm::MapVector<Operation *, double> ratios; // of entries: the sum over samples of seconds without by seconds with
  Builder builder(module_.getContext());
  for (int64_t sample : sampled_dims) {
    NamedAttrList dims;
    for (auto dim : module_->getAttrOfType<ArrayAttr>(ir::names::dims).getAsRange<DictionaryAttr>()) {
      if (dim.contains("product")) // of others
        continue;
      auto most = dim.getAs<IntegerAttr>("most");
      dims.set(dim.getAs<StringAttr>("name").getValue(),
               builder.getI64IntegerAttr(most ? std::min(most.getInt(), sample) : sample));
    }
    if (auto expected = module_->getAttrOfType<DictionaryAttr>(ir::names::expected))
      for (NamedAttribute dim : expected)
        dims.set(dim.getName(), dim.getValue());
    DictionaryAttr values = dims.getDictionary(module_.getContext());
    auto seconds_of = [&](func::CallOp call) {
      SizeClass sizes;
      for (Value operand : call.getOperands())
        if (operand.getType().isIndex())
          sizes.push_back(std::clamp<int64_t>(range_of(module_, operand, values).least, 0, INT32_MAX));
      return [this, sizes](func::FuncOp kernel) { return least_seconds(kernel, target_, {&sizes, 1}).front(); };
    };
    llvm::MapVector<Operation *, std::pair<double, double>> entries; // without and with a copy
    for (func::CallOp call : kernel_calls_of(module_)) {
      auto &[without, with] = entries[call->getParentOfType<func::FuncOp>()];
      auto use = llvm::find_if(uses, [&](const Use &use) { return use.call == call; });
      if (use == uses.end()) {
        double seconds = seconds_of(call)(symbols_.lookup<func::FuncOp>(call.getCallee()));
        without += seconds;
        with += seconds;
      } else {
        Reader reader = reader_of(*use);
        without += with_layout(reader, one, seconds_of(call));
        with += with_layout(reader, two.readers_of_second.contains(reader) ? two.second : two.first, seconds_of(call));
      }
    }
    for (auto &[entry, seconds] : entries)
      ratios[entry] += seconds.first / seconds.second / double(std::size(sampled_dims));
  }
  return llvm::any_of(ratios, [](const auto &entry) { return entry.second >= worth_a_copy; });
}

/// Gives a weight its layout, and the arguments at which it is read while other weights are chosen for.
void Layouts::store(ir::WeightOp weight, ArrayRef<Use> uses, AffineMap layout) {
  if (!layout)
    return;
  func::CallOp call = uses.front().call;
  weight.setType(cast<RankedTensorType>(call.getOperand(uses.front().argument).getType()));
  weight.setLayoutAttr(ir::LayoutAttr::get(module_.getContext(), layout));
  for (const Use &use : uses)
    if (auto [kernel, argument] = reader_of(use); !kernel.getArgAttr(argument, ir::names::layout)) {
      kernel.setArgAttr(argument, ir::names::layout, weight.getLayoutAttr());
      set_.push_back({kernel, argument});
    }
}

/// A weight of the same numbers for these uses.
ir::WeightOp Layouts::copy(ir::WeightOp weight, ArrayRef<Use> uses) {
  auto out = cast<ir::WeightOp>(weight->clone());
  out.setSymName((weight.getSymName() + ".copy").str());
  out->setAttr(ir::names::second_copy, UnitAttr::get(module_.getContext()));
  symbols_.insert(out, std::next(Block::iterator(weight)));
  for (const Use &use : uses) {
    func::CallOp call = use.call;
    OpBuilder builder(call);
    call.setOperand(use.argument, ir::GetOp::create(builder, call.getLoc(), call.getOperand(use.argument).getType(),
                                                    out.getSymName()));
  }
  return out;
}

void Layouts::choose() {
  bool copies = !module_->hasAttr(ir::names::single_copy);
  llvm::MapVector<ir::WeightOp, SmallVector<Use>> weights = uses_of_weights(module_);
  for (auto &[weight_op, all_uses] : weights)
    for (const Use &use : all_uses)
      if (auto [kernel, argument] = reader_of(use); !llvm::is_contained(weights_of_[kernel], argument))
        weights_of_[kernel].push_back(argument);
  for (auto &[weight_op, all_uses] : weights) {
    ArrayRef<Use> uses = all_uses;
    Wanted by_reader = wanted(uses);
    std::vector<AffineMap> layouts = offered(by_reader);
    if (layouts.empty())
      continue;
    llvm::MapVector<Reader, std::vector<double>> readers;
    for (auto &[reader, own] : by_reader)
      readers[reader] = losses(reader, /*packs=*/!own.empty(), layouts);
    auto loss = [&](size_t first, size_t second) {
      double sum = 0;
      for (auto &[reader, of_layout] : readers)
        sum += std::min(of_layout[first], of_layout[second]);
      return sum;
    };
    std::pair<size_t, size_t> one, two;
    for (size_t i = 0; i < layouts.size(); ++i) {
      if (layouts[i] && loss(i, i) < loss(one.first, one.second))
        one = {i, i};
      for (size_t j = i + 1; j < layouts.size(); ++j)
        if (loss(i, j) < loss(two.first, two.second))
          two = {i, j};
    }
    if (copies && loss(two.first, two.second) < loss(one.first, one.second)) {
      Shares shares{layouts[two.first], layouts[two.second], {}, {}, {}};
      for (const Use &use : uses) {
        const std::vector<double> &of_layout = readers[reader_of(use)];
        bool other = of_layout[two.second] < of_layout[two.first];
        (other ? shares.of_second : shares.of_first).push_back(use);
        if (other)
          shares.readers_of_second.insert(reader_of(use));
      }
      bool both = !shares.of_first.empty() && !shares.of_second.empty();
      if (both && pays(uses, layouts[one.first], shares)) {
        store(copy(weight_op, shares.of_second), shares.of_second, shares.second);
        store(weight_op, shares.of_first, shares.first);
        continue;
      }
    }
    store(weight_op, uses, layouts[one.first]);
  }
  for (auto [kernel, argument] : set_)
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
    if (target.gpu) // its variants read weights row by row
      return;
    Layouts layouts(getOperation(), target);
    layouts.choose();
    layouts.apply();
  }

  Target target;
};

} // namespace

std::unique_ptr<Pass> layout_weights(const Target &target) { return std::make_unique<LayoutWeights>(target); }

} // namespace heddle::passes
