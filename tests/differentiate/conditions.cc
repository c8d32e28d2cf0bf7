// Derivatives under conditions: what a formula computes where nobody asks for it has no part in them, whatever it is.
#include "tests/differentiate/differences.h"

namespace heddle::tests {
namespace {

/// Half of the numbers are negative: their roots and logarithms are none.
TEST(Conditions, WhatIsUsedTwiceUnderOneIsExcludedWhereItFails) {
  compare_gradients(R"(
dim S
model M {
  entry run(x: real[S]) -> loss: real, d_x: real[S] {
    y[s] = if x[s] > 0 then sqrt(x[s]) * exp(sqrt(x[s])) else x[s]
    z[s] = if x[s] > 0 then (if x[s] < 0.5 then log(x[s]) ** 2 else sin(log(x[s]))) * log(x[s]) else 0
    loss = sum[s](y[s] * (s + 1) + z[s])
    return loss, grad(loss, x)
  }
}
)",
                    {8});
}

TEST(Conditions, WhatIsUsedUnderTwoIsExcludedWhereNoneHolds) {
  compare_gradients(R"(
dim S
model M {
  entry run(x: real[S]) -> loss: real, d_x: real[S] {
    y[s] = (if x[s] > 0.1 then exp(sqrt(x[s])) else 0) + (if x[s] > 0.3 then sin(sqrt(x[s])) else x[s])
    loss = sum[s](y[s] * (s + 1))
    return loss, grad(loss, x)
  }
}
)",
                    {8});
}

TEST(Conditions, OfASecondDerivative) {
  compare_gradients(R"(
dim S
model M {
  entry run(x: real[S]) -> penalty: real, d_x: real[S] {
    y[s] = if x[s] > 0 then (if x[s] < 0.5 then x[s] ** 2 else sqrt(x[s])) else exp(x[s])
    loss = sum[s](y[s])
    let slope = grad(loss, x)
    first = sum[s](slope[s] ** 2)
    let bend = grad(first, x)
    penalty = sum[s](bend[s] ** 2)
    return penalty, grad(penalty, x)
  }
}
)",
                    {8});
}

} // namespace
} // namespace heddle::tests
