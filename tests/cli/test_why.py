#!/usr/bin/env python3
"""`--why` tells what schedules were chosen from, and `--dim` at `compile` for which sizes."""

import unittest

import numpy as np
from test_cli import Scratch

DENSE = """dim N
model Dense {
  param w: real[96, 96]
  entry forward(x: real[N, 96]) -> y: real[N, 96] {
    y[n, o] = sum[i](x[n, i] * w[o, i])
    return y
  }
}
"""


class Why(Scratch):
    def setUp(self):
        super().setUp()
        (self.folder / "m.heddle").write_text(DENSE)
        np.savez(self.folder / "w.npz", w=np.zeros((96, 96), np.float32))

    def why(self, *words):
        return self.done("show", "m.heddle", "--target", "x86-64-v4", "--why", *words).splitlines()

    def test_candidates_with_their_expected_times(self):
        lines = self.why()
        self.assertEqual(lines[0], "k0 contraction")
        self.assertRegex(lines[1], r"^  argument 2 lies in panels of \d+ along axis 0, of \d layouts$")
        self.assertEqual([line for line in lines if line.startswith("  at sizes")][0], "  at sizes 1")
        chosen = [line for line in lines if line.startswith("  * ")]
        self.assertEqual(len(chosen), 3)
        for line in chosen:
            self.assertRegex(line, r"^  \* +\d+\.\d us  tiles ahead=[01] .*rows=\d+")
        self.assertGreater(len([line for line in lines if " us  tiles " in line]), 6)
        self.assertEqual(lines[-1], "    not chunks: the sum is no longer than a chunk")

    def test_one_size_is_expected(self):
        lines = self.why("--dim", "N=197")
        self.assertEqual([line for line in lines if line.startswith("  at sizes")], ["  at sizes 197"])

    def test_compile_chooses_for_the_sizes_that_it_is_told(self):
        def rows(*words):
            out = self.done("compile", "m.heddle", "--target", "x86-64-v4", "-o", "out", "--weights", "w.npz", "--why", *words)
            self.assertIn("k0 contraction", out)
            return next((self.folder / "out").glob("*.json")).read_text().count('"variant"')

        self.assertGreater(rows(), 1)
        self.assertEqual(rows("--dim", "N=197"), 1)

    def test_dims_that_there_are_not(self):
        self.refused("error: the model has no dim `M`; it has: N\n", "compile", "m.heddle", "--weights", "w.npz", "--dim", "M=1")


if __name__ == "__main__":
    unittest.main()
