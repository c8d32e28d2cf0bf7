// Derivatives through subscripts: which equations are solved, and what is left as a condition, against differences.
#include "tests/differentiate/differences.h"

namespace heddle::tests {
namespace {

TEST(Subscripts, RotatedHalvesOfMergedAxes) {
  compare_gradients(R"(
config H = 2, E = 4
dim B, S
model M {
  param w: real[H * E, H * E]
  entry run(x: real[B, S, H * E], c: real[B, H, S, E]) -> loss: real, d_x: real[B, S, H * E], d_w: real[H * E, H * E] {
    q[b, s, f] = sum[k](x[b, s, k] * w[f, k])
    r[b, h in H, s, e in E] = cos(s * 10.0 ** (-(e % (E // 2)))) * q[b, s, E * h + e]
       + sin(s * 10.0 ** (-(e % (E // 2)))) * (if e < E // 2 then -q[b, s, E * h + e + E // 2] else q[b, s, E * h + e - E // 2])
    m[b, s, f in H * E] = r[b, f // E, s, f % E]
    loss = sum[b, h, s, e](r[b, h, s, e] * c[b, h, s, e] * r[b, h, s, e]) + sum[b, s, f](tanh(m[b, s, f]))
    return loss, grad(loss, x), grad(loss, w)
  }
}
)",
                    {1, 2});
}

TEST(Subscripts, PatchesOfAnImageBehindOneMoreRow) {
  compare_gradients(R"(
config P = 2, D = 2, C = 2
dim B, H, W
let Y = H // P
let X = W // P
model M {
  param w: real[D, C, P, P] stored [D, C * P * P]
  param cls: real[D]
  param wm: real[D, D]
  entry run(image: real[B, C, H, W], c: real[B, Y * X + 1, D])
      -> loss: real, d_image: real[B, C, H, W], d_w: real[D, C, P, P], d_cls: real[D], d_wm: real[D, D] {
    t[b, n in (y in Y, x in X), d] = sum[k, i, j](image[b, k, P * y + i, P * x + j] * w[d, k, i, j])
    every[b, n in Y * X + 1, d] = if n == 0 then cls[d] else t[b, n - 1, d]
    back[b, y in Y, x in X, d] = every[b, y * X + x + 1, d]
    loss = sum[b, n, d](every[b, n, d] * every[b, n, d] * c[b, n, d]) + sum[b, y, x, d](exp(back[b, y, x, d] * wm[d, d]))
    return loss, grad(loss, image), grad(loss, w), grad(loss, cls), grad(loss, wm)
  }
}
)",
                    {1, 5, 4});
}

TEST(Subscripts, ThreeAxesInOne) {
  compare_gradients(R"(
config A = 2, C = 3, D = 2
dim S
model M {
  param w: real[A, C, D]
  entry run(x: real[S, A * C * D]) -> loss: real, d_x: real[S, A * C * D], d_w: real[A, C, D] {
    y[s] = sum[a, c, d](x[s, (a * C + c) * D + d] * w[a, c, d])
    loss = sum[s](y[s] * y[s])
    return loss, grad(loss, x), grad(loss, w)
  }
}
)",
                    {3});
}

TEST(Subscripts, BackwardsAndForwards) {
  compare_gradients(R"(
dim S
model M {
  param w: real
  entry run(x: real[S]) -> loss: real, d_x: real[S], d_w: real {
    y[i in S] = w * x[S - 1 - i] * x[i]
    loss = sum[i](y[i] * y[i])
    return loss, grad(loss, x), grad(loss, w)
  }
}
)",
                    {4});
}

TEST(Subscripts, ClampedDistances) {
  compare_gradients(R"(
config N = 2
dim S
model M {
  param t: real[2 * N + 1]
  entry run(x: real[S, S]) -> loss: real, d_x: real[S, S], d_t: real[2 * N + 1] {
    y[i in S, j in S] = x[i, j] * t[min(max(i - j, -N), N) + N]
    loss = sum[i, j](y[i, j] * y[i, j])
    return loss, grad(loss, x), grad(loss, t)
  }
}
)",
                    {4});
}

TEST(Subscripts, CoprimeStrides) {
  compare_gradients(R"(
dim S
model M {
  param w: real[3]
  entry run(x: real[S]) -> loss: real, d_x: real[S], d_w: real[3] {
    y[i in S] = sum[u](x[2 * u + 3 * i - 4 | 0] * w[u])
    loss = sum[i](y[i] * y[i])
    return loss, grad(loss, x), grad(loss, w)
  }
}
)",
                    {7});
}

TEST(Subscripts, HeadsThatShareKeys) {
  compare_gradients(R"(
config H = 4, G = 2, E = 2
dim B, S
model M {
  entry run(q: real[B, S, H, E], k: real[B, S, G, E]) -> loss: real, d_q: real[B, S, H, E], d_k: real[B, S, G, E] {
    s[b, h in H, i in S, j in S] = sum[e](q[b, i, h, e] * k[b, j, h // (H // G), e])
    loss = sum[b, h, i, j](s[b, h, i, j] * s[b, h, i, j])
    return loss, grad(loss, q), grad(loss, k)
  }
}
)",
                    {1, 3});
}

TEST(Subscripts, OfPartsOfATableOnlyTheirRowsAreSummed) {
  std::string tree = compare_gradients(R"(
config N = 7, D = 2
dim B, S
model M {
  param w: real[N, D]
  entry run(x: real[B, S, D], c: real[B, S, N]) -> loss: real, d_w: real[N, D], d_x: real[B, S, D] {
    low[b, s, v in 3] = sum[d](x[b, s, d] * w[v, d])
    back[b, s, v in 3] = sum[d](x[b, s, d] * w[5 - v, d])
    loss = sum[b, s, v in 3](tanh(low[b, s, v] + back[b, s, v]) * c[b, s, v])
    return loss, grad(loss, w), grad(loss, x)
  }
}
)",
                                       {2, 3});
  EXPECT_EQ(tree.find("[q0 in 7, q1 in 2]: f32 = sum"), std::string::npos);
  EXPECT_NE(tree.find("[v in 3, q1 in 2]: f32 = sum[b in B, s in S]"), std::string::npos);
}

TEST(Subscripts, PiecesOfAMergedIndex) {
  compare_gradients(R"(
config G = 2, P = 3
dim S
model M {
  param w: real[G, P]
  entry run(x: real[S, G, P]) -> loss: real, d_x: real[S, G, P], d_w: real[G, P] {
    y[s, o in (g in G, p in P)] = x[s, g, p] * w[g, p]
    loss = sum[s, o](y[s, o] * y[s, o] * o)
    return loss, grad(loss, x), grad(loss, w)
  }
}
)",
                    {2});
}

TEST(Subscripts, WindowsAtPlacesFromData) {
  compare_gradients(R"(
config N = 6
dim S
model M {
  param t: real[N]
  entry run(at: index(4)[S]) -> loss: real, d_t: real[N] {
    y[s, w in 3] = t[at[s] + w]
    loss = sum[s, w](y[s, w] * y[s, w] * (w + 1))
    return loss, grad(loss, t)
  }
}
)",
                    {5});
}

TEST(Subscripts, Diagonals) {
  compare_gradients(R"(
dim S
model M {
  param w: real
  entry run(x: real[S, S]) -> loss: real, d_x: real[S, S], d_w: real {
    y[i in S, j in S] = w * x[i, i] + x[j, i]
    loss = sum[i, j](y[i, j] * y[i, j])
    return loss, grad(loss, x), grad(loss, w)
  }
}
)",
                    {3});
}

TEST(Subscripts, ShuffledChannels) {
  compare_gradients(R"(
config A = 2, C = 3
dim S
model M {
  param w: real
  entry run(x: real[S, A * C]) -> loss: real, d_x: real[S, A * C], d_w: real {
    y[s, f in A * C] = w * x[s, A * (f % C) + f // C]
    loss = sum[s, f](y[s, f] * y[s, f] * f)
    return loss, grad(loss, x), grad(loss, w)
  }
}
)",
                    {2});
}

TEST(Subscripts, TwoStridesOfWhichOneIsLookedUpByTheOther) {
  compare_gradients(R"(
dim T, B
model M {
  entry run(x: real[2, B, B], c: real[T, 5]) -> loss: real, d_x: real[2, B, B] {
    y[d in T, e in 5] = x[e % 2, d // 2, 2 * d + 0 | 0] + x[d % 2, 2 * e + d, d - 1 | 0]
    loss = sum[d, e](y[d, e] ** 2 * c[d, e])
    return loss, grad(loss, x)
  }
}
)",
                    {5, 8});
}

TEST(Subscripts, OneNumberLooksUpTwoAxes) {
  compare_gradients(R"(
dim S
model M {
  entry run(x: real[S, S], ids: index(S)[S]) -> loss: real, d_x: real[S, S] {
    loss = sum[s](x[ids[s], ids[s]] ** 2 * (s + 1))
    return loss, grad(loss, x)
  }
}
)",
                    {6});
}

/// Of the sum over what looks up row q of `t` and then of `x`, one condition is `ids[s] == q`, not both of them `p ==
/// q`.
TEST(Subscripts, OneNumberLooksUpTwoTablesTwice) {
  compare_gradients(R"(
dim S
model M {
  entry run(x: real[S], t: real[S], ids: index(S)[S]) -> penalty: real, d_x: real[S], d_t: real[S] {
    loss = sum[s](x[ids[s]] ** 2 * t[ids[s]] ** 2 * (s + 1))
    let slope = grad(loss, t)
    penalty = sum[s](slope[s] ** 2)
    return penalty, grad(penalty, x), grad(penalty, t)
  }
}
)",
                    {6});
}

/// Once s is split by its remainder, what is left of its equation has a part of v on the other side.
TEST(Subscripts, ARemainderBesideAMultipleOfTheSameIndex) {
  compare_gradients(R"(
dim B, T
model M {
  entry run(x: real[3, B, T]) -> loss: real, d_x: real[3, B, T] {
    y[v in 9, s in 9] = sum[n in B](x[n // 3 + s % 2, n, 2 * s + v | 0])
    loss = sum[v, s](y[v, s] ** 2 * (v + 1) / (s + 1))
    return loss, grad(loss, x)
  }
}
)",
                    {5, 12});
}

TEST(Subscripts, OfNoElementsAreZero) {
  std::string text = R"(
dim S
model M {
  param w: real[3]
  entry run(x: real[S, 3]) -> loss: real, d_x: real[S, 3], d_w: real[3] {
    y[s] = sum[i](x[s, i] * w[i])
    loss = sum[s](y[s] * y[s])
    return loss, grad(loss, x), grad(loss, w)
  }
}
)";
  compare_gradients(text, {0});
}

} // namespace
} // namespace heddle::tests
