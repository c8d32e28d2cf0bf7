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
  // The adjoint of softmax's total: over the elements of a head instead of all keys.
  size_t at = tree.find("  attend.softmax.total.grad.y[");
  ASSERT_NE(at, std::string::npos) << tree;
  std::string line = tree.substr(at, tree.find('\n', at) - at);
  EXPECT_NE(line.find("sum[e in 2]("), std::string::npos) << line;
  EXPECT_NE(line.find("attend.o["), std::string::npos) << line;
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
