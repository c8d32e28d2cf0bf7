// What small programs become: the whole text of the checked program.
#include "tests/check/checked.h"

#include <gtest/gtest.h>

namespace heddle::tests {
namespace {

TEST(Text, ALinearLayerIsAProductAndASum) {
  EXPECT_EQ(text_of("config D = 6, F = 4\n"
                    "dim B <= 8, S\n"
                    "model M {\n"
                    "  sub fc as \"mlp.fc1\" = Linear(D, F)\n"
                    "  entry run(x: real[B, S, D]) -> y: real[B, S, F] { return fc(x) }\n"
                    "}\n"),
            "program M\n"
            "dim B <= 8\n"
            "dim S\n"
            "weight fc.weight: f32[4, 6] as \"mlp.fc1.weight\" stored [4, 6]\n"
            "weight fc.bias: f32[4] as \"mlp.fc1.bias\" stored [4]\n"
            "entry run\n"
            "  input x: f32[B, S, 6]\n"
            "  fc.y.sum[s0 in B, s1 in S, o in 4]: f32 = sum[i in 6](x[s0, s1, i] * fc.weight[o, i])\n"
            "  fc.y[s0 in B, s1 in S, o in 4]: f32 = fc.y.sum[s0, s1, o] + fc.bias[o]\n"
            "  output y: f32[B, S, 4] = fc.y\n");
}

TEST(Text, ADefinitionThatIsAReductionIsOneStage) {
  EXPECT_EQ(text_of("model M { entry run(a: real[2, 3], b: real[4, 3]) -> y: real[2, 4] {\n"
                    "  y[i, j] = sum[k](a[i, k] * b[j, k]) return y } }\n"),
            "program M\n"
            "entry run\n"
            "  input a: f32[2, 3]\n"
            "  input b: f32[4, 3]\n"
            "  y[i in 2, j in 4]: f32 = sum[k in 3](a[i, k] * b[j, k])\n"
            "  output y: f32[2, 4] = y\n");
}

TEST(Text, AReductionIsAStageOverTheIndicesItMentions) {
  EXPECT_EQ(text_of("dim S\nmodel M { entry run(x: real[S, 3]) -> y: real[S, 3] {\n"
                    "  y[s, d] = x[s, d] / sqrt(sum[k](x[s, k] ** 2)) + max[s2 in S, k](x[s2, k]) return y } }\n"),
            "program M\n"
            "dim S\n"
            "entry run\n"
            "  input x: f32[S, 3]\n"
            "  y.sum[s in S]: f32 = sum[k in 3](x[s, k] ** 2.0)\n"
            "  y.max: f32 = max[s2 in S, k in 3](x[s2, k])\n"
            "  y[s in S, d in 3]: f32 = x[s, d] / sqrt(y.sum[s]) + y.max\n"
            "  output y: f32[S, 3] = y\n");
}

TEST(Text, AMeanIsASumAndADivision) {
  EXPECT_EQ(text_of("dim S\nmodel M { entry run(x: real[S, 3], m: i32[S]) -> a: real, b: real {\n"
                    "  return mean[s, k](x[s, k]), mean[s where m[s] != 0](x[s, 0]) } }\n"),
            "program M\n"
            "dim S\n"
            "entry run\n"
            "  input x: f32[S, 3]\n"
            "  input m: i32[S]\n"
            "  mean: f32 = sum[s in S, k in 3](x[s, k])\n"
            "  mean#2: f32 = sum[s in S](if m[s] != 0 then 1.0 else 0.0)\n"
            "  mean#3: f32 = sum[s in S](if m[s] != 0 then x[s, 0] else 0.0)\n"
            "  a: f32 = mean / (f32(S) * 3.0)\n"
            "  b: f32 = mean#3 / mean#2\n"
            "  output a: f32 = a\n"
            "  output b: f32 = b\n");
}

TEST(Text, WholeTensorsAndScalarFunctionsMakeOneStage) {
  EXPECT_EQ(text_of("dim S\nmodel M { entry run(x: real[S, 3], z: real[S, 3]) -> y: real[3], w: real[S, 3] {\n"
                    "  let t = 2 * relu(x + z) - 1\n  return t[0 | 0], t } }\n"),
            "program M\n"
            "dim S\n"
            "entry run\n"
            "  input x: f32[S, 3]\n"
            "  input z: f32[S, 3]\n"
            "  t[i0 in S, i1 in 3]: f32 = 2.0 * max(0.0, x[i0, i1] + z[i0, i1]) - 1.0\n"
            "  y[i0 in 3]: f32 = if 0 < S then t[0, i0]? else 0.0\n"
            "  output y: f32[3] = y\n"
            "  output w: f32[S, 3] = t\n");
}

TEST(Text, SumsOfLookupsMayLeave32BitsWhereNoSizeSaysThatTheyDoNot) {
  auto tested = [](const std::string &type, const std::string &place) {
    Checked checked = check_text("dim V, T\nmodel M { entry run(a: " + type +
                                 "[T], t: real[V + 13], z: real[V]) -> y: " + "real[T, T] {\n  y[i in T, j in T] = t[" +
                                 place + "]  return y } }\n");
    EXPECT_NE(checked.program, nullptr) << checked.messages;
    return checked.program && to_text(*checked.program).find("]?") != std::string::npos;
  };
  EXPECT_FALSE(tested("index(7)", "min(a[i] + a[j], V + 12)"));
  EXPECT_FALSE(tested("index(V)", "min(a[i] + a[j], V + 12)")); // a call is checked for 2 * V
  EXPECT_TRUE(tested("i32", "max(min(a[i] + a[j], V + 12), 0)"));
  EXPECT_TRUE(tested("index(2000000000)", "min(max(0 - a[i] - a[j], 0), V)"));
  EXPECT_TRUE(tested("index(40000)", "min(a[i] * 65536, V)"));
  EXPECT_FALSE(tested("index(30000)", "min(a[i] * 65536, V)"));
}

TEST(Text, SizesThatSubscriptsRelyOnFit32Bits) {
  auto products = [](const std::string &place) {
    Checked checked =
        check_text("dim N, K\nmodel M { entry run(x: real[K + 1], _k: real[K], _n: real[N]) -> y: real[N] {\n"
                   "y[i in N] = x[" +
                   place + " | 0]  return y } }\n");
    EXPECT_NE(checked.program, nullptr) << checked.messages;
    std::vector<std::string> out;
    for (const Size &size : checked.program->products)
      out.push_back(size.text(checked.program->dim_names()));
    return out;
  };
  EXPECT_EQ(products("2 * i + 3"), std::vector<std::string>()); // wraps as a whole, and is tested as a whole
  EXPECT_EQ(products("min(max(i * 65536, 0), K)"), std::vector<std::string>{"65536 * N"});
  EXPECT_EQ(products("min(N * 65536 + i, K)"), std::vector<std::string>{"65537 * N"});
  EXPECT_EQ(products("min(i * N * 3, K)"), (std::vector<std::string>{"N * N", "3 * N * N"}));
  EXPECT_EQ(products("min(max(i + K - 3, 0), K)"), std::vector<std::string>{"N + K"}); // an end of the window
  EXPECT_EQ(products("if i * 65536 < 7 then 0 else K"), std::vector<std::string>{"65536 * N"});
}

TEST(Text, WhatMayLeave32BitsIsStoredWithinItsBound) {
  auto stored = [](const std::string &formula) {
    Checked checked = check_text("dim N\nmodel M { state s: index(4)[8] = 0\n"
                                 "entry run(k: index(2000000000)[8], w: real[4], _n: real[N]) -> y: real[8] {\n" +
                                 formula + " return y } }\n");
    EXPECT_NE(checked.program, nullptr) << checked.messages;
    return checked.program ? to_text(*checked.program) : "";
  };
  std::string sum = "(k[i] + 1500000000) // 1000000000";
  EXPECT_NE(stored("s[i] <- " + sum + "\ny[i] = w[s[i]]").find("max(min(" + sum + ", 3), 0)"), std::string::npos);
  EXPECT_NE(stored("q[i] = index(4)(" + sum + ")\ny[i] = w[q[i]]").find("min(max(" + sum + ", 0), 3)"),
            std::string::npos);
  EXPECT_EQ(stored("s[i] <- k[i] // 1000000000\ny[i] = w[s[i]]").find("min("), std::string::npos);
}

TEST(Text, WhatNoResultNeedsIsDropped) {
  EXPECT_EQ(text_of("model M { param w: real[3] param v: real[3] entry run(x: real[3]) -> y: real[3] {\n"
                    "  let a = x * w  let _b = a * v  return a } }\n"),
            "program M\n"
            "weight w: f32[3] as \"w\" stored [3]\n"
            "entry run\n"
            "  input x: f32[3]\n"
            "  a[i0 in 3]: f32 = x[i0] * w[i0]\n"
            "  output y: f32[3] = a\n");
}

TEST(Text, InputsKeepTheirRangesAndDefaults) {
  EXPECT_EQ(text_of("dim S <= 9\nmodel M { param w: real[7] entry run(ids: index(7)[S] = 0, m: i32[S] = 1, t: real) -> "
                    "y: real[S] {\n"
                    "  y[s] = w[ids[s]] * m[s] * t return y } }\n"),
            "program M\n"
            "dim S <= 9\n"
            "weight w: f32[7] as \"w\" stored [7]\n"
            "entry run\n"
            "  input ids: i32[S] below 7 = 0\n"
            "  input m: i32[S] = 1\n"
            "  input t: f32\n"
            "  y[s in S]: f32 = w[ids[s]] * f32(m[s]) * t\n"
            "  output y: f32[S] = y\n");
}

TEST(Text, AnOutputIsNeverAnInputOrTakenTwice) {
  EXPECT_EQ(
      text_of(
          "model M { entry run(x: real[3]) -> a: real[3], b: real[3], c: real[3] { let y = x * 2 return x, y, y } }\n"),
      "program M\n"
      "entry run\n"
      "  input x: f32[3]\n"
      "  y[i0 in 3]: f32 = x[i0] * 2.0\n"
      "  a[i0 in 3]: f32 = x[i0]\n"
      "  c[i0 in 3]: f32 = y[i0]\n"
      "  output a: f32[3] = a\n"
      "  output b: f32[3] = y\n"
      "  output c: f32[3] = c\n");
}

TEST(Text, AlternativePathsAreListedInTheirOrder) {
  const std::string text =
      "module A { param w as \"weight|gamma\": real[3] fn call(x: real[3]) -> real[3] = x * w }\n"
      "model M { sub a[2] as \"bert|.enc|\" = A entry run(x: real[3]) -> y: real[3] { return a[1](x) } }\n";
  EXPECT_EQ(text_of(text),
            "program M\n"
            "weight a.1.w: f32[3] as \"bert.1.weight\" | \"bert.1.gamma\" | \".enc.1.weight\" | \".enc.1.gamma\" | "
            "\"1.weight\" | \"1.gamma\" stored [3]\n"
            "entry run\n"
            "  input x: f32[3]\n"
            "  y[i0 in 3]: f32 = x[i0] * a.1.w[i0]\n"
            "  output y: f32[3] = y\n");
  CheckOptions options;
  options.has_weight = [](const std::string &name) { return name == "1.gamma"; };
  EXPECT_NE(text_of(text, options).find("weight a.1.w: f32[3] as \"1.gamma\" stored [3]\n"), std::string::npos);
}

TEST(Text, ArraysSeeTheirIndexAndStartWhereTheySay) {
  EXPECT_EQ(text_of("config W = [2, 3, 4]\n"
                    "model M { sub fc[i in 1 .. 3] = Linear(W[i - 1], W[i]) entry run(x: real[2]) -> y: real[4] { "
                    "return fc[2](fc[1](x)) } }\n"),
            "program M\n"
            "weight fc.1.weight: f32[3, 2] as \"fc.1.weight\" stored [3, 2]\n"
            "weight fc.1.bias: f32[3] as \"fc.1.bias\" stored [3]\n"
            "weight fc.2.weight: f32[4, 3] as \"fc.2.weight\" stored [4, 3]\n"
            "weight fc.2.bias: f32[4] as \"fc.2.bias\" stored [4]\n"
            "entry run\n"
            "  input x: f32[2]\n"
            "  fc.1.y.sum[o in 3]: f32 = sum[i in 2](x[i] * fc.1.weight[o, i])\n"
            "  fc.1.y[o in 3]: f32 = fc.1.y.sum[o] + fc.1.bias[o]\n"
            "  fc.2.y.sum[o in 4]: f32 = sum[i in 3](fc.1.y[i] * fc.2.weight[o, i])\n"
            "  fc.2.y[o in 4]: f32 = fc.2.y.sum[o] + fc.2.bias[o]\n"
            "  output y: f32[4] = fc.2.y\n");
}

TEST(Text, ALoopOverARunTimeSizeCarriesAndCollects) {
  EXPECT_EQ(text_of("dim T <= 9, B\nmodel M { entry run(x: real[B, T]) -> y: real[B, T], last: real[B] {\n"
                    "  h[b in B] = 0\n"
                    "  for t in T with h { h[b] = tanh(h[b] + x[b, t])  ys[b, t] = h[b] }\n"
                    "  return ys, h } }\n"),
            "program M\n"
            "dim T <= 9\n"
            "dim B\n"
            "entry run\n"
            "  input x: f32[B, T]\n"
            "  h[b in B]: i32 = 0\n"
            "  h.start[i0 in B]: f32 = f32(h[i0])\n"
            "  for t in T\n"
            "    carry h.carried: f32[B] from h.start\n"
            "    h#2[b in B]: f32 = tanh(h.carried[b] + x[b, t])\n"
            "    ys[b in B]: f32 = h#2[b]\n"
            "    next h.carried = h#2\n"
            "    collect ys#2: f32[B, T] axis 1 from ys\n"
            "  last[i0 in B]: f32 = h.carried[i0]\n"
            "  output y: f32[B, T] = ys#2\n"
            "  output last: f32[B] = last\n");
}

TEST(Text, UnrolledLoopsPutSlicesTogether) {
  EXPECT_EQ(text_of("model M { entry run(x: real[3]) -> y: real[2, 3] { for l in 2 { ys[l, i] = x[i] * (l + 1) } "
                    "return ys } }\n"),
            "program M\n"
            "entry run\n"
            "  input x: f32[3]\n"
            "  ys[i in 3]: f32 = x[i]\n"
            "  ys#2[i in 3]: f32 = x[i] * 2.0\n"
            "  ys#3[i0 in 2, i1 in 3]: f32 = if i0 == 0 then ys[i1] else ys#2[i1]\n"
            "  output y: f32[2, 3] = ys#3\n");
}

TEST(Text, UpdatesTakeEffectTogetherAtTheEnd) {
  EXPECT_EQ(text_of("dim B <= 4\nmodel M { state a: real[2, B] = 1 state n: i32 = 0 entry step(x: real[B]) {\n"
                    "  a[0, b] <- a[1, b] + x[b]  n <- n + 1 } }\n"),
            "program M\n"
            "dim B <= 4\n"
            "state a: f32[2, B] = 1\n"
            "state n: i32 = 0\n"
            "entry step\n"
            "  input x: f32[B]\n"
            "  a.new[b in B]: f32 = a[1, b] + x[b]\n"
            "  a[0, :] <- a.new\n"
            "  n.require: bool = -2147483648 <= n + 1 and n + 1 <= 2147483647\n"
            "  require n.require else \"`n + 1` does not fit the 32 bits of a whole number\"\n"
            "  n.new: i32 = n + 1\n"
            "  n <- n.new\n");
}

TEST(Text, UpdatesAtAPlaceSayWhereInOffsetsAndExtents) {
  EXPECT_EQ(text_of("dim B <= 4, T <= 8, P <= 64\n"
                    "model M { state k: real[2, B, P] = 0 state seen: i32 = 0 entry step(x: real[B, T]) {\n"
                    "  require 0 <= seen and seen + T <= P else \"full\"\n"
                    "  for l in 2 { k[l, b, seen + t] <- x[b, t] }\n  seen <- seen + T } }\n"),
            "program M\n"
            "dim B <= 4\n"
            "dim T <= 8\n"
            "dim P <= 64\n"
            "state k: f32[2, B, P] = 0\n"
            "state seen: i32 = 0\n"
            "entry step\n"
            "  input x: f32[B, T]\n"
            "  require: bool = 0 <= seen and seen + T <= P\n"
            "  require require else \"full\"\n"
            "  k.new[b in B, t in T]: f32 = x[b, t]\n"
            "  k[0, :, seen + 0 .. T] <- k.new\n"
            "  k.new#2[b in B, t in T]: f32 = x[b, t]\n"
            "  k[1, :, seen + 0 .. T] <- k.new#2\n"
            "  seen.new: i32 = seen + T\n"
            "  seen <- seen.new\n");
}

TEST(Text, ALoopUpdatesAnotherPlaceInEachTurn) {
  EXPECT_EQ(text_of("dim T\nmodel M { state k: real[2, T] = 0 entry step(x: real[T]) {\n"
                    "  for t in T { k[0, t] <- x[t] k[1, T - 1 - t] <- -x[t] } } }\n"),
            "program M\n"
            "dim T\n"
            "state k: f32[2, T] = 0\n"
            "entry step\n"
            "  input x: f32[T]\n"
            "  for t in T\n"
            "    k.new: f32 = x[t]\n"
            "    k[0, t] <- k.new\n"
            "    k.new#2: f32 = -x[t]\n"
            "    k[1, T - 1 - t] <- k.new#2\n");
}

TEST(Text, ARequirementOfTheRunningProgramIsAStep) {
  EXPECT_EQ(text_of("dim S\nmodel M { entry run(n: i32[S]) -> y: i32 { require all[s](0 < n[s]) else \"lengths are "
                    "positive\" return sum[s](n[s]) } }\n"),
            "program M\n"
            "dim S\n"
            "entry run\n"
            "  input n: i32[S]\n"
            "  require: bool = all[s in S](0 < n[s])\n"
            "  require require else \"lengths are positive\"\n"
            "  y: i32 = sum[s in S](n[s])\n"
            "  output y: i32 = y\n");
}

TEST(Text, ARequirementOnDimsIsTestedByTheEntriesThatHaveThem) {
  EXPECT_EQ(text_of("dim S <= 64\nrequire S > 3 else \"texts have four words or more\"\nmodel M {\n"
                    "  entry one(x: real[2]) -> y: real { return x[0] }\n"
                    "  entry two(x: real[S]) -> y: real { return x[3] } }\n"),
            "program M\n"
            "dim S <= 64\n"
            "entry one\n"
            "  input one.x: f32[2]\n"
            "  one.y: f32 = one.x[0]\n"
            "  output y: f32 = one.y\n"
            "entry two\n"
            "  input two.x: f32[S]\n"
            "  two.require: bool = S > 3\n"
            "  require two.require else \"texts have four words or more\"\n"
            "  two.y: f32 = two.x[3]\n"
            "  output y: f32 = two.y\n");
}

TEST(Text, FilesGiveTheirFunctionsAndKeepTheirSettings) {
  EXPECT_EQ(
      text_of(
          "use layers: scaled\nconfig F = 3\nmodel M { entry run(x: real[F]) -> y: real[F] { return scaled(x) } }\n",
          {}, {{"layers", "config F = 5\nfn scaled(x: real) -> real = F * x\n"}}),
      "program M\n"
      "entry run\n"
      "  input x: f32[3]\n"
      "  y[i0 in 3]: f32 = 5.0 * x[i0]\n"
      "  output y: f32[3] = y\n");
}

/// The settings of a program, one per line: name, value and where it was found.
std::string settings_of(const std::string &text, const Settings &given, std::map<std::string, std::string> files = {}) {
  CheckOptions options;
  options.settings = given;
  Checked checked = check_text(text, options, files);
  if (!checked.program)
    return checked.messages;
  std::string out;
  for (const Program::Setting &setting : checked.program->settings) {
    const auto *whole = std::get_if<int64_t>(&setting.value.what);
    out += setting.name + " " + (whole ? std::to_string(*whole) : "other") + " " +
           (setting.from == Program::Setting::initial ? "default" : "from " + setting.key) + "\n";
  }
  return out;
}

TEST(Settings, AreTakenByTheirKeysInOrderAndRemembered) {
  std::string text = "config A \"x.a|a\" = 1, B \"b\", C \"c|d\" = 3, E = A + B\n"
                     "model M { entry run(x: real[A]) -> y: real[A] { return x + B + C + E } }\n";
  Value two{int64_t(2)}, seven{int64_t(7)}, nine{int64_t(9)};
  EXPECT_EQ(settings_of(text, {{}, {{"a", two}, {"b", seven}}}), "A 2 from a\nB 7 from b\nC 3 default\nE 9 default\n");
  EXPECT_EQ(settings_of(text, {{}, {{"a", two}, {"x.a", nine}, {"b", seven}, {"d", two}, {"c", nine}}}),
            "A 9 from x.a\nB 7 from b\nC 9 from c\nE 16 default\n");
  EXPECT_EQ(settings_of(text, {{{"a", nine}, {"B", two}, {"d", seven}}, {{"x.a", seven}, {"b", seven}, {"c", two}}}),
            "A 9 from a\nB 2 from B\nC 7 from d\nE 11 default\n");
}

TEST(Settings, WithoutADefaultTakeAnyKind) {
  Value list{std::vector<Value>{{int64_t(2)}, {int64_t(3)}}};
  std::string text = "config A \"a\", W \"w\"\nmodel M { entry run(x: real[W[1]]) -> y: real[3] { return x * A } }\n";
  EXPECT_EQ(settings_of(text, {{}, {{"a", {0.5}}, {"w", list}}}), "A other from a\nW other from w\n");
  EXPECT_EQ(settings_of("config A \"a\"\nmodel M { entry run(x: real[A]) -> y: real[A] { return x } }\n",
                        {{}, {{"a", {int64_t(1) << 40}}}}),
            "m.heddle:1:8: error[E048]: `A` is set to a whole number that does not fit 32 bits\n"
            "  1 | config A \"a\"\n"
            "    |        ^\n"
            "  help: set it to one from -2147483648 to 2147483647                  heddle explain E048\n");
  EXPECT_EQ(settings_of("config W = [1, 2]\nmodel M { entry run(x: real[W[1]]) -> y: real[W[1]] { return x } }\n",
                        {{{"W", {std::vector<Value>{{int64_t(2)}, {int64_t(1) << 40}}}}}, {}}),
            "m.heddle:1:8: error[E048]: `W` is set to a whole number that does not fit 32 bits\n"
            "  1 | config W = [1, 2]\n"
            "    |        ^\n"
            "  help: set it to one from -2147483648 to 2147483647                  heddle explain E048\n");
}

TEST(Settings, ThatAreRealTakeWholeNumbersOfAnySize) {
  CheckOptions options;
  options.settings.by_key["a"] = Value{int64_t(1) << 40};
  EXPECT_EQ(
      text_of("config A \"a\" = 0.5\nmodel M { entry run(x: real[3]) -> y: real[3] { return x * A } }\n", options),
      "program M\n"
      "entry run\n"
      "  input x: f32[3]\n"
      "  y[i0 in 3]: f32 = x[i0] * 1099511627776.0\n"
      "  output y: f32[3] = y\n");
}

TEST(Settings, OfOtherShapesAreRefusedWithOrWithoutADefault) {
  CheckOptions options;
  options.settings.by_key["nested"] = Value{std::vector<Value>{Value{std::vector<Value>{}}}};
  options.settings.by_key["none."] = Value{};
  for (const char *config : {"config N \"nested\" = [1, 2]", "config N \"nested\"", "config N \"none\" = 3"}) {
    std::string text =
        text_of(std::string(config) + "\nmodel M { entry run(x: real) -> y: real { return x } }", options);
    EXPECT_NE(text.find("error[E039]"), std::string::npos) << text;
    bool list = std::string(config).find("nested") != std::string::npos;
    EXPECT_NE(
        text.find(list ? "is given a list of other things than numbers, bools and strings" : "is given an object"),
        std::string::npos)
        << text;
  }
}

TEST(Settings, OneThatSeveralFilesDeclareIsCountedOnce) {
  EXPECT_EQ(settings_of("use layers: scaled\nconfig F \"f\" = 3, G = 4\n"
                        "model M { entry run(x: real[F]) -> y: real[F] { return scaled(x) * G } }\n",
                        {{}, {{"f", {int64_t(2)}}}},
                        {{"layers", "config F \"f\" = 3\nfn scaled(x: real) -> real = F * x\n"}}),
            "F 2 from f\nG 4 default\n");
}

TEST(Settings, AKeyOfANestedObjectIsNoValue) {
  EXPECT_EQ(settings_of("config A \"rope\" = 3\nmodel M { entry run(x: real[A]) -> y: real[A] { return x } }\n",
                        {{}, {{"rope.theta", {int64_t(2)}}}}),
            "m.heddle:1:8: error[E039]: setting `A` is a whole number, but is given an object\n"
            "  1 | config A \"rope\" = 3\n"
            "    |        ^\n"
            "  help: give a whole number                                           heddle explain E039\n");
}

TEST(Text, SeveralEntriesPrefixTheirTensors) {
  EXPECT_EQ(
      text_of("model M { state s: real[2] entry put(x: real[2]) { s <- x } entry get() -> y: real[2] { return s } }\n"),
      "program M\n"
      "state s: f32[2]\n"
      "entry put\n"
      "  input put.x: f32[2]\n"
      "  put.s.new[i0 in 2]: f32 = put.x[i0]\n"
      "  s <- put.s.new\n"
      "entry get\n"
      "  get.y[i0 in 2]: f32 = s[i0]\n"
      "  output y: f32[2] = get.y\n");
}

TEST(Text, ConstantsFoldAndKnownConditionsChoose) {
  EXPECT_EQ(text_of("config E = 16, ACT = \"square\", BIAS = false\n"
                    "fn act(x: real) -> real = if ACT == \"relu\" then relu(x) else if ACT == \"square\" then x * x "
                    "else missing(x)\n"
                    "model M { if BIAS { param b: real[3] } entry run(x: real[3]) -> y: real[3] {\n"
                    "  y[i] = act(x[i]) / sqrt(E) + (if BIAS then b[i] else 0) return y } }\n"),
            "program M\n"
            "entry run\n"
            "  input x: f32[3]\n"
            "  y[i in 3]: f32 = x[i] * x[i] / 4.0\n"
            "  output y: f32[3] = y\n");
}

TEST(Text, AConstantThatIsMadeWholeStopsAtTheEndsOfItsType) {
  EXPECT_EQ(text_of("model M { entry run() -> a: i32, b: i32, c: i32, d: i32 {\n"
                    "  return i32(3e9), i32(1e300), i32(-3e9), i32(2.9) } }\n"),
            "program M\n"
            "entry run\n"
            "  a: i32 = 2147483647\n"
            "  b: i32 = 2147483647\n"
            "  c: i32 = -2147483648\n"
            "  d: i32 = 2\n"
            "  output a: i32 = a\n"
            "  output b: i32 = b\n"
            "  output c: i32 = c\n"
            "  output d: i32 = d\n");
}

TEST(Text, WholeConstantsReachTheLeastAndAreDividedByNegativeOnes) {
  std::string text =
      "config A = 7 // -2, B = 7 % -2, C = -7 // -2, D = -7 % -2, E = 8 // -2, F = 8 % -2\n"
      "model M { entry run(x: i32) -> y: i32 { return max(x, -2147483648) + (x + A) * (x + B) * (x + C) * "
      "(x + D) * (x + E) * (x + 9 + F) } }\n";
  EXPECT_NE(text_of(text).find("y: i32 = max(x, -2147483648) + (x + -4) * (x + -1) * (x + 3) * (x + -1) * (x + -4) * "
                               "(x + 9)\n"),
            std::string::npos)
      << text_of(text);
  EXPECT_NE(text_of("let a = -2147483648 // -1\nmodel M { entry run(x: i32) -> y: i32 { return x } }")
                .find("does not fit 32 bits"),
            std::string::npos);
}

TEST(Text, PartsThatAreUsedTwiceInPartsThatAreUsedTwiceAreCutOff) {
  std::string text = "model M { entry run(x: real) -> y: real { let a0 = x * 2\n";
  for (int i = 1; i < 60; ++i) {
    std::string before = "a" + std::to_string(i - 1);
    text += "let a" + std::to_string(i) + " = " + before + " * " + before + " + 1\n";
  }
  std::string tree = text_of(text + "return a59 } }");
  EXPECT_NE(tree.find("x * 2.0 * (x * 2.0) + 1.0"), std::string::npos);
  EXPECT_NE(tree.find("… * … + 1.0"), std::string::npos) << tree.substr(tree.size() - 100);
  EXPECT_LT(tree.size(), 100000u);
}

TEST(Text, WhatIsAskedOfAFormulaIsAskedOfEachPartOnce) {
  std::string text = "dim N <= 8, M <= 8\nlet a0 = min(N, M)\n";
  for (int i = 1; i < 60; ++i) {
    std::string before = "a" + std::to_string(i - 1);
    text += "let a" + std::to_string(i) + " = max(" + before + ", 0 - " + before + ")\n";
  }
  text += "require a59 >= 0\nmodel M { entry run(x: real[N, M]) -> y: real[N, M] { return x } }";
  EXPECT_EQ(text_of(text).substr(0, 10), "program M\n");
}

TEST(Text, SlicesOfOneNameAreNumberedInTheirOrder) {
  std::string tree = text_of("model M { entry run(x: real) -> y: real[3, 2] {\n"
                             "for i in 3 { for j in 2 { y[i, j] = x + i * j } } return y } }\n");
  for (const char *name : {"  y: ", "  y#2: ", "  y#3: ", "  y#4: ", "  y#5: ", "  y#6: ", "  y#7["})
    EXPECT_NE(tree.find(name), std::string::npos) << name << tree;
}

TEST(Text, AnAliasTakesNumbersAndStringsAndPlacesAnArraysNumber) {
  EXPECT_EQ(text_of("config CUTS = [7, 9]\n"
                    "module Layer(LAYER, SIDE) { param w as \"weight_l{LAYER}{SIDE}\": real[2] }\n"
                    "model M {\n"
                    "  sub a[l in CUTS.length] as \"rnn{}\" = Layer(l, \"_reverse\")\n"
                    "  sub b[l in 2] as \"f{l}|g.{l}\" = Layer(l, \"\")\n"
                    "  entry run() -> y: real[2] { y[i] = a[1].w[i] + b[1].w[i] return y }\n"
                    "}\n"),
            "program M\n"
            "weight a.1.w: f32[2] as \"rnn.weight_l1_reverse\" stored [2]\n"
            "weight b.1.w: f32[2] as \"f1.weight_l1\" | \"g.1.weight_l1\" stored [2]\n"
            "entry run\n"
            "  y[i in 2]: f32 = a.1.w[i] + b.1.w[i]\n"
            "  output y: f32[2] = y\n");
}

TEST(Text, AnAliasThatNamesNothingIsAnError) {
  EXPECT_EQ(
      text_of("model M { param w as \"w{L}\": real[2] entry run() -> y: real[2] { return w } }\n"),
      "m.heddle:1:11: error[E020]: `{L}` is not known here\n"
      "  1 | model M { param w as \"w{L}\": real[2] entry run() -> y: real[2] { return w } }\n"
      "    |           ^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
      "  help: in the name of a weight stands a whole number or a string that is known here  heddle explain E020\n");
}

} // namespace
} // namespace heddle::tests
