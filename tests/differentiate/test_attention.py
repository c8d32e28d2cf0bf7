#!/usr/bin/env python3
"""A step through attention: scores are computed again by tiles, never all at once. What is in memory is linear in the
length of a text, gradients are those of the evaluator, and the same bits for any number of threads."""

import re
import subprocess
import sys
import unittest
from pathlib import Path

import numpy as np
from safetensors import numpy as safetensors

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "models"), str(ROOT / "python")]
import heddle  # noqa: E402
from heddle_command import HEDDLE, must  # noqa: E402
from scratch import Scratch  # noqa: E402

MODEL = """config D = 32, H = 2, E = 16
dim B, S
model M {
  param qkv: real[3, H, E, D]
  param slope: real[H]
  sub out = FromHeads(H, E, D)
  entry run(x: real[B, S, D], c: real[B, S, D], mask: i32[B, S], key: i32[2])
      -> loss: real, dx: real[B, S, D], dqkv: real[3, H, E, D] {
    t[b, i, g, h, e] = sum[d](x[b, i, d] * qkv[g, h, e, d])
    s[b, h in H, i in S, j in S] = SCORE
    v[b, i, h, e] = t[b, i, 2, h, e]
    ATTEND
    loss = sum[b, i, o](y[b, i, o] * c[b, i, o])
    return loss, grad(loss, x), grad(loss, qkv)
  }
}
"""
CROSS = """config H = 2, E = 16
dim B, S, T
model M {
  entry run(q: real[B, T, H, E], k: real[B, S, H, E], v: real[B, S, H, E], u: real[B, S, H, E], c: real[B, T, H, E])
      -> dk: real[B, S, H, E] {
    s[b, h, i, j] = sum[e](q[b, i, h, e] * k[b, j, h, e])
    let p = softmax(s)
    y[b, i, h, e] = sum[j](p[b, h, i, j] * v[b, j, h, e])
    z[b, i, h, e] = sum[j](p[b, h, i, j] * u[b, j, h, e])
    loss = sum[b, i, h, e](y[b, i, h, e] * c[b, i, h, e] * z[b, i, h, e])
    return grad(loss, k)
  }
}
"""
PRODUCT = "sum[e](t[b, i, 0, h, e] * t[b, j, 1, h, e]) / sqrt(E)"
SCORES = {
    "masked": f"if mask[b, j] != 0 then {PRODUCT} else -inf",
    "causal": f"if j <= i and mask[b, j] != 0 then {PRODUCT} else -inf",
    "distant": f"{PRODUCT} - slope[h] * abs(i - j)",
}
ATTEND = "let y = out(attend(s, v))"
ATTEND_DROPPED = "let y = out(attend_with_dropout(s, v, key, RATE))"
DROPPED = """let p = dropout(softmax(s), key, 0.2)
    a[b, t, h, e] = sum[k](p[b, h, t, k] * v[b, k, h, e])
    let y = out(a)"""


class AttentionsStep(Scratch):
    def written(self, score, attend=ATTEND):
        model = self.folder / "m.heddle"
        model.write_text(MODEL.replace("SCORE", score).replace("ATTEND", attend))
        return model

    def compiled(self, score, attend=ATTEND):
        model = self.written(score, attend)
        random = np.random.default_rng(3)
        weights = {"qkv": random.normal(size=(3, 2, 16, 32)) * 0.3, "slope": np.array([0.05, 0.2]),
                   "out.weight": random.normal(size=(32, 32)) * 0.2, "out.bias": np.zeros(32)}
        safetensors.save_file({k: v.astype(np.float32) for k, v in weights.items()}, self.folder / "w.safetensors")
        must("compile", model, "--weights", self.folder / "w.safetensors", "-o", self.folder / "out")
        return model, heddle.load(self.folder / "out")

    def inputs(self, b, s):
        random = np.random.default_rng(s)
        x, c = random.normal(size=(2, b, s, 32)).astype(np.float32)
        mask = (random.random((b, s)) < 0.8).astype(np.int32)
        mask[:, 0] = 1
        return {"x": x, "c": c, "mask": mask, "key": np.int32([5, 7])}

    def check(self, score, attend=ATTEND, sizes=((2, 1), (1, 17), (2, 70))):
        model, library = self.compiled(score, attend)
        for b, s in sizes:
            given = self.inputs(b, s)
            safetensors.save_file(given, self.folder / "in.safetensors")
            must("run", model, "--weights", self.folder / "w.safetensors", "--reference", "--in",
                 self.folder / "in.safetensors", "--out", self.folder / "want.safetensors")
            got, again = (library.session(threads=n).run(given) for n in (1, 2))
            for name, want in safetensors.load_file(self.folder / "want.safetensors").items():
                np.testing.assert_array_equal(got[name], again[name])
                off = np.abs(got[name] - want).max() / np.abs(want).max()  # the loss nearly cancels
                self.assertLess(off, 1e-4 if name == "loss" else 2e-5, f"{name} of {b} texts of {s}")

    def test_masked(self):
        self.check(SCORES["masked"])

    def test_causal(self):
        self.check(SCORES["causal"])

    def test_less_the_further_away(self):
        self.check(SCORES["distant"])

    def test_dropped_weights(self):
        self.check(SCORES["masked"], DROPPED)
        self.assertLess(heddle.load(self.folder / "out").memory_needed(B=1, S=4096), 4096 * 32 * 4 * 40)

    def shown(self, stage):
        """What `show` prints of each way to attend with each score."""
        for attend in (ATTEND, DROPPED, ATTEND_DROPPED.replace("RATE", "0.0"), ATTEND_DROPPED.replace("RATE", "0.2")):
            for score in SCORES.values():
                command = [HEDDLE, "show", self.written(score, attend), "--stage", stage]
                done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
                yield f"{attend} of {score}", done.stdout

    def test_weights_times_their_gradients_are_summed_over_features(self):
        for what, tree in self.shown("tree"):
            sums = re.findall(r"softmax\.total\.grad\S*\[.*= sum\[\w+ in (\w+)\]", tree)
            self.assertEqual(sums, ["16"], what)

    def test_scores_are_computed_by_four_kernels(self):
        for what, graph in self.shown("schedule"):
            kernels = re.findall(r"func.func private @\w+\(.*\) -> \((.*)\) attributes .*\"attention\"", graph)
            results = sorted(len(re.findall("tensor<", each)) for each in kernels)
            # Values; gradients of queries; statistics of rows; gradients of keys and of values.
            self.assertEqual(results, [1, 1, 2, 2], what)

    def test_of_no_queries(self):
        """The last of no queries is the one before the first, where there may be no memory."""
        model = self.folder / "m.heddle"
        model.write_text(CROSS)
        given = {name: np.ones((1, size, 2, 16), np.float32) for name, size in zip("qckvu", (0, 0, 3, 3, 3))}
        safetensors.save_file(given, self.folder / "in.safetensors")
        must("run", model, "--in", self.folder / "in.safetensors", "--out", self.folder / "got.safetensors")
        np.testing.assert_array_equal(safetensors.load_file(self.folder / "got.safetensors")["dk"], 0)

    def test_memory_is_linear_in_the_length_of_a_text(self):
        _, library = self.compiled(SCORES["causal"])
        needed = [library.memory_needed(B=1, S=s) for s in (1024, 2048, 4096)]
        self.assertLess(needed[2], 4096 * 32 * 4 * 40)  # 40 values of x's size; a head's scores are 128
        self.assertLess(needed[2] - needed[1], 2.1 * (needed[1] - needed[0]))


if __name__ == "__main__":
    unittest.main()
