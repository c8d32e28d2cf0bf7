#!/usr/bin/env python3
"""`--why` tells what schedules were chosen from, and `--dim` at `compile` for which sizes."""

import unittest

import heddle
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


# Of half as many rows and columns as the picture has.
STRIDED = """dim Y, X
model Strided {
  param w: real[96, 64]
  entry forward(x: real[Y, X, 64]) -> z: real[(Y + 1) // 2, (X + 1) // 2, 96] {
    half[i in (Y + 1) // 2, j in (X + 1) // 2, c] = exp(x[2 * i, 2 * j, c])
    z[i, j, o] = sum[c](half[i, j, c] * w[o, c])
    return z
  }
}
"""

# The bag sums rows of the table, which panels scatter; the scores want it in panels.
TWO_READERS = """dim N <= 512, S <= 512
model Bag {
  param table: real[5000, 96]
  entry bag(ids: index(5000)[N, 64]) -> y: real[N, 96] {
    y[n, i] = sum[j](table[ids[n, j], i])
    return y
  }
  entry scores(x: real[S, 96]) -> y: real[S, 5000] {
    y[s, o] = sum[i](x[s, i] * table[o, i])
    return y
  }
}
"""

# BIAS is `mask[i, j]`, one number for each score, or `mask[j, i]`.
ATTENTION = """dim S <= 1024
model Attention {
  entry forward(q: real[S, 8, 64], k: real[S, 8, 64], v: real[S, 8, 64], mask: real[S, S]) -> y: real[S, 8, 64] {
    s[h, i, j] = sum[e](q[i, h, e] * k[j, h, e]) + BIAS
    let p = softmax(s)
    y[i, h, e] = sum[j](p[h, i, j] * v[j, h, e])
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
            self.assertRegex(line, r"^  \* +\d+\.\d us  tiles abreast=[124] ahead=[12] .*rows=\d+")
        self.assertGreater(len([line for line in lines if " us  tiles " in line]), 6)
        self.assertEqual(lines[-3:], ["    not chunks: the sum is no longer than a chunk",
                                      "    not copied_rows: rows do not lie side by side in an input",
                                      "    not packed_panels: panels of weights are packed before"])

    def test_one_size_is_expected(self):
        lines = self.why("--dim", "N=197")
        self.assertEqual([line for line in lines if line.startswith("  at sizes")], ["  at sizes 197"])

    def test_lanes_run_along_what_lies_side_by_side(self):
        chosen = {}
        for bias in ("mask[i, j]", "mask[j, i]"):
            (self.folder / "m.heddle").write_text(ATTENTION.replace("BIAS", bias))
            (chosen[bias],) = [line.split()[3] for line in self.why("--dim", "S=300") if line.startswith("  * ")]
        self.assertEqual(chosen, {"mask[i, j]": "key_blocks", "mask[j, i]": "copied_keys"})

    def test_stages_are_of_the_sizes_expected(self):
        def rows(*words):
            return self.done("show", "m.heddle", "--target", "x86-64-v4", "--stage", "schedule", *words).count("variant = ")

        self.assertGreater(rows(), 1)
        self.assertEqual(rows("--dim", "N=197"), 1)

    def test_sizes_computed_from_dims_are_divided(self):
        (self.folder / "m.heddle").write_text(STRIDED)
        lines = self.why("--dim", "Y=480", "--dim", "X=639")
        self.assertIn("  at sizes 76800", lines)

    def test_compile_chooses_for_the_sizes_that_it_is_told(self):
        def rows(*words):
            out = self.done("compile", "m.heddle", "--target", "x86-64-v4", "-o", "out", "--weights", "w.npz", "--why", *words)
            self.assertIn("k0 contraction", out)
            return next((self.folder / "out").glob("*.json")).read_text().count('"variant"')

        self.assertGreater(rows(), 1)
        self.assertEqual(rows("--dim", "N=197"), 1)

    def test_dims_that_there_are_not(self):
        self.refused("error: the model has no dim `M`; it has: N\n", "compile", "m.heddle", "--weights", "w.npz", "--dim", "M=1")

    def test_a_weight_whose_readers_want_different_layouts_is_stored_twice(self):
        (self.folder / "bag.heddle").write_text(TWO_READERS)
        table = np.random.default_rng(0).normal(size=(5000, 96)).astype(np.float32)
        ids = np.random.default_rng(1).integers(0, 5000, (7, 64)).astype(np.int32)
        x = np.random.default_rng(2).normal(size=(9, 96)).astype(np.float32)
        np.savez(self.folder / "bag.npz", table=table)
        np.savez(self.folder / "in.npz", ids=ids, x=x)
        sizes = {}
        for words in [(), ("--single-copy",)]:
            out = self.done("compile", "bag.heddle", "--weights", "bag.npz", "-o", "out", "--target", "x86-64-v3", *words)
            self.assertEqual("weights: 1.92 MB are second copies in another layout; --single-copy stores none" in out, not words, out)
            sizes[words] = next((self.folder / "out").glob("*.weights")).stat().st_size
            with heddle.load(self.folder / "out") as model, model.session() as session:
                bag, scores = session.run({"ids": ids}, entry="bag")["y"], session.run({"x": x}, entry="scores")["y"]
            self.assertLess(np.abs(bag - table[ids].sum(1)).max(), 1e-4)
            self.assertLess(np.abs(scores - x @ table.T).max(), 1e-4)
        self.assertGreater(sizes[()], 1.9 * sizes[("--single-copy",)])


if __name__ == "__main__":
    unittest.main()
