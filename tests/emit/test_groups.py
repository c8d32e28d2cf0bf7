#!/usr/bin/env python3
"""Products whose weight is chosen by data agree with the evaluator however the numbers are spread, give the same bits for any
number of threads, and each way to write them has its rows sorted."""

import subprocess
import unittest

import numpy as np
from program import Program, real
from heddle_command import HEDDLE, must, tensors

PARAMS = """
  param w1: real[N, F, D]
  param w3: real[N, F, D]
  param w2: real[N, D, F]
"""
MIXTURE = """
config D = 20, F = 28, N = 5
dim B, S
model Mixture {%s
  entry run(x: real[B, S, D], best: index(N)[B, S, 2], p: real[B, S, 2]) -> y: real[B, S, D] {
%s
    return y
  }
}
"""
BY_READ = """
    h[b, s, k, f] = silu(sum[d](x[b, s, d] * w1[best[b, s, k], f, d])) * sum[d](x[b, s, d] * w3[best[b, s, k], f, d])
    y[b, s, d] = sum[k](sum[f](h[b, s, k, f] * w2[best[b, s, k], d, f]) * p[b, s, k])
"""
BY_CONDITION = """
    a[b, s, k in 2, f in F] = sum[n, d where best[b, s, k] == n](x[b, s, d] * w1[n, f, d])
    c[b, s, k in 2, f in F] = sum[n, d where n == best[b, s, k]](x[b, s, d] * w3[n, f, d])
    h[b, s, k, f] = silu(a[b, s, k, f]) * c[b, s, k, f]
    y[b, s, d] = sum[k, n, f where best[b, s, k] == n](h[b, s, k, f] * p[b, s, k] * w2[n, d, f])
"""
BY_CHOICE = """
    a[b, s, k in 2, f in F] = sum[n in N, d](if best[b, s, k] == n then x[b, s, d] * w1[n, f, d] else 0)
    c[b, s, k in 2, f in F] = sum[n in N, d](if n == best[b, s, k] then x[b, s, d] * w3[n, f, d] else 0)
    h[b, s, k, f] = silu(a[b, s, k, f]) * c[b, s, k, f]
    y[b, s, d in D] = sum[k, f](h[b, s, k, f] * p[b, s, k] * w2[best[b, s, k], d, f])
"""

OTHERS = """
dim B, T
model Others {
  param v: real[7, 3, 24, 16]
  param u: real[16, 4, 16]
  param bias: real[4, 16]
  entry heads(x: real[T, 3, 16], e: index(7)[T]) -> y: real[T, 3, 24] {
    y[t, h, f] = relu(sum[d](v[e[t], h, f, d] * x[t, h, d])) + 1
    return y
  }
  entry turned(x: real[T, 16], e: index(4)[T]) -> y: real[16, T] {
    y[f, t] = sum[d](u[f, e[t], d] * x[t, d]) + bias[e[t], f]
    return y
  }
  entry switch(x: real[B, T, 16]) -> y: real[B, T, 16] {
    z[b, t, n] = sum[d](x[b, t, d] * bias[n, d])
    let p = softmax(z)
    e[b, t] = argmax[n](p[b, t, n])
    a[b, t, f] = gelu(sum[d](x[b, t, d] * u[f, e[b, t], d]) + bias[e[b, t], f])
    y[b, t, f] = x[b, t, f] + p[b, t, e[b, t]] * sum[d](a[b, t, d] * u[f, e[b, t], d])
    return y
  }
  entry computed(x: real[T, 16], e: index(7)[T]) -> y: real[T, 16], z: real[T, 16] {
    y[t, f in 16] = sum[d](x[t, d] * u[f, e[t] // 2, d])
    z[t, f in 16] = sum[d](y[t, d] * u[f, e[t] // 2, d]) + y[t, f]
    return y, z
  }
  entry time(x: real[B, T, 16], e: index(4)[B, T]) -> h: real[B, 16], g: real[B, T, 16] {
    g[b, t, f in 16] = sum[d](x[b, t, d] * u[f, e[b, t], d])
    h[b in B, d in 16] = 0
    for t in T with h { h[b, f] = tanh(g[b, t, f] + sum[d](h[b, d] * u[f, e[b, t], d])) }
    return h, g
  }
}
"""


def weights():
    return {"w1": real(5, 28, 20, seed=1) / 5, "w3": real(5, 28, 20, seed=2) / 5, "w2": real(5, 20, 28, seed=3) / 5}


