// The prelude's parts of training steps: what they compute, and what their random choices come to.
#include "tests/differentiate/differences.h"

namespace heddle::tests {
namespace {

std::map<std::string, Array> run(const std::string &text, const std::map<std::string, Array> &inputs) {
  Checked checked = check_text(text);
  EXPECT_EQ(checked.messages, "");
  if (!checked.program)
    return {};
  Interpreter session(*checked.program, [](const std::string &) -> Result<Array> { return Error{"none"}; });
  auto results = session.run("run", inputs);
  EXPECT_TRUE(results) << results.error().message;
  return results ? *results : std::map<std::string, Array>{};
}

TEST(Prelude, DropoutKeepsTheMeanAndDropsItsShare) {
  auto results =
      run(R"(
dim N
model M {
  entry run(x: real[N], key: i32[2]) -> y: real[N], again: real[N], other: real[N] {
    return dropout(x, key, 0.25), dropout(x, key, 0.25), dropout(x, fold(key, 1), 0.25)
  }
}
)",
          {{"x", Array{Type::f32, {20000}, std::vector<double>(20000, 3)}}, {"key", Array{Type::i32, {2}, {5, -9}}}});
  const std::vector<double> &y = results["y"].data;
  double sum = 0, dropped = 0;
  for (double value : y) {
    EXPECT_TRUE(value == 0 || value == 4) << value;
    sum += value;
    dropped += value == 0;
  }
  EXPECT_NEAR(sum / 20000, 3, 0.05); // five standard deviations
  EXPECT_NEAR(dropped / 20000, 0.25, 0.016);
  EXPECT_EQ(y, results["again"].data);
  EXPECT_NE(y, results["other"].data);
}

TEST(Prelude, SigmoidsHaveTheirDerivativeAtZeroAndFarOut) {
  auto results = run(R"(
dim N
model M {
  entry run(x: real[N]) -> sigmoid_: real[N], silu_: real[N], softplus_: real[N], d_sigmoid: real[N], d_silu: real[N], d_softplus: real[N] {
    let a = sigmoid(x)
    let b = silu(x)
    let c = softplus(x)
    la = sum[n](a[n])
    lb = sum[n](b[n])
    lc = sum[n](c[n])
    return a, b, c, grad(la, x), grad(lb, x), grad(lc, x)
  }
}
)",
                     {{"x", Array{Type::f32, {5}, {-1000, -2, 0, 2, 1000}}}});
  double s = 1 / (1 + std::exp(2.0)), d = s * (1 - s);
  std::map<std::string, std::vector<double>> expected = {
      {"sigmoid_", {0, s, 0.5, 1 - s, 1}},
      {"silu_", {0, -2 * s, 0, 2 - 2 * s, 1000}},
      {"softplus_", {0, -std::log(1 - s), std::log(2.0), -std::log(s), 1000}},
      {"d_sigmoid", {0, d, 0.25, d, 0}},
      {"d_silu", {0, s - 2 * d, 0.5, 1 - s + 2 * d, 1}},
      {"d_softplus", {0, s, 0.5, 1 - s, 1}}};
  for (auto &[name, values] : expected)
    for (size_t i = 0; i < values.size(); ++i)
      EXPECT_NEAR(results[name].data[i], values[i], 1e-6) << name << " " << i;
}

TEST(Prelude, MaskedWordsAreFifteenPercentInThreeKinds) {
  const int n = 40000;
  Array ids{Type::i32, {n}, {}}, fixed{Type::boolean, {n}, {}};
  for (int i = 0; i < n; ++i) {
    ids.data.push_back(100 + i % 50);
    fixed.data.push_back(i % 10 == 0);
  }
  auto results = run(R"(
dim N
model M {
  entry run(ids: i32[N], fixed: bool[N], key: i32[2]) -> words: i32[N], labels: i32[N] {
    let w, l = masked_words(ids, fixed, key, 7, 1000)
    return w, l
  }
}
)",
                     {{"ids", ids}, {"fixed", fixed}, {"key", Array{Type::i32, {2}, {1, 2}}}});
  double chosen = 0, masked = 0, kept = 0, other = 0;
  for (int i = 0; i < n; ++i) {
    double word = results["words"].data[i], label = results["labels"].data[i];
    if (label == -100) {
      EXPECT_EQ(word, ids.data[i]);
      continue;
    }
    EXPECT_EQ(label, ids.data[i]);
    EXPECT_EQ(fixed.data[i], 0);
    EXPECT_TRUE(word >= 0 && word < 1000);
    ++chosen;
    masked += word == 7;
    kept += word == label;
    other += word != 7 && word != label;
  }
  EXPECT_NEAR(chosen / (0.9 * n), 0.15, 0.01);
  EXPECT_NEAR(masked / chosen, 0.8, 0.03);
  EXPECT_NEAR(kept / chosen, 0.1, 0.025);
  EXPECT_NEAR(other / chosen, 0.1, 0.025);
}

TEST(Prelude, SchedulesRiseAndFall) {
  auto results = run(R"(
model M {
  entry run(t: i32[6]) -> root: real[6], wave: real[6] {
    root[i] = inverse_square_root(t[i], 4, 2.0)
    wave[i] = cosine(t[i], 4, 12, 2.0)
    return root, wave
  }
}
)",
                     {{"t", Array{Type::i32, {6}, {1, 4, 8, 12, 16, 100}}}});
  std::vector<double> root = {0.5, 2, 2 * std::sqrt(0.5), 2 * std::sqrt(1.0 / 3), 1, 0.4}, wave = {0.5, 2, 1, 0, 0, 0};
  for (int i = 0; i < 6; ++i) {
    EXPECT_NEAR(results["root"].data[i], root[i], 1e-6);
    EXPECT_NEAR(results["wave"].data[i], wave[i], 1e-6);
  }
}

TEST(Prelude, MomentumGoesOnAndClippingStopsAtTheNorm) {
  auto results = run(R"(
model M {
  entry run(p: real[2], s: real[2], g: real[2]) -> w: real[2], speed: real[2], clipped: real[2], small: real[2] {
    let w, speed = sgd(p, s, g, 0.1, 0.5)
    return w, speed, g * clipping(squares(g), 1.0), g * clipping(squares(g), 100.0)
  }
}
)",
                     {{"p", Array{Type::f32, {2}, {1, 2}}},
                      {"s", Array{Type::f32, {2}, {4, 0}}},
                      {"g", Array{Type::f32, {2}, {3, -4}}}});
  EXPECT_EQ(results["speed"].data, (std::vector<double>{5, -4}));
  EXPECT_NEAR(results["w"].data[0], 0.5, 1e-6);
  EXPECT_NEAR(results["w"].data[1], 2.4, 1e-6);
  EXPECT_NEAR(results["clipped"].data[0], 0.6, 1e-6);
  EXPECT_NEAR(results["clipped"].data[1], -0.8, 1e-6);
  EXPECT_EQ(results["small"].data, (std::vector<double>{3, -4}));
}

} // namespace
} // namespace heddle::tests
