#!/usr/bin/env python3
"""Convolutions on the emulated GPU: pictures of several sizes against NumPy, in tiles of each side, and what the device
counts of one that fills its tiles."""

import subprocess
import sys
import unittest
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
from emulator import HEDDLE, ROOT, OnEmulatedGpu, counted, rounded  # noqa: E402

import heddle  # noqa: E402


def windows(x, height, width, stride):
    """Of [B, Y, X, C], padded so that a window of odd size stands on each place: [B, I, J, C, height, width]."""
    x = np.pad(x, ((0, 0), (height // 2, height // 2), (width // 2, width // 2), (0, 0)))
    return np.lib.stride_tricks.sliding_window_view(x, (height, width), axis=(1, 2))[:, ::stride, ::stride]


class Convolutions(OnEmulatedGpu):
    def compiled(self, *settings, dims=(), options=()):
        folder = self.folder / "-".join(("model", *settings, *dims, *options))
        sizes = {"C": 8, "O": 24, "STRIDE": 2} | {key: int(value) for key, value in (word.split("=") for word in settings)}
        c, o = sizes["C"], sizes["O"]
        shapes = {"weight": (o, c, 3, 3), "stem": (o, 3, 5, 5), "patch": (o, 3, 4, 4), "grouped": (o, c // 2, 3), "bias": (o,)}
        draw = np.random.default_rng(5)
        self.weights = {name: draw.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
        np.savez(self.folder / "w.npz", **self.weights)
        words = [word for setting in settings for word in ("--set", setting)] + [word for dim in dims for word in ("--dim", dim)]
        done = subprocess.run([HEDDLE, "compile", ROOT / "tests" / "cuda" / "convolutions.heddle", "--weights",
                               self.folder / "w.npz", "--target", "cuda:sm_80", "-o", folder, *words, *options],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.manifest = (folder / "convolutions.json").read_text()
        return heddle.load(folder)

    def layer(self, x, stride, narrow=lambda a: a):
        weight = narrow(self.weights["weight"]).astype(np.float64)
        y = np.einsum("bijcuv,ocuv->bijo", windows(narrow(x), 3, 3, stride), weight)
        return np.maximum(y + self.weights["bias"], 0)

    def test_pictures_of_several_sizes(self):
        with self.compiled(dims=("B=64", "Y=64", "X=64")) as model, model.session() as session:
            self.assertEqual(self.manifest.count('"staged_tiles"'), 4, self.manifest)
            for b, y, x in ((1, 1, 1), (2, 5, 7), (1, 17, 30), (3, 9, 4), (0, 3, 3)):
                picture = self.normal(b, y, x, 8)
                got = session.run({"x": picture}, entry="layer")["y"]
                np.testing.assert_allclose(got, self.layer(picture, 2), atol=5e-5, err_msg=f"{b} {y} {x}")
                planes = self.normal(b, 3, y, x)
                got = session.run({"x": planes}, entry="planes")["y"]
                want = np.einsum("bijcuv,ocuv->bijo", windows(planes.transpose(0, 2, 3, 1), 5, 5, 1),
                                 self.weights["stem"].astype(np.float64))
                np.testing.assert_allclose(got, want, atol=5e-5, err_msg=f"{b} {y} {x}")
            for b in (0, 1, 5):
                planes = self.normal(b, 3, 16, 16)
                got = session.run({"x": planes}, entry="patches")["y"]
                cut = planes.reshape(b, 3, 4, 4, 4, 4)
                want = np.einsum("bciujv,ocuv->bijo", cut, self.weights["patch"].astype(np.float64)).reshape(b, 16, 24)
                np.testing.assert_allclose(got, want + self.weights["bias"], atol=5e-5)
                line = self.normal(b, 11, 8)
                got = session.run({"x": line}, entry="groups")["y"]
                near = np.lib.stride_tricks.sliding_window_view(np.pad(line, ((0, 0), (1, 1), (0, 0))), 3, axis=1)
                halves = [np.einsum("bicu,ocu->bio", near[:, :, 4 * g:4 * g + 4], self.weights["grouped"][12 * g:12 * g + 12])
                          for g in (0, 1)]
                np.testing.assert_allclose(got, np.concatenate(halves, 2), atol=5e-5)

    def test_tiles_of_each_side_give_the_same_bits(self):
        picture, results = self.normal(2, 12, 13, 8), []
        for tile, dims in ((2, ("B=1", "Y=32", "X=32")), (4, ("B=8", "Y=64", "X=64")), (8, ("B=64", "Y=128", "X=128"))):
            with self.compiled("O=128", dims=dims) as model, model.session() as session:
                self.assertIn(f'"per_thread": {tile}', self.manifest)
                results.append(session.run({"x": picture}, entry="layer")["y"])
        np.testing.assert_allclose(results[0], self.layer(picture, 2), atol=5e-5)
        np.testing.assert_array_equal(results[0], results[1])
        np.testing.assert_array_equal(results[0], results[2])

    def test_groups_that_end_in_the_next_place_of_a_window(self):
        """Of 6 or 10 channels no whole number of groups: one begins in the padding and ends in the picture, or so."""
        for channels in (6, 10):
            for options, variant, narrow in ((), "staged_tiles", lambda a: a), (("--precision", "bf16"), "tensor_tiles", rounded):
                with self.compiled(f"C={channels}", dims=("B=64", "Y=64", "X=64"), options=options) as model:
                    self.assertIn(f'"{variant}"', self.manifest)
                    with model.session() as session:
                        for b, y, x in ((1, 1, 1), (2, 5, 7), (1, 17, 30)):
                            picture = self.normal(b, y, x, channels)
                            got = session.run({"x": picture}, entry="layer")["y"]
                            np.testing.assert_allclose(got, self.layer(picture, 2, narrow), atol=1e-4, err_msg=f"{channels} {variant} {b} {y} {x}")

    def test_a_convolution_that_fills_its_tiles_wastes_no_memory_access(self):
        with self.compiled("C=32", "O=64", "STRIDE=1", dims=("B=8", "Y=16", "X=16")) as model, model.session() as session:
            picture = self.normal(2, 16, 16, 32)
            self.emulator.heddle_emulator_clear_counters()
            got = session.run({"x": picture}, entry="layer")["y"]
            np.testing.assert_allclose(got, self.layer(picture, 1), atol=1e-4)
            self.assertEqual(self.emulator.heddle_emulator_launches(b""), 1)
            self.assert_costs(async_copy=1.25, async_store=1.1, load_shared=1.1, store_global=1.25)

    def test_convolutions_of_bf16_run_on_tensor_cores(self):
        options = ("--precision", "bf16")
        with self.compiled("C=32", "O=64", "STRIDE=1", dims=("B=8", "Y=16", "X=16"), options=options) as model:
            with model.session() as session:
                picture = self.normal(2, 16, 16, 32)
                self.emulator.heddle_emulator_clear_counters()
                got = session.run({"x": picture}, entry="layer")["y"]
                np.testing.assert_allclose(got, self.layer(picture, 1, rounded), atol=1e-4)
                self.assert_costs(async_copy=1.25, async_store=1.1, load_shared=1.1, store_global=1.25)
                # 512 places, 64 channels, 288 terms.
                self.assertEqual(counted(self.emulator, "matrix").warps, 512 // 16 * 64 // 8 * 288 // 16)


if __name__ == "__main__":
    unittest.main()
