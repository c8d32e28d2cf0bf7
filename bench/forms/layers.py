"""Layers that a formula can say in several ways, each beside what PyTorch has for it. `ways` are bodies of the entry `run`, as one may
write them down; a pair has parameters of its own before the body."""

from dataclasses import dataclass, field
from typing import Callable


@dataclass
class Layer:
    name: str
    settings: str  # config, dim, let and functions
    params: str
    signature: str
    ways: dict[str, str | tuple[str, str]]
    weights: dict[str, tuple]  # their shapes as stored
    inputs: dict[str, tuple]  # their shapes; of numbers below N: (N, shape)
    torch: Callable  # (torch, weights, inputs) -> result
    tolerance: float = 2e-4
    kinds: dict = field(default_factory=dict)

    def text(self, way):
        params, body = self.ways[way] if isinstance(self.ways[way], tuple) else (self.params, self.ways[way])
        return f"{self.settings}\nmodel Layer {{\n{params}\n  entry run{self.signature} {{\n{body}\n  }}\n}}\n"


def attention(torch, q, k, v, **options):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, **options)


def transposed_convolution(torch, w, x):
    return torch.nn.functional.conv_transpose2d(x["x"], w["w"], stride=2, padding=1)


def grouped_linear(torch, w, x):
    return torch.einsum("bgm,gpm->bgp", x["x"].view(-1, 8, 64), w["w"].view(8, 64, 64)).reshape(-1, 512)


def triangle(torch, w, x):  # s[i, h, j, k]
    q = x["q"].permute(0, 2, 1, 3)
    return attention(torch, q, q, q, attn_mask=x["b"].permute(2, 0, 1)[None]).permute(0, 2, 1, 3)


def enlarged(torch, w, x):
    return torch.nn.functional.conv2d(torch.nn.functional.interpolate(x["x"], scale_factor=2.0, mode="nearest"), w["w"], padding=1)


def shared_heads(torch, w, x):
    return attention(torch, *(x[name].transpose(1, 2) for name in "qkv"), enable_gqa=True).transpose(1, 2)


def pooling(torch, w, x):
    p = torch.softmax(torch.einsum("bnd,d->bn", x["x"], w["w"]), dim=-1)
    return torch.einsum("bn,bnd->bd", p, x["x"])


def patches(torch, w, x):
    return torch.nn.functional.conv2d(x["x"], w["w"], stride=16).flatten(2).transpose(1, 2)


