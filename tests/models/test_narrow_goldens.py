#!/usr/bin/env python3
"""Models whose weights are stored as bfloat16, compiled with `--set real=bf16` and `real=f16`, against PyTorch's float32 on
the same weights. (That the default, f32, agrees with it to 2e-4 is among test_goldens.py's.)

bfloat16 keeps 8 bits: two layers of rounded activations are some 1 to 3 % off at their worst element, in transformers'
bfloat16 as here. So the measure is transformers itself: the mean distance from float32 must not exceed what transformers
has in bfloat16, nor the largest one exceed 1.5 times its (a single element is a matter of luck). f16 has three bits more."""

import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
from heddle_command import GOLDENS, must  # noqa: E402
from narrow_tensors import load  # noqa: E402


def distances(got, want):
    """Mean and largest distance, as shares of the largest value."""
    off = np.abs(got.astype(np.float64) - want) / np.abs(want).max()
    return off.mean(), off.max()


class Bfloat16(unittest.TestCase):
    def check(self, name):
        with tempfile.TemporaryDirectory() as scratch:
            for real, share in (("bf16", 1.0), ("f16", 0.25)):
                library, result = Path(scratch) / real, Path(scratch) / "result.safetensors"
                must("compile", GOLDENS / name, "--set", f"real={real}", "-o", library)
                mean, transformers_mean, most, transformers_most = 0.0, 0.0, 0.0, 0.0
                for given in sorted((GOLDENS / name).glob("*.in.safetensors")):
                    must("run", library, *self.entry, "--in", given, "--out", result)
                    got, exact, theirs = load(result), *(
                        load(given.with_name(given.name.replace(".in.", f".{kind}."))) for kind in ("out", "bf16"))
                    self.assertEqual(sorted(got), sorted(exact))
                    for key, (dtype, values) in got.items():
                        self.assertEqual(dtype, real.upper())
                        ours, others = distances(values, exact[key][1]), distances(theirs[key][1], exact[key][1])
                        mean, most = mean + ours[0], max(most, ours[1])
                        transformers_mean, transformers_most = transformers_mean + others[0], max(transformers_most, others[1])
                print(f"{name} {real}: mean {mean:.2e} ({transformers_mean:.2e}), largest {most:.2e} ({transformers_most:.2e})")
                self.assertLessEqual(mean, share * transformers_mean, f"{name} {real}")
                self.assertLessEqual(most, 1.5 * share * transformers_most, f"{name} {real}")

    def test_bert(self):
        self.entry = []
        self.check("bert_bfloat16")

    def test_gpt2(self):
        self.entry = ["--entry", "forward"]
        self.check("gpt2_bfloat16")


if __name__ == "__main__":
    unittest.main()
