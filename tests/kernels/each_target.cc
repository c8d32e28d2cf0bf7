// Kernels for every row of the table of targets: they compile on any machine, and run, against the evaluator, where the
// CPU has what their code uses. Where it has not, the case is skipped, which the summary of the tests counts.
#include "compiler/choose/choice.h"
#include "harness.h"

#include "runtime/cpu_features.h"

using namespace heddle::test;

namespace {

/// y[m, o] = sum[i](x[m, i] * w[o, i]) of u8 and s8, added up in i32.
constexpr const char *bytes = R"(
func.func private @k(%M: index, %x: tensor<?x60xi8> {heddle.extents = affine_map<(M) -> (M, 60)>, heddle.below = 128},
    %w: tensor<100x60xi8> {heddle.below = 128, heddle.extents = affine_map<(M) -> (100, 60)>})
    -> (tensor<?x100xi32> {heddle.extents = affine_map<(M) -> (M, 100)>}) {
  %zero = arith.constant 0 : i32
  %e = tensor.empty(%M) : tensor<?x100xi32>
  %f = linalg.fill ins(%zero : i32) outs(%e : tensor<?x100xi32>) -> tensor<?x100xi32>
  %p = linalg.generic {indexing_maps = [affine_map<(m, o, i) -> (m, i)>, affine_map<(m, o, i) -> (o, i)>, affine_map<(m, o, i) -> (m, o)>],
                       iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<?x60xi8>, tensor<100x60xi8>) outs(%f : tensor<?x100xi32>) {
  ^bb0(%a: i8, %c: i8, %acc: i32):
    %0 = arith.extui %a : i8 to i32
    %1 = arith.extsi %c : i8 to i32
    %2 = arith.muli %0, %1 : i32
    %3 = arith.addi %acc, %2 : i32
    linalg.yield %3 : i32
  } -> tensor<?x100xi32>
  return %p : tensor<?x100xi32>
})";

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
      {bytes, {7}},
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