def merging(torch, w, x):
    n, h, width, c = x["x"].shape
    parts = x["x"].view(n, h // 2, 2, width // 2, 2, c).permute(0, 1, 3, 2, 4, 5).reshape(n, h // 2, width // 2, 4 * c)
    return torch.nn.functional.linear(parts, w["w"])


def channels(torch, w, x):
    q, k, v = (x[name].permute(0, 2, 3, 1) for name in "qkv")  # b h d n
    return attention(torch, q, k, v, scale=1.0).permute(0, 3, 1, 2)


def triangle_product(torch, w, x):
    return torch.einsum("ikd,jkd->ijd", x["a"], x["c"])


def layer_norm(torch, w, x):
    return torch.nn.functional.layer_norm(x["x"], (768,), w["g"], w["c"], 1e-5)


def normed_product(torch, w, x):
    return torch.nn.functional.linear(torch.nn.functional.rms_norm(x["x"], (512,), w["g"], 1e-6), w["w"])


def gated(torch, w, x):
    up, gate = torch.nn.functional.linear(x["x"], w["w"].flatten(0, 1)).chunk(2, dim=-1)
    return torch.nn.functional.linear(torch.nn.functional.silu(gate) * up, w["v"])


def biased_attention(torch, w, x):
    s = x["q"].shape[1]
    places = (torch.arange(s)[None, :] - torch.arange(s)[:, None]).clamp(-32, 32) + 32
    return attention(torch, *(x[name].transpose(1, 2) for name in "qkv"), attn_mask=w["t"][:, places], scale=1.0).transpose(1, 2)


def causal_attention(torch, w, x):
    return attention(torch, *(x[name].transpose(1, 2) for name in "qkv"), is_causal=True).transpose(1, 2)


def causal_convolution(torch, w, x):
    inner = torch.nn.functional.pad(x["x"].transpose(1, 2), (3, 0))
    return torch.nn.functional.conv1d(inner, w["w"][:, None], groups=768).transpose(1, 2)


def shuffled(torch, w, x):
    return torch.nn.functional.pixel_shuffle(torch.nn.functional.conv2d(x["x"], w["w"], padding=1), 2)


def bilinear(torch, w, x):
    return torch.nn.functional.bilinear(x["x"], x["z"], w["w"])


def bag(torch, w, x):
    return torch.nn.functional.embedding_bag(x["ids"].long(), w["w"], mode="mean")


def cross_entropy(torch, w, x):
    return torch.nn.functional.cross_entropy(x["x"], x["ids"].long(), reduction="none")


def rotary(torch, w, x):
    s, half = x["q"].shape[1], 32
    angle = torch.outer(torch.arange(s), 10000.0 ** (-torch.arange(half) / half)).repeat(1, 2)[None, :, None]
    q = x["q"]
    return q * angle.cos() + torch.cat((-q[..., half:], q[..., :half]), dim=-1) * angle.sin()


def moving_average(torch, w, x):
    return torch.nn.functional.avg_pool1d(x["x"].transpose(1, 2), 9, 1, 4).transpose(1, 2)


def transposed_weight(torch, w, x):
    return torch.nn.functional.gelu(x["x"] @ w["w"])


def experts(torch, w, x):
    """Tokens gathered by expert, multiplied, and added back."""
    tokens, out = x["x"], torch.zeros_like(x["x"])
    p = torch.softmax(torch.nn.functional.linear(tokens, w["gate"]), dim=-1)
    share, best = p.topk(2, dim=-1)
    for n in range(8):
        row, place = torch.where(best == n)
        if row.numel():
            t = tokens[row]
            h = torch.nn.functional.silu(torch.nn.functional.linear(t, w["w1"][n])) * torch.nn.functional.linear(t, w["w3"][n])
            out.index_add_(0, row, torch.nn.functional.linear(h, w["w2"][n]) * share[row, place, None])
    return out


ATTENTION = "(q: real[B, S, H, E], k: real[B, S, H, E], v: real[B, S, H, E]) -> y: real[B, S, H, E]"
BEST = """
    z[s, n] = sum[d](x[s, d] * gate[n, d])
    let p = softmax(z)
    first[s] = argmax[n](p[s, n])
    second[s] = argmax[n where n != first[s]](p[s, n])
    best[s, k in 2] = if k == 0 then first[s] else second[s]"""
QKV = {name: (1, 128, 8, 64) for name in "qkv"}

LAYERS = [
    Layer(
        "transposed convolution, 64 to 64 channels, 4 x 4, 16 x 16 to 32 x 32",
        "config I = 64, O = 64\ndim B <= 4, H <= 64, W <= 64", "  param w: real[I, O, 4, 4]",
        "(x: real[B, I, H, W]) -> y: real[B, O, 2 * H, 2 * W]",
        {"`where (i + 1 - u) % 2 == 0`": """
    y[b, o, i in 2 * H, j in 2 * W] = sum[c, u, v where (i + 1 - u) % 2 == 0 and (j + 1 - v) % 2 == 0](
      x[b, c, (i + 1 - u) // 2, (j + 1 - v) // 2 | 0] * w[c, o, u, v])
    return y""",
         "`where 2 * m + u == i + 1`": """
    y[b, o, i in 2 * H, j in 2 * W] = sum[c, m, n, u, v where 2 * m + u == i + 1 and 2 * n + v == j + 1](x[b, c, m, n] * w[c, o, u, v])
    return y""",
         "by taps, `u = 2 * r + (i + 1) % 2`": """
    y[b, o, i in 2 * H, j in 2 * W] = sum[c, r in 2, s in 2](
      x[b, c, (i + 1) // 2 - r, (j + 1) // 2 - s | 0] * w[c, o, 2 * r + (i + 1) % 2, 2 * s + (j + 1) % 2])
    return y""",
         "by phases, `z[p, q, b, o, i, j]`": """
    f[p in 2, q in 2, o, c, r in 2, s in 2] = w[c, o, 2 * r + (p + 1) % 2, 2 * s + (q + 1) % 2]
    z[p in 2, q in 2, b, o, i in H, j in W] = sum[c, r, s](x[b, c, i + (p + 1) // 2 - r, j + (q + 1) // 2 - s | 0] * f[p, q, o, c, r, s])
    y[b, o, i in 2 * H, j in 2 * W] = z[i % 2, j % 2, b, o, i // 2, j // 2]
    return y"""},
        {"w": (64, 64, 4, 4)}, {"x": (1, 64, 16, 16)}, transposed_convolution),
    Layer(
        "grouped convolution, 128 channels in 8 groups, 3 x 3, 28 x 28",
        "config C = 128, O = 128, G = 8\ndim B <= 4, H <= 64, W <= 64\nlet M = C // G\nlet P = O // G", "  param w: real[O, C // G, 3, 3]",
        "(x: real[B, C, H, W]) -> y: real[B, O, H, W]",
        {"`x[b, o // P * M + c, …] * w[o, c, …]`": """
    y[b, o, i in H, j in W] = sum[c, u, v](x[b, o // P * M + c, i + u - 1, j + v - 1 | 0] * w[o, c, u, v])
    return y""",
         "an axis of groups, put together after": ("  param w: real[G, P, M, 3, 3] stored [O, M, 3, 3]", """
    z[g, b, p, i in H, j in W] = sum[c, u, v](x[b, g * M + c, i + u - 1, j + v - 1 | 0] * w[g, p, c, u, v])
    y[b, o in (g in G, p in P), i, j] = z[g, b, p, i, j]
    return y""")},
        {"w": (128, 16, 3, 3)}, {"x": (1, 128, 28, 28)},
        lambda torch, w, x: torch.nn.functional.conv2d(x["x"], w["w"], padding=1, groups=8)),
    Layer(
        "triangle attention, N = 96, 4 heads of 8", "config H = 4, E = 8\ndim N <= 128", "",
        "(q: real[N, N, H, E], b: real[N, N, H]) -> t: real[N, N, H, E]",
        {"`s[i, j, k, h]`, softmax by hand": """
    s[i, j, k, h] = sum[e](q[i, j, h, e] * q[i, k, h, e]) / sqrt(E) + b[j, k, h]
    top[i, j, h] = max[k](s[i, j, k, h])
    den[i, j, h] = sum[k](exp(s[i, j, k, h] - top[i, j, h]))
    t[i, j, h, e] = sum[k](exp(s[i, j, k, h] - top[i, j, h]) * q[i, k, h, e]) / den[i, j, h]
    return t""",
         "`s[i, h, j, k]`, softmax by hand": """
    s[i, h, j, k] = sum[e](q[i, j, h, e] * q[i, k, h, e]) / sqrt(E) + b[j, k, h]
    top[i, j, h] = max[k](s[i, h, j, k])
    den[i, j, h] = sum[k](exp(s[i, h, j, k] - top[i, j, h]))
    t[i, j, h, e] = sum[k](exp(s[i, h, j, k] - top[i, j, h]) * q[i, k, h, e]) / den[i, j, h]
    return t""",
         "`attend(s, q)`": """
    s[i, h, j, k] = sum[e](q[i, j, h, e] * q[i, k, h, e]) / sqrt(E) + b[j, k, h]
    return attend(s, q)"""},
        {}, {"q": (96, 96, 4, 8), "b": (96, 96, 4)}, triangle),
    Layer(
        "triangle product, N = 96, 32 channels", "config C = 32\ndim N <= 128", "",
        "(a: real[N, N, C], c: real[N, N, C]) -> z: real[N, N, C]",
        {"`z[i, j, d]`": """
    z[i, j, d] = sum[k](a[i, k, d] * c[j, k, d])
    return z""",
         "`t[d, i, j]` of factors with channels first, put back": """
    p[d, i, k] = a[i, k, d]
    q[d, j, k] = c[j, k, d]
    t[d, i, j] = sum[k](p[d, i, k] * q[d, j, k])
    z[i, j, d] = t[d, i, j]
    return z"""},
        {}, {"a": (96, 96, 32), "c": (96, 96, 32)}, triangle_product),
    Layer(
        "grouped linear layer, 512 in 8 groups, 64 rows", "config C = 512, O = 512, G = 8\ndim B <= 512\nlet M = C // G\nlet P = O // G",
        "  param w: real[O, C // G]", "(x: real[B, C]) -> y: real[B, O]",
        {"`x[b, o // P * M + c] * w[o, c]`": """
    y[b, o] = sum[c](x[b, o // P * M + c] * w[o, c])
    return y""",
         "an axis of groups": ("  param w: real[G, P, M] stored [O, M]", """
    z[b, g, p] = sum[c](x[b, g * M + c] * w[g, p, c])
    y[b in B, o in (g in G, p in P)] = z[b, g, p]
    return y""")},
        {"w": (512, 64)}, {"x": (64, 512)}, grouped_linear),
    Layer(
        "linear layer with a scale per input, 512 to 512, 64 rows", "config D = 512, O = 512\ndim B <= 512", "  param w: real[O, D]\n  param c: real[D]",
        "(x: real[B, D]) -> y: real[B, O]",
        {"`x[b, d] * w[o, d] * c[d]`": "    y[b, o] = sum[d](x[b, d] * w[o, d] * c[d])\n    return y",
         "`x[b, d] * c[d] * w[o, d]`": "    y[b, o] = sum[d](x[b, d] * c[d] * w[o, d])\n    return y",
         "`x * c` before": "    z[b, d] = x[b, d] * c[d]\n    y[b, o] = sum[d](z[b, d] * w[o, d])\n    return y"},
        {"w": (512, 512), "c": (512,)}, {"x": (64, 512)}, lambda torch, w, x: torch.nn.functional.linear(x["x"] * w["c"], w["w"])),
    Layer(
        "convolution of an enlarged image, 32 channels, 3 x 3, 16 x 16 to 32 x 32", "config C = 32, O = 32\ndim B <= 4, H <= 64, W <= 64",
        "  param w: real[O, C, 3, 3]", "(x: real[B, C, H, W]) -> y: real[B, O, 2 * H, 2 * W]",
        {"`x[b, c, (i + u - 1) // 2, …]`": """
    y[b, o, i in 2 * H, j in 2 * W] = sum[c, u, v](
      (if 0 <= i + u - 1 and i + u - 1 < 2 * H and 0 <= j + v - 1 and j + v - 1 < 2 * W then x[b, c, (i + u - 1) // 2, (j + v - 1) // 2 | 0] else 0)
      * w[o, c, u, v])
    return y""",
         "the enlarged image before": """
    z[b, c, i in 2 * H, j in 2 * W] = x[b, c, i // 2, j // 2]
    y[b, o, i in 2 * H, j in 2 * W] = sum[c, u, v](z[b, c, i + u - 1, j + v - 1 | 0] * w[o, c, u, v])
    return y"""},
        {"w": (32, 32, 3, 3)}, {"x": (1, 32, 16, 16)}, enlarged),
    Layer(
        "heads that share keys, 8 heads and 4, 128 tokens", "config H = 8, K = 4, E = 64\ndim B, S <= 512\nlet G = H // K", "",
        "(q: real[B, S, H, E], k: real[B, S, K, E], v: real[B, S, K, E]) -> y: real[B, S, H, E]",
        {"`k[b, j, h // G, e]`, `softmax`": """
    s[b, h, i, j] = sum[e](q[b, i, h, e] * k[b, j, h // G, e]) / sqrt(E)
    let p = softmax(s)
    y[b, i, h, e] = sum[j](p[b, h, i, j] * v[b, j, h // G, e])
    return y""",
         "`s[b, i, j, h]`, softmax by hand": """
    s[b, i, j, h in H] = sum[e](q[b, i, h, e] * k[b, j, h // G, e]) / sqrt(E)
    top[b, i, h] = max[j](s[b, i, j, h])
    n[b, i, h] = sum[j](exp(s[b, i, j, h] - top[b, i, h]))
    y[b, i, h, e] = sum[j](exp(s[b, i, j, h] - top[b, i, h]) * v[b, j, h // G, e]) / n[b, i, h]
    return y"""},
        {}, {"q": (1, 128, 8, 64), "k": (1, 128, 4, 64), "v": (1, 128, 4, 64)}, shared_heads),
    Layer(
        "softmax pooling, 128 rows of 256, 64 of them", "config D = 256\ndim B, N <= 512", "  param w: real[D]", "(x: real[B, N, D]) -> y: real[B, D]",
        {"`softmax`": """
    s[b, n] = sum[d](x[b, n, d] * w[d])
    let p = softmax(s)
    y[b, d] = sum[n](p[b, n] * x[b, n, d])
    return y""",
         "by hand, divided after the sum": """
    s[b, n] = sum[d](x[b, n, d] * w[d])
    top[b] = max[n](s[b, n])
    total[b] = sum[n](exp(s[b, n] - top[b]))
    y[b, d] = sum[n](exp(s[b, n] - top[b]) * x[b, n, d]) / total[b]
    return y"""},
        {"w": (256,)}, {"x": (64, 128, 256)}, pooling),
    Layer(
        "patches of 16 x 16, 224 x 224 to 384", "config P = 16, C = 3, D = 384, N = 14\ndim B", "  param w: real[D, C, P, P]",
        "(x: real[B, C, 224, 224]) -> y: real[B, N * N, D]",
        {"one index: `k // P % P`, `n % 14`": ("  param w: real[D, C * P * P] stored [D, C, P, P]", """
    y[b, n in N * N, d] = sum[k](x[b, k // (P * P), n // N * P + k // P % P, n % N * P + k % P] * w[d, k])
    return y"""),
         "an axis each": """
    z[b, i in N, j in N, d] = sum[c, u, v](x[b, c, i * P + u, j * P + v] * w[d, c, u, v])
    y[b, n in (i in N, j in N), d] = z[b, i, j, d]
    return y"""},
        {"w": (384, 3, 16, 16)}, {"x": (1, 3, 224, 224)}, patches),
    Layer(
        "four neighbours as one (Swin), 28 x 28, 96 to 192", "config C = 96, O = 192, H = 28, W = 28\ndim B", "  param w: real[O, 4 * C]",
        "(x: real[B, 2 * H, 2 * W, C]) -> y: real[B, H, W, O]",
        {"`k % C`, `k // C % 2`": """
    y[b, i in H, j in W, o] = sum[k](x[b, 2 * i + k // (2 * C), 2 * j + k // C % 2, k % C] * w[o, k])
    return y""",
         "an axis each": ("  param w: real[O, 2, 2, C] stored [O, 4 * C]", """
    y[b, i in H, j in W, o] = sum[u, v, c](x[b, 2 * i + u, 2 * j + v, c] * w[o, u, v, c])
    return y""")},
        {"w": (192, 384)}, {"x": (1, 56, 56, 96)}, merging),
    Layer(
        "1 x 1 filters with a stride of 2, 256 to 512, 56 x 56", "config C = 256, O = 512, H = 28, W = 28\ndim B", "  param w: real[O, C]",
        "(x: real[B, C, 2 * H, 2 * W]) -> y: real[B, O, H, W]",
        {"`x[b, c, 2 * i, 2 * j]`": """
    y[b, o, i in H, j in W] = sum[c](x[b, c, 2 * i, 2 * j] * w[o, c])
    return y""",
         "every second place before": """
    z[b, c, i in H, j in W] = x[b, c, 2 * i, 2 * j]
    y[b, o, i, j] = sum[c](z[b, c, i, j] * w[o, c])
    return y"""},
        {"w": (512, 256)}, {"x": (1, 256, 56, 56)}, lambda torch, w, x: torch.nn.functional.conv2d(x["x"], w["w"][:, :, None, None], stride=2)),
    Layer(
        "a row of a table, 1024 of 256 numbers", "config V = 30522, D = 256\ndim B, S <= 1024", "  param w: real[V, D]", "(ids: index(V)[B, S]) -> y: real[B, S, D]",
        {"`sum[v where v == ids[b, s]](w[v, d])`": "    y[b, s, d] = sum[v where v == ids[b, s]](w[v, d])\n    return y",
         "`w[ids[b, s], d]`": "    y[b, s, d] = w[ids[b, s], d]\n    return y"},
        {"w": (30522, 256)}, {"ids": (30522, (4, 256))}, lambda torch, w, x: torch.nn.functional.embedding(x["ids"], w["w"])),
    Layer(
        "attention between channels, 8 heads of 32, 196 rows", "config H = 8, E = 32\ndim B, N <= 256", "",
        "(q: real[B, N, H, E], k: real[B, N, H, E], v: real[B, N, H, E]) -> y: real[B, N, H, E]",
        {"`s[b, d, e, h]`, softmax by hand": """
    s[b, d in E, e in E, h] = sum[n](q[b, n, h, d] * k[b, n, h, e])
    top[b, d, h] = max[e](s[b, d, e, h])
    total[b, d, h] = sum[e](exp(s[b, d, e, h] - top[b, d, h]))
    y[b, n, h, d] = sum[e](exp(s[b, d, e, h] - top[b, d, h]) * v[b, n, h, e]) / total[b, d, h]
    return y""",
         "`s[b, h, d, e]`, `softmax`": """
    s[b, h, d in E, e in E] = sum[n](q[b, n, h, d] * k[b, n, h, e])
    let p = softmax(s)
    y[b, n, h, d] = sum[e](p[b, h, d, e] * v[b, n, h, e])
    return y"""},
        {}, {name: (1, 196, 8, 32) for name in "qkv"}, channels),
    # ---- ten more
    Layer(
        "layer norm, 256 rows of 768", "config D = 768\ndim B <= 1024", "  param g: real[D]\n  param c: real[D]", "(x: real[B, D]) -> y: real[B, D]",
        {"of the squared difference from the mean": """
    m[b] = sum[d](x[b, d]) / D
    v[b] = sum[d]((x[b, d] - m[b]) ** 2) / D
    y[b, d] = (x[b, d] - m[b]) / sqrt(v[b] + 1e-5) * g[d] + c[d]
    return y""",
         "`mean(x ** 2) - m ** 2`": """
    m[b] = mean[d](x[b, d])
    v[b] = mean[d](x[b, d] ** 2) - m[b] ** 2
    y[b, d] = g[d] * (x[b, d] - m[b]) / sqrt(v[b] + 1e-5) + c[d]
    return y""",
         "the difference as a definition": """
    m[b] = mean[d](x[b, d])
    z[b, d] = x[b, d] - m[b]
    v[b] = mean[d](z[b, d] * z[b, d])
    y[b, d] = z[b, d] / sqrt(v[b] + 1e-5) * g[d] + c[d]
    return y"""},
        {"g": (768,), "c": (768,)}, {"x": (256, 768)}, layer_norm),
    Layer(
        "RMS norm and a product, 512 to 512, 64 rows", "config D = 512, O = 512\ndim B <= 512", "  param g: real[D]\n  param w: real[O, D]",
        "(x: real[B, D]) -> y: real[B, O]",
        {"the norm before": """
    r[b] = 1 / sqrt(mean[d](x[b, d] ** 2) + 1e-6)
    n[b, d] = x[b, d] * r[b] * g[d]
    y[b, o] = sum[d](n[b, d] * w[o, d])
    return y""",
         "all in the sum": """
    y[b, o] = sum[d](x[b, d] / sqrt(mean[i in D](x[b, i] ** 2) + 1e-6) * g[d] * w[o, d])
    return y""",
         "divided after the sum": """
    y[b, o] = sum[d](x[b, d] * g[d] * w[o, d]) / sqrt(mean[d](x[b, d] ** 2) + 1e-6)
    return y"""},
        {"g": (512,), "w": (512, 512)}, {"x": (64, 512)}, normed_product),
    Layer(
        "gated MLP, 512 to 1408 and back, 64 rows", "config D = 512, F = 1408\ndim B <= 512", "  param w: real[2, F, D]\n  param v: real[D, F]",
        "(x: real[B, D]) -> y: real[B, D]",
        {"a sum each": """
    h[b, f in F] = silu(sum[d](x[b, d] * w[1, f, d])) * sum[d](x[b, d] * w[0, f, d])
    y[b, d] = sum[f](h[b, f] * v[d, f])
    return y""",
         "one sum with an axis of two": """
    z[b, p, f] = sum[d](x[b, d] * w[p, f, d])
    y[b, d] = sum[f](silu(z[b, 1, f]) * z[b, 0, f] * v[d, f])
    return y"""},
        {"w": (2, 1408, 512), "v": (512, 1408)}, {"x": (64, 512)}, gated),
    Layer(
        "attention with a bias per distance (T5), 8 heads of 64, 128 tokens", "config H = 8, E = 64, R = 32\ndim B, S <= 512", "  param t: real[H, 2 * R + 1]", ATTENTION,
        {"the table in the scores": """
    s[b, h, i in S, j in S] = sum[e](q[b, i, h, e] * k[b, j, h, e]) + t[h, min(max(j - i, -R), R) + R]
    return attend(s, v)""",
         "a bias before, softmax by hand": """
    bias[h, i in S, j in S] = t[h, min(max(j - i, -R), R) + R]
    s[b, h, i, j] = sum[e](q[b, i, h, e] * k[b, j, h, e]) + bias[h, i, j]
    top[b, h, i] = max[j](s[b, h, i, j])
    p[b, h, i, j] = exp(s[b, h, i, j] - top[b, h, i])
    y[b, i, h, e] = sum[j](p[b, h, i, j] * v[b, j, h, e]) / sum[j](p[b, h, i, j])
    return y"""},
        {"t": (8, 65)}, QKV, biased_attention),
    Layer(
        "causal attention, 8 heads of 64, 128 tokens", "config H = 8, E = 64\ndim B, S <= 512", "", ATTENTION,
        {"`-inf` in the scores, `attend`": """
    s[b, h, i in S, j in S] = if j <= i then sum[e](q[b, i, h, e] * k[b, j, h, e]) / sqrt(E) else -inf
    return attend(s, v)""",
         "`where j <= i` in sums, by hand": """
    s[b, h, i in S, j in S] = sum[e](q[b, i, h, e] * k[b, j, h, e]) / sqrt(E)
    top[b, h, i] = max[j where j <= i](s[b, h, i, j])
    n[b, h, i] = sum[j where j <= i](exp(s[b, h, i, j] - top[b, h, i]))
    y[b, i, h, e] = sum[j where j <= i](exp(s[b, h, i, j] - top[b, h, i]) * v[b, j, h, e]) / n[b, h, i]
    return y"""},
        {}, QKV, causal_attention),
    Layer(
        "causal depthwise convolution, 4 taps, 768 channels, 256 steps", "config C = 768\ndim B, T <= 512", "  param w: real[C, 4]", "(x: real[B, T, C]) -> y: real[B, T, C]",
        {"`x[b, t + u - 3, c | 0]`": "    y[b, t in T, c] = sum[u](x[b, t + u - 3, c | 0] * w[c, u])\n    return y",
         "`where t + u >= 3`": "    y[b, t in T, c] = sum[u where t + u >= 3](x[b, t + u - 3, c] * w[c, u])\n    return y",
         "four terms": """
    y[b, t in T, c] = x[b, t - 3, c | 0] * w[c, 0] + x[b, t - 2, c | 0] * w[c, 1] + x[b, t - 1, c | 0] * w[c, 2] + x[b, t, c] * w[c, 3]
    return y"""},
        {"w": (768, 4)}, {"x": (1, 256, 768)}, causal_convolution),
    Layer(
        "convolution and pixel shuffle, 32 to 4 x 32 channels, 3 x 3, 28 x 28", "config C = 32, O = 32\ndim B <= 4, H <= 64, W <= 64",
        "  param w: real[4 * O, C, 3, 3]", "(x: real[B, C, H, W]) -> y: real[B, O, 2 * H, 2 * W]",
        {"shuffled after, `o * 4 + i % 2 * 2 + j % 2`": """
    z[b, o, i in H, j in W] = sum[c, u, v](x[b, c, i + u - 1, j + v - 1 | 0] * w[o, c, u, v])
    y[b, o in O, i in 2 * H, j in 2 * W] = z[b, o * 4 + i % 2 * 2 + j % 2, i // 2, j // 2]
    return y""",
         "in the sum": """
    y[b, o in O, i in 2 * H, j in 2 * W] = sum[c, u, v](x[b, c, i // 2 + u - 1, j // 2 + v - 1 | 0] * w[o * 4 + i % 2 * 2 + j % 2, c, u, v])
    return y""",
         "an axis each": ("  param w: real[O, 2, 2, C, 3, 3] stored [4 * O, C, 3, 3]", """
    z[b, o, p, q, i in H, j in W] = sum[c, u, v](x[b, c, i + u - 1, j + v - 1 | 0] * w[o, p, q, c, u, v])
    y[b, o, i in 2 * H, j in 2 * W] = z[b, o, i % 2, j % 2, i // 2, j // 2]
    return y""")},
        {"w": (128, 32, 3, 3)}, {"x": (1, 32, 28, 28)}, shuffled),
    Layer(
        "bilinear layer, 64 and 64 to 64, 128 rows", "config D = 64, O = 64\ndim B <= 512", "  param w: real[O, D, D]", "(x: real[B, D], z: real[B, D]) -> y: real[B, O]",
        {"one sum": "    y[b, o] = sum[i, j](x[b, i] * w[o, i, j] * z[b, j])\n    return y",
         "the outer product before": """
    p[b, i, j] = x[b, i] * z[b, j]
    y[b, o] = sum[i, j](p[b, i, j] * w[o, i, j])
    return y""",
         "a sum each": """
    u[b, o, i] = sum[j](w[o, i, j] * z[b, j])
    y[b, o] = sum[i](x[b, i] * u[b, o, i])
    return y"""},
        {"w": (64, 64, 64)}, {"x": (128, 64), "z": (128, 64)}, bilinear),
    Layer(
        "mean of rows of a table, 64 bags of 32, 256 numbers", "config V = 30522, D = 256\ndim B, T <= 512", "  param w: real[V, D]", "(ids: index(V)[B, T]) -> y: real[B, D]",
        {"`mean[t](w[ids[b, t], d])`": "    y[b, d] = mean[t](w[ids[b, t], d])\n    return y",
         "rows before": "    r[b, t, d] = w[ids[b, t], d]\n    y[b, d] = sum[t](r[b, t, d]) / T\n    return y"},
        {"w": (30522, 256)}, {"ids": (30522, (64, 32))}, bag),
    Layer(
        "cross entropy, 64 rows of 30522", "config V = 30522\ndim B <= 512", "", "(x: real[B, V], ids: index(V)[B]) -> y: real[B]",
        {"`log_sum_exp`": """
    let n = log_sum_exp(x)
    y[b] = n[b] - x[b, ids[b]]
    return y""",
         "by hand": """
    top[b] = max[v](x[b, v])
    n[b] = sum[v](exp(x[b, v] - top[b]))
    y[b] = log(n[b]) + top[b] - x[b, ids[b]]
    return y""",
         "`-log(softmax)` of the label": """
    let p = softmax(x)
    y[b] = -log(p[b, ids[b]])
    return y"""},
        {}, {"x": (64, 30522), "ids": (30522, (64,))}, cross_entropy),
    Layer(
        "rotary positions, 8 heads of 64, 512 tokens", "config H = 8, E = 64\ndim B, S <= 512\nlet F = E // 2", "", "(q: real[B, S, H, E]) -> y: real[B, S, H, E]",
        {"`if e < F`": """
    a[s in S, f in F] = s * 10000 ** (-f / F)
    y[b, s, h, e] = q[b, s, h, e] * cos(a[s, e % F]) + (if e < F then -q[b, s, h, e + F | 0] else q[b, s, h, e - F | 0]) * sin(a[s, e % F])
    return y""",
         "tables before": """
    c[s in S, f in F] = cos(s * 10000 ** (-f / F))
    t[s in S, f in F] = sin(s * 10000 ** (-f / F))
    y[b, s, h, e in E] = if e < F then q[b, s, h, e] * c[s, e % F] - q[b, s, h, e + F | 0] * t[s, e % F]
      else q[b, s, h, e] * c[s, e % F] + q[b, s, h, e - F | 0] * t[s, e % F]
    return y"""},
        {}, {"q": (1, 512, 8, 64)}, rotary, 1e-3),
    Layer(
        "moving average of 9 steps, 256 channels, 512 steps", "config C = 256\ndim B, T <= 512", "", "(x: real[B, T, C]) -> y: real[B, T, C]",
        {"`x[b, t + u - 4, c | 0]`": "    y[b, t in T, c] = sum[u in 9](x[b, t + u - 4, c | 0]) / 9\n    return y",
         "`where abs(s - t) <= 4`": "    y[b, t in T, c] = sum[s where s - t <= 4 and t - s <= 4](x[b, s, c]) / 9\n    return y"},
        {}, {"x": (1, 512, 256)}, moving_average),
    Layer(
        "linear layer with GELU, 512 to 2048, 64 rows, its weight stored [in, out]", "config D = 512, O = 2048\ndim B <= 512", "  param w: real[D, O]",
        "(x: real[B, D]) -> y: real[B, O]",
        {"`w[d, o]`": "    y[b, o] = gelu(sum[d](x[b, d] * w[d, o]))\n    return y",
         "turned before": "    t[o, d] = w[d, o]\n    y[b, o] = gelu(sum[d](x[b, d] * t[o, d]))\n    return y",
         "`z[o, b]`, put back": """
    z[o, b] = sum[d](w[d, o] * x[b, d])
    y[b, o] = gelu(z[o, b])
    return y"""},
        {"w": (512, 2048)}, {"x": (64, 512)}, transposed_weight),
    *(
        Layer(
            f"the two best of 8 gated experts, 512 to 1408 and back, {tokens} tokens", "config D = 512, F = 1408, N = 8\ndim S <= 1024",
            "  param gate: real[N, D]\n  param w1: real[N, F, D]\n  param w3: real[N, F, D]\n  param w2: real[N, D, F]",
            "(x: real[S, D]) -> y: real[S, D]",
            {"`w1[best[s, k], f, d]`": BEST + """
    h[s, k, f in F] = silu(sum[d](x[s, d] * w1[best[s, k], f, d])) * sum[d](x[s, d] * w3[best[s, k], f, d])
    y[s, d in D] = sum[k](sum[f](h[s, k, f] * w2[best[s, k], d, f]) * p[s, best[s, k]])
    return y""",
             "`where best[s, k] == n`": BEST + """
    a[s, k in 2, f in F] = sum[n, d where best[s, k] == n](x[s, d] * w1[n, f, d])
    c[s, k in 2, f in F] = sum[n, d where best[s, k] == n](x[s, d] * w3[n, f, d])
    y[s, d in D] = sum[k, n, f where best[s, k] == n](silu(a[s, k, f]) * c[s, k, f] * w2[n, d, f] * p[s, n])
    return y"""},
            {"gate": (8, 512), "w1": (8, 1408, 512), "w3": (8, 1408, 512), "w2": (8, 512, 1408)}, {"x": (tokens, 512)}, experts)
        for tokens in (64, 256)),
]
