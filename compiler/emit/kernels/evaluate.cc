// Every stage is computed whole, element by element: sums have one order, and no thread is woken.
#include "compiler/emit/kernels/evaluate.h"

#include "compiler/emit/kernels/halide_messages.h"
#include "compiler/halide/lower.h"
#include "compiler/halide/rewrites/rewrites.h"
#include "compiler/halide/scalars.h"
#include "compiler/targets/target.h"

namespace heddle {

using namespace mlir;

struct EvaluatedFunction::Code {
  LoweredKernel kernel; // the pipeline uses its rewrites
  Halide::Pipeline pipeline;
};

EvaluatedFunction::EvaluatedFunction(func::FuncOp function) : function_(function) {}
EvaluatedFunction::~EvaluatedFunction() = default;

/// Row-major elements as Halide sees them: innermost axis first.
static Halide::Buffer<void> buffer_of(Type type, const std::byte *elements) {
  auto tensor = cast<RankedTensorType>(type);
  std::vector<int> extents(tensor.getShape().rbegin(), tensor.getShape().rend());
  return Halide::Buffer<void>(*halide_type(tensor.getElementType()), const_cast<std::byte *>(elements), extents);
}

Status EvaluatedFunction::run(ArrayRef<const std::byte *> inputs, std::byte *result) {
  report_by_exceptions();
  try {
    if (!code_) {
      Result<LoweredKernel> lowered = lower_kernel(function_);
      if (!lowered)
        return lowered.error();
      code_ = std::make_unique<Code>(Code{std::move(*lowered), {}});
      for (LoweredOp &stage : code_->kernel.stages)
        stage.func.compute_root();
      code_->pipeline = Halide::Pipeline(code_->kernel.outputs.front().func);
      for (const Rewrite &rewrite : rewrites()) {
        code_->kernel.passes.push_back(rewrite.make());
        code_->pipeline.add_custom_lowering_pass(code_->kernel.passes.back().get(), nullptr);
      }
    }
    for (auto [input, elements] : llvm::zip_equal(code_->kernel.inputs, inputs))
      input.param.set(buffer_of(input.value.getType(), elements));
    Halide::Target target(halide_name(/*cpu_features=*/0));
    target.set_feature(Halide::Target::JIT);
    target.set_feature(Halide::Target::StrictFloat); // sums and products keep their order
    // Without the instruction Halide rounds NaN to an infinity of f16.
    if (Halide::get_host_target().has_feature(Halide::Target::F16C))
      target.set_feature(Halide::Target::F16C);
    Halide::Buffer<void> out = buffer_of(function_.getResultTypes().front(), result);
    code_->pipeline.realize(out, target);
    return Done{};
  } catch (const Halide::Error &error) { // not a std::exception
    return Error{"Halide says \"" + message_of(error) + "\""};
  }
}

} // namespace heddle
