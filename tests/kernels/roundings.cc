// Roundings to bf16 are one instruction where the target has it, and right everywhere.
#include "harness.h"

#include "compiler/ir/dialect.h"
#include "runtime/cpu_features.h"

#include "llvm/ADT/APFloat.h"

#include <limits>

namespace heddle::test {
namespace {

constexpr std::string_view rounding = R"(
#n = affine_map<(n) -> (n)>
func.func @k0(%n: index, %x: tensor<?xf32> {heddle.extents = #n}) -> (tensor<?xbf16> {heddle.extents = #n}) attributes {heddle.kernel = "pointwise", heddle.schedule = [{params = {grain = 65536 : i64}, variant = "rows"}]} {
  %e = tensor.empty(%n) : tensor<?xbf16>
  %y = linalg.generic {indexing_maps = [#n, #n], iterator_types = ["parallel"]} ins(%x : tensor<?xf32>) outs(%e : tensor<?xbf16>) {
  ^bb0(%in: f32, %out: bf16):
    %s = arith.addf %in, %in : f32
    %v = arith.truncf %s : f32 to bf16
    linalg.yield %v : bf16
  } -> tensor<?xbf16>
  return %y : tensor<?xbf16>
})";

constexpr std::string_view instruction = "vcvtneps2bf16";

std::string assembly(std::string_view text, std::string_view target) {
  KernelText kernel(text);
  EmitOptions options;
  options.form = KernelForm::assembly;
  Result<KernelObject> code = emit_kernel(kernel.function(), 0, *find_target(target), options);
  EXPECT_TRUE(code) << (code ? "" : code.error().message);
  return code ? code->bytes : "";
}

bool has(const std::string &text, std::string_view word) { return text.find(word) != std::string::npos; }

TEST(Roundings, are_an_instruction_where_the_target_has_it) {
  EXPECT_TRUE(has(assembly(rounding, "x86-64-v4+bf16"), instruction));
  EXPECT_FALSE(has(assembly(rounding, "x86-64-v4"), instruction));
}

TEST(Roundings, say_that_their_code_needs_the_instruction) {
  KernelText kernel(rounding);
  auto module = kernel.function()->getParentOfType<mlir::ModuleOp>();
  EXPECT_TRUE(cpu_features(module, *find_target("x86-64-v4+bf16")) & HEDDLE_CPU_AVX512_BF16);
  EXPECT_FALSE(cpu_features(module, *find_target("x86-64-v4")) & HEDDLE_CPU_AVX512_BF16);
}

/// The nearest bf16, and of two the even one.
double nearest(double x) {
  llvm::APFloat value(x);
  bool inexact;
  value.convert(llvm::APFloat::BFloat(), llvm::APFloat::rmNearestTiesToEven, &inexact);
  value.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &inexact);
  return value.convertToDouble();
}

TEST(Roundings, round_to_nearest_and_keep_what_is_no_finite_number) {
  KernelText kernel(rounding);
  std::vector<Values> inputs = random_inputs(kernel.function(), {75}, 1); // whole vectors and a part of one
  std::vector<double> &x = inputs.front().data;
  constexpr double inf = std::numeric_limits<double>::infinity();
  x[0] = inf, x[1] = -inf, x[2] = std::numeric_limits<double>::quiet_NaN(), x[3] = -0.0;
  x[4] = 0.5 + 1.0 / 512, x[5] = 0.5 + 3.0 / 512; // ties: one goes down, one up
  x[6] = 0x1.fffp126;                             // rounds to infinity
  std::vector<Values> expected = evaluate(kernel.function(), {75}, inputs);
  for (double &value : expected.front().data)
    value = nearest(value);
  for (const Target &target : targets())
    if (!(target.cpu_features() & ~heddle_host_cpu_features())) {
      CompiledKernel compiled(kernel.function(), 0, target, false);
      EXPECT_TRUE(close(compiled.run({75}, inputs), expected, 0)) << target.name;
    }
}

} // namespace
} // namespace heddle::test
