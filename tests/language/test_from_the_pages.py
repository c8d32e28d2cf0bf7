#!/usr/bin/env python3
"""Models that were written from the pages of docs/ alone, as a user would: a state space model with a scan, a graph network over
a list of edges, an image network whose sizes only the call tells. The compiled library and the evaluator give what the papers'
equations give in NumPy."""

import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "models"))
from heddle_command import HEDDLE, must, save, tensors  # noqa: E402

HERE = Path(__file__).resolve().parent


def silu(x):
    return x / (1 + np.exp(-x))


def rms_norm(x, weight):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * weight


def mamba(w, ids):
    x = w["embedding"][ids]
    for layer in range(2):
        p = {name.split(".", 3)[-1]: value for name, value in w.items() if name.startswith(f"layers.{layer}.mixer.")}
        u, gate = np.split(rms_norm(x, w[f"layers.{layer}.norm.weight"]) @ p["in_proj.weight"].T, 2, -1)
        before = np.pad(u, ((0, 0), (3, 0), (0, 0)))
        u = silu(sum(before[:, k : k + u.shape[1]] * p["conv"][:, k] for k in range(4)) + p["conv_bias"])
        step, b, c = np.split(u @ p["x_proj"].T, [3, 7], -1)
        step = np.log1p(np.exp(step @ p["dt_proj"].T + p["dt_bias"]))
        h, out = np.zeros((len(u), 24, 4)), []
        for t in range(u.shape[1]):
            h = np.exp(-np.exp(p["A_log"]) * step[:, t, :, None]) * h + (step[:, t] * u[:, t])[:, :, None] * b[:, t, None]
            out.append((h * c[:, t, None]).sum(-1) + p["skip"] * u[:, t])
        x = x + (np.stack(out, 1) * silu(gate)) @ p["out_proj"].T
    return rms_norm(x, w["norm_f.weight"]) @ w["embedding"].T


def gat(w, x, start, end):
    for layer in ("one", "two"):
        z = np.einsum("ni,hci->nhc", x, w[f"{layer}.weight"])
        s = (z * w[f"{layer}.src"]).sum(-1)[start] + (z * w[f"{layer}.dst"]).sum(-1)[end]
        s = np.where(s > 0, s, 0.2 * s)
        y = np.zeros_like(z)
        for n in range(len(x)):
            e = np.exp(s[end == n] - s[end == n].max(0))
            y[n] = ((e / e.sum(0))[:, :, None] * z[start[end == n]]).sum(0)
        x = np.maximum(y.reshape(len(x), -1), 0) if layer == "one" else y.reshape(len(x), -1)
    return x @ w["out"].T


def conv(x, weight):
    wide = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    return sum(np.einsum("oi,biyx->boyx", weight[:, :, i, j], wide[:, :, i : i + x.shape[2], j : j + x.shape[3]])
               for i in range(3) for j in range(3))  # fmt: skip


def unet(w, x):
    def two(name, x):
        return np.maximum(conv(np.maximum(conv(x, w[f"{name}.c1.weight"]), 0), w[f"{name}.c2.weight"]), 0)

    def pool(x):
        return x.reshape(*x.shape[:2], x.shape[2] // 2, 2, x.shape[3] // 2, 2).max((3, 5))

    def up(name, x):
        y = np.einsum("baij,aopq->boipjq", x, w[f"{name}.weight"])
        return y.reshape(*y.shape[:2], 2 * x.shape[2], 2 * x.shape[3]) + w[f"{name}.bias"][:, None, None]

    a = two("down1", x)
    b = two("down2", pool(a))
    d = two("dec2", np.concatenate([b, up("up2", two("mid", pool(b)))], 1))
    e = two("dec1", np.concatenate([a, up("up1", d)], 1))
    return np.einsum("oc,bcij->boij", w["out.weight"], e) + w["out.bias"][:, None, None]


class Models(unittest.TestCase):
    def check(self, name, calls, reference):
        source = np.random.default_rng(7)
        tree = subprocess.run([HEDDLE, "show", HERE / f"{name}.heddle", "--stage", "tree"], capture_output=True, text=True, check=True).stdout
        weights = {path: (source.standard_normal([int(n) for n in shape.split(", ")]) * 0.3).astype(np.float32)
                   for path, shape in re.findall(r'^weight .* as "([^"]*)" stored \[([\d, ]*)\]', tree, re.M)}  # fmt: skip
        for mode in ([], ["--reference"]):
            with tempfile.TemporaryDirectory() as folder:
                save(Path(folder) / "w.safetensors", weights)
                for i, inputs in enumerate(calls):
                    save(Path(folder) / f"{i}.in.safetensors", inputs)
                words = [word for i in range(len(calls)) for word in
                         ("--in", Path(folder) / f"{i}.in.safetensors", "--out", Path(folder) / f"{i}.out.safetensors")]  # fmt: skip
                must("run", HERE / f"{name}.heddle", "--weights", Path(folder) / "w.safetensors", *mode, *words)
                for i, inputs in enumerate(calls):
                    (got,) = tensors(Path(folder) / f"{i}.out.safetensors").values()
                    want = reference({path: value.astype(np.float64) for path, value in weights.items()}, *inputs.values())
                    self.assertEqual(got.shape, want.shape)
                    self.assertLess(abs(got - want).max() / abs(want).max(), 2e-5, f"{name}, call {i} {mode}")

    def test_a_state_space_model(self):
        self.check("mamba", [{"ids": np.arange(b * t, dtype=np.int32).reshape(b, t) * 7 % 50} for b, t in ((2, 9), (1, 1), (3, 2))], mamba)

    def test_a_graph_network(self):
        source = np.random.default_rng(3)
        calls = []
        for nodes, edges in ((7, 30), (1, 1), (20, 25)):
            ends = np.concatenate([np.arange(nodes), source.integers(0, nodes, edges - nodes)]).astype(np.int32)  # each has one
            calls.append({"x": source.standard_normal((nodes, 10)).astype(np.float32),
                          "from": source.integers(0, nodes, len(ends)).astype(np.int32), "to": ends})  # fmt: skip
        self.check("gat", calls, gat)

    def test_an_image_network(self):
        source = np.random.default_rng(5)
        self.check("unet", [{"x": source.standard_normal((b, 3, y, x)).astype(np.float32)} for b, y, x in ((1, 16, 12), (2, 4, 4))], unet)


if __name__ == "__main__":
    unittest.main()
