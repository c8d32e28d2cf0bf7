#!/usr/bin/env python3
"""Sums that a warp shares, on the emulated GPU: norms, softmaxes, other reducers and products of a row or two, at sizes
around that of a warp against NumPy, and what the device counts."""

import subprocess
import sys
import unittest
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
from emulator import HEDDLE, OnEmulatedGpu, counted  # noqa: E402

import heddle  # noqa: E402

MODEL = """config K = 50
dim M
model Rows {
  param weight: real[20, K]
  entry norm(x: real[M, K]) -> y: real[M, K] {
    y[m, k] = (x[m, k] - mean[i](x[m, i])) / sqrt(mean[i]((x[m, i] - mean[j](x[m, j])) * (x[m, i] - mean[j](x[m, j]))) + 1e-5)
    return y
  }
  entry others(x: real[M, K], n: i32[M, K]) -> s: real[M, K], least: real[M], counts: i32[M], most: i32[M], best: i32[M] {
    s = softmax(x)
    least[m] = min[k](x[m, k])
    counts[m] = sum[k](n[m, k])
    most[m] = max[k](n[m, k])
    best[m] = argmax[k](x[m, k])
    return s, least, counts, most, best
  }
  entry embedded(ids: index(20)[M]) -> y: real[M, K] {
    x[m, k] = weight[ids[m], k] + 0.5 * weight[m % 20, k]
    c[m, k] = x[m, k] - mean[i](x[m, i])
    y[m, k] = c[m, k] / sqrt(mean[i](c[m, i] * c[m, i]) + 1e-5)
    return y
  }
  entry product(x: real[M, K]) -> y: real[M, 20] {
    y[m, n] = tanh(sum[k](x[m, k] * weight[n, k]))
    return y
  }
}
"""


class Reductions(OnEmulatedGpu):
    def compiled(self, terms, rows=4):
        scratch = self.folder
        (scratch / "rows.heddle").write_text(MODEL)
        self.weight = self.draw.normal(size=(20, terms)).astype(np.float32)
        np.savez(scratch / "w.npz", weight=self.weight)
        done = subprocess.run([HEDDLE, "compile", scratch / "rows.heddle", "--weights", scratch / "w.npz", "--target", "cuda:sm_80",
                               "--set", f"K={terms}", "--dim", f"M={rows}", "-o", scratch / str(terms)], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.manifest = (scratch / str(terms) / "rows.json").read_text()
        return heddle.load(scratch / str(terms))

    def test_rows_around_the_size_of_a_warp(self):
        for terms in (31, 64, 100):
            with self.compiled(terms) as model, model.session() as session:
                for rows in (0, 1, 7):
                    x = self.draw.normal(size=(rows, terms)).astype(np.float32)
                    n = self.draw.integers(-9, 9, size=(rows, terms)).astype(np.int32)
                    wide = x.astype(np.float64)
                    got = session.run({"x": x}, entry="norm")["y"]
                    want = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
                    np.testing.assert_allclose(got, want, atol=1e-5)
                    got = session.run({"x": x, "n": n}, entry="others")
                    weights = np.exp(wide)
                    np.testing.assert_allclose(got["s"], weights / weights.sum(1, keepdims=True), atol=1e-6)
                    for name, want in (("least", x.min(1)), ("counts", n.sum(1)), ("most", n.max(1)), ("best", x.argmax(1))):
                        np.testing.assert_array_equal(got[name], want, err_msg=f"{name}, {rows} rows of {terms}")
                    got = session.run({"x": x}, entry="product")["y"]
                    np.testing.assert_allclose(got, np.tanh(wide @ self.weight.T), atol=1e-5)

    def test_rows_of_norms_and_softmaxes_go_through_memory_once(self):
        for terms, expected in ((768, 4), (768, 100000), (5000, 4)):
            with self.compiled(terms, expected) as model, model.session() as session:
                self.assertIn("whole_rows", self.manifest)
                x = self.draw.normal(size=(20, terms)).astype(np.float32)
                self.emulator.heddle_emulator_clear_counters()
                got = session.run({"x": x}, entry="norm")["y"]
                wide = x.astype(np.float64)
                want = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
                np.testing.assert_allclose(got, want, atol=1e-5)
                self.assertEqual(self.emulator.heddle_emulator_launches(b""), 1)
                self.assert_costs(load_global=1.01, store_global=1.01)
                if terms == 768:
                    self.assertLessEqual(counted(self.emulator, "load_global").cost, 1.1 * 20 * terms * 4 // 32)

    def test_a_lookup_and_its_norm_are_one_launch(self):
        for terms, expected in ((31, 4), (768, 1), (768, 100000), (5000, 4)):
            with self.compiled(terms, expected) as model, model.session() as session:
                for rows in (0, 1, 37):
                    ids = self.draw.integers(0, 20, size=rows).astype(np.int32)
                    self.emulator.heddle_emulator_clear_counters()
                    got = session.run({"ids": ids}, entry="embedded")["y"]
                    wide = self.weight[ids] + 0.5 * self.weight.astype(np.float64)[np.arange(rows) % 20]
                    want = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
                    np.testing.assert_allclose(got, want, atol=1e-5, err_msg=f"{rows} rows of {terms}")
                    self.assertEqual(self.emulator.heddle_emulator_launches(b""), rows > 0)
                    if rows and terms == 768:  # both rows that are added up are read once, and the number of one
                        self.assert_costs(load_global=1.01, store_global=1.01)
                        self.assertLessEqual(counted(self.emulator, "load_global").cost, 1.2 * 2 * rows * terms * 4 // 32)

    def test_a_product_of_one_row_reads_its_weights_once(self):
        with self.compiled(1024) as model, model.session() as session:
            self.assertIn('"few_rows"', self.manifest)
            self.emulator.heddle_emulator_clear_counters()
            session.run({"x": self.draw.normal(size=(1, 1024)).astype(np.float32)}, entry="product")
            loads = counted(self.emulator, "load_global")
            self.assertLessEqual(loads.cost, 1.01 * loads.ideal)
            # A row of 128 sectors for each column, its weights, and the row of x again, which comes from caches.
            self.assertLessEqual(loads.cost, 1.05 * 2 * 20 * 1024 * 4 // 32)


if __name__ == "__main__":
    unittest.main()
