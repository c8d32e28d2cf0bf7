// Programs and their forms compute the same: the evaluator runs both, in doubles, and the rules of checked programs
// hold of both.
#include "dsl/forms/forms.h"
#include "dsl/check/verify.h"
#include "tests/differentiate/differences.h"

#include <cmath>

namespace heddle::tests {
namespace {

/// Runs the first entry as it is written and in its forms, at these sizes. Returns how many stages the forms have.
size_t compare_forms(const std::string &source, std::vector<int64_t> dims, std::map<std::string, Array> given = {}) {
  Checked checked = check_text(source);
  EXPECT_EQ(checked.messages, "") << source;
  if (!checked.program)
    return 0;
  Program &program = *checked.program;
  Differences runs(program, dims, std::move(given));
  auto expected = runs.run();
  forms::Forms forms(program);
  program.entries[0].steps = forms.steps(program)[0];
  EXPECT_EQ(verify(program, program.entries[0]), "");
  auto found = runs.run();
  EXPECT_EQ(found.size(), expected.size());
  for (const auto &[name, array] : expected) {
    EXPECT_EQ(found[name].shape, array.shape);
    for (size_t i = 0; i < array.data.size(); ++i) {
      double distance = std::abs(found[name].data[i] - array.data[i]);
      bool same =
          array.data[i] == found[name].data[i] || (std::isnan(array.data[i]) && std::isnan(found[name].data[i]));
      EXPECT_TRUE(same || distance <= 1e-12 * (1 + std::abs(array.data[i])))
          << name << "[" << i << "] is " << found[name].data[i] << ", not " << array.data[i];
    }
  }
  return program.entries[0].steps.size();
}

std::string transposed(int64_t taps, int64_t stride, int64_t before, const std::string &extent) {
  auto text = [](int64_t n) { return std::to_string(n); };
  std::string k = text(taps), s = text(stride), p = text(before);
  return "config C = 3, O = 2\ndim B, N\nmodel M {\n  param w: real[C, O, " + k + ", " + k + "]\n" +
         "  entry run(x: real[B, C, N, N]) -> y: real[B, O, " + extent + ", " + extent + "] {\n" + "    y[b, o, i in " +
         extent + ", j in " + extent + "] = sum[c, u, v where (i + " + p + " - u) % " + s + " == 0 and (j + " + p +
         " - v) % " + s + " == 0](\n      x[b, c, (i + " + p + " - u) // " + s + ", (j + " + p + " - v) // " + s +
         " | 0] * w[c, o, u, v])\n    return y\n  }\n}\n";
}

TEST(Forms, ATransposedConvolutionIsItsPhases) {
  for (int64_t n : {1, 2, 5}) {
    EXPECT_EQ(compare_forms(transposed(4, 2, 1, "2 * N"), {2, n}), 3u);
    EXPECT_EQ(compare_forms(transposed(2, 2, 0, "2 * N"), {2, n}), 2u);
    EXPECT_EQ(compare_forms(transposed(6, 3, 2, "3 * N"), {1, n}), 3u);
  }
}

TEST(Forms, PhasesMayHaveDifferentlyManyTapsAndRows) {
  for (int64_t n : {1, 2, 5}) {
    EXPECT_EQ(compare_forms(transposed(3, 2, 1, "2 * N + 1"), {2, n}), 3u);
    EXPECT_EQ(compare_forms(transposed(5, 3, 1, "3 * N + 1"), {1, n}), 3u);
    EXPECT_EQ(compare_forms(transposed(3, 2, 1, "2 * N"), {1, n}), 3u);
  }
}

TEST(Forms, WhatDoesNotCountIsLeftOutWhateverItIs) {
  Array x = values(Type::f32, {1, 3, 2, 2}, 7);
  x.data[1] = INFINITY;
  x.data[5] = NAN;
  compare_forms(transposed(3, 2, 1, "2 * N + 1"), {1, 2}, {{"x", x}});
}

TEST(Forms, ATransposedConvolutionByItsTaps) {
  EXPECT_EQ(compare_forms(R"(
config C = 3
dim B, N
model M {
  param w: real[C, 2, 4]
  entry run(x: real[B, C, N]) -> y: real[B, 2, 2 * N] {
    y[b, o, i in 2 * N] = sum[c, r in 2](x[b, c, (i + 1) // 2 - r | 0] * w[c, o, 2 * r + (i + 1) % 2])
    return y
  }
}
)",
                          {2, 3}),
            3u);
}

TEST(Forms, AConvolutionOfAnEnlargedImageIsNotSplit) {
  EXPECT_EQ(compare_forms(R"(
config C = 3
dim B, N
model M {
  param w: real[2, C, 3]
  entry run(x: real[B, C, N]) -> y: real[B, 2, 2 * N] {
    y[b, o, i in 2 * N] = sum[c, u](x[b, c, (i + u - 1) // 2 | 0] * w[o, c, u])
    return y
  }
}
)",
                          {2, 3}),
            1u);
}

TEST(Forms, GroupsAreAnAxis) {
  std::string grouped = R"(
config C = 6, O = 9, G = 3
dim B, N
let M = C // G
let P = O // G
model Grouped {
  param w: real[O, M, 3]
  entry run(x: real[B, C, N]) -> y: real[B, O, N] {
    y[b, o, i in N] = sum[c, u](x[b, o // P * M + c, i + u - 1 | 0] * w[o, c, u])
    return y
  }
}
)";
  EXPECT_EQ(compare_forms(grouped, {2, 1}), 3u);
  EXPECT_EQ(compare_forms(grouped, {1, 4}), 3u);
}

/// The extents of the axes of each stage of the first entry in its forms.
std::vector<std::string> axes_of_forms(const std::string &source) {
  Checked checked = check_text(source);
  forms::Forms forms(*checked.program);
  std::vector<std::string> out;
  std::vector<std::string> dims = checked.program->dim_names();
  std::vector<Step> steps = forms.steps(*checked.program)[0];
  for (const Step &step : steps) {
    out.emplace_back();
    for (const Index &index : std::get<Stage>(step.what).space)
      out.back() += (out.back().empty() ? "" : ", ") + index.extent.text(dims);
  }
  return out;
}

/// Four phases of each channel side by side, as a sum of products and as a copy of one.
std::string shuffled(const std::string &body) {
  return R"(
config C = 3, O = 2
dim B, N
model M {
  param w: real[4 * O, C, 3]
  entry run(x: real[B, C, N]) -> y: real[B, O, 4 * N] {
)" + body +
         R"(
    return y
  }
}
)";
}

TEST(Forms, PiecesJoinTheAxesOfTheirFactor) { // a product over [b, o, p, n], not over [b, o, n, p]
  std::string text =
      shuffled("    y[b, o in O, i in 4 * N] = sum[c, u](x[b, c, i // 4 + u - 1 | 0] * w[o * 4 + i % 4, c, u])");
  EXPECT_EQ(compare_forms(text, {2, 3}), 3u);
  EXPECT_EQ(axes_of_forms(text), (std::vector<std::string>{"2, 4, 3, 3", "B, 2, 4, N", "B, 2, 4 * N"}));
}

TEST(Forms, AProductIsComputedWhereItsOnlyCopyHasIt) {
  std::string text = shuffled(R"(
    t[b, o, n in N] = sum[c, u](x[b, c, n + u - 1 | 0] * w[o, c, u])
    y[b, o in O, i in 4 * N] = t[b, o * 4 + i % 4, i // 4])");
  EXPECT_EQ(compare_forms(text, {2, 3}), 3u);
  EXPECT_EQ(axes_of_forms(text), (std::vector<std::string>{"2, 4, 3, 3", "B, 2, 4, N", "B, 2, 4 * N"}));
}

TEST(Forms, AnAxisOfGroupsStandsWhereTheResultHasIt) {
  for (std::string formula : {"s[g, b, p, n]", "relu(s[g, b, p, n] + c[o])"}) {
    std::string text = R"(
config C = 3, G = 2, P = 5
dim B, N
model M {
  param w: real[G, P, C, 3]
  param c: real[G * P]
  entry run(x: real[B, G * C, N]) -> y: real[B, G * P, N] {
    s[g, b, p, n in N] = sum[c, u](x[b, g * C + c, n + u - 1 | 0] * w[g, p, c, u])
    y[b, o in (g in G, p in P), n] = )" +
                       formula + "\n    return y\n  }\n}\n";
    compare_forms(text, {2, 3});
    EXPECT_EQ(axes_of_forms(text)[0], "B, 2, 5, N");
  }
}

TEST(Forms, AFewTapsWithChannelsLastAreWrittenOut) {
  auto source = [](const std::string &taps, const std::string &formula) {
    return "config C = 3\ndim B, T\nmodel M {\n  param w: real[C, " + taps +
           "]\n  entry run(x: real[B, T, C]) -> y: real[B, T, C] {\n    y[b, t in T, c] = " + formula +
           "\n    return y\n  }\n}\n";
  };
  auto is_sum = [](const std::string &text) {
    Checked checked = check_text(text);
    forms::Forms forms(*checked.program);
    std::vector<Step> steps = forms.steps(*checked.program)[0];
    return std::get<Stage>(steps[0].what).reducer == Reducer::sum;
  };
  for (std::string formula :
       {"sum[u](x[b, t + u - 3, c | 0] * w[c, u])", "sum[u where t + u >= 3](x[b, t + u - 3, c] * w[c, u])"}) {
    compare_forms(source("4", formula), {2, 5});
    EXPECT_FALSE(is_sum(source("4", formula)));
    EXPECT_TRUE(is_sum(source("5", "sum[u](x[b, t + u - 3, c | 0] * w[c, u])")));
  }
  // Channels that are summed, or no window: products and rows.
  EXPECT_TRUE(is_sum(source("3", "sum[u in 3, d in C](x[b, t + u - 1, d | 0] * w[c, d])")));
  EXPECT_TRUE(is_sum(source("3", "sum[u](x[b, t, u] * w[c, u])")));
}

TEST(Forms, OfAFormulaOnlyTheElementsThatAreReadAreComputed) {
  std::string text = R"(
config V = 7
dim B
model M {
  entry run(x: real[B, V], ids: index(V)[B]) -> y: real[B], z: real[B, V] {
    let p = softmax(x)
    y[b] = -log(p[b, ids[b]])
    let q = softmax(y)
    z[b, v in V] = q[b] * x[b, v]
    return y, z
  }
}
)";
  Checked checked = check_text(text);
  size_t before = checked.program->entries[0].steps.size();
  EXPECT_EQ(compare_forms(text, {3}), before - 1); // q, of which fewer elements are read than z has, stays
}

TEST(Forms, MergedRunTimeSizesAreAxes) {
  EXPECT_EQ(compare_forms(R"(
config P = 2, D = 3
dim B, H, W
let Y = H // P
let X = W // P
model M {
  param w: real[D, P, P]
  param bias: real[D]
  entry run(x: real[B, H, W]) -> y: real[B, Y * X, D] {
    y[b, n in (i in Y, j in X), d] = sum[u, v](x[b, P * i + u, P * j + v] * w[d, u, v]) + bias[d]
    return y
  }
}
)",
                          {2, 6, 9}),
            3u);
}

TEST(Forms, AnEquationTakesThePlaceOfASum) {
  EXPECT_EQ(compare_forms(R"(
dim N, K
model M {
  entry run(x: real[N, K], at: index(K)[N], w: real[K]) -> y: real[N], z: real[N] {
    y[n] = sum[k where k == at[n]](x[n, k] * w[k])
    z[n in N] = sum[k where (3 * k + n) % 5 == 2](x[n, k] * w[k])
    return y, z
  }
}
)",
                          {4, 7}),
            3u);
}

TEST(Forms, AnEquationOfPlacesIsSolvedForTheLongestRange) {
  for (std::string condition : {"2 * m + u == i + 1", "i + 1 - u == 2 * m", "u - i == 1 - 2 * m",
                                "3 * m + 2 * u == i + 1", "m + u == i + 1", "2 * m + u == i + 1 and m % 2 == 0"}) {
    std::string source = R"(
config C = 3, O = 2
dim B, N
model M {
  param w: real[C, O, 4]
  entry run(x: real[B, C, N]) -> y: real[B, O, 2 * N] {
    y[b, o, i in 2 * N] = sum[c, m, u where CONDITION](x[b, c, m] * w[c, o, u])
    return y
  }
}
)";
    source.replace(source.find("CONDITION"), 9, condition);
    for (int64_t n : {1, 2, 5}) {
      Array x = values(Type::f32, {2, 3, n}, 7);
      EXPECT_GE(compare_forms(source, {2, n}, {{"x", x}}), 2u)
          << condition; // products first, then the sum of those that count
      x.data[0] = NAN;
      compare_forms(source, {2, n}, {{"x", x}});
    }
  }
  EXPECT_EQ(compare_forms(R"(
config C = 3, O = 2
dim B, N
model M {
  param w: real[C, O, 4, 4]
  entry run(x: real[B, C, N, N]) -> y: real[B, O, 2 * N, 2 * N] {
    y[b, o, i in 2 * N, j in 2 * N] = sum[c, m, n, u, v where 2 * m + u == i + 1 and 2 * n + v == j + 1](x[b, c, m, n] * w[c, o, u, v])
    return y
  }
}
)",
                          {2, 3}),
            3u); // the products, the phases, and these side by side
}

TEST(Forms, SumsInLoopsHaveForms) {
  compare_forms(R"(
config C = 4
dim T
model M {
  param w: real[C, 2]
  entry run(x: real[T, C]) -> h: real[C] {
    h[c in C] = 0
    for t in T with h { h[c in C] = x[t, c] + sum[k in 2](h[c // 2 * 2 + k] * w[c, k]) }
    return h
  }
}
)",
                {3});
}

TEST(Forms, AnotherShapeOfAResultIsAView) {
  EXPECT_EQ(compare_forms(R"(
config H = 2, E = 3
dim B, S
model M {
  entry run(x: real[B, S, H * E], bias: real[H * E]) -> y: real[B, S, H * E] {
    h[b, s, n in H, e in E] = exp(x[b, s, n * E + e])
    y[b, s, d in H * E] = h[b, s, d // E, d % E] + bias[d]
    return y
  }
}
)",
                          {2, 3}),
            3u);
}

TEST(Forms, ASoftmaxByHandIsDividedBeforeItsSum) {
  for (std::string order : {"i, j, k, h", "h, i, j, k"})
    for (std::string formula : {"sum[k](exp(s[ORDER] - top[i, j, h]) * q[i, k, h, e]) / n[i, j, h]",
                                "sum[k](exp(s[ORDER] - top[i, j, h]) / n[i, j, h] * q[i, k, h, e])",
                                "sum[k](q[i, k, h, e] * exp(s[ORDER] - top[i, j, h])) / max(n[i, j, h], 0.5) * 2"}) {
      std::string source = R"(
config H = 2, E = 3
dim N
model Att {
  entry run(q: real[N, N, H, E], b: real[N, N, H]) -> t: real[N, N, H, E] {
    s[ORDER] = sum[e](q[i, j, h, e] * q[i, k, h, e]) / sqrt(E) + b[j, k, h]
    top[i, j, h] = max[k](s[ORDER])
    n[i, j, h] = sum[k](exp(s[ORDER] - top[i, j, h]))
    t[i, j, h, e] = FORMULA
    return t
  }
}
)";
      source.replace(source.find("FORMULA"), 7, formula);
      for (size_t at; (at = source.find("ORDER")) != std::string::npos;)
        source.replace(at, 5, order);
      compare_forms(source, {3});
    }
}

TEST(Forms, ASoftmaxWhoseSumsLeaveTermsOutHasScoresWithoutThem) {
  for (std::string condition : {"j <= i", "j <= i and _mask[b, j] != 0", "_mask[b, j] != 0", "j > i"})
    for (std::string total : {"n[b, h, i]", "max(n[b, h, i], 0.5)"}) {
      std::string source = R"(
config H = 2, E = 3
dim B, S
model M {
  entry run(q: real[B, S, H, E], v: real[B, S, H, E], _mask: i32[B, S]) -> y: real[B, S, H, E] {
    s[b, h, i in S, j in S] = sum[e](q[b, i, h, e] * v[b, j, h, e])
    top[b, h, i] = max[j where CONDITION](s[b, h, i, j])
    n[b, h, i] = sum[j where CONDITION](exp(s[b, h, i, j] - top[b, h, i]))
    y[b, i, h, e] = sum[j where CONDITION](exp(s[b, h, i, j] - top[b, h, i]) * v[b, j, h, e]) / TOTAL
    return y
  }
}
)";
      for (size_t at; (at = source.find("CONDITION")) != std::string::npos;)
        source.replace(at, 9, condition);
      source.replace(source.find("TOTAL"), 5, total);
      Array v = values(Type::f32, {2, 4, 2, 3}, 7), mask = values(Type::i32, {2, 4}, 3);
      for (size_t i = 0; i < mask.data.size(); ++i)
        mask.data[i] = i % 3 != 2;
      EXPECT_EQ(compare_forms(source, {2, 4}, {{"v", v}, {"_mask", mask}}), 8u); // q v, scores, top, exp, n, weights, y
      v.data[v.data.size() - 1] = NAN;
      v.data[v.data.size() - 8] = INFINITY;
      compare_forms(source, {2, 4}, {{"v", v}, {"_mask", mask}});
    }
}

TEST(Forms, HeadsThatShareKeysStayOneAxis) {
  EXPECT_EQ(compare_forms(R"(
config H = 4, G = 2, E = 3
dim B, S
model M {
  entry run(q: real[B, S, H, E], k: real[B, S, H // G, E]) -> s: real[B, H, S, S] {
    s[b, h, i, j] = sum[e](q[b, i, h, e] * k[b, j, h // G, e])
    return s
  }
}
)",
                          {2, 3}),
            1u);
}

TEST(Forms, FactorsComeInAnyNumberAndOrder) {
  EXPECT_EQ(compare_forms(R"(
config D = 4, O = 3
dim B
model M {
  param w: real[O, D]
  param c: real[D]
  param a: real[O]
  entry run(x: real[B, D], n: real[B]) -> y: real[B, O], z: real[B, O] {
    y[b, o] = sum[d](x[b, d] * w[o, d] * c[d])
    z[b, o] = sum[d](-(w[o, d] * (a[o] * x[b, d]) / (2 + n[b] * n[b])))
    return y, z
  }
}
)",
                          {3}),
            2u);
}

TEST(Forms, WhatAProductReadsInStepsIsCopiedOnce) {
  EXPECT_EQ(compare_forms(R"(
config C = 4, O = 3
dim B, N
model M {
  param w: real[O, C]
  param v: real[O, C, 3]
  entry run(x: real[B, 2 * N, C], r: real[B, N], z: real[B, C, 3 * N]) -> y: real[B, N, O], u: real[B, O, N], t: real[B, N, O], s: real[B, N, O] {
    y[b, i in N, o] = sum[c](x[b, 2 * i + 1, c] * w[o, c])
    u[b, o, i in N] = sum[c](z[b, c, 3 * N - 1 - 3 * i] * w[o, c])
    t[b, i in N, o] = sum[c](relu(x[b, 2 * i, c]) * w[o, c])
    s[b, i in N, o] = sum[c, k in 2](x[b, 2 * i + k, c] * v[o, c, k]) * r[b, i]  # each element once: as it is
    return y, u, t, s
  }
}
)",
                          {2, 3}),
            8u);
}

TEST(Forms, FunctionsOfPlacesBecomeTables) {
  EXPECT_EQ(compare_forms(R"(
config H = 2, E = 6
dim B, S
let F = E // 2
model M {
  entry run(q: real[B, S, H, E], n: i32) -> y: real[B, S, H, E], z: real[B, S] {
    a[s in S, f in F] = s * 100 ** (-f / F)
    y[b, s, h, e] = q[b, s, h, e] * cos(a[s, e % F]) + (if e < F then -q[b, s, h, e + F | 0] else q[b, s, h, e - F | 0]) * sin(a[s, e % F])
    z[b, s] = q[b, s, 0, 0] * (if s + 1 < S then exp(-a[s + 1, 0 | 0]) else sin(s + n))
    return y, z
  }
}
)",
                          {3, 5}),
            5u);
}

TEST(Forms, AResultThatIsReadElsewhereKeepsItsOrderForTheEntry) {
  compare_forms(R"(
config C = 2
dim N
model M {
  entry run(a: real[N, N, C], b: real[N, N, C]) -> s: real[N, N, C], y: real[N, C], z: real[N, C] {
    s[i, j, c] = sum[k](a[i, k, c] * b[j, k, c])
    r[i, j, c] = sum[k](a[k, i, c] * b[k, j, c])
    e[i, j, c] = exp(r[j, i, c]) + r[i, j, c] * s[i, j, c]
    y[i, c] = sum[j](e[i, j, c])
    z[i in N, c] = r[i, N - 1 - i, c] + s[i, i, c]
    return s, y, z
  }
}
)",
                {3});
}

TEST(Forms, OtherStagesStayAsTheyAre) {
  EXPECT_EQ(compare_forms(R"(
dim N, K
model M {
  entry run(x: real[N, K], w: real[K]) -> y: real[N], top: real[N] {
    y[n in N] = sum[k where k <= n](x[n, k] * w[k])
    top[n in N] = max[k where k % 2 == 0](x[n, k])
    return y, top
  }
}
)",
                          {4, 7}),
            2u);
}

} // namespace
} // namespace heddle::tests
