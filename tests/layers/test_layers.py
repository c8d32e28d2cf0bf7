#!/usr/bin/env python3
"""Layers that the compiler has never heard of, each written on less than a page (examples/layers): compiled and
evaluated, they give what PyTorch gives. make_goldens.py made the numbers."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

import numpy as np
from safetensors import numpy as safetensors

ROOT = Path(__file__).resolve().parents[2]
HEDDLE = os.environ.get("HEDDLE", str(ROOT / "build" / "bin" / "heddle"))
GOLDENS = Path(__file__).resolve().parent / "goldens"
LAYERS = sorted((ROOT / "examples" / "layers").glob("*.heddle"))


class Layers(unittest.TestCase):
    def results(self, layer, *words):
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "out.safetensors"
            done = subprocess.run([HEDDLE, "run", layer, "--weights", GOLDENS / f"{layer.stem}.weights.safetensors", "--in",
                                   GOLDENS / f"{layer.stem}.in.safetensors", "--out", out, *words], capture_output=True, text=True, timeout=300)
            self.assertEqual((done.returncode, done.stderr), (0, ""), layer.stem)
            return safetensors.load_file(out)

    def compare(self, layer, got):
        wanted = safetensors.load_file(GOLDENS / f"{layer.stem}.out.safetensors")
        self.assertEqual(sorted(got), sorted(wanted))
        for name, reference in wanted.items():
            self.assertEqual((got[name].dtype, got[name].shape), (reference.dtype, reference.shape), name)
            worst = np.abs(got[name].astype(np.float64) - reference).max() / np.abs(reference).max()
            self.assertLessEqual(worst, 1e-5, f"{layer.stem}: {name}")

    def test_all_nine_are_there_and_short(self):
        self.assertEqual(len(LAYERS), 9)
        for layer in LAYERS:
            self.assertLess(layer.read_text().count("\n"), 40, layer.name)

    def test_evaluated_they_agree_with_pytorch(self):
        for layer in LAYERS:
            with self.subTest(layer.stem):
                self.compare(layer, self.results(layer, "--reference"))

    def test_compiled_they_agree_with_pytorch(self):
        for layer in LAYERS:
            with self.subTest(layer.stem):
                self.compare(layer, self.results(layer))


if __name__ == "__main__":
    unittest.main()
