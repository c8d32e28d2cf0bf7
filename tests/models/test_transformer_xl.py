#!/usr/bin/env python3
"""models/transformer_xl makes its keys of distances in the first segment of a session, and no more."""

import sys
import tempfile
import unittest
from pathlib import Path

from heddle_command import GOLDENS, ROOT, must, tensors

sys.path.insert(0, str(ROOT / "python"))
import heddle  # noqa: E402


class Distances(unittest.TestCase):
    def test_their_keys_are_made_once(self):
        folder = GOLDENS / "transfo_xl_one_table"  # all distances are told apart: their number is that of the call
        segment = tensors(next(folder.glob("**/*.in.safetensors")))
        with tempfile.TemporaryDirectory() as scratch:
            must("compile", folder, "-o", scratch)
            with heddle.load(Path(scratch)) as model, model.session() as session:
                made = []
                for _ in range(3):
                    made.append([])
                    session.observe(lambda kernel, begins: made[-1].append(kernel) if begins else None)
                    session.run(segment)
                once = [kernel for kernel in made[0] if kernel not in made[1]]
                self.assertTrue(once)
                for kernel in once:
                    self.assertRegex(kernel, r"attn\.distances\.")
                self.assertEqual(made[1], made[2])
                self.assertGreater(session.memory["once_bytes"], 0)


if __name__ == "__main__":
    unittest.main()
