// Derivatives of layers as they are written, against differences.
#include "tests/differentiate/differences.h"

namespace heddle::tests {
namespace {

TEST(Layers, LinearGeluAndNorm) {
  compare_gradients(R"(
dim B
model M {
  sub first = Linear(3, 4)
  sub norm = LayerNorm(4, 1e-5)
  entry run(x: real[B, 3], c: real[B, 4])
      -> loss: real, d_x: real[B, 3], d_c: real[B, 4], d_first_weight: real[4, 3], d_norm_bias: real[4] {
    let y = norm(gelu(first(x)))
    loss = sum[b, o](c[b, o] * y[b, o])
    return loss, grad(loss, x), grad(loss, c), grad(loss, first.weight), grad(loss, norm.bias)
  }
}
)",
                    {2});
}

/// The adjoint of softmax's total: over the two elements of a head instead of all keys, by the result `of`.
void expect_over_features(const std::string &tree, const std::string &adjoint, const std::string &of) {
  size_t at = tree.find("  " + adjoint);
  ASSERT_NE(at, std::string::npos) << tree;
  std::string line = tree.substr(at, tree.find('\n', at) - at);
  EXPECT_NE(line.find("sum[e in 2]("), std::string::npos) << line;
  EXPECT_NE(line.find(of), std::string::npos) << line;
}

TEST(Layers, CausalAttention) {
  std::string tree = compare_gradients(R"(
config D = 4, H = 2, E = 2
dim B, S
model M {
  param wqkv: real[3, H, E, D]
  sub out = FromHeads(H, E, D)
  entry run(x: real[B, S, D], c: real[B, S, D])
      -> loss: real, d_x: real[B, S, D], d_wqkv: real[3, H, E, D], d_out_weight: real[D, H, E], d_out_bias: real[D] {
    t[b, i, g, h, e] = sum[d](x[b, i, d] * wqkv[g, h, e, d])
    s[b, h in H, i in S, j in S] = if j <= i then sum[e](t[b, i, 0, h, e] * t[b, j, 1, h, e]) / sqrt(E) else -inf
    v[b, i, h, e] = t[b, i, 2, h, e]
    let y = out(attend(s, v))
    loss = sum[b, s, o](y[b, s, o] * c[b, s, o])
    return loss, grad(loss, x), grad(loss, wqkv), grad(loss, out.weight), grad(loss, out.bias)
  }
}
)",
                                       {2, 3});
  expect_over_features(tree, "attend.softmax.total.grad.y[", "attend.o[");
}

/// By what is the same for all keys, or by conditions.
TEST(Layers, AttentionWhoseValuesAndWeightsAreScaled) {
  for (std::string scaled : {"v[j, e] * gain[e]", "-0.5 * v[j, e]", "(if gain[e] > 0 then v[j, e] else 0)"}) {
    std::string text = R"(
config E = 2
dim S
model M {
  entry run(q: real[S, E], k: real[S, E], v: real[S, E], gain: real[E], r: real[S], c: real[S, E])
      -> loss: real, d_q: real[S, E], d_k: real[S, E], d_v: real[S, E], d_gain: real[E], d_r: real[S] {
    s[i, j] = sum[e](q[i, e] * k[j, e])
    let p = softmax(s)
    x[i, j] = p[i, j] * r[i]
    y[j, e] = SCALED * gain[e]
    o[i, e] = sum[j](x[i, j] * y[j, e])
    loss = sum[i, e](o[i, e] * c[i, e])
    return loss, grad(loss, q), grad(loss, k), grad(loss, v), grad(loss, gain), grad(loss, r)
  }
}
)";
    text.replace(text.find("SCALED"), 6, scaled);
    expect_over_features(compare_gradients(text, {3}), "softmax.total.grad.y[", "o[");
  }
}

