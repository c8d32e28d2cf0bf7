#!/usr/bin/env python3
"""Attention on the emulated GPU: scores of several kinds at sizes around the edges of blocks against NumPy, and what the
device counts where blocks are full."""

import json
import subprocess
import sys
import unittest
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
from emulator import HEDDLE, ROOT, OnEmulatedGpu, counted, rounded  # noqa: E402

import heddle  # noqa: E402


def attended(scores, values, heavy=1.0):
    """The weighted values: scores are [B, H, T, S], values [B, S, H, E]."""
    top = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    weights = np.exp(scores - np.where(np.isinf(top), 0, top)) * heavy
    total = weights.sum(axis=-1, keepdims=True)
    return np.einsum("bhij,bjhe->bihe", weights / np.where(total == 0, 1, total), values)


class Attention(OnEmulatedGpu):
    def compiled(self, *settings, heads=3, dims=(), options=()):
        """The model for sm_80, and for sizes where these are given."""
        settings = (*settings, f"H={heads}")
        folder = self.folder / "-".join(("model", *settings, *dims, *options))
        words = [word for setting in settings for word in ("--set", setting)] + [word for dim in dims for word in ("--dim", dim)]
        self.near = np.random.default_rng(7).normal(size=(heads, 17)).astype(np.float32)
        np.savez(self.folder / "w.npz", near=self.near)
        done = subprocess.run([HEDDLE, "compile", ROOT / "tests" / "cuda" / "attention.heddle", "--weights",
                               self.folder / "w.npz", "--target", "cuda:sm_80", "-o", folder, *words, *options],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.manifest = (folder / "attention.json").read_text()
        return heddle.load(folder)

    def scores(self, q, k):
        return np.einsum("bihe,bjhe->bhij", q.astype(np.float64), k) / np.sqrt(q.shape[-1])

    def check_masked(self, session, b, t, p, h=3, e=20):
        q, k, v = self.normal(b, t, h, e), self.normal(b, p, h, e), self.normal(b, p, h, e)
        mask = (self.draw.uniform(size=(b, p)) < 0.7).astype(np.int32)
        mask[: b // 2] = 0  # texts of which nothing is admitted give zeros
        got = session.run({"q": q, "k": k, "v": v, "mask": mask}, entry="masked")["y"]
        want = attended(np.where(mask[:, None, None, :] != 0, self.scores(q, k), -np.inf), v)
        np.testing.assert_allclose(got, want, atol=2e-5, err_msg=f"{b} {t} {p}")

    def test_scores_of_several_kinds(self):
        with self.compiled() as model, model.session() as session:
            self.assertIn("staged_keys", self.manifest)
            self.check_scores_of_several_kinds(session)

    def test_blocks_that_share_the_keys_of_few_rows(self):
        """Some of them have no keys, or none that is needed."""
        with self.compiled(dims=("B=1", "T=1", "P=2000")) as model, model.session() as session:
            self.assertRegex(self.manifest, r'"splits": (4|16)\b')
            self.check_scores_of_several_kinds(session)
            self.check_masked(session, 1, 2, 1100)
            stored = []
            for rows in (1, 8):  # what blocks have of a row is stored of the rows that there are
                self.emulator.heddle_emulator_clear_counters()
                self.check_masked(session, 1, rows, 1100)
                self.assertEqual(self.emulator.heddle_emulator_launches(b""), 2)
                self.assert_costs(store_global=1.25)
                stored.append(counted(self.emulator, "store_global").cost)
            self.assertLessEqual(8 * stored[0], 1.1 * stored[1])

    def check_scores_of_several_kinds(self, session):
        for b, t, p in ((2, 1, 1), (2, 17, 33), (1, 65, 31), (2, 3, 0), (2, 0, 3), (0, 3, 3), (2, 130, 70)):
            self.check_masked(session, b, t, p)
        for t in (1, 31, 100):
            q, k, v = (self.normal(2, t, 3, 20) for _ in range(3))
            i, j = np.arange(t)[:, None], np.arange(t)[None, :]
            got = session.run({"q": q, "k": k, "v": v}, entry="banded")["y"]
            want = attended(np.where((j <= i) & (j > i - 40), self.scores(q, k), -np.inf), v)
            np.testing.assert_allclose(got, want, atol=2e-5, err_msg=f"{t}")
        for t, p in ((1, 0), (1, 40), (33, 7), (20, 64)):
            q, k, v, old, was = (self.normal(2, n, 3, 20) for n in (t, t, t, p, p))
            heavy = self.draw.uniform(0.5, 2, size=(2, p + t)).astype(np.float32)
            got = session.run({"q": q, "k": k, "v": v, "old": old, "was": was, "heavy": heavy}, entry="segments")["y"]
            i, j = p + np.arange(t)[:, None], np.arange(p + t)[None, :]
            scores = np.tanh(self.scores(q, np.concatenate([old, k], 1)) * np.sqrt(20))
            scores = scores + self.near[:, np.clip(i - j, -8, 8) + 8]
            want = attended(np.where(j <= i, scores, -np.inf), np.concatenate([was, v], 1), heavy[:, None, None, :])
            np.testing.assert_allclose(got, want, atol=2e-5, err_msg=f"{t} {p}")

    def check_sliding(self, session, entry, b, t, h, e, left, step, keys):
        q, k, v = (self.normal(b, t, h, e) for _ in range(3))
        mask = self.draw.uniform(size=(b, t)) < 0.8
        given, atol = (q, k, v), 2e-5
        if entry == "sliding_narrow":  # a weight is off by 2⁻⁹ of itself
            q, k, v = map(rounded, (q, k, v))
            given, atol = [(x.view(np.uint32) >> 16).astype(np.uint16) for x in (q, k, v)], 2**-8 * np.abs(v).max()
        self.emulator.heddle_emulator_clear_counters()
        got = session.run(dict(zip("qkv", given), mask=mask), entry=entry)["y"]
        self.assertEqual(counted(self.emulator, "matrix").warps > 0, self.variant_of(entry)[0] == "tensor_keys")
        ahead = np.arange(t)[None, :] - np.arange(t)[:, None] + left
        seen = (ahead >= 0) & (ahead % step == 0) & (ahead < step * keys) & mask[:, None, None, :]
        scores = self.scores(q, k) + self.near[:, np.clip(ahead // step, 0, 16)]
        want = attended(np.where(seen, scores, -np.inf), v)
        np.testing.assert_allclose(got, want, atol=atol, err_msg=f"{entry} {left} {step} {keys} {t}")

    def variant_of(self, entry):
        """That of the kernel of an entry which does the most, and its parameters."""
        manifest = json.loads(self.manifest)
        entry = next(e for e in manifest["entries"] if e["name"] == entry)
        kernel = max(entry["work"], key=lambda work: len(work["operations"]))["kernel"]
        (row,) = next(k for k in manifest["kernels"] if k["name"] == kernel)["schedule"]
        return row["variant"], row["params"]

    def test_keys_that_slide_along_with_the_rows(self):
        """Windows about each row, also with steps, and what is past the ends."""
        for left, step, keys in ((9, 1, 14), (30, 3, 21), (0, 2, 70)):
            settings = (f"LEFT={left}", f"STEP={step}", f"R={keys}", "E=40")
            with self.compiled(*settings, dims=("B=8", "T=512", "P=16")) as model, model.session() as session:
                self.assertEqual(self.variant_of("sliding")[0], "staged_keys")
                self.assertEqual(self.variant_of("sliding_narrow")[0], "tensor_keys")
                for entry in ("sliding", "sliding_narrow"):
                    for t in (1, 20, 100):
                        self.check_sliding(session, entry, 2, t, 3, 40, left, step, keys)

    def test_blocks_that_share_the_keys_of_a_window(self):
        settings = ("LEFT=900", "STEP=1", "R=1000", "E=40")
        with self.compiled(*settings, dims=("B=1", "T=1", "P=16")) as model, model.session() as session:
            for entry in ("sliding", "sliding_narrow"):
                self.assertGreater(self.variant_of(entry)[1]["splits"], 1)
                for t in (1, 20):
                    self.check_sliding(session, entry, 1, t, 3, 40, 900, 1, 1000)

    def test_a_band_costs_its_own_keys(self):
        """Blocks of keys that are in no window of a block's rows are left out: it reads a window and its rows beside, and
        products are of that many keys."""
        window = 129
        settings = ("E=64", "LEFT=64", f"R={window}")
        with self.compiled(*settings, heads=2, dims=("B=8", "T=1024", "P=16")) as model, model.session() as session:
            for entry, copies in (("sliding", "load_global"), ("sliding_narrow", "async_copy")):
                variant, params = self.variant_of(entry)
                rows, block = (params["rows"], 64) if variant == "tensor_keys" else (16 * params["per_thread"], 32)
                for t in (512, 1024):
                    self.check_sliding(session, entry, 1, t, 2, 64, 64, 1, window)
                    self.assert_costs(load_shared=1.1, store_global=1.25, **{copies: 1.25})
                    blocks, keys = t // rows, (window + rows - 1 + block - 1) // block * block
                    line = 64 * (4 if entry == "sliding" else 2) // 32  # sectors of a row or key
                    most = 2 * line * (t + blocks * keys * 2)  # the mask beside
                    self.assertLessEqual(counted(self.emulator, copies).ideal, 1.15 * most, f"{entry} {t}")
                    if variant == "tensor_keys":
                        self.assertLessEqual(counted(self.emulator, "matrix").warps, 2 * 2 * blocks * rows * keys * 64 // (16 * 8 * 16))

    def test_heads_wider_than_a_block(self):
        with self.compiled("E=150", heads=1) as model, model.session() as session:
            self.check_masked(session, 2, 20, 40, h=1, e=150)

    def test_each_number_of_rows_gives_the_same_bits(self):
        q, k, v, mask = self.normal(1, 70, 3, 20), self.normal(1, 90, 3, 20), self.normal(1, 90, 3, 20), np.ones((1, 90), np.int32)
        results = []
        for rows, dims in ((1, ("B=1", "T=16", "P=32")), (2, ("B=4", "T=256", "P=256")), (4, ("B=64", "T=512", "P=512"))):
            with self.compiled(dims=dims) as model, model.session() as session:
                self.assertIn(f'"per_thread": {rows}', self.manifest)
                results.append(session.run({"q": q, "k": k, "v": v, "mask": mask}, entry="masked")["y"])
        np.testing.assert_array_equal(results[0], results[1])
        np.testing.assert_array_equal(results[0], results[2])

    def test_full_blocks_waste_no_memory_access_and_leave_out_what_is_not_needed(self):
        with self.compiled("E=64", heads=2, dims=("B=64", "T=256", "P=256")) as model, model.session() as session:
            q, k, v = (self.normal(1, 256, 2, 64) for _ in range(3))
            self.emulator.heddle_emulator_clear_counters()
            session.run({"q": q, "k": k, "v": v, "mask": np.ones((1, 256), np.int32)}, entry="masked")
            self.assertEqual(self.emulator.heddle_emulator_launches(b""), 1)
            self.assert_costs(load_global=1.25, load_shared=1.1, store_shared=1.1, store_global=1.25)
            # Sectors: queries and results once, keys and values once per block of 64 rows, the mask beside.
            whole = counted(self.emulator, "load_global").cost
            self.assertLessEqual(whole, 1.1 * 2 * 256 * 64 * 4 // 32 * (1 + 2 * 4))
            self.emulator.heddle_emulator_clear_counters()
            session.run({"q": q, "k": k, "v": v}, entry="banded")
            # Of four blocks of rows the first needs two blocks of keys, the others at most four of eight.
            self.assertLessEqual(counted(self.emulator, "load_global").cost, 0.6 * whole)

    def check_made(self, session, b, t, h, e):
        x, mask = self.normal(b, t, h, e), (self.draw.uniform(size=(b, t)) < 0.7).astype(np.int32)
        mask[: b // 2] = 0
        got = session.run({"x": x, "mask": mask}, entry="made")["y"]
        scores = self.scores(rounded(x + 0.5), rounded(0.5 * x))
        want = attended(np.where(mask[:, None, None, :] != 0, scores, -np.inf), rounded(x - 0.25))
        # A weight is off by 2⁻⁹ of itself.
        np.testing.assert_allclose(got, want, atol=2**-8 * max(1, np.abs(x).max(initial=0)), err_msg=f"{b} {t}")

    def test_products_of_bf16_run_on_tensor_cores(self):
        for width in (40, 128):
            with self.compiled(f"E={width}", dims=("B=64", "T=512", "P=16"), options=("--precision", "bf16")) as model:
                with model.session() as session:
                    self.assertIn("tensor_keys", self.manifest)
                    for b, t in ((1, 1), (2, 17), (1, 130), (0, 3), (2, 0)):
                        self.check_made(session, b, t, 3, width)

    def test_full_blocks_of_bf16_waste_no_memory_access(self):
        with self.compiled("E=64", heads=2, dims=("B=64", "T=256", "P=256"), options=("--precision", "bf16")) as model:
            with model.session() as session:
                self.assertIn("tensor_keys", self.manifest)
                self.emulator.heddle_emulator_clear_counters()
                session.run({"x": self.normal(1, 256, 2, 64), "mask": np.ones((1, 256), np.int32)}, entry="made")
                self.assert_costs(async_copy=1.25, async_store=1.1, load_shared=1.1, store_global=1.25)
                # Both products of 256 x 256 scores with 64 features, of two heads.
                self.assertEqual(counted(self.emulator, "matrix").warps, 2 * 2 * 256 * 256 * 64 // (16 * 8 * 16))


if __name__ == "__main__":
    unittest.main()
