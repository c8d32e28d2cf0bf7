// Reads that the checker must prove, and whether they hold at every point (no mark in the text) or only under the
// conditions around them (`?`). What it must refuse is in wrong_programs.txt.
#include "tests/check/checked.h"

#include <gtest/gtest.h>

namespace heddle::tests {
namespace {

/// The line that defines `y`, or the messages.
std::string definition(const std::string &text) {
  Checked checked = check_text(text);
  if (!checked.program)
    return checked.messages;
  std::istringstream lines(to_text(*checked.program));
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("  y[") || line.starts_with("  y:"))
      return line.substr(2);
  return "y is not defined";
}

std::string in_model(const std::string &inputs, const std::string &result, const std::string &body) {
  return "config M = 4, V = 10\ndim S <= 64, T <= 8\nmodel A { param w: real[V]\n entry run(" + inputs +
         ", _s: bool[S], _t: bool[T]" + ") -> y: " + result + " {\n" + body + "\nreturn y } }\n";
}

/// Whether `y` may read outside of a tensor, by the checker's word.
bool is_refused(const std::string &inputs, const std::string &result, const std::string &body) {
  std::string y = definition(in_model(inputs, result, body));
  return y.find("E021") != std::string::npos || y.find("E022") != std::string::npos;
}

TEST(Proofs, ABareIndexOfTheSameExtentIsInside) {
  EXPECT_EQ(definition(in_model("x: real[S]", "real[S]", "y[i] = x[i]")), "y[i in S]: f32 = x[i]");
}

TEST(Proofs, AGuardProvesAShift) {
  EXPECT_EQ(definition(in_model("x: real[S]", "real[S]", "y[i in S] = if 1 <= i then x[i - 1] else 0")),
            "y[i in S]: f32 = if 1 <= i then x[i - 1]? else 0.0");
  EXPECT_EQ(definition(in_model("x: real[S]", "real[S]", "y[i in S] = if i == 0 then 0 else x[i - 1]")),
            "y[i in S]: f32 = if i == 0 then 0.0 else x[i - 1]?");
}

TEST(Proofs, WhatNeverHappensMayReadAnything) {
  EXPECT_EQ(definition(in_model("x: real[S], none: real[0]", "real[S]",
                                "y[i in S] = if 0 <= i - i and i - i < 0 then none[i - i] else x[i]")),
            "y[i in S]: f32 = if 0 <= i - i and i - i < 0 then none[i - i]? else x[i]");
}

TEST(Proofs, AConcatenationIsProvenOnBothSides) {
  EXPECT_EQ(
      definition(in_model("p: real[M], x: real[T]", "real[M + T]", "y[j in M + T] = if j < M then p[j] else x[j - M]")),
      "y[j in T + 4]: f32 = if j < 4 then p[j]? else x[j - 4]?");
}

TEST(Proofs, AConjunctionOfTwoSidesBoundsTheIndex) {
  EXPECT_EQ(definition(in_model("x: real[S]", "real[S]",
                                "y[i in S] = if 2 <= i and i < S - 1 then x[i - 2] + x[i + 1] else 0")),
            "y[i in S]: f32 = if 2 <= i and i < S - 1 then x[i - 2]? + x[i + 1]? else 0.0");
}

TEST(Proofs, TheRightSideOfAndIsReadUnderTheLeft) {
  EXPECT_EQ(definition(in_model("x: real[S]", "real[S]", "y[i in S] = if 1 <= i and x[i - 1] > 0 then 1.0 else 0")),
            "y[i in S]: f32 = if 1 <= i and x[i - 1]? > 0.0 then 1.0 else 0.0");
  EXPECT_EQ(definition(in_model("x: real[S]", "real[S]", "y[i in S] = if i < 1 or x[i - 1] > 0 then 1.0 else 0")),
            "y[i in S]: f32 = if i < 1 or x[i - 1]? > 0.0 then 1.0 else 0.0");
}

TEST(Proofs, ADisjunctionProvesWhatBothSidesProve) {
  EXPECT_EQ(definition(in_model("x: real[V]", "real[S]", "y[i in S] = if i < 3 or i == 7 then x[i] else 0")),
            "y[i in S]: f32 = if i < 3 or i == 7 then x[i]? else 0.0");
}

TEST(Proofs, TheNegationOfAConjunctionIsADisjunction) {
  EXPECT_EQ(definition(in_model("x: real[V]", "real[S]", "y[i in S] = if not (3 <= i and i != 7) then x[i] else 0")),
            "y[i in S]: f32 = if not (3 <= i and i != 7) then x[i]? else 0.0");
}

TEST(Proofs, AStridedReadIsInside) {
  EXPECT_EQ(definition(in_model("x: real[S]", "real[S // 2]", "y[i in S // 2] = x[2 * i] + x[2 * i + 1]")),
            "y[i in S // 2]: f32 = x[2 * i] + x[2 * i + 1]");
}

TEST(Proofs, PatchesAreInsideTheirImage) {
  EXPECT_EQ(
      definition(in_model("x: real[30]", "real[25, 6]", "y[n in 25, i in 6] = x[n % 5 * 6 + i] + x[n // 5 * 6 + i]")),
      "y[n in 25, i in 6]: f32 = x[n % 5 * 6 + i] + x[n // 5 * 6 + i]");
}

TEST(Proofs, ATriangleOfDistancesIsInside) {
  EXPECT_EQ(definition(in_model("r: real[M + T], x: real[T]", "real[T, M + T]",
                                "y[i in T, j in M + T] = if j <= M + i then r[M + i - j] else -inf")),
            "y[i in T, j in T + 4]: f32 = if j <= 4 + i then r[4 + i - j]? else -inf");
}

TEST(Proofs, AnIndexInputIsAFact) {
  EXPECT_EQ(definition(in_model("ids: index(V)[S]", "real[S]", "y[s] = w[ids[s]]")), "y[s in S]: f32 = w[ids[s]]");
}

TEST(Proofs, ALookupByANumberReadUnderAConditionHoldsOnlyThere) {
  EXPECT_EQ(definition(in_model("ids: index(V)[S]", "real[S]", "y[s in S] = if 1 <= s then w[ids[s - 1]] else 0")),
            "y[s in S]: f32 = if 1 <= s then w[ids[s - 1]?]? else 0.0");
}

TEST(Proofs, AnIndexInputStaysOneThroughSlicesAndCopies) {
  EXPECT_EQ(definition(in_model("ids: index(V)[2, S]", "real[S]", "let first = ids[0]\ny[s] = w[first[s]]")),
            "y[s in S]: f32 = w[first[s]]");
}

TEST(Proofs, AnArgmaxIsAnIndexOfWhatItRanOver) {
  EXPECT_EQ(definition(in_model("x: real[S, V]", "real[S]", "best[s] = argmax[v](x[s, v])\ny[s] = w[best[s]]")),
            "y[s in S]: f32 = w[best[s]]");
}

TEST(Proofs, MinAndMaxClamp) {
  EXPECT_EQ(definition(in_model("x: real[V]", "real[S]", "y[i in S] = x[min(i, V - 1)] + x[max(min(i - 3, 9), 0)]")),
            "y[i in S]: f32 = x[min(i, 9)] + x[max(min(i - 3, 9), 0)]");
}

TEST(Proofs, AConditionalSubscriptIsProvenCaseByCase) {
  EXPECT_EQ(definition(in_model("x: real[S]", "real[S]", "y[i in S] = x[if 1 <= i then i - 1 else 0]")),
            "y[i in S]: f32 = x[if 1 <= i then i - 1 else 0]");
}

TEST(Proofs, ABoundOfADimProvesATableLargeEnough) {
  EXPECT_EQ(definition(in_model("x: real[S], p: real[64]", "real[S]", "y[i in S] = x[i] + p[i]")),
            "y[i in S]: f32 = x[i] + p[i]");
}

TEST(Proofs, ARequirementIsAFact) {
  EXPECT_EQ(definition(in_model("x: real[S]", "real", "require 1 <= S\nlet y = x[0] + x[S - 1]")),
            "y: f32 = x[0] + x[S - 1]");
}

TEST(Proofs, AWhereIsAFactForItsTerms) {
  EXPECT_EQ(definition(in_model("x: real[S]", "real[S]", "y[i in S] = sum[k in S where k < i](x[i - k - 1])")),
            "y[i in S]: f32 = sum[k in S](if k < i then x[i - k - 1]? else 0.0)");
}

TEST(Proofs, ANumberThatIsLookedUpIsTheSameNumberInTheTest) {
  EXPECT_EQ(
      definition(in_model("x: real[S], n: i32[T]", "real[T]", "y[t] = if 0 <= n[t] and n[t] < S then x[n[t]] else 0")),
      "y[t in T]: f32 = if 0 <= n[t] and n[t] < S then x[n[t]]? else 0.0");
}

TEST(Proofs, AReductionIsProvenUnderTheConditionItStandsIn) {
  Checked checked =
      check_text(in_model("x: real[S, V]", "real[S]", "y[i in S] = if 1 <= i then 2 * sum[v](x[i - 1, v]) else 0"));
  ASSERT_NE(checked.program, nullptr) << checked.messages;
  std::string text = to_text(*checked.program);
  EXPECT_NE(text.find("  y.sum[i in S]: f32 = sum[v in 10](x[i - 1, v]?)\n"
                      "  y[i in S]: f32 = if 1 <= i then 2.0 * y.sum[i] else 0.0\n"),
            std::string::npos)
      << text;
}

TEST(Proofs, AnOutsideValueTestsOnlyWhatIsNotProven) {
  EXPECT_EQ(definition(in_model("x: real[S]", "real[S]", "y[i in S] = x[i - 1 | 0]")),
            "y[i in S]: f32 = if 0 <= i - 1 then x[i - 1]? else 0.0");
  EXPECT_EQ(definition(in_model("x: real[S]", "real[S]", "y[i in S] = x[i + 1 | -inf]")),
            "y[i in S]: f32 = if i + 1 < S then x[i + 1]? else -inf");
  EXPECT_EQ(definition(in_model("x: real[S]", "real[S]", "y[i in S] = x[i | 0]")), "y[i in S]: f32 = x[i]");
}

TEST(Proofs, AnOutsideValueServesWhereNothingIsProven) {
  EXPECT_EQ(definition(in_model("x: real[S]", "real[S]", "y[i in S] = x[i * i | 0]")),
            "y[i in S]: f32 = if 0 <= i * i and i * i < S then x[i * i]? else 0.0");
}

TEST(Proofs, PaddingOfAStridedWindowIsTested) {
  EXPECT_EQ(definition(in_model("x: real[S]", "real[(S + 1) // 2]",
                                "y[i in (S - 1) // 2 + 1] = max[u in 3](x[2 * i + u - 1 | -inf])")),
            "y[i in (S + 1) // 2]: f32 = max[u in 3](if 0 <= 2 * i + u - 1 and 2 * i + u - 1 < S then x[2 * i + u - "
            "1]? else -inf)");
}

TEST(Proofs, APlaceThatCountsRowsOfRunTimeSizesIsInsideTheirProduct) {
  EXPECT_EQ(definition(in_model("x: real[S * T]", "real[S, T]", "y[i in S, j in T] = x[i * T + j]")),
            "y[i in S, j in T]: f32 = x[i * T + j]");
  EXPECT_EQ(definition(in_model("x: real[S * T + 1]", "real[S, T]", "y[i in S, j in T] = x[1 + T * i + j]")),
            "y[i in S, j in T]: f32 = x[1 + T * i + j]");
  EXPECT_EQ(definition(in_model("x: real[2 * S * (T // 2 + 1)]", "real[S, T // 2 + 1]",
                                "y[i in S, k in T // 2 + 1] = x[(2 * i + 1) * (T // 2 + 1) + k]")),
            "y[i in S, k in T // 2 + 1]: f32 = x[(2 * i + 1) * (T // 2 + 1) + k]");
}

TEST(Proofs, AMergedIndexAndItsPiecesAreInside) {
  EXPECT_EQ(
      definition(in_model("x: real[S, T], z: real[S * T]", "real[S * T]", "y[n in (i in S, j in T)] = x[i, j] + z[n]")),
      "y[n in S * T]: f32 = x[n // T, n % T] + z[n]");
  EXPECT_EQ(
      definition(in_model("x: real[S, T]", "real[S * T + 1]",
                          "z[n in (i in S, j in T)] = x[i, j] y[n in S * T + 1] = if n == 0 then 1 else z[n - 1]")),
      "y[n in S * T + 1]: f32 = if n == 0 then 1.0 else z[n - 1]?");
}

TEST(Proofs, ABoundOfFactorsIsOneOfTheirProduct) {
  EXPECT_EQ(definition(in_model("x: real[S * T]", "real", "require S >= 1 and T >= 1 y = x[S * T - 1]")),
            "y: f32 = x[S * T - 1]");
  EXPECT_EQ(definition(in_model("x: real[S * T]", "real", "y = x[0]")).find("E021") != std::string::npos, true);
}

TEST(Proofs, ALoopIndexIsInsideWhatTheLoopRunsOver) {
  Checked checked = check_text(
      in_model("x: real[S, V]", "real[V]",
               "let y = x[0 | 0]\nfor s in S with y { y[v] = y[v] + x[s, v] + (if 1 <= s then x[s - 1, v] else 0) }"));
  ASSERT_NE(checked.program, nullptr) << checked.messages;
  EXPECT_NE(to_text(*checked.program).find("x[s, v] + (if 1 <= s then x[s - 1, v]? else 0.0)"), std::string::npos)
      << to_text(*checked.program);
}

TEST(Proofs, ARealNumberMadeWholeIsInsideUnderItsConditions) {
  EXPECT_EQ(definition(in_model("x: real[S], r: real", "real", "n = i32(r) y = if 0 <= n and n < S then x[n] else 0")),
            "y: f32 = if 0 <= i32(r) and i32(r) < S then x[i32(r)]? else 0.0");
  EXPECT_NE(
      definition(in_model("x: real[S], r: real", "real", "n = i32(r) y = if 0 <= n then x[n] else 0")).find("E022"),
      std::string::npos);
}

TEST(Proofs, SumsOfWhatOnlyTheDataTellMayLeaveTheirBits) {
  EXPECT_EQ(definition(in_model("x: real[2], k: i32[S]", "real[S]", "y[i] = x[(k[i] + 1) // 2 - k[i] // 2]")),
            "y[i in S]: f32 = x[(k[i] + 1) // 2 - k[i] // 2]?");
  EXPECT_EQ(definition(in_model("x: real[M], k: i32[S]", "real[S]", "y[i] = x[min(max(k[i], 0), 3)] + x[k[i] % 4]")),
            "y[i in S]: f32 = x[min(max(k[i], 0), 3)] + x[k[i] % 4]");
  EXPECT_EQ(definition(in_model("x: real[M + 1], k: index(M)[S]", "real[S]", "y[i] = x[k[i] + 1]")),
            "y[i in S]: f32 = x[k[i] + 1]");
}

TEST(Proofs, ASubscriptProvesNoSizeWhereItsIndexHasNoValue) {
  auto refused = [](const std::string &inputs, const std::string &body) { return is_refused(inputs, "real[T]", body); };
  // With S = 0 there is no i, so that `i * T + t` says nothing about S * T.
  EXPECT_TRUE(refused("q: real[S * T]", "z[i in S, t in T] = q[i * T + t]\ny[t in T] = q[t]"));
  EXPECT_TRUE(refused("q: real[S * T], n: index(S)[V]", "z[v] = q[n[v] * T]\ny[t in T] = q[t]"));
  // What a requirement says of each element says nothing where there is none.
  EXPECT_TRUE(
      refused("q: real[T], n: i32[S]", "require all[s](0 <= n[s] and n[s] < T)\nz[s] = q[n[s]]\ny[t in T] = q[0]"));
  EXPECT_TRUE(refused("q: real[T], n: i32[S]",
                      "for s in S { require all[t](n[s] < T)\nu[s] = n[s] }\ny[t in T] = q[max(0, n[0 | 0])]"));
  // A loop's requirement was not tested where it has no iterations.
  EXPECT_TRUE(refused("q: real[8], n: i32[V]", "for s in S { require all[v](0 <= n[v] and n[v] < 8)\nu[s] = 1 }\n"
                                               "y[t in T] = q[n[0]]"));
  // Of an element that is not there nothing is known.
  EXPECT_TRUE(refused("q: real[T], n: index(T)[S]", "let k = n[0 | 0]\ny[t in T] = q[k]"));
}

TEST(Proofs, TheBestPlaceOfNothingIsNoPlace) {
  std::string y = definition(in_model("x: real[S], q: real[S]", "real", "best = argmax[s](x[s])\ny = q[best]"));
  EXPECT_NE(y.find("E021"), std::string::npos) << y;
  EXPECT_EQ(
      definition(in_model("x: real[S], q: real[S]", "real", "require S > 0\nbest = argmax[s](x[s])\ny = q[best]")),
      "y: f32 = q[best.argmax]");
}

TEST(Proofs, ABoundIsKeptThroughArmsAndTurns) {
  EXPECT_EQ(definition(in_model("x: real[S, V], first: bool", "real[S]",
                                "a[s] = argmax[v](x[s, v]) b[s] = argmin[v](x[s, v])\n"
                                "c[s] = if first then a[s] else b[s]\ny[s] = w[c[s]]")),
            "y[s in S]: f32 = w[c[s]]");
  EXPECT_EQ(definition(in_model("x: real[S, V], first: bool", "real[S]",
                                "if first { c[s] = argmax[v](x[s, v]) } else { c[s] = argmin[v](x[s, v]) }\n"
                                "y[s] = w[c[s]]")),
            "y[s in S]: f32 = w[c#3[s]]");
  EXPECT_EQ(definition(in_model("k: index(V)[S]", "real[S]", "c[s] = max(k[s] - 1, 0)\ny[s] = w[c[s]]")),
            "y[s in S]: f32 = w[c[s]]");
  EXPECT_EQ(definition(in_model("x: real[T, V]", "real",
                                "let c = 0\nfor t in T with c { c = argmax[v](x[t, v] + w[c]) }\ny = w[c]")),
            "y: f32 = w[c.carried]");
  EXPECT_NE(definition(in_model("x: real[T, V]", "real", "let c = 0\nfor t in T with c { c = c + 1 }\ny = w[c]"))
                .find("E021"),
            std::string::npos);
}

TEST(Proofs, TheBestFewAreIndicesHoweverManyTheyAre) {
  for (const char *count : {"2", "8", "40"})
    EXPECT_NE(check_text(std::string("config K = ") + count +
                         "\ndim S <= 64\nmodel A { sub top = Top(K)\n"
                         "entry run(x: real[S, 64]) -> at: i32[S, K], y: real[S, K] {\n"
                         "let at, y = top(x)\nreturn at, y } }\n")
                  .program,
              nullptr)
        << count;
}

TEST(Proofs, AChoiceThatIsTooMuchForAProofIsRefused) {
  auto choice = [](int links) {
    std::string functions, value = "p[s]";
    for (int i = 1; i <= links; ++i) {
      std::string name = "g" + std::to_string(i), from = std::to_string(i);
      functions += "fn " + name + "(a: i32, b: i32, c: i32) -> i32 = if c > " + from + " then a else if c > " + from +
                   "00 then b else a\n";
      value = name + "(" + value + ", q[s], c[s])";
    }
    return check_text("dim S <= 64\n" + functions +
                      "model A {\nentry run(x: real[S, 64], c: i32[S]) -> y: real[S] {\n" +
                      "p[s] = argmax[n](x[s, n])\nq[s] = argmin[n](x[s, n])\nat[s] = " + value +
                      "\ny[s] = x[s, at[s]]\nreturn y } }\n");
  };
  EXPECT_NE(choice(6).program, nullptr);
  auto refused = choice(40); // 2^40 arms
  EXPECT_EQ(refused.program, nullptr);
  EXPECT_NE(refused.messages.find("E021"), std::string::npos);
}

TEST(Proofs, WhatAnArmProvesBoundsNoTensor) {
  const std::string inputs = "x: real[S], id: index(S), k: i32", otherwise = " } else { y[i in T] = 0.0 }";
  // Both arms are computed in every call, so that what one defines need not be where its condition says.
  EXPECT_TRUE(
      is_refused(inputs, "real[T]", "if 0 <= k and k < S { q[i in T] = max(id, k)\ny[i in T] = x[q[i]]" + otherwise));
  EXPECT_TRUE(is_refused(inputs, "real[T]",
                         "if 0 <= k and k < S { q[i in T] = max(id, k)\ny[i in T] = sum[j in T](x[q[j]])" + otherwise));
  EXPECT_TRUE(is_refused(inputs, "real[T]",
                         "if 0 <= k and k < S { p = id\nh = 0.0\nfor s in S with p, h { h = h + x[p]\np = max(p, k) }\n"
                         "y[i in T] = h" +
                             otherwise));
  EXPECT_TRUE(is_refused(inputs + ", j: index(T)", "real[T]",
                         "if T <= S { p = id\nh = 0.0\nfor s in S with p, h { h = h + x[p]\np = j }\ny[i in T] = h" +
                             otherwise));
  EXPECT_EQ(definition(in_model(inputs, "real[T]",
                                "q[i in T] = if 0 <= k and k < S then max(id, k) else id\ny[i in T] = x[q[i]]")),
            "y[i in T]: f32 = x[q[i]]");
}

TEST(Proofs, ALoopsRequirementSaysNothingOfItsStart) {
  const std::string inputs = "x: real[8], id: index(S), j: index(8)";
  EXPECT_TRUE(is_refused(inputs, "real", "p = id\nfor t in T with p { require S <= 8\np = j }\ny = x[p]"));
  EXPECT_EQ(definition(in_model(inputs, "real", "require S <= 8\np = id\nfor t in T with p { p = j }\ny = x[p]")),
            "y: f32 = x[p.carried]");
}

TEST(Proofs, WhatALoopRequiresOfElementsEndsWithIt) {
  const std::string inputs = "x: real[S], n: i32[2], m: i32[2]", inside = "require all[b](0 <= n[b] and n[b] < S)\n",
                    loop = "h = 0.0\nfor t in T with h { " + inside;
  EXPECT_TRUE(is_refused(inputs, "real", "let p = n[0]\n" + loop + "h = h + x[p] }\ny = h + x[p]"));
  EXPECT_TRUE(is_refused(inputs, "real",
                         loop + "h = h + x[n[0]] }\nrequire all[b](n[b] < 2000000001)\nrequire all[b](n[b] > 0)\n"
                                "y = h + x[n[0]]"));
  EXPECT_TRUE(is_refused(inputs, "real", // also where it is spoken of by a `max`
                         "let p = max(n[0], 0)\n" + loop + "h = h + x[p] }\ny = h + x[p]"));
  EXPECT_TRUE(is_refused(inputs, "real",
                         "c[i] = n[i]\nh = 0.0\nfor t in T with h, c { require all[b](0 <= c[b] and c[b] < S)\n"
                         "h = h + x[c[0]]\nc[i] = m[i] }\n"
                         "require all[b](0 < c[b])\nrequire all[b](c[b] != 77)\ny = h + x[c[0]]"));
  EXPECT_EQ(definition(in_model(inputs + ", z: real[3]", "real",
                                inside + "h = 0.0\nfor t in T with h { require all[b](n[b] < 3)\nh = h + z[n[0]] }\n"
                                         "y = h + x[n[0]]")),
            "y: f32 = h.carried + x[n[0]]");
  Checked checked = check_text("dim T <= 8\nmodel A { state s: real[4] = 0\n entry run(n: i32[2], w: real[T]) -> y: "
                               "real[4] {\nh = 0.0\nfor t in T with h { require all[b](0 <= n[b] and n[b] < 4)\n"
                               "h = h + s[n[0]] * w[t] }\ns[n[0]] <- h\nreturn s } }");
  EXPECT_NE(checked.messages.find("error[E072]"), std::string::npos) << checked.messages;
}

TEST(Proofs, WhatIsRequiredOfPiecesIsKnownOfEachElementByItself) {
  EXPECT_TRUE(is_refused("t: i32[S * T], z: real[1]", "real",
                         "require all[n in (i in S, j in T)](t[n] == i)\nrequire S * T > 3\ny = z[t[0] - t[3]]"));
  EXPECT_EQ(definition(in_model("t: i32[12], z: real[2]", "real",
                                "require all[n in (i in 3, j in 4)](t[n] == i)\ny = z[t[5]]")),
            "y: f32 = z[t[5]]");
}

TEST(Proofs, WhatIsRequiredOfElementsSaysNothingWhereThereAreNone) {
  EXPECT_TRUE(is_refused("q: real[T], n: i32[S]", "real",
                         "require all[s](0 <= n[s] and n[s] < T)\nk = n[0 | 0]\ny = q[min(max(k, 0), 0)]"));
  EXPECT_EQ(definition(in_model("q: real[T], n: i32[S]", "real",
                                "require all[s](0 <= n[s] and n[s] < T)\ny = if 0 < S then q[n[0]] else 0.0")),
            "y: f32 = if 0 < S then q[n[0]?]? else 0.0");
}

TEST(Proofs, ConditionsOnElementsThatNameOthersEnd) {
  Checked checked =
      check_text("dim T <= 8\nmodel A { entry run(q: real[T], n: i32[4]) -> y: real {\n"
                 "require all[s in 4](n[s] < n[(s + 1) % 4])\ny = q[min(max(n[0], 0), 0) | 0]  return y } }");
  EXPECT_NE(checked.program, nullptr) << checked.messages;
}

TEST(Proofs, AnIndexIsCheckedForTheEntryAndTheIterationThatAsksForIt) {
  const std::string before = "dim N <= 8, M <= 8\nlet p = max(N - 3, 2)\nmodel A {\n";
  const std::string asks = "q[i in N] = index(M)(p) a[i] = x[i, q[i]] return a",
                    plain = "r[i in N] = p b[i] = x[i, r[i]]";
  Checked checked = check_text(before + "entry a(x: real[N, M]) -> y: real[N] { " + asks + " } }");
  EXPECT_NE(checked.program, nullptr) << checked.messages;
  checked = check_text(before + "entry a(x: real[N, M]) -> y: real[N] { " + asks + " }\n" +
                       "entry b(x: real[N, M]) -> y: real[N] { " + plain + " return b } }");
  EXPECT_NE(checked.messages.find("error[E021]: `x` is read at row"), std::string::npos) << checked.messages;
  checked = check_text(before + "entry a(x: real[N, M], w: real[M]) -> y: real[N] { h[i in N] = 0.0\n" +
                       "for t in M with h { h[i] = h[i] + x[i, index(M)(p)] * w[t] }\n" + plain +
                       " y[i] = b[i] + h[i] return y } }");
  EXPECT_NE(checked.messages.find("error[E021]: `x` is read at row"), std::string::npos) << checked.messages;
}

TEST(Proofs, SizesThatAreEqualInEveryCallAreEqual) {
  Checked checked = check_text("dim Y <= 64\nmodel A { entry run(x: real[Y]) -> y: real[(Y + 3) // 4] {\n"
                               "y[i in ((Y + 1) // 2 + 1) // 2] = x[4 * i]\nreturn y } }");
  EXPECT_NE(checked.program, nullptr) << checked.messages;
  checked = check_text("dim Y <= 64\nmodel A { entry run(x: real[Y]) -> y: real[Y // 2 + (Y + 1) // 2] {\n"
                       "y[i] = x[i] * 2\nreturn y } }");
  EXPECT_NE(checked.program, nullptr) << checked.messages;
}

TEST(Proofs, APlacePast32BitsIsTestedWhereAnOutsideValueIsGiven) {
  EXPECT_EQ(definition(in_model("x: real[T], _z: real[S]", "real", "let y = x[2147483647 * S + 3000 | 0]")),
            "y: f32 = if 2147483647 * S + 3000 < T then x[2147483647 * S + 3000]? else 0.0");
}

} // namespace
} // namespace heddle::tests
