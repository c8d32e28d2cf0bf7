// Turns heddle.kernel regions into private functions, equal ones into the same function.
//
// clang-format off
//   %y = heddle.kernel(%B, %x, %w0) : … {…}
//   %z = heddle.kernel(%B, %y, %w1) : … {…}
//     →
//   %y = call @k0(%B, %x, %w0) : …
//   %z = call @k0(%B, %y, %w1) : …
//   func.func private @k0(%d0: index, %0: tensor<?x768xf32> {heddle.extents = affine_map<(d0) -> (d0, 768)>}, …)
//       attributes {heddle.kernel = "general"}
// clang-format on
//
// Kernels are compared as text, without names and places: weights are operands, so the layers of a model are equal.
#include "compiler/ir/dialect.h"
#include "compiler/ir/shapes.h"
#include "compiler/passes/equal_kernels.h"
#include "compiler/passes/passes.h"

#include "llvm/ADT/StringMap.h"

namespace heddle::passes {

using namespace mlir;

SmallVector<func::FuncOp> kernels_of(ModuleOp module) {
  return llvm::filter_to_vector(module.getOps<func::FuncOp>(),
                                [](func::FuncOp function) { return function->hasAttr(ir::names::kernel); });
}

SmallVector<func::CallOp> kernel_calls_of(ModuleOp module) {
  SmallVector<func::CallOp> out;
  SymbolTable symbols(module);
  module.walk([&](func::CallOp call) {
    auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
    if (callee && callee->hasAttr(ir::names::kernel))
      out.push_back(call);
  });
  return out;
}

void merge_equal_kernels(ModuleOp module) {
  SymbolTable symbols(module);
  llvm::StringMap<func::FuncOp> by_text;
  DenseMap<Operation *, func::FuncOp> chosen; // every kernel → the one that stands for it
  SmallVector<func::FuncOp> kept;
  auto calls = kernel_calls_of(module);
  OpPrintingFlags flags;
  flags.useLocalScope();
  for (func::CallOp call : calls) {
    auto kernel = symbols.lookup<func::FuncOp>(call.getCallee());
    if (chosen.contains(kernel))
      continue;
    std::string text, name = kernel.getName().str();
    llvm::raw_string_ostream stream(text);
    kernel.setName("k");
    kernel->print(stream, flags);
    kernel.setName(name);
    auto [found, is_new] = by_text.try_emplace(text, kernel);
    if (is_new)
      kept.push_back(kernel);
    chosen[kernel] = found->second;
  }
  SmallVector<func::FuncOp> targets;
  for (func::CallOp call : calls)
    targets.push_back(chosen.lookup(symbols.lookup<func::FuncOp>(call.getCallee())));
  for (func::FuncOp kernel : kernels_of(module))
    if (chosen.lookup(kernel) != kernel)
      kernel.erase();
  for (auto [i, kernel] : llvm::enumerate(kept)) {
    kernel->moveBefore(module.getBody(), module.getBody()->end());
    kernel.setName("k" + std::to_string(i));
  }
  for (auto [call, target] : llvm::zip_equal(calls, targets))
    call.setCallee(target.getName());
}

namespace {

/// The region as a function, with the shapes of arguments and results written down.
func::FuncOp outline(ir::KernelOp kernel, OpBuilder &builder, const Twine &name) {
  MLIRContext *context = kernel.getContext();
  unsigned sizes = ir::size_count(kernel);
  auto extents_of = [&](Value value) -> DictionaryAttr {
    if (!isa<RankedTensorType>(value.getType()))
      return DictionaryAttr::get(context);
    auto extents = ir::extent_formulas(value);
    if (failed(extents))
      return {};
    auto map = AffineMapAttr::get(AffineMap::get(sizes, 0, *extents, context));
    return DictionaryAttr::get(context, builder.getNamedAttr(ir::names::extents, map));
  };
  SmallVector<DictionaryAttr> inputs, outputs;
  for (Value argument : kernel.getBody().getArguments())
    inputs.push_back(extents_of(argument));
  auto yield = cast<ir::YieldOp>(kernel.getBody().front().getTerminator());
  for (Value value : yield.getValues())
    outputs.push_back(extents_of(value));
  if (llvm::is_contained(inputs, DictionaryAttr()) || llvm::is_contained(outputs, DictionaryAttr())) {
    kernel.emitError("outline_kernels: an operand's or result's extents are no formula over the kernel's sizes");
    return {};
  }
  auto type = builder.getFunctionType(kernel.getInputs().getTypes(), kernel.getOutputs().getTypes());
  auto function = func::FuncOp::create(builder, kernel.getLoc(), name.str(), type);
  function.setPrivate();
  function.setAllArgAttrs(inputs);
  function.setAllResultAttrs(outputs);
  function->setAttr(ir::names::kernel, builder.getStringAttr("general"));
  function.getBody().takeBody(kernel.getBody());
  OpBuilder body(yield);
  func::ReturnOp::create(body, yield.getLoc(), yield.getValues());
  yield.erase();
  return function;
}

struct OutlineKernels : PassWrapper<OutlineKernels, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(OutlineKernels)
  StringRef getArgument() const override { return "outline_kernels"; }
  StringRef getDescription() const override { return "heddle.kernel regions become functions, equal ones the same"; }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    SmallVector<ir::KernelOp> regions;
    module.walk([&](ir::KernelOp kernel) { regions.push_back(kernel); });
    OpBuilder builder(module.getContext());
    builder.setInsertionPointToEnd(module.getBody());
    SymbolTable symbols(module);
    unsigned number = 0;
    for (ir::KernelOp kernel : regions) {
      std::string name;
      do
        name = "kernel." + std::to_string(number++);
      while (symbols.lookup(name));
      auto function = outline(kernel, builder, name);
      if (!function)
        return signalPassFailure();
      OpBuilder site(kernel);
      auto call = func::CallOp::create(site, kernel.getLoc(), function, kernel.getInputs());
      kernel.replaceAllUsesWith(call.getResults());
      kernel.erase();
    }
    merge_equal_kernels(module);
  }
};

} // namespace

std::unique_ptr<Pass> outline_kernels() { return std::make_unique<OutlineKernels>(); }

} // namespace heddle::passes
