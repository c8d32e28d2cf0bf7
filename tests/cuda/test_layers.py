#!/usr/bin/env python3
"""How many launches a layer of BERT-base takes, and that it computes what the CPU's library does."""

import subprocess
import sys
import unittest
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
from emulator import HEDDLE, ROOT, OnEmulatedGpu  # noqa: E402

import heddle  # noqa: E402

HIDDEN, INNER = 768, 3072


class Bert(OnEmulatedGpu):
    """Of the base model's width, with few words and one layer or two."""

    SETTINGS = ("--set", "vocab_size=50", "--set", "max_position_embeddings=512")
    SIZES = ("--dim", "B=8", "--dim", "S=128")

    def setUp(self):
        super().setUp()
        draw = np.random.default_rng(9)
        weights = {}

        def linear(name, rows, columns):
            weights[f"{name}.weight"] = draw.normal(scale=0.04, size=(rows, columns)).astype(np.float32)
            weights[f"{name}.bias"] = draw.normal(scale=0.1, size=rows).astype(np.float32)

        def norm(name):
            weights[f"{name}.weight"] = draw.normal(loc=1, scale=0.1, size=HIDDEN).astype(np.float32)
            weights[f"{name}.bias"] = draw.normal(scale=0.1, size=HIDDEN).astype(np.float32)

        for name, rows in (("word", 50), ("position", 512), ("token_type", 2)):
            weights[f"embeddings.{name}_embeddings.weight"] = draw.normal(size=(rows, HIDDEN)).astype(np.float32)
        norm("embeddings.LayerNorm")
        linear("pooler.dense", HIDDEN, HIDDEN)
        for layer in range(2):
            at = f"encoder.layer.{layer}"
            for name in ("query", "key", "value"):
                linear(f"{at}.attention.self.{name}", HIDDEN, HIDDEN)
            linear(f"{at}.attention.output.dense", HIDDEN, HIDDEN)
            linear(f"{at}.intermediate.dense", INNER, HIDDEN)
            linear(f"{at}.output.dense", HIDDEN, INNER)
            norm(f"{at}.attention.output.LayerNorm")
            norm(f"{at}.output.LayerNorm")
        np.savez(self.folder / "bert.npz", **weights)

    def words(self, layers, target, *options):
        return [ROOT / "models" / "bert" / "bert.heddle", *self.SETTINGS, "--set", f"num_hidden_layers={layers}", *self.SIZES,
                "--target", target, *options]

    def compiled(self, layers, target, *options):
        folder = self.folder / "-".join((str(layers), target.replace(":", "-"), *options))
        done = subprocess.run([HEDDLE, "compile", *self.words(layers, target, *options), "--weights",
                               self.folder / "bert.npz", "-o", folder], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return heddle.load(folder)

    def test_a_layer_takes_seven_launches(self):
        ids = self.draw.integers(0, 50, size=(1, 9)).astype(np.int32)
        results = {}
        for options in ((), ("--precision", "bf16")):
            launches = []
            for layers in (1, 2):
                with self.compiled(layers, "cuda:sm_80", *options) as model, model.session() as session:
                    self.emulator.heddle_emulator_clear_counters()
                    results[options] = session.run({"input_ids": ids})["last_hidden_state"]
                    launches.append(self.emulator.heddle_emulator_launches(b""))
            self.assertLessEqual(launches[1] - launches[0], 7, options)
        with self.compiled(2, "native") as model, model.session() as session:
            want = session.run({"input_ids": ids})["last_hidden_state"]
        np.testing.assert_allclose(results[()], want, atol=2e-4 * np.abs(want).max())
        self.assertLess(np.abs(results[("--precision", "bf16")] - want).mean(), 0.005 * np.abs(want).max())


if __name__ == "__main__":
    unittest.main()
