// Infinite values, NaN and the functions' accuracy: what Halide and LLVM would take liberties with if they were let.
#include "compiler/choose/choice.h"
#include "harness.h"

#include <cmath>
#include <limits>

using namespace heddle::test;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// y[i] = body(x[i]), 16 lanes and a tail, on the given values.
std::vector<double> values_of(const std::string &body, std::vector<double> x, bool with_asserts = false) {
  KernelText kernel(R"(
    func.func private @k(%n: index, %x: tensor<?xf32> {heddle.extents = affine_map<(n) -> (n)>})
        -> (tensor<?xf32> {heddle.extents = affine_map<(n) -> (n)>}) {
      %e = tensor.empty(%n) : tensor<?xf32>
      %y = linalg.generic {indexing_maps = [affine_map<(n) -> (n)>, affine_map<(n) -> (n)>], iterator_types = ["parallel"]}
           ins(%x : tensor<?xf32>) outs(%e : tensor<?xf32>) {
      ^bb0(%x0: f32, %o: f32):
        %ninf = arith.constant 0xFF800000 : f32
        %zero = arith.constant 0.0 : f32
        %one = arith.constant 1.0 : f32
        )" + body + R"(
        linalg.yield %y0 : f32
      } -> tensor<?xf32>
      return %y : tensor<?xf32>
    })");
  heddle::set_schedule(kernel.function(), heddle::choose(kernel.function(), *heddle::find_target("native")));
  CompiledKernel compiled(kernel.function(), 0, *heddle::find_target("native"), with_asserts);
  int64_t n = int64_t(x.size());
  return compiled
      .run({n}, {{llvm::cast<mlir::RankedTensorType>(kernel.function().getArgumentTypes()[1]).getElementType(),
                  {n},
                  std::move(x)}})[0]
      .data;
}

#define EXPECT_SAME(actual, ...)                                                                                       \
  do {                                                                                                                 \
    std::vector<double> got = (actual), expected = __VA_ARGS__;                                                        \
    ASSERT_EQ(got.size(), expected.size());                                                                            \
    for (size_t i = 0; i < got.size(); ++i)                                                                            \
      EXPECT_TRUE(std::isnan(expected[i]) ? std::isnan(got[i]) : got[i] == expected[i])                                \
          << "element " << i << " is " << got[i] << ", expected " << expected[i];                                      \
  } while (false)

TEST(Numbers, exp_of_minus_infinity_is_zero_and_of_nan_is_nan) {
  for (const char *body : {"%y0 = math.exp %x0 : f32", "%y0 = math.exp %x0 fastmath<afn> : f32"})
    EXPECT_SAME(values_of(body, {-inf, 0, inf, nan, -1000, 1000}), {0, 1, inf, nan, 0, inf});
}

TEST(Numbers, a_masked_value_may_be_subtracted_from_and_exponentiated) {
  // exp(select(x > 0, x, -inf) - x): 1 where admitted, 0 elsewhere; folding -inf away would give 1 everywhere.
  EXPECT_SAME(values_of(R"(
    %c = arith.cmpf ogt, %x0, %zero : f32
    %s = arith.select %c, %x0, %ninf : f32
    %d = arith.subf %s, %x0 : f32
    %y0 = math.exp %d : f32)",
                        {1, -1, 2, -2, 0}),
              {1, 0, 1, 0, 0});
  EXPECT_SAME(values_of(R"(
    %c = arith.cmpf ogt, %x0, %zero : f32
    %s = arith.select %c, %zero, %ninf : f32
    %t = arith.addf %s, %x0 : f32
    %u = arith.mulf %t, %one : f32
    %y0 = math.exp %u : f32)",
                        {-1, -inf, 0, -3}),
              {0, 0, 0, 0});
}

TEST(Numbers, comparisons_with_infinity_are_decided_at_run_time) {
  EXPECT_SAME(values_of(R"(
    %c = arith.cmpf oeq, %x0, %ninf : f32
    %y0 = arith.select %c, %one, %zero : f32)",
                        {-inf, inf, 0, nan, -3.4e38}),
              {1, 0, 0, 0, 0});
  EXPECT_SAME(values_of(R"(
    %c = arith.cmpf uno, %x0, %x0 : f32
    %y0 = arith.select %c, %one, %zero : f32)",
                        {-inf, inf, 0, nan, 1}),
              {0, 0, 0, 1, 0});
  EXPECT_SAME(values_of(R"(
    %c = arith.cmpf une, %x0, %x0 : f32
    %y0 = arith.select %c, %one, %zero : f32)",
                        {-inf, inf, 0, nan, 1}),
              {0, 0, 0, 1, 0});
  EXPECT_SAME(values_of(R"(
    %c = arith.cmpf ult, %x0, %zero : f32
    %y0 = arith.select %c, %one, %zero : f32)",
                        {-1, 1, 0, nan, -inf}),
              {1, 0, 0, 1, 1});
  EXPECT_SAME(values_of(R"(
    %c = arith.cmpf ole, %x0, %zero : f32
    %y0 = arith.select %c, %one, %zero : f32)",
                        {-1, 1, 0, nan, -inf}),
              {1, 0, 1, 0, 1});
}

