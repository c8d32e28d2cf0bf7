#!/usr/bin/env python3
"""Kernels of the kind `general` that have a good part of an entry's work are named, with what keeps them from being more."""

import unittest

import numpy as np
from test_cli import ROOT, Scratch

SLOWEST = "in a general kernel, the slowest kind: "
ROWS = "in a row reduction, which fetches a matrix for every row: "


class General(Scratch):
    def lines(self, text, *words):
        """What `compile`, `check` and the page say of general kernels."""
        (self.folder / "m.heddle").write_text(text)
        out = [line for line in self.done("compile", "m.heddle", "-o", "out", *words).splitlines() if SLOWEST in line]
        self.done("show", "m.heddle", "--html", "page.html", *words)
        page = (self.folder / "page.html").read_text()
        self.assertEqual(page.count(SLOWEST), len(out))
        self.assertEqual([line for line in self.done("check", "m.heddle", *words).splitlines() if SLOWEST in line], out)
        return out

    def test_a_product_whose_factors_share_the_last_index(self):
        """Of whole numbers: of real ones it gets copies in another order (docs/reference/fast_forms.md)."""
        text = """config C = 32
dim N <= 48
model Mul {
  entry forward(a: i32[N, N, C], c: i32[N, N, C]) -> z: i32[N, N, C] {
    z[i, j, d] = sum[k](a[i, k, d] * c[j, k, d])
    return z
  }
}
"""
        self.assertEqual(self.lines(text), [
            f"m.heddle:5: `z` takes 100 % of the work of `forward` (N = 48) {SLOWEST}both factors of the product `z` depend on the last "
            "index of its result, or neither does; an index that only one of them has should come last"])
        for other in (text.replace("z: i32[N, N, C] {", "z: i32[C, N, N] {").replace("z[i, j, d] =", "z[d, i, j] ="), text.replace("i32", "real")):
            self.assertNotEqual(other, text)
            self.assertEqual(self.lines(other), [])

    def test_a_product_that_a_condition_keeps_from_being_one(self):
        text = """config E = 64
dim N <= 256
model Causal {
  entry run(p: real[N, N], v: real[N, E]) -> y: real[N, E] {
    y[i in N, e] = sum[j where j <= i](p[i, j] * v[j, e])
    return y
  }
}
"""
        (self.folder / "m.heddle").write_text(text)
        self.assertIn(
            f"m.heddle:5: `y` takes 100 % of the work of `run` (N = 64) {ROWS}the sum `y` leaves out terms by a condition, which do not count "
            "whatever stands there, and a product would multiply them; where all is finite, make one of its factors 0 instead (scores of a "
            "softmax -inf)\n", self.done("check", "m.heddle"))
        for other in ("sum[j]((if j <= i then p[i, j] else 0) * v[j, e])", "sum[j where j <= i](p[i, j]) * v[i, e]"):  # as it says; nothing is used again
            (self.folder / "m.heddle").write_text(text.replace("sum[j where j <= i](p[i, j] * v[j, e])", other))
            self.assertNotIn(ROWS, self.done("check", "m.heddle"))

    def test_no_model_and_no_layer_of_the_examples_has_one(self):
        checks = [(file, "--config", preset.stem) for file in (ROOT / "models").glob("*/*.heddle") if file.stem == file.parent.name
                  for preset in sorted((file.parent / "presets").glob("*.json"))[:1]]
        checks += [(file,) for file in (ROOT / "examples" / "layers").glob("*.heddle")]
        self.assertGreater(len(checks), 20)
        for words in checks:
            with self.subTest(words[0].stem):
                said = self.done("check", *words)
                self.assertNotIn(SLOWEST, said)
                self.assertNotIn(ROWS, said)

    def test_a_sum_of_everything(self):
        text = """dim N <= 4096
model Loss {
  entry forward(a: real[N, 64]) -> total: real {
    total = sum[i, j](a[i, j] * a[i, j])
    return total
  }
}
"""
        self.assertEqual(self.lines(text), [
            f"m.heddle:4: `total` takes 100 % of the work of `forward` (N = 64) {SLOWEST}`total` is a single number, made from all elements at "
            "once: there are no rows to deal out; a sum along one index first, then of these, has some"])

    def test_of_several_kernels_only_those_are_named(self):
        text = """config C = 32
dim N <= 48
model Mul {
  entry forward(a: i32[N, N, C], c: i32[N, N, C], u: i32[C, C]) -> z: i32[N, N, C], y: i32[N, N, C] {
    z[i, j, d] = sum[k](a[i, k, d] * c[j, k, d])
    y[i, j, e] = sum[d](a[i, j, d] * u[e, d])
    return z, y
  }
}
"""
        (line,) = self.lines(text)
        self.assertRegex(line, r"^m\.heddle:5: `z` takes \d\d % of the work of `forward` \(N = 48\) " + SLOWEST + "both factors of the product `z` ")

    def test_what_hardly_matters_is_not_named(self):
        text = """dim B <= 64
model Small {
  param w: real[512, 512]
  entry forward(x: real[B, 512]) -> y: real[B, 512], size: real {
    y[b, o] = sum[i](x[b, i] * w[o, i])
    size = sum[b in 2, i in 8](w[b, i])
    return y, size
  }
}
"""
        self.save("ww.safetensors", {"w": np.ones((512, 512), np.float32)})
        self.assertEqual(self.lines(text, "--weights", "ww.safetensors"), [])


if __name__ == "__main__":
    unittest.main()
