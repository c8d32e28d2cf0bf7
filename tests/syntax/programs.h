// Whole programs, as an author writes them and already in the printer's form: encoder, recurrent and convolutional
// models that use every construct of the language.
#pragma once

namespace heddle::syntax {

inline const char *const transformer = R"(# A small transformer.
config V "vocab_size" = 1000, D "hidden_size" = 64, H "num_heads" = 4, L "num_layers" = 2
config EPS "layer_norm_eps" = 1e-12, ACT "hidden_act" = "gelu", DEPTHS "backbone.depths" = [3, 4, 6, 3]
let E = D // H
dim B <= 16, S <= 128
use layers: Linear, LayerNorm

fn act(x: real) -> real {
  require ACT == "gelu" or ACT == "relu" else "hidden_act is gelu or relu"
  return if ACT == "relu" then relu(x) else gelu(x)
}
fn wave(n: i32, d: i32, N: i32) -> real =
  if d < N // 2 then sin(n / 10000 ** (2 * d / N)) else cos(n / 10000 ** (2 * (d - N // 2) / N))

# Attention with relative positions.
module Attention {
  param qkv as "attn.qkv.weight": real[3, H, E, D] stored [3 * D, D]
  param out as "attn.out.weight": real[D, H, E]    stored [D, D]
  param bias: real[D]
  sub norm as "layer_norm" = LayerNorm(D, EPS)

  # x: the new inputs; seen: how many there were before
  fn call(x: real[B, T, D], seen: i32) -> real[B, T, D] {  # not in place
    t[p, b, n, h, e] = sum[d](x[b, n, d] * qkv[p, h, e, d])
    s[b, h, i in T, j in T] =
      if T - seen <= j and j <= i
      then (sum[e](t[0, b, i, h, e] * t[1, b, j, h, e])
          + sum[e](t[0, b, i, h, e] * wave(i - j, e, E))) / sqrt(E)  # the distance
      else -inf
    let a = attend(s, t[2])
    y[b, n, d] = sum[h, e](a[b, n, h, e] * out[d, h, e]) + bias[d]
    return norm(x + y)
  }
}
module Layer {
  sub attn = Attention
  sub up   = Linear(D, 4 * D)
  sub down = Linear(4 * D, D)
  fn call(x: real[..S, D], seen: i32) -> real[..S, D] = down(act(up(attn(x, seen))))
}
model Small {
  param emb as "emb|embedding": real[V, D]
  sub layers[L] as "layer" = Layer
  sub stage[i in 1 .. L] as "stage|" = Layer
  state mem: real[B, S, D] = 0
  state seen: i32
  if ACT == "gelu" { param scale: real }
  if L > 1 {
    sub head = Linear(D, V)
  } else if L == 1 {
    let K = V
  } else {
    param own: real[V, D]
  }

  entry step(ids: index(V)[B, S], mask: i32[B, S] = 1)
      -> logits: real[B, S, V], best: i32[B, S] {
    require all[b, s](mask[b, s] == 0 or mask[b, s] == 1) else "the mask is \"0\" or 1"
    x[b, s, d] = emb[ids[b, s], d] * sqrt(D) + mem[b, s, d]
    for l in L with x {
      let h = x
      x = layers[l](h, seen)
    }
    for s in S with x { x = f(x) }
    mem <- x
    mem[b, s, d] <- x[b, s, d]
    seen <- min(seen + S, 128)
    if L > 1 {
      z = 1
    } else {
      z = 2
    }
    y[..s, v] = max[i in V, ..t where i <= v and not (i == 3)](x[..s, i | -inf]) ** 2
    return y, argmax[v](y[:, :, v])
  }
  entry reset() { seen <- 0 }
}
)";

} // namespace heddle::syntax
