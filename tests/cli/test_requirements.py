#!/usr/bin/env python3
"""What a requirement guards is not computed before it, however the compiler orders kernels: each program, compiled and
by the reference interpreter, with inputs that it takes and with inputs that it must refuse."""

import unittest

import numpy as np

from test_cli import Scratch

FAR = np.array(-1_000_000_000, np.int32)  # a read there ends the process


def real(*shape):
    return np.ones(shape, np.float32)


class Requirements(Scratch):
    def runs(self, inputs):
        self.save("i.safetensors", inputs)
        out = []
        for words in (["run", "deep.heddle"], ["run", "deep.heddle", "--reference"]):
            status, _, error = self.heddle(*words, "--in", "i.safetensors", "--out", "o.safetensors")
            out.append(self.load("o.safetensors") if status == 0 else error.splitlines()[-1])
        return out

    def check(self, text, good, bad, message):
        (self.folder / "deep.heddle").write_text(text)
        compiled, reference = self.runs(good)
        self.assertIsInstance(reference, dict, reference)
        self.assertIsInstance(compiled, dict, compiled)
        for name in reference:
            np.testing.assert_allclose(compiled[name], reference[name], rtol=1e-6)
        for inputs in bad:
            compiled, reference = self.runs(inputs)
            self.assertEqual(compiled, reference)
            self.assertIn(message, compiled)

    def test_a_kernel_behind_a_requirement_that_takes_a_kernel(self):
        self.check("dim N, S\nmodel A { entry run(x: real[N], a: real[S], k: i32) -> y: real[S] {\n"
                   "  require any[s](a[s] > 0) and 0 <= k and k < N\n  y[s] = a[s] * x[k]\n  return y } }\n",
                   {"x": real(5), "a": real(3), "k": np.array(4, np.int32)},
                   [{"x": real(5), "a": real(3), "k": FAR}, {"x": real(5), "a": -real(3), "k": np.array(0, np.int32)}],
                   "does not hold")  # fmt: skip

    def test_plain_indices_behind_one(self):
        self.check("dim S\nmodel A { entry run(w: real[4], a: i32[2], e: real[S]) -> y: real[S] {\n"
                   "  let c = max[i](a[i])\n  require S <= c\n  require c <= 4\n  y[s in S] = sin(w[s]) + e[s]\n  return y } }\n",
                   {"w": real(4), "a": np.array([1, 3], np.int32), "e": real(3)},
                   [{"w": real(4), "a": np.array([1, 3], np.int32), "e": real(100)}], "`S <= c` does not hold")  # fmt: skip

    def test_numbers_and_cheap_requirements_behind_one(self):
        self.check("dim N, S\nmodel A { entry run(n: i32[N], a: i32[S], k: i32) -> y: i32 {\n"
                   "  let c = max[s](a[s])\n  require 0 <= k and k < c and c <= N\n  require n[k] == 3\n  return n[k] + c } }\n",
                   {"n": np.full(5, 3, np.int32), "a": np.full(3, 5, np.int32), "k": np.array(4, np.int32)},
                   [{"n": np.full(5, 3, np.int32), "a": np.full(3, 5, np.int32), "k": FAR}], "`0 <= k and k < c and c <= N` does not hold")  # fmt: skip

    def test_what_stands_in_a_loop_behind_one(self):
        text = ("dim N <= 64, M <= 8, T <= 8\n"
                "model A { entry run(x: real[N, 4], w: real[M, 4], k: i32, v: real[T]) -> y: real[M] {\n  h[i in M] = 0.0\n"
                "  for t in T with h {\n    require 0 <= k and k + t < N\n    q[i in M] = sum[j in 4](x[k + t, j] * w[i, j])\n"
                "    p[i in M] = sum[j in 4](x[k, j] * w[i, j])\n    h[i in M] = h[i] * v[t] + q[i] * p[i] }\n  return h } }\n")  # fmt: skip
        common = {"x": real(5, 4), "w": real(3, 4)}
        self.check(text, {**common, "k": np.array(1, np.int32), "v": real(2)}, [{**common, "k": FAR, "v": real(2)}], "does not hold")
        self.check(text, {**common, "k": FAR, "v": real(0)}, [], "")  # no iteration, so nothing is required

    def test_a_default_index_that_a_call_has_no_place_for(self):
        text = "dim N <= 64\nmodel A { entry run(x: real[N], id: index(N) = 50) -> y: real { return x[id] } }\n"
        self.check(text, {"x": real(51)}, [{"x": real(4)}],
                   "input 'id': is not given, and stands for 50 in each place, but must be in 0 .. 3 where N = 4")  # fmt: skip


if __name__ == "__main__":
    unittest.main()