/// Of the rows' sums of weights times their gradients, one is of a row further down, which the last row doesn't have.
TEST(Layers, AttentionWhoseWeightsMoveToTheNextRow) {
  compare_gradients(R"(
config E = 2
dim S
model M {
  entry run(q: real[S, E], k: real[S, E], v: real[S, E], c: real[S, E])
      -> loss: real, d_q: real[S, E], d_k: real[S, E], d_v: real[S, E], o: real[S, E] {
    s[i, j] = sum[e](q[i, e] * k[j, e])
    let p = softmax(s)
    moved[i in S, j in S] = if i >= 1 then p[i - 1, j] else 0
    y[i in S, j in S] = if i + 1 < S then p[i, j] else 0
    z[i, e] = sum[j](moved[i, j] * v[j, e])
    o[i, e] = sum[j](y[i, j] * v[j, e])
    loss = sum[i, e](z[i, e] * c[i, e])
    return loss, grad(loss, q), grad(loss, k), grad(loss, v), o
  }
}
)",
                    {4});
}

TEST(Layers, EmbeddingAndPositions) {
  compare_gradients(R"(
config V = 5, D = 2
dim B, S
model M {
  param table: real[V, D]
  param pos: real[4, D]
  entry run(ids: index(V)[B, S], c: real[B, S, D]) -> loss: real, d_table: real[V, D], d_pos: real[4, D] {
    require S <= 4 else "long"
    x[b, s in S, d] = table[ids[b, s], d] * 2 + pos[s, d]
    loss = sum[b, s, d](x[b, s, d] * x[b, s, d] * c[b, s, d])
    return loss, grad(loss, table), grad(loss, pos)
  }
}
)",
                    {2, 3});
}

TEST(Layers, ConvolutionOfStrideTwoAndMaxPool) {
  compare_gradients(R"(
config I = 2, O = 2
dim B, Y, X
model M {
  sub conv = Conv(I, O, 3, 2, 1)
  sub pool = MaxPool(3, 2, 1)
  entry run(x: real[B, I, Y, X]) -> loss: real, d_x: real[B, I, Y, X], d_conv_weight: real[O, I, 3, 3] {
    let y = pool(relu(conv(x)))
    loss = sum[b, o, i, j](y[b, o, i, j] * (b + 2 * o + i * 0.5 - j))
    return loss, grad(loss, x), grad(loss, conv.weight)
  }
}
)",
                    {2, 7, 6});
}

TEST(Layers, SmoothedCrossEntropy) {
  compare_gradients(R"(
config V = 4, D = 3, EPS = 0.1
dim B, S
model M {
  sub lin = Linear(D, V)
  entry run(x: real[B, S, D], labels: i32[B, S])
      -> loss: real, d_x: real[B, S, D], d_lin_weight: real[V, D], d_lin_bias: real[V] {
    let w = lin(x)
    let z = log_sum_exp(w)
    loss = mean[b, s where labels[b, s] != -100](
      z[b, s] - (1 - EPS) * w[b, s, labels[b, s] | 0] - EPS / V * sum[v](w[b, s, v]))
    return loss, grad(loss, x), grad(loss, lin.weight), grad(loss, lin.bias)
  }
}
)",
                    {2, 3}, {{"labels", Array{Type::i32, {2, 3}, {0, 3, -100, 2, 2, 1}}}});
}

TEST(Layers, LstmWithAMaskOverTime) {
  compare_gradients(R"(
config I = 2, N = 2
dim B, S
model M {
  sub rnn = Recurrent("lstm", I, N, 0, "")
  entry run(x: real[B, S, I], length: i32[B], h0: real[B, N], c0: real[B, N], c: real[B, S, N])
      -> loss: real, d_x: real[B, S, I], d_h0: real[B, N], d_c0: real[B, N], d_rnn_weight_ih_l0: real[4, N, I],
         d_rnn_weight_hh_l0: real[4, N, N], d_rnn_bias_hh_l0: real[4, N] {
    let y, h, cc = rnn.over(x, length, h0, c0)
    loss = sum[b, s, n](y[b, s, n] * c[b, s, n]) + sum[b, n](h[b, n] * cc[b, n])
    return loss, grad(loss, x), grad(loss, h0), grad(loss, c0), grad(loss, rnn.wi), grad(loss, rnn.wh), grad(loss, rnn.bh)
  }
}
)",
                    {2, 3}, {{"length", Array{Type::i32, {2}, {3, 2}}}});
}

} // namespace
} // namespace heddle::tests
