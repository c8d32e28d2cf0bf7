#!/usr/bin/env python3
"""Element-wise kernels on the emulated GPU: what a choice reads, and how many launches several results take."""

import subprocess
import sys
import unittest
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
from emulator import HEDDLE, OnEmulatedGpu, counted  # noqa: E402

import heddle  # noqa: E402

MODEL = """config K = 96
dim M
model Elements {
  entry either(p: real[M, K], q: real[M, K], first: i32) -> y: real[M, K] {
    y[m in M, k] = if m < first then p[m, k] else if m < 2 * first then 2 * q[m, k] else 7
    return y
  }
  entry parts(x: real[M, 3, K]) -> a: real[M, K], b: real[M, K], c: real[M, K], d: real[M, K] {
    a[m, k] = x[m, 0, k] * 0.5
    b[m, k] = x[m, 1, k]
    c[m, k] = x[m, 2, k] - x[m, 0, k]
    d[m, k] = a[m, k] + 1
    return a, b, c, d
  }
}
"""


class Elements(OnEmulatedGpu):
    def setUp(self):
        super().setUp()
        (self.folder / "elements.heddle").write_text(MODEL)
        done = subprocess.run([HEDDLE, "compile", self.folder / "elements.heddle", "--target", "cuda:sm_80", "-o", self.folder / "out"],
                              capture_output=True, text=True)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_choice_reads_what_it_chooses(self):
        with heddle.load(self.folder / "out") as model, model.session() as session:
            p, q = self.normal(64, 96), self.normal(64, 96)
            for first in (0, 20, 64):
                self.emulator.heddle_emulator_clear_counters()
                got = session.run({"p": p, "q": q, "first": np.int32(first)}, entry="either")["y"]
                want = np.full_like(p, 7)
                want[first : 2 * first] = 2 * q[first : 2 * first]
                want[:first] = p[:first]
                np.testing.assert_array_equal(got, want)
                self.assertEqual(counted(self.emulator, "load_global").cost, min(2 * first, 64) * 96 * 4 // 32)

    def test_parts_of_one_tensor_are_one_launch(self):
        with heddle.load(self.folder / "out") as model, model.session() as session:
            for rows in (0, 1, 37):
                x = self.normal(rows, 3, 96)
                self.emulator.heddle_emulator_clear_counters()
                got = session.run({"x": x}, entry="parts")
                for name, want in zip("abcd", (x[:, 0] * 0.5, x[:, 1], x[:, 2] - x[:, 0], x[:, 0] * np.float32(0.5) + 1)):
                    np.testing.assert_array_equal(got[name], want, err_msg=f"{name}, {rows} rows")
                self.assertLessEqual(self.emulator.heddle_emulator_launches(b""), 2)  # `d` may read what `a` stores


if __name__ == "__main__":
    unittest.main()
