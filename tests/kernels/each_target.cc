// Kernels for every row of the table of targets: they compile on any machine, and run, against the evaluator, where the
// CPU has what their code uses. Where it has not, the case is skipped, which the summary of the tests counts.
#include "compiler/choose/choice.h"
#include "harness.h"

#include "runtime/cpu_features.h"

using namespace heddle::test;

namespace {

class EachTarget : public testing::TestWithParam<std::string> {};

struct Sample {
  std::string text;
  std::vector<int64_t> sizes;
  bool only_last = false; // of many rows, each of which takes seconds to compile, the one that always holds
};

TEST_P(EachTarget, compiles_kernels_and_computes_what_the_evaluator_does_where_the_machine_has_it) {
  heddle::Target target = *heddle::find_target(GetParam());
  uint32_t lacks = 0;
  const Sample samples[] = {
      {lit_kernel("contraction_bias_gelu", {{"3072", "100"}, {"768", "60"}}), {7}},
      {lit_kernel("attention_mask", {{"x12x", "x3x"}, {"64", "20"}, {" 12,", " 3,"}}), {2, 37}, true},
      {lit_kernel("layer_norm", {{"768", "60"}}), {5}},
      {lit_kernel("pointwise_gelu", {}), {3}},
  };
  for (const Sample &sample : samples) {
    KernelText kernel(sample.text);
    heddle::set_schedule(kernel.function(), heddle::choose(kernel.function(), target));
    uint32_t used = heddle::cpu_features(kernel.function()->getParentOfType<mlir::ModuleOp>(), target);
    lacks |= used & ~heddle_host_cpu_features();
    int rows = kernel.function()->getAttrOfType<mlir::ArrayAttr>("heddle.schedule").size();
    std::vector<Values> inputs = random_inputs(kernel.function(), sample.sizes, 1),
                        expected = evaluate(kernel.function(), sample.sizes, inputs);
    for (int row = sample.only_last ? rows - 1 : 0; row < rows; ++row) {
      SCOPED_TRACE("row " + std::to_string(row));
      if (lacks) {
        auto object = heddle::emit_kernel(kernel.function(), row, target, {});
        ASSERT_TRUE(object) << object.error().message;
      } else {
        CompiledKernel compiled(kernel.function(), row, target, true);
        EXPECT_TRUE(close(compiled.run(sample.sizes, inputs), expected, 1e-5));
      }
    }
  }
  if (lacks)
    GTEST_SKIP() << "this machine's CPU has not all that code for " << target.name << " uses: compiled, not run";
}

std::vector<std::string> names() {
  std::vector<std::string> out;
  for (const heddle::Target &target : heddle::targets())
    out.push_back(target.name);
  return out;
}

INSTANTIATE_TEST_SUITE_P(Targets, EachTarget, testing::ValuesIn(names()), [](const auto &parameter) {
  std::string name = parameter.param;
  for (char &c : name)
    c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
});

} // namespace
