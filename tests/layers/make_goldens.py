#!/usr/bin/env python3
"""Makes the golden files of examples/layers with PyTorch: for each layer its weights (random, under the names that its
model file asks for), an input and what PyTorch's own operations make of it. Written again only when a layer changes;
the tests need NumPy alone.

    python make_goldens.py          needs torch and safetensors"""

from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

HERE = Path(__file__).resolve().parent / "goldens"
torch.manual_seed(7)


def weight(*shape):
    return torch.randn(*shape) / shape[-1] ** 0.5


def heads(x, w, count):
    b, s, _ = x.shape
    return (x @ w.T).view(b, s, count, -1).transpose(1, 2)


def attention(q, k, v, bias, out):
    a = torch.softmax(q @ k.transpose(2, 3) / q.shape[-1] ** 0.5 + bias, dim=-1) @ v
    return a.transpose(1, 2).flatten(2) @ out.T


def causal(s):
    return torch.full((s, s), float("-inf")).triu(1)


def gated_mlp(x):
    w = {"gate_proj.weight": weight(40, 24), "up_proj.weight": weight(40, 24), "down_proj.weight": weight(24, 40)}
    y = (F.silu(x @ w["gate_proj.weight"].T) * (x @ w["up_proj.weight"].T)) @ w["down_proj.weight"].T
    return w, {"x": x}, {"y": y}


def rms_norm(x):
    w = {"weight": torch.randn(24)}
    return w, {"x": x}, {"y": torch.nn.functional.rms_norm(x, (24,), w["weight"], 1e-6)}


def alibi(x):
    w = {"qkv.weight": weight(96, 32), "out.weight": weight(32, 32)}
    q, k, v = (heads(x, part, 4) for part in w["qkv.weight"].chunk(3))
    s = x.shape[1]
    slopes = torch.tensor([2.0 ** (-8 * (h + 1) / 4) for h in range(4)])
    distance = torch.arange(s)[None, :] - torch.arange(s)[:, None]
    return w, {"x": x}, {"y": attention(q, k, v, slopes[:, None, None] * distance + causal(s), w["out.weight"])}


def rotary(x):
    w = {"qkv.weight": weight(96, 32), "out.weight": weight(32, 32)}
    q, k, v = (heads(x, part, 4) for part in w["qkv.weight"].chunk(3))
    s = x.shape[1]
    frequency = 1 / 10000 ** (torch.arange(0, 8, 2, dtype=torch.float64) / 8)
    angle = torch.outer(torch.arange(s, dtype=torch.float64), frequency).repeat(1, 2)
    cos, sin = angle.cos().float(), angle.sin().float()
    turn = lambda t: t * cos + torch.cat((-t[..., 4:], t[..., :4]), dim=-1) * sin
    return w, {"x": x}, {"y": attention(turn(q), turn(k), v, causal(s), w["out.weight"])}


def grouped_query(x):
    w = {"q_proj.weight": weight(48, 48), "k_proj.weight": weight(16, 48), "v_proj.weight": weight(16, 48), "o_proj.weight": weight(48, 48)}
    q, k, v = heads(x, w["q_proj.weight"], 6), heads(x, w["k_proj.weight"], 2), heads(x, w["v_proj.weight"], 2)
    mask = torch.ones(x.shape[:2], dtype=torch.int32)
    mask[0, 5:] = 0
    bias = torch.zeros(mask.shape).masked_fill(mask == 0, float("-inf"))[:, None, None, :]
    y = attention(q, k.repeat_interleave(3, dim=1), v.repeat_interleave(3, dim=1), bias, w["o_proj.weight"])
    return w, {"x": x, "mask": mask}, {"y": y}


def depthwise_separable(x):
    w = {"depthwise.weight": weight(6, 1, 3, 3), "pointwise.weight": weight(10, 6, 1, 1), "pointwise.bias": torch.randn(10)}
    d = F.relu(F.conv2d(x, w["depthwise.weight"], stride=2, padding=1, groups=6))
    return w, {"x": x}, {"y": F.conv2d(d, w["pointwise.weight"], w["pointwise.bias"])}


def top1_experts(x):
    w = {"router.weight": weight(4, 24), "experts.up": weight(4, 40, 24), "experts.down": weight(4, 24, 40)}
    p = torch.softmax(x @ w["router.weight"].T, dim=-1)
    best = p.argmax(dim=-1)
    y = torch.empty_like(x)
    for n in range(4):
        sent = best == n
        y[sent] = F.relu(x[sent] @ w["experts.up"][n].T) @ w["experts.down"][n].T * p[sent][:, n : n + 1]
    return w, {"x": x}, {"y": y, "chosen": best.to(torch.int32)}


def linear_recurrence(x):
    w = {"forget.weight": weight(24, 24), "forget.bias": torch.randn(24), "write.weight": weight(24, 24), "write.bias": torch.randn(24)}
    a = torch.sigmoid(F.linear(x, w["forget.weight"], w["forget.bias"]))
    u = torch.tanh(F.linear(x, w["write.weight"], w["write.bias"]))
    start = torch.randn(x.shape[0], 24)
    h, y = start, []
    for t in range(x.shape[1]):
        h = a[:, t] * h + (1 - a[:, t]) * u[:, t]
        y.append(h)
    return w, {"x": x, "start": start}, {"y": torch.stack(y, dim=1), "last": h}


def top2_experts(x):
    w = {"gate.weight": weight(6, 24), "experts.w1": weight(6, 40, 24), "experts.w3": weight(6, 40, 24), "experts.w2": weight(6, 24, 40)}
    p, best = torch.softmax(x @ w["gate.weight"].T, dim=-1).topk(2, dim=-1)
    p = p / p.sum(dim=-1, keepdim=True)
    y = torch.zeros_like(x)
    for n in range(6):
        b, s, k = torch.where(best == n)
        h = F.silu(x[b, s] @ w["experts.w1"][n].T) * (x[b, s] @ w["experts.w3"][n].T)
        y.index_put_((b, s), h @ w["experts.w2"][n].T * p[b, s, k, None], accumulate=True)
    return w, {"x": x}, {"y": y}


SHAPES = {gated_mlp: (2, 7, 24), rms_norm: (2, 7, 24), alibi: (2, 9, 32), rotary: (2, 9, 32), grouped_query: (2, 9, 48),
          depthwise_separable: (2, 6, 11, 8), top1_experts: (2, 9, 24), linear_recurrence: (2, 9, 24),
          top2_experts: (2, 9, 24)}

if __name__ == "__main__":
    HERE.mkdir(exist_ok=True)
    with torch.no_grad():
        for layer, shape in SHAPES.items():
            for kind, tensors in zip(("weights", "in", "out"), layer(torch.randn(*shape))):
                save_file({name: t.contiguous() for name, t in tensors.items()}, HERE / f"{layer.__name__}.{kind}.safetensors")