TEST(Numbers, nan_survives_relu_erf_and_tanh) {
  EXPECT_SAME(values_of("%y0 = arith.maximumf %x0, %zero : f32", {-1, 2, nan, -inf, inf}), {0, 2, nan, 0, inf});
  EXPECT_SAME(values_of("%y0 = arith.maximumf %zero, %x0 : f32", {-1, 2, nan, -inf, inf}), {0, 2, nan, 0, inf});
  EXPECT_SAME(values_of("%y0 = arith.minimumf %x0, %zero : f32", {-1, 2, nan, -inf, inf}), {-1, 0, nan, -inf, 0});
  EXPECT_SAME(values_of("%y0 = arith.maxnumf %x0, %zero : f32", {-1, 2, nan, -inf, inf}), {0, 2, 0, 0, inf});
  std::vector<double> erf = values_of("%y0 = math.erf %x0 : f32", {nan, inf, -inf, 0}),
                      rough = values_of("%y0 = math.erf %x0 fastmath<afn> : f32", {nan, inf, -inf, 0}),
                      tanh = values_of("%y0 = math.tanh %x0 : f32", {nan, inf, -inf, 0}),
                      rough_tanh = values_of("%y0 = math.tanh %x0 fastmath<afn> : f32", {nan, inf, -inf, 0});
  for (const std::vector<double> &y : {erf, rough, tanh, rough_tanh}) {
    EXPECT_TRUE(std::isnan(y[0]));
    EXPECT_NEAR(y[1], 1, 3e-6);
    EXPECT_NEAR(y[2], -1, 3e-6);
    EXPECT_EQ(y[3], 0);
  }
}

TEST(Numbers, functions_are_as_accurate_as_their_declarations_say) {
  std::vector<double> x;
  for (int i = -20000; i <= 20000; ++i)
    x.push_back(double(float(i * 0.0043)));
  auto worst = [&](const char *body, auto reference, auto error) {
    std::vector<double> y = values_of(body, x);
    double most = 0;
    for (size_t i = 0; i < x.size(); ++i)
      most = std::max(most, error(y[i], reference(x[i])));
    return most;
  };
  auto relative = [](double a, double e) { return std::abs(a - e) / std::abs(e); };
  auto absolute = [](double a, double e) { return std::abs(a - e); };
  EXPECT_LT(worst("%y0 = math.exp %x0 : f32", [](double v) { return std::exp(v); }, relative), 1.2e-7);
  EXPECT_LT(worst("%y0 = math.exp %x0 fastmath<afn> : f32", [](double v) { return std::exp(v); }, relative), 1e-5);
  EXPECT_LT(worst("%y0 = math.erf %x0 : f32", [](double v) { return std::erf(v); }, absolute), 2.5e-7);
  EXPECT_LT(worst("%y0 = math.erf %x0 fastmath<afn> : f32", [](double v) { return std::erf(v); }, absolute), 6e-5);
  EXPECT_LT(worst("%y0 = math.tanh %x0 : f32", [](double v) { return std::tanh(v); }, absolute), 5e-7);
  EXPECT_LT(worst("%y0 = math.tanh %x0 fastmath<afn> : f32", [](double v) { return std::tanh(v); }, absolute), 6e-5);
  EXPECT_LT(worst("%y0 = math.sin %x0 : f32", [](double v) { return std::sin(v); }, absolute), 2e-7);
  EXPECT_LT(worst("%y0 = math.cos %x0 : f32", [](double v) { return std::cos(v); }, absolute), 2e-7);
  EXPECT_LT(worst(
                "%a = math.absf %x0 : f32\n%y0 = math.sqrt %a : f32", [](double v) { return std::sqrt(std::abs(v)); },
                absolute),
            1e-6);
}

TEST(Numbers, exp_of_indices_alone_is_as_accurate_where_LLVM_computes_it) {
  // After unrolling all arguments are constants, and LLVM makes no FMAs of operations on those.
  KernelText kernel(R"(
    func.func private @k() -> tensor<10xf32> {
      %e = tensor.empty() : tensor<10xf32>
      %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]} outs(%e : tensor<10xf32>) {
      ^bb0(%o: f32):
        %i = linalg.index 0 : index
        %n = arith.index_cast %i : index to i32
        %x = arith.sitofp %n : i32 to f32
        %square = arith.mulf %x, %x : f32
        %negative = arith.negf %square : f32
        %y0 = math.exp %negative : f32
        linalg.yield %y0 : f32
      } -> tensor<10xf32>
      return %y : tensor<10xf32>
    })");
  heddle::set_schedule(kernel.function(), heddle::choose(kernel.function(), *heddle::find_target("native")));
  CompiledKernel compiled(kernel.function(), 0, *heddle::find_target("native"), false);
  std::vector<double> y = compiled.run({}, {})[0].data;
  for (int i = 0; i < 10; ++i)
    EXPECT_NEAR(y[size_t(i)] / std::exp(-double(i * i)), 1, 1.8e-7) << i;
}

