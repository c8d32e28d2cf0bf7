#!/usr/bin/env python3
"""Products on the emulated GPU: sizes at and around the edges of tiles against NumPy, and what the device counts of a
product that fills its tiles."""

import ctypes
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
HEDDLE = os.environ.get("HEDDLE", str(ROOT / "build" / "bin" / "heddle"))
DRIVER = os.environ.setdefault("HEDDLE_CUDA_DRIVER", str(Path(HEDDLE).parents[1] / "emulated-gpu" / "libcuda.so.1"))
sys.path.insert(0, str(ROOT / "python"))
import heddle  # noqa: E402


class Counter(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("warps", "lanes", "requests", "cost", "ideal")]


def counted(emulator, what):
    counter = Counter()
    assert emulator.heddle_emulator_get_counter(b"", what.encode(), ctypes.byref(counter)), what
    return counter


class Products(unittest.TestCase):
    def compiled(self, name, *settings, expected=None):
        """The model, its weights drawn, for sm_80, and for so many rows where that is given."""
        folder = Path(self.scratch.name) / name
        sizes = {"N": 70, "K": 50, **dict(settings)}
        draw = np.random.default_rng(11)
        self.weight = draw.normal(size=(sizes["N"], sizes["K"])).astype(np.float32)
        self.bias = draw.normal(size=sizes["N"]).astype(np.float32)
        np.savez(Path(self.scratch.name) / "w.npz", weight=self.weight, bias=self.bias)
        words = [HEDDLE, "compile", ROOT / "tests" / "cuda" / "products.heddle", "--weights", Path(self.scratch.name) / "w.npz",
                 "--target", "cuda:sm_80", "-o", folder]
        for key, value in settings:
            words += ["--set", f"{key}={value}"]
        if expected:
            words += ["--dim", f"M={expected}", "--dim", "B=1", "--dim", "L=50"]
        done = subprocess.run(words, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return heddle.load(folder)

    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.emulator = ctypes.CDLL(DRIVER)
        self.emulator.heddle_emulator_get_counter.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p]
        self.draw = np.random.default_rng(3)

    def normal(self, *shape):
        return self.draw.normal(size=shape).astype(np.float32)

    def test_sizes_around_the_edges_of_tiles(self):
        self.emulator.heddle_emulator_clear_counters()
        with self.compiled("edges") as model, model.session() as session:
            for rows in (0, 1, 65, 1024, 1025):
                x, rest = self.normal(rows, 50), self.normal(rows, 70)
                got = session.run({"x": x, "rest": rest}, entry="layer")["y"]
                want = np.tanh(x.astype(np.float64) @ self.weight.T + self.bias) + rest
                np.testing.assert_allclose(got, want, atol=2e-5, err_msg=f"{rows} rows")
            self.assertGreater(counted(self.emulator, "load_shared").requests, 0, "no size took tiles")
            for batches, rows, terms in ((1, 1, 1), (3, 705, 17), (2, 704, 48), (0, 5, 5), (2, 7, 0)):
                a, b = self.normal(batches, rows, terms), self.normal(batches, terms, 70)
                got = session.run({"a": a, "b": b}, entry="batches")
                want = a.astype(np.float64) @ b
                np.testing.assert_allclose(got["y"], want, atol=2e-5, err_msg=f"{batches} {rows} {terms}")
                np.testing.assert_array_equal(got["twice"], 2 * got["y"])

    def test_results_that_no_kernel_computes_are_written_all_the_same(self):
        (Path(self.scratch.name) / "copies.heddle").write_text("""dim N <= 9
model Copies {
  entry nothing(x: real[N], z: real[N]) -> y: real[1] {
    y[i in 1] = sum[p in N where p % 1 == 1](x[p] * z[p])
    return y
  }
  entry same(x: real[N]) -> a: real[N], b: real[N], c: real[N] {
    b[n] = x[n] + 1
    c[n in N] = 3
    return x, b, c
  }
}
""")
        folder = Path(self.scratch.name) / "copies"
        subprocess.run([HEDDLE, "compile", Path(self.scratch.name) / "copies.heddle", "--target", "cuda:sm_80", "-o", folder],
                       check=True, capture_output=True)
        with heddle.load(folder) as model, model.session() as session:
            for n in (5, 0, 9):
                x = self.normal(n)
                got = session.run({"x": x}, entry="same", out={name: np.full(n, 7, np.float32) for name in "abc"})
                for name, want in (("a", x), ("b", x + 1), ("c", np.full(n, 3))):
                    np.testing.assert_array_equal(got[name], want, err_msg=name)
                got = session.run({"x": x, "z": x}, entry="nothing", out={"y": np.full(1, 7, np.float32)})
                np.testing.assert_array_equal(got["y"], [0])

    def test_tiles_of_each_size(self):
        """What is chosen for one size computes every size, in the same bits: sums are in the order of the terms."""
        rows = {}
        x, rest = self.normal(200, 50), self.normal(200, 70)
        for expected, tile in ((1000, 2), (20000, 4), (100000, 8)):
            with self.compiled(f"tiles{tile}", expected=expected) as model, model.session() as session:
                self.assertIn(f'"per_thread": {tile}', (Path(self.scratch.name) / f"tiles{tile}" / "products.json").read_text())
                rows[tile] = session.run({"x": x, "rest": rest}, entry="layer")["y"]
        want = np.tanh(x.astype(np.float64) @ self.weight.T + self.bias) + rest
        np.testing.assert_allclose(rows[2], want, atol=2e-5)
        np.testing.assert_array_equal(rows[2], rows[4])
        np.testing.assert_array_equal(rows[2], rows[8])

    def test_a_product_that_fills_its_tiles_wastes_no_memory_access(self):
        with self.compiled("full", ("N", 128), ("K", 128)) as model, model.session() as session:
            x, rest = self.normal(1024, 128), self.normal(1024, 128)
            self.emulator.heddle_emulator_clear_counters()
            session.run({"x": x, "rest": rest}, entry="layer")
            for what, most in (("load_global", 1.25), ("load_shared", 1.1), ("store_shared", 1.1), ("store_global", 1.25)):
                counter = counted(self.emulator, what)
                self.assertGreater(counter.requests, 0, what)
                self.assertLessEqual(counter.cost, most * counter.ideal, what)


if __name__ == "__main__":
    unittest.main()
