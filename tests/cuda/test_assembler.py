#!/usr/bin/env python3
"""NVIDIA's assembler, where there is one, takes the kernels of whole models at their true sizes, on each architecture that
can run them, and spills no register."""

import os
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from scratch import Scratch  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
HEDDLE = os.environ.get("HEDDLE", str(ROOT / "build" / "bin" / "heddle"))
NAMED = os.environ.get("HEDDLE_PTXAS", "none")  # `none` keeps the command from asking it, not this test
PTXAS = shutil.which("ptxas") if NAMED == "none" else NAMED
TARGETS = ("sm_80", "sm_90")
PRECISIONS = ("f32", "tf32", "bf16", "int8")
BERT = ("models/bert/bert.heddle", "--set", "num_hidden_layers=1", "--dim", "B=8", "--dim", "S=128")
VIT = ("models/vit/vit.heddle", "--set", "num_hidden_layers=1", "--dim", "B=8")
GPT2 = ("models/decoder_lm/decoder_lm.heddle", "--set", "n_layer=1", "--dim", "B=1", "--dim", "T=1", "--dim", "P=950")
STEP = ("tests/cuda/attention.heddle", "--set", "E=64", "--dim", "B=1", "--dim", "T=1", "--dim", "P=2000")
PRODUCTS = {"f32": "staged_tiles", "tf32": "tensor_tiles", "bf16": "tensor_tiles", "int8": "tensor_tiles"}
ATTENTION = {"f32": "staged_keys", "tf32": "staged_keys", "bf16": "tensor_keys", "int8": "tensor_keys"}


def later(target):
    """The architectures that the tool has and that take the target's code."""
    help_ = subprocess.run([PTXAS, "--help"], capture_output=True, text=True).stdout
    numbers = {int(number) for number in re.findall(r"'sm_(\d+)'", help_)}
    return [f"sm_{number}" for number in sorted(numbers) if number > int(target[3:])]


@unittest.skipUnless(PTXAS, "there is no ptxas")
class Assembler(Scratch):
    def shown(self, model, target, precision, stage):
        name, *words = model
        done = subprocess.run([HEDDLE, "show", ROOT / name, *words, "--target", f"cuda:{target}",
                               "--precision", precision, "--stage", stage], capture_output=True, text=True,
                              env={**os.environ, "HEDDLE_PTXAS": "none"})  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def assemble(self, ptx, architecture, what):
        path = self.folder / "kernels.ptx"
        path.write_text(ptx)
        done = subprocess.run([PTXAS, "-v", f"-arch={architecture}", "-o", self.folder / "kernels.cubin", path],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, f"{what} on {architecture}\n{done.stderr}")
        spilled = re.findall(r"(\d+) bytes spill stores, (\d+) bytes spill loads", done.stderr)
        self.assertEqual(len(spilled), len(re.findall(r"^\.visible \.entry", ptx, re.M)))
        self.assertGreater(len(spilled), 5)
        self.assertEqual(set(spilled), {("0", "0")}, f"{what} on {architecture}\n{done.stderr}")

    def assert_variants(self, model, target, precision, *variants):
        """They are among the launches, and so in the text that is assembled."""
        launches = self.shown(model, target, precision, "launches")
        for variant in variants:
            self.assertRegex(launches, variant, f"{model[0]} {precision}")

    def test_encoders(self):
        for target in TARGETS:
            for precision in PRECISIONS:
                for model in (BERT, VIT):
                    self.assemble(self.shown(model, target, precision, "ptx"), target, f"{model[0]} {precision}")

    def test_blocks_that_share_keys(self):
        for target in TARGETS:
            for precision in ("f32", "bf16"):
                self.assemble(self.shown(STEP, target, precision, "ptx"), target, f"shared keys, {precision}")

    def test_a_decoder_on_every_later_architecture(self):
        for target in TARGETS:
            architectures = later(target)
            self.assertGreater(len(architectures), 0)
            for precision in PRECISIONS:
                ptx = self.shown(GPT2, target, precision, "ptx")
                for architecture in (target, *architectures):
                    self.assemble(ptx, architecture, f"{precision} for {target}")

    def test_these_are_the_fast_kernels(self):
        for precision in PRECISIONS:
            self.assert_variants(BERT, "sm_80", precision, PRODUCTS[precision], ATTENTION[precision])
            self.assert_variants(GPT2, "sm_80", precision, "few_rows", "_keys")
        with_sizes = subprocess.run([HEDDLE, "show", ROOT / STEP[0], *STEP[1:], "--target", "cuda:sm_80", "--why"],
                                    capture_output=True, text=True)
        self.assertRegex(with_sizes.stdout, r"\* .*staged_keys per_thread=1 splits=(4|16)\n", with_sizes.stderr)


if __name__ == "__main__":
    unittest.main()
