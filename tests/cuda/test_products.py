#!/usr/bin/env python3
"""Products on the emulated GPU: sizes at and around the edges of tiles against NumPy, and what the device counts of a
product that fills its tiles."""

import json
import subprocess
import sys
import unittest
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
from emulator import HEDDLE, ROOT, OnEmulatedGpu, counted, rounded, rounded_to_tf32  # noqa: E402

import heddle  # noqa: E402


class Products(OnEmulatedGpu):
    def compiled(self, name, *settings, expected=None, options=()):
        """The model, its weights drawn, for sm_80, and for so many rows where that is given."""
        folder = self.folder / name
        sizes = {"N": 70, "K": 50, **dict(settings)}
        draw = np.random.default_rng(11)
        self.weight = draw.normal(size=(sizes["N"], sizes["K"])).astype(np.float32)
        self.bias = draw.normal(size=sizes["N"]).astype(np.float32)
        np.savez(self.folder / "w.npz", weight=self.weight, bias=self.bias)
        words = [HEDDLE, "compile", ROOT / "tests" / "cuda" / "products.heddle", "--weights", self.folder / "w.npz",
                 "--target", "cuda:sm_80", "-o", folder, *options]
        for key, value in settings:
            words += ["--set", f"{key}={value}"]
        if expected:
            words += ["--dim", f"M={expected}", "--dim", "B=1", "--dim", "L=50"]
        done = subprocess.run(words, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return heddle.load(folder)

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
        (self.folder / "copies.heddle").write_text("""dim N <= 9
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
        folder = self.folder / "copies"
        subprocess.run([HEDDLE, "compile", self.folder / "copies.heddle", "--target", "cuda:sm_80", "-o", folder],
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
        for expected, tile in ((1000, 2), (14000, 4), (100000, 8)):
            with self.compiled(f"tiles{tile}", expected=expected) as model, model.session() as session:
                self.assertIn(f'"per_thread": {tile}', (self.folder / f"tiles{tile}" / "products.json").read_text())
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
            self.assert_costs(async_copy=1.25, async_store=1.1, load_shared=1.1, store_global=1.25)

    def test_columns_that_lie_together_are_read_together(self):
        with self.compiled("columns", ("N", 128), ("K", 128), expected=1024) as model, model.session() as session:
            a, b = self.normal(1, 704, 64), self.normal(1, 64, 128)
            self.emulator.heddle_emulator_clear_counters()
            session.run({"a": a, "b": b}, entry="batches")
            self.assert_costs(async_copy=1.25, load_global=1.25, load_shared=1.1, store_shared=1.1)

    def test_terms_whose_number_the_run_tells_are_copied_in_groups(self):
        """Groups of four where lines begin at multiples of 16 bytes, but for the last ones; else one by one."""
        with self.compiled("ends", expected=1024) as model, model.session() as session:
            for terms, copied in ((64, 64), (52, 52), (50, 48 / 2), (49, 48 / 4), (3, 0)):  # of a line, in the mean
                a, b = self.normal(1, 704, terms), self.normal(1, terms, 70)
                self.emulator.heddle_emulator_clear_counters()
                got = session.run({"a": a, "b": b}, entry="batches")["y"]
                np.testing.assert_allclose(got, a.astype(np.float64) @ b, atol=2e-5, err_msg=f"{terms} terms")
                tiles_across = 3
                self.assertEqual(counted(self.emulator, "async_copy").ideal * 32, 704 * copied * 4 * tiles_across)

    def layers_on_tensor_cores(self, precision, rounded):
        """Compiles for tiles of each side, and compares the layer; gives the sessions."""
        for expected, side in ((1000, 32), (5000, 64), (200000, 128)):
            name = f"{precision}-{side}"
            with self.compiled(name, expected=expected, options=("--precision", precision)) as model, model.session() as session:
                self.assertIn(f'"side": {side}', (self.folder / name / "products.json").read_text())
                for rows in (0, 1, 65, 200):
                    x, rest = self.normal(rows, 50), self.normal(rows, 70)
                    self.emulator.heddle_emulator_clear_counters()
                    got = session.run({"x": x, "rest": rest}, entry="layer")["y"]
                    self.assertEqual(counted(self.emulator, "matrix").warps > 0, rows > 0)
                    want = np.tanh(rounded(x).astype(np.float64) @ rounded(self.weight).T + self.bias) + rest
                    np.testing.assert_allclose(got, want, atol=2e-5, err_msg=f"{rows} rows, tiles of {side}")
                yield session

    def test_products_of_bf16_run_on_tensor_cores(self):
        self.assertEqual(sum(1 for _ in self.layers_on_tensor_cores("bf16", rounded)), 3)

    def test_products_of_tf32_run_on_tensor_cores(self):
        """Of numbers that are stored, read and written as f32."""
        sessions = 0
        for session in self.layers_on_tensor_cores("tf32", rounded_to_tf32):
            sessions += 1
            for terms in (64, 49):  # two matrices of the run's
                a, b = self.normal(1, 70, terms), self.normal(1, terms, 70)
                got = session.run({"a": a, "b": b}, entry="batches")["y"]
                np.testing.assert_allclose(got, rounded_to_tf32(a).astype(np.float64) @ rounded_to_tf32(b), atol=2e-5)
        self.assertEqual(sessions, 3)

    def test_products_of_few_rows(self):
        """Whole columns of terms for each warp, or shared by four; rows and columns that don't fill a block; every size."""
        for expected, sizes, options, dtype in ((1, (1001, 768), (), np.float32), (4, (1001, 768), (), np.float32),
                                                (1, (201, 4096), (), np.float32), (1, (1001, 768), ("--precision", "bf16"), np.float32),
                                                (1, (1001, 768), (), np.float16)):  # fmt: skip
            name = f"few-{expected}-{sizes[1]}-{len(options)}-{dtype.__name__}"
            settings = [("N", sizes[0]), ("K", sizes[1]), *([("real", "f16")] if dtype == np.float16 else [])]
            with self.compiled(name, *settings, expected=expected, options=options) as model, model.session() as session:
                described = json.loads((self.folder / name / "products.json").read_text())
                rows = [row["variant"] for kernel in described["kernels"] for row in kernel["schedule"]]
                self.assertIn("few_rows", rows, name)
                for count in (1, 3, 9, 0):
                    x, rest = self.normal(count, sizes[1]).astype(dtype), self.normal(count, sizes[0]).astype(dtype)
                    got = session.run({"x": x, "rest": rest}, entry="layer")["y"]
                    left, right = (rounded(x), rounded(self.weight)) if options else (x, self.weight.astype(dtype))
                    want = np.tanh(left.astype(np.float64) @ right.astype(np.float64).T + self.bias) + rest
                    limit = 4e-3 if dtype == np.float16 else 2e-4
                    np.testing.assert_allclose(got, want, atol=limit, err_msg=f"{name}, {count} rows")

    def test_a_product_of_one_row_reads_weights_once(self):
        with self.compiled("once", ("N", 256), ("K", 768), expected=1) as model, model.session() as session:
            x, rest = self.normal(1, 768), self.normal(1, 256)
            self.emulator.heddle_emulator_clear_counters()
            session.run({"x": x, "rest": rest}, entry="layer")
            self.assert_costs(load_global=1.01, store_global=1.01)
            read, columns_of_warp = counted(self.emulator, "load_global").cost * 32, 4
            self.assertLess(read, 1.01 * 4 * 768 * (256 + 256 / columns_of_warp) + 4096)

    def test_a_part_that_is_kept_in_f32_is_not_rounded(self):
        options = ("--precision", "tf32", "--keep", "layer=f32")
        with self.compiled("kept", expected=5000, options=options) as model, model.session() as session:
            x, rest = self.normal(65, 50), self.normal(65, 70)
            self.emulator.heddle_emulator_clear_counters()
            got = session.run({"x": x, "rest": rest}, entry="layer")["y"]
            self.assertEqual(counted(self.emulator, "matrix").warps, 0)
            np.testing.assert_allclose(got, np.tanh(x.astype(np.float64) @ self.weight.T + self.bias) + rest, atol=2e-5)

    def test_products_of_f16_run_on_tensor_cores(self):
        """Where a model's numbers are f16: sums are f32."""
        with self.compiled("f16", ("real", "f16"), expected=5000) as model, model.session() as session:
            x, rest = self.normal(65, 50).astype(np.float16), self.normal(65, 70).astype(np.float16)
            self.emulator.heddle_emulator_clear_counters()
            got = session.run({"x": x, "rest": rest}, entry="layer")["y"]
            self.assertGreater(counted(self.emulator, "matrix").warps, 0)
            want = np.tanh(x.astype(np.float64) @ self.weight.astype(np.float16).astype(np.float64).T + self.bias) + rest
            np.testing.assert_allclose(got, want, atol=4e-3)

    def test_products_of_int8_run_on_tensor_cores(self):
        """Numbers are off by half a step of 127 to the largest in their row or column, sums by the root of their terms."""
        for expected in (5000, 1):
            with self.compiled(f"int8-{expected}", ("N", 1001), ("K", 768), expected=expected, options=("--precision", "int8")) as model:
                with model.session() as session:
                    for rows in (1, 65, 0):
                        x, rest = self.normal(rows, 768), self.normal(rows, 1001)
                        self.emulator.heddle_emulator_clear_counters()
                        got = session.run({"x": 0.02 * x, "rest": rest}, entry="layer")["y"]
                        self.assertEqual(counted(self.emulator, "matrix").warps > 0, rows > 0 and expected > 1)
                        want = np.tanh(0.02 * x.astype(np.float64) @ self.weight.T + self.bias) + rest
                        np.testing.assert_allclose(got, want, atol=0.03, err_msg=f"{rows} rows")

    def test_a_product_of_int8_that_fills_its_tiles_wastes_no_memory_access(self):
        with self.compiled("full-int8", ("N", 128), ("K", 128), expected=200000, options=("--precision", "int8")) as model:
            with model.session() as session:
                x, rest = self.normal(1024, 128), self.normal(1024, 128)
                self.emulator.heddle_emulator_clear_counters()
                session.run({"x": x, "rest": rest}, entry="layer")
                self.assert_costs(async_copy=1.25, async_store=1.1, store_global=1.25)
                self.assertEqual(counted(self.emulator, "matrix").warps, 1024 // 16 * 128 // 8 * 128 // 32)

    def test_a_product_of_tf32_that_fills_its_tiles_wastes_no_memory_access(self):
        with self.compiled("full-tf32", ("N", 128), ("K", 128), expected=200000, options=("--precision", "tf32")) as model:
            with model.session() as session:
                x, rest = self.normal(1024, 128), self.normal(1024, 128)
                self.emulator.heddle_emulator_clear_counters()
                session.run({"x": x, "rest": rest}, entry="layer")
                self.assert_costs(async_copy=1.25, async_store=1.1, load_shared=1.1, store_global=1.25)
                self.assertEqual(counted(self.emulator, "matrix").warps, 1024 // 16 * 128 // 8 * 128 // 8)

    def test_a_product_of_bf16_that_fills_its_tiles_wastes_no_memory_access(self):
        with self.compiled("full-bf16", ("N", 128), ("K", 128), expected=200000, options=("--precision", "bf16")) as model:
            with model.session() as session:
                x, rest = self.normal(1024, 128), self.normal(1024, 128)
                self.emulator.heddle_emulator_clear_counters()
                session.run({"x": x, "rest": rest}, entry="layer")
                self.assert_costs(async_copy=1.25, async_store=1.1, load_shared=1.1, store_global=1.25)
                self.assertEqual(counted(self.emulator, "matrix").warps, 1024 // 16 * 128 // 8 * 128 // 16)


if __name__ == "__main__":
    unittest.main()
