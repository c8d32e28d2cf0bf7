#!/usr/bin/env python3
"""The command `heddle generate` with a compiled marian model; test_goldens.py holds the texts of all models against those of
transformers."""

import json
import tempfile
import unittest
from pathlib import Path

import numpy as np
from heddle_command import GOLDENS, heddle, must, save, tensors


class Command(unittest.TestCase):
    def test_the_command_writes_sequences_and_scores(self):
        case = json.loads((GOLDENS / "marian" / "generation.json").read_text())[5]
        options = case["options"]
        with tempfile.TemporaryDirectory() as scratch:
            library, given, out = (Path(scratch) / name for name in ("library", "in.safetensors", "out.safetensors"))
            must("compile", GOLDENS / "marian", "-o", library)
            save(given, {name: np.array(case[name]) for name in ("input_ids", "attention_mask")})
            tokens = [word for name, ids in options["tokens"].items() for id in np.ravel(ids) for word in ("--token", f"{name}={id}")]
            must("generate", library, "--in", given, "--out", out, "--steps", case["steps"], "--beam", options["beams"],
                 "--min-steps", options["min_steps"], "--length-penalty", options["length_penalty"], "--early-stopping", str(options["early_stopping"]).lower(), *tokens)
            got = tensors(out)
            self.assertEqual(got["sequences"].dtype, np.int64)
            self.assertEqual(got["sequences"].tolist(), case["sequences"])
            np.testing.assert_allclose(got["scores"], case["scores"], rtol=1e-4)
            manifest = json.loads((library / "transformer.json").read_text())
            self.assertEqual(manifest["tokens"], {"decoder_start_token_id": [45], "eos_token_id": [0], "pad_token_id": [45]})
            for words, message in (
                (["--steps", 0], "error: say with --steps how many tokens to generate at most\n"),
                (["--steps", 3, "--token", "x"], "error: --token x: write NAME=ID, such as eos_token_id=2\n"),
                (["--steps", 3, "--beam", 0], "error: generation: beams must be at least 1\n"),
            ):
                self.assertEqual(heddle("generate", library, "--in", given, *words)[1], message)


if __name__ == "__main__":
    unittest.main()
