// Which places of definitions are left out, as the whole text of the checked program shows it.
#include "tests/check/checked.h"

#include <gtest/gtest.h>

namespace heddle::tests {
namespace {

TEST(UnreadPlaces, AreNotComputed) {
  const std::string text = "dim B\nmodel M { param w: real[4, 4] entry run(x: real[B, 10, 4]) -> y: real[B, 4] {\n"
                           "  a[b, t, d] = sum[e](x[b, t, e] * w[d, e])\n"
                           "  c[b, t in 10, d] = exp(if t < 3 then a[b, t, d] else a[b, t - 1, d])\n"
                           "  return c[:, 2] + c[:, 3] } }\n";
  const std::string begin = "program M\n"
                            "dim B\n"
                            "weight w: f32[4, 4] as \"w\" stored [4, 4]\n"
                            "entry run\n"
                            "  input x: f32[B, 10, 4]\n";
  EXPECT_EQ(text_of(text),
            begin + "  a[b in B, t in 3, d in 4]: f32 = sum[e in 4](x[b, t + 1, e] * w[d, e])\n"
                    "  c[b in B, t in 2, d in 4]: f32 = exp(if t + 2 < 3 then a[b, t + 1, d] else a[b, t, d]?)\n"
                    "  y[i0 in B, i1 in 4]: f32 = c[i0, 0, i1] + c[i0, 1, i1]\n"
                    "  output y: f32[B, 4] = y\n");
  CheckOptions whole;
  whole.every_place = true;
  EXPECT_NE(text_of(text, whole).find("  a[b in B, t in 10, d in 4]: f32 = sum"), std::string::npos);
}

TEST(UnreadPlaces, LeaveOneTokenWithoutAnAxisAndItsConditionsDecided) {
  auto reading = [](const std::string &y) {
    return text_of("dim B, S\nmodel M { entry run(x: real[B, S, 4], c: real[4]) -> y: real[B, 4] {\n"
                   "  a[b, t in S + 1, d] = if t == 0 then c[d] else x[b, t - 1, d]\n"
                   "  n[b, t] = sum[d](a[b, t, d])\n"
                   "  y[b, d] = " +
                   y + "\n  return y } }\n");
  };
  const std::string begin = "program M\n"
                            "dim B\n"
                            "dim S\n"
                            "entry run\n"
                            "  input x: f32[B, S, 4]\n"
                            "  input c: f32[4]\n";
  EXPECT_EQ(reading("a[b, S, d] / n[b, S] * n[b, 0]"),
            begin + "  a[b in B, t in S + 1, d in 4]: f32 = if t == 0 then c[d] else x[b, t - 1, d]?\n"
                    "  n[b in B, t in S + 1]: f32 = sum[d in 4](a[b, t, d])\n"
                    "  y[b in B, d in 4]: f32 = a[b, S, d] / n[b, S] * n[b, 0]\n"
                    "  output y: f32[B, 4] = y\n");
  EXPECT_EQ(reading("a[b, 0, d] / n[b, 0]"), begin + "  a[b in B, d in 4]: f32 = c[d]\n"
                                                     "  n[b in B]: f32 = sum[d in 4](a[b, d])\n"
                                                     "  y[b in B, d in 4]: f32 = a[b, d] / n[b]\n"
                                                     "  output y: f32[B, 4] = y\n");
}

TEST(UnreadPlaces, StayWhereACallMayLackThemAndInResults) {
  EXPECT_EQ(text_of("dim S\nmodel M { entry run(x: real[S, 4]) -> y: real, z: real[S, 4], u: real {\n"
                    "  a[t, d] = exp(x[t, d])\n"
                    "  z[t, d] = exp(x[t, d] + 1)\n"
                    "  return a[3, 2 | 0], z, z[S - 1, 1 | 0] } }\n"),
            "program M\n"
            "dim S\n"
            "entry run\n"
            "  input x: f32[S, 4]\n"
            "  a[t in S]: f32 = exp(x[t, 2])\n"
            "  z[t in S, d in 4]: f32 = exp(x[t, d] + 1.0)\n"
            "  y: f32 = if 3 < S then a[3]? else 0.0\n"
            "  u: f32 = if 0 <= S - 1 then z[S - 1, 1]? else 0.0\n"
            "  output y: f32 = y\n"
            "  output z: f32[S, 4] = z\n"
            "  output u: f32 = u\n");
}

TEST(UnreadPlaces, LeaveTheLastPlaceWhereThereIsOne) {
  EXPECT_EQ(text_of("dim S <= 8\nmodel M { param w: real[4, 4] entry run(x: real[S, 4]) -> y: real[4] {\n"
                    "  a[t in S, d] = sum[e](x[t, e] * w[d, e])\n"
                    "  c[t in S, d] = exp(a[t, d])\n"
                    "  y[d] = c[S - 1, d | 0]\n"
                    "  return y } }\n"),
            "program M\n"
            "dim S <= 8\n"
            "weight w: f32[4, 4] as \"w\" stored [4, 4]\n"
            "entry run\n"
            "  input x: f32[S, 4]\n"
            "  a[t in (S + 7) // 8, d in 4]: f32 = sum[e in 4](x[t + (S - 1), e] * w[d, e])\n"
            "  c[t in (S + 7) // 8, d in 4]: f32 = exp(a[t, d])\n"
            "  y[d in 4]: f32 = if 0 <= S - 1 then c[0, d]? else 0.0\n"
            "  output y: f32[4] = y\n");
}

TEST(UnreadPlaces, HaveNoGradients) {
  EXPECT_EQ(text_of("dim B\nmodel M { param w: real[4, 4] entry run(x: real[B, 10, 4]) -> g: real[4, 4] {\n"
                    "  a[b, t, d] = sum[e](x[b, t, e] * w[d, e])\n"
                    "  y = sum[b, d](exp(a[b, 0, d]))\n"
                    "  return grad(y, w) } }\n"),
            "program M\n"
            "dim B\n"
            "weight w: f32[4, 4] as \"w\" stored [4, 4]\n"
            "entry run\n"
            "  input x: f32[B, 10, 4]\n"
            "  a[b in B, d in 4]: f32 = sum[e in 4](x[b, 0, e] * w[d, e])\n"
            "  a.grad[q0 in B, q1 in 4]: f32 = exp(a[q0, q1])\n"
            "  w.grad[q0 in 4, q1 in 4]: f32 = sum[b in B](a.grad[b, q0] * x[b, 0, q1])\n"
            "  output g: f32[4, 4] = w.grad\n");
}

} // namespace
} // namespace heddle::tests
