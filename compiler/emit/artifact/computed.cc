#include "compiler/emit/artifact/computed.h"

#include "compiler/ir/definitions.h"

namespace heddle {

using namespace mlir;

DType dtype_of_element(mlir::Type element) {
  if (element.isF32())
    return DType::f32;
  if (element.isBF16())
    return DType::bf16;
  if (element.isF16())
    return DType::f16;
  return element.isInteger(1) ? DType::boolean : element.isInteger(8) ? DType::i8 : DType::i32;
}

static HostTensor room_for(mlir::Type type) {
  auto tensor = cast<RankedTensorType>(type);
  HostTensor out{dtype_of_element(tensor.getElementType()), tensor.getShape().vec(), {}};
  out.bytes.resize(size_t(tensor.getNumElements()) * byte_width(out.dtype));
  return out;
}

Status ComputedWeights::compute(ir::WeightOp weight, const SymbolTable &symbols, const ReadStored &read) {
  auto computed = *weight.getComputed();
  if (done_.contains(computed.getAsOpaquePointer()))
    return Done{};
  auto function = symbols.lookup<func::FuncOp>(computed.getFunction().getValue());
  std::vector<HostTensor> inputs;
  for (auto [type, name] : llvm::zip_equal(function.getArgumentTypes(), computed.getOf())) {
    auto of = symbols.lookup<ir::WeightOp>(name.getValue());
    inputs.push_back(room_for(type));
    if (!of.getComputed()) {
      read(of, inputs.back().dtype, inputs.back().bytes);
      continue;
    }
    if (Status made = compute(of, symbols, read); !made)
      return made;
    inputs.back().bytes = done_.at(of.getComputed()->getAsOpaquePointer()).bytes;
  }
  HostTensor result = room_for(function.getResultTypes().front());
  std::vector<const std::byte *> elements;
  for (const HostTensor &input : inputs)
    elements.push_back(input.bytes.data());
  std::unique_ptr<EvaluatedFunction> &evaluated = functions_[function.getAsOpaquePointer()];
  if (!evaluated)
    evaluated = std::make_unique<EvaluatedFunction>(function);
  if (Status made = evaluated->run(elements, result.bytes.data()); !made) {
    std::string what = ir::in_words(ir::definitions_in(weight.getLoc()));
    return Error{"packing can't compute " + (what.empty() ? "@" + weight.getSymName().str() : what) + ": " +
                 made.error().message + "; smaller sizes, or a formula in smaller steps, may do"};
  }
  done_.emplace(computed.getAsOpaquePointer(), std::move(result));
  return Done{};
}

Status ComputedWeights::compute(ModuleOp module, const ReadStored &read) {
  SymbolTable symbols(module);
  for (ir::WeightOp weight : ir::packed_weights(module))
    if (weight.getComputed())
      if (Status made = compute(weight, symbols, read); !made)
        return made;
  return Done{};
}

TensorView ComputedWeights::find(ir::WeightOp weight) const {
  return done_.at(weight.getComputed()->getAsOpaquePointer()).view();
}

} // namespace heddle