class Groups(Program):
    def groups(self):
        shown = subprocess.run([HEDDLE, "show", self.model, "--stage", "schedule"], capture_output=True, text=True)
        return shown.stdout.count("= heddle.group ")

    def call(self, best):
        best = np.asarray(best, np.int32)
        return ("run", {"x": real(*best.shape[:2], 20), "best": best, "p": real(*best.shape, seed=4)})

    def test_rows_may_be_spread_over_the_numbers_in_any_way(self):
        self.compile(MIXTURE % (PARAMS, BY_READ), weights())
        draw = np.random.default_rng(7)
        spreads = [np.full((2, 9, 2), 3), np.zeros((1, 1, 2)), np.full((1, 1, 2), 4), np.zeros((1, 64, 2))]
        spreads += [draw.integers(0, 5, (b, s, 2)) for b, s in [(1, 1), (1, 2), (3, 5), (2, 29), (1, 100)]]
        spreads += [draw.choice([1, 4], (2, 31, 2)), np.sort(draw.integers(0, 5, (1, 40, 2)), 1)]
        spreads += [np.zeros((0, 3, 2)), np.zeros((2, 0, 2))]
        for threads in ("1", "2"):
            self.check([self.call(best) for best in spreads], "--threads", threads)

    def test_each_way_to_write_them_is_sorted_once(self):
        for text, groups in ((BY_READ, 1), (BY_CONDITION, 1), (BY_CHOICE, 1)):
            with self.subTest(text):
                self.compile(MIXTURE % (PARAMS, text), weights())
                self.assertEqual(self.groups(), groups)
                self.check([self.call(np.random.default_rng(n).integers(0, 5, (2, n, 2))) for n in (1, 6, 23)])

    def test_other_places_of_the_number_and_of_the_rows(self):
        self.compile(OTHERS, {"v": real(7, 3, 24, 16) / 4, "u": real(16, 4, 16) / 4, "bias": real(4, 16)})
        self.assertEqual(self.groups(), 6)
        draw = np.random.default_rng(3)
        for size in (1, 5, 26):
            e = draw.integers(0, 7, size, np.int32)
            x = real(size, 3, 16)
            self.check([("heads", {"x": x, "e": e}), ("turned", {"x": x[:, 0], "e": e % 4}),
                        ("switch", {"x": real(2, size, 16)}), ("computed", {"x": x[:, 1], "e": e}),
                        ("time", {"x": real(2, size, 16), "e": draw.integers(0, 4, (2, size), np.int32)})] * 2)

    def test_narrow_numbers_are_sorted_as_well(self):
        for options in (["--precision", "bf16"], ["--precision", "int8"], ["--set", "real=bf16"]):
            with self.subTest(options):
                self.compile(MIXTURE % (PARAMS, BY_READ), weights())
                self.library = self.folder / "narrow"
                must("compile", self.model, *self.options, *options, "--io", "f32", "-o", self.library)
                entry, inputs = self.call(np.random.default_rng(1).integers(0, 5, (2, 19, 2)))
                must("run", self.library, *self.arguments([(entry, inputs)], "out"))
                must("run", self.model, *self.options, "--reference", *self.arguments([(entry, inputs)], "want"))
                got, want = (tensors(self.folder / f"0.{side}.safetensors")["y"] for side in ("out", "want"))
                self.assertLess(np.abs(got - want).max() / np.abs(want).max(), 0.03)

    def test_the_bits_do_not_depend_on_the_threads(self):
        self.compile(MIXTURE % (PARAMS, BY_READ), weights())
        call = self.call(np.random.default_rng(2).integers(0, 5, (3, 67, 2)))
        results = []
        for threads in ("1", "2", "5"):
            must("run", self.library, *self.arguments([call], "out"), "--threads", threads)
            results.append(tensors(self.folder / "0.out.safetensors")["y"].tobytes())
        self.assertEqual(len(set(results)), 1)

    def test_what_has_too_many_numbers_is_right_unsorted(self):
        self.compile("""
            dim T
            model Many {
              param w: real[300, 9, 12]
              entry run(x: real[T, 12], e: index(300)[T]) -> y: real[T, 9] {
                y[t, f] = sum[d](x[t, d] * w[e[t], f, d])
                return y
              }
            }""", {"w": real(300, 9, 12)})
        self.assertEqual(self.groups(), 0)
        self.check([("run", {"x": real(5, 12), "e": np.array([299, 0, 3, 299, 7], np.int32)})])


if __name__ == "__main__":
    unittest.main()