TEST(Numbers, sines_of_large_numbers_are_right_and_of_infinite_ones_nan) {
  for (double v : {1e5, -123456.0, 8388607.0, 1e8}) {
    EXPECT_NEAR(values_of("%y0 = math.sin %x0 : f32", {v})[0], std::sin(v), 2e-7) << v;
    EXPECT_NEAR(values_of("%y0 = math.cos %x0 : f32", {v})[0], std::cos(v), 2e-7) << v;
  }
  EXPECT_SAME(values_of("%y0 = math.sin %x0 : f32", {inf, -inf, nan}), {nan, nan, nan});
}

TEST(Numbers, a_power_with_a_small_integer_is_a_product) {
  EXPECT_SAME(values_of("%two = arith.constant 2.0 : f32\n%y0 = math.powf %x0, %two : f32", {-3, 0, 2, -inf, nan}),
              {9, 0, 4, inf, nan});
  EXPECT_SAME(values_of("%h = arith.constant 0.5 : f32\n%y0 = math.powf %x0, %h : f32", {9, 0, 4}), {3, 0, 2});
}

TEST(Numbers, a_row_of_minus_infinity_has_minus_infinity_as_its_maximum) {
  KernelText kernel(R"(
    func.func private @k(%m: index, %x: tensor<?x20xf32> {heddle.extents = affine_map<(m) -> (m, 20)>})
        -> (tensor<?xf32> {heddle.extents = affine_map<(m) -> (m)>}) {
      %inf = arith.constant 0xFF800000 : f32
      %e = tensor.empty(%m) : tensor<?xf32>
      %f = linalg.fill ins(%inf : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
      %y = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m)>],
                           iterator_types = ["parallel", "reduction"]}
           ins(%x : tensor<?x20xf32>) outs(%f : tensor<?xf32>) {
      ^bb0(%p: f32, %o: f32):
        %v = arith.maximumf %o, %p : f32
        linalg.yield %v : f32
      } -> tensor<?xf32>
      return %y : tensor<?xf32>
    })");
  heddle::set_schedule(kernel.function(), heddle::choose(kernel.function(), *heddle::find_target("native")));
  CompiledKernel compiled(kernel.function(), 0, *heddle::find_target("native"), false);
  std::vector<Values> inputs = random_inputs(kernel.function(), {3}, 1);
  std::fill_n(inputs[0].data.begin(), 40, -inf);
  inputs[0].data[33] = -3.0e38;
  std::vector<double> y = compiled.run({3}, inputs)[0].data;
  EXPECT_EQ(y[0], -inf);
  EXPECT_EQ(y[1], double(-3.0e38f));
  EXPECT_TRUE(std::isfinite(y[2]));
}

TEST(Numbers, comparisons_without_sign_take_a_negative_number_for_a_large_one) {
  check_all_rows(R"(
    func.func private @k(%m: index, %x: tensor<?xi32> {heddle.extents = affine_map<(m) -> (m)>})
        -> (tensor<?xf32> {heddle.extents = affine_map<(m) -> (m)>}) {
      %e = tensor.empty(%m) : tensor<?xf32>
      %y = linalg.generic {indexing_maps = [affine_map<(m) -> (m)>, affine_map<(m) -> (m)>], iterator_types = ["parallel"]}
           ins(%x : tensor<?xi32>) outs(%e : tensor<?xf32>) {
      ^bb0(%n: i32, %o: f32):
        %two = arith.constant 2 : i32
        %one = arith.constant 1 : i32
        %d = arith.subi %n, %two : i32
        %lt = arith.cmpi ult, %d, %one : i32
        %le = arith.cmpi ule, %d, %one : i32
        %gt = arith.cmpi ugt, %d, %one : i32
        %ge = arith.cmpi uge, %d, %one : i32
        %i = linalg.index 0 : index
        %c3 = arith.constant 3 : index
        %j = arith.subi %i, %c3 : index
        %far = arith.cmpi ugt, %j, %c3 : index
        %r0 = arith.constant 0.0 : f32
        %r1 = arith.constant 1.0 : f32
        %r2 = arith.constant 2.0 : f32
        %r4 = arith.constant 4.0 : f32
        %r8 = arith.constant 8.0 : f32
        %r16 = arith.constant 16.0 : f32
        %a = arith.select %lt, %r1, %r0 : f32
        %b = arith.select %le, %r2, %r0 : f32
        %c = arith.select %gt, %r4, %r0 : f32
        %f = arith.select %ge, %r8, %r0 : f32
        %g = arith.select %far, %r16, %r0 : f32
        %ab = arith.addf %a, %b : f32
        %cf = arith.addf %c, %f : f32
        %abcf = arith.addf %ab, %cf : f32
        %v = arith.addf %abcf, %g : f32
        linalg.yield %v : f32
      } -> tensor<?xf32>
      return %y : tensor<?xf32>
    })",
                 "pointwise", {{1}, {37}});
}

} // namespace
