#!/usr/bin/env python3
"""The programs with which the language was designed, as they were first written: the compiled library and the evaluator give
what PyTorch gives (make_goldens.py) in every call of a session."""

import json
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "models"))
from heddle_command import must, tensors  # noqa: E402

HERE = Path(__file__).resolve().parent


class Programs(unittest.TestCase):
    def check(self, name):
        about = json.loads((HERE / "goldens" / f"{name}.json").read_text())
        settings = [word for key, value in about["settings"].items() for word in ("--set", f"{key}={value}")]
        for mode in (["--reference"], []):
            with tempfile.TemporaryDirectory() as folder:
                words = []
                for i, entry in enumerate(about["entries"]):
                    words += ["--entry", entry, "--in", HERE / "goldens" / f"{name}.{i}.in.safetensors", "--out", Path(folder) / f"{i}.safetensors"]
                must("run", HERE / f"{name}.heddle", "--weights", HERE / "goldens" / f"{name}.weights.safetensors", *settings, *mode, *words)
                for i, entry in enumerate(about["entries"]):
                    got, want = tensors(Path(folder) / f"{i}.safetensors"), tensors(HERE / "goldens" / f"{name}.{i}.out.safetensors")
                    self.assertEqual(sorted(got), sorted(want), f"call {i}, {entry}")
                    for result in want:
                        np.testing.assert_allclose(got[result], want[result], 2e-4, 2e-5, err_msg=f"call {i}, {entry}: {result} {mode}")

    def test_transformer_xl_over_segments_with_growing_memory(self):
        self.check("transformer_xl")

    def test_an_lstm_with_attention_and_reordered_beams(self):
        self.check("seq2seq")

    def test_a_vision_transformer(self):
        self.check("vit")


if __name__ == "__main__":
    unittest.main()
