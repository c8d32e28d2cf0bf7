#!/usr/bin/env python3
"""The entries of models/transformer_xl that keep the keys of distances: `begin`, then `next`, against the goldens of
`forward`."""

import sys
import tempfile
import unittest
from pathlib import Path

from heddle_command import GOLDENS, ROOT, difference, must, tensors

sys.path.insert(0, str(ROOT / "python"))
import heddle  # noqa: E402


class Next(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = GOLDENS / "transfo_xl"
        must("compile", cls.folder, "-o", cls.scratch.name)
        cls.model = heddle.load(cls.scratch.name)

    @classmethod
    def tearDownClass(cls):
        cls.model.close()
        cls.scratch.cleanup()

    def test_segments_after_begin_agree_with_pytorch(self):
        with self.model.session() as session:
            session.run({}, entry="begin")
            calls = sorted((self.folder / "session_segments").glob("*.in.safetensors"))
            self.assertGreater(len(calls), 3)
            for path in calls:
                got = session.run(tensors(path), entry="next")
                want = tensors(path.with_name(path.name.replace(".in.", ".out.")))
                self.assertLess(difference(got, want), 2e-4, path.name)

    def test_next_before_begin_says_what_is_missing(self):
        path = next(self.folder.glob("session_segments/*.in.safetensors"))
        with self.model.session() as session, self.assertRaisesRegex(heddle.Error, "call `begin` once before `next`"):
            session.run(tensors(path), entry="next")


if __name__ == "__main__":
    unittest.main()
