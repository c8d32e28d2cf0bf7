// Arithmetic on run-time sizes against evaluation at many points.
#include "dsl/check/size.h"

#include <gtest/gtest.h>

namespace heddle {
namespace {

const Size B = Size::of_dim(0), S = Size::of_dim(1);
const std::vector<std::string> names = {"B", "S"};

/// Every claim of equality of the canonical form, at values on both sides of the divisors.
void expect_same_values(const Size &a, const Size &b) {
  for (int64_t x = 0; x < 20; ++x)
    for (int64_t y = 0; y < 20; ++y)
      ASSERT_EQ(a.evaluate({x, y}), b.evaluate({x, y})) << a.text(names) << " against " << b.text(names);
}

TEST(Size, SumsAreEqualInAnyOrder) {
  EXPECT_EQ(B + S + Size(3), Size(3) + S + B);
  EXPECT_EQ(B + S - B, S);
  EXPECT_NE(B, S);
  EXPECT_EQ((B * 2 + S).text(names), "2 * B + S");
  EXPECT_EQ((Size(3) - S).text(names), "-S + 3");
}

TEST(Size, ADimIsFoundOnlyWhereItStandsAlone) {
  EXPECT_EQ(S.as_dim(), 1);
  EXPECT_EQ((S + Size(1)).as_dim(), -1);
  EXPECT_EQ((S * 2).as_dim(), -1);
  EXPECT_TRUE((S - S).is_constant());
}

TEST(Size, DivisionTakesOutWhatTheDivisorDivides) {
  EXPECT_EQ((B * 4 + Size(8)).floor_div(4), B + Size(2));
  EXPECT_EQ((S * 2).floor_div(4), S.floor_div(2));
  EXPECT_EQ((S * 2 + Size(1)).floor_div(4), S.floor_div(2));
  EXPECT_EQ(S.floor_div(2).floor_div(3), S.floor_div(6));
  EXPECT_EQ(Size(-3).floor_div(2), Size(-2));
}

TEST(Size, AQuotientAndItsRestAreTheWhole) {
  EXPECT_EQ(S.floor_div(2) * 2 + S.mod(2), S);
  EXPECT_EQ(Size(7).mod(4), Size(3));
  EXPECT_EQ(Size(-1).mod(4), Size(3));
}

TEST(Size, TheFormulasOfAStridedWindowAgree) {
  Size window = (S + Size(2 * 1 - 3)).floor_div(2) + Size(1);
  EXPECT_EQ(window, (S + Size(1)).floor_div(2));
  EXPECT_EQ(window.text(names), "(S + 1) // 2");
}

TEST(Size, CanonicalFormsKeepTheValue) {
  for (int64_t a = -3; a <= 3; ++a)
    for (int64_t b = -3; b <= 3; ++b)
      for (int64_t c = -5; c <= 5; ++c)
        for (int64_t d = 1; d <= 6; ++d) {
          Size whole = B * a + S * b + Size(c), quotient = whole.floor_div(d), rest = whole.mod(d);
          for (int64_t x : {0, 1, 2, 5, 7})
            for (int64_t y : {0, 1, 3, 4, 11}) {
              int64_t value = a * x + b * y + c, floor = (value - ((value % d) + d) % d) / d;
              ASSERT_EQ(quotient.evaluate({x, y}), floor) << whole.text(names) << " // " << d;
              ASSERT_EQ(rest.evaluate({x, y}), value - floor * d) << whole.text(names) << " % " << d;
            }
        }
  expect_same_values((B + S.floor_div(2)).floor_div(3), (S.floor_div(2) + B).floor_div(3));
}

TEST(Size, EqualityIsATotalOrder) {
  std::vector<Size> sizes = {Size(0), Size(1), B, S, B + S, S.floor_div(2), B.floor_div(2), S.floor_div(3)};
  for (const Size &a : sizes)
    for (const Size &b : sizes) {
      EXPECT_EQ(a == b, (a <=> b) == 0);
      EXPECT_EQ(a<b, b> a);
    }
}

TEST(Size, ProductsAreMultipliedOutAndEqualInAnyOrder) {
  Size Y = Size::of_dim(0), X = Size::of_dim(1);
  EXPECT_EQ(Y * X, X * Y);
  EXPECT_EQ((Y + Size(1)) * X - X, Y * X);
  EXPECT_EQ((Y + X) * (Y - X), Y * Y - X * X);
  EXPECT_EQ((Y * X * 6).floor_div(3), Y * X * 2);
  EXPECT_NE(Y * X, Y * Y);
  EXPECT_EQ(((Y * X) * Y).evaluate({3, 5}), 45);
  EXPECT_EQ((Y.floor_div(2) * X + Size(1)).text({"Y", "X"}), "X * (Y // 2) + 1");
  EXPECT_EQ((Y * X * 2 - Y).text({"Y", "X"}), "-Y + 2 * Y * X");
  EXPECT_EQ((Y * X).as_dim(), -1);
}

} // namespace
} // namespace heddle
