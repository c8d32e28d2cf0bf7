#!/usr/bin/env python3
"""Narrow types: programs over every kind of kernel with `real` as bf16 and f16, i8 products, conversions, weights of other
types than the model's; the compiled library against the evaluator, which rounds every tensor that has a name.

Tolerances. What a kernel keeps to itself is not rounded by the library (docs/language.md, rule 9), and where an order
of summation moves a number across the middle of two neighbours, it is rounded to the other one. So a result differs by
a few units of its type: u = 2^-8 for bf16, 2^-11 for f16, of the largest value."""

import json
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "models"))
from heddle_command import heddle, must  # noqa: E402
from narrow_tensors import load, save, to_bf16  # noqa: E402

UNIT = {"bf16": 2.0**-8, "f16": 2.0**-11}


def real(*shape, seed=0, scale=1.0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32) * scale


class Narrow(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        self.library = self.folder / "library"

    def compile(self, text, weights=None, settings=(), options=()):
        self.model = self.folder / "model.heddle"
        self.model.write_text(text)
        self.options = list(settings)
        if weights:
            save(self.folder / "weights.safetensors", weights)
            self.options += ["--weights", self.folder / "weights.safetensors"]
        must("compile", self.model, *self.options, *options, "-o", self.library)

    def kinds(self):
        return {kernel["kind"] for kernel in json.loads((self.library / "model.json").read_text())["kernels"]}

    def both(self, calls):
        """Results of the library and of the evaluator, call by call."""
        sides = []
        for side, command in (("out", ["run", self.library]), ("want", ["run", self.model, *self.options, "--reference"])):
            words = []
            for i, (entry, inputs) in enumerate(calls):
                save(self.folder / f"{i}.in.safetensors", inputs)
                words += ["--entry", entry, "--in", self.folder / f"{i}.in.safetensors"]
                words += ["--out", self.folder / f"{i}.{side}.safetensors"]
            must(*command, *words)
            sides.append([load(self.folder / f"{i}.{side}.safetensors") for i in range(len(calls))])
        return zip(*sides)

    def check(self, calls, units, unit):
        for (got, want), (entry, inputs) in zip(self.both(calls), calls):
            self.assertEqual(sorted(got), sorted(want))
            for name, (dtype, values) in want.items():
                place = f"{entry} {[value[1].shape for value in inputs.values()]} {name}"
                self.assertEqual(got[name][0], dtype, place)
                self.assertEqual(got[name][1].shape, values.shape, place)
                if values.size == 0:
                    continue
                a, b = got[name][1].astype(np.float64), values.astype(np.float64)
                same = (a == b) | (np.isnan(a) & np.isnan(b))
                finite = np.isfinite(b)
                self.assertTrue((same | finite).all(), place)
                allowed = units * unit * np.abs(b[finite]).max(initial=0)
                self.assertLessEqual(np.abs(a[finite] - b[finite]).max(initial=0), allowed, place)


KERNELS = """

dim B <= 128, S <= 256
model M {
  param table: real[50, 40]
  sub up = Linear(40, 53)
  sub norm = LayerNorm(40, 1e-5)
  param filter: real[19, 5, 3, 3]
  sub pool = MaxPool(3, 2, 1)
  entry dense(x: real[B, 40], r: real[B, 53]) -> y: real[B, 53] {
    let h = up(x)
    y[b, o] = gelu(h[b, o]) + r[b, o]
    return y
  }
  entry batch(x: real[B, S, 7], y: real[B, 9, 7]) -> z: real[B, S, 9] {
    z[b, s, n] = sum[i](x[b, s, i] * y[b, n, i])
    return z
  }
  entry attention(q: real[B, S, 3, 11], k: real[B, S, 3, 11], v: real[B, S, 3, 13], n: i32[B]) -> o: real[B, S, 3, 13] {
    s[b, h, i, j in S] = if j < n[b] then sum[e](q[b, i, h, e] * k[b, j, h, e]) * 0.3 else -inf
    let o = attend(s, v)
    return o
  }
  entry rows(x: real[B, 40]) -> y: real[B, 40], biggest: real[B], place: i32[B] {
    let y = norm(x)
    biggest[b] = max[n](x[b, n])
    place[b] = argmax[n](x[b, n])
    return y, biggest, place
  }
  entry lookup(ids: index(50)[B, S]) -> y: real[B, S, 40] {
    y[b, s, d] = table[ids[b, s], d]
    return y
  }
  entry pointwise(x: real[B, S]) -> y: real[B, S], z: real[B, S] {
    y[b, s] = exp(-abs(x[b, s])) + tanh(x[b, s]) / 3 + (if x[b, s] > 0 then x[b, s] else 0.1)
    z[b, s] = x[b, s] * x[b, s] - 1.5
    return y, z
  }
  entry picture(x: real[B, 9, 11, 5], z: real[B, 5, 9, 11]) -> y: real[B, 5, 6, 19], p: real[B, 5, 5, 6] {
    y[b, i in 5, j in 6, o] = sum[c, u, v](x[b, 2 * i + u - 1, 2 * j + v - 1, c | 0] * filter[o, c, u, v])
    let p = pool(z)
    return y, p
  }
  entry steps(x: real[B, S, 6], start: real[B, 6]) -> last: real[B, 6], all: real[B, S, 6] {
    h[b, d] = start[b, d]
    for s in S with h {
      h[b, d] = 0.5 * h[b, d] + x[b, s, d]
      ys[b, s, d] = h[b, d] * 2
    }
    return h, ys
  }
}"""


def kernel_weights(dtype):
    return {
        "table": (dtype, real(50, 40)),
        "up.weight": (dtype, real(53, 40, scale=0.2)),
        "up.bias": (dtype, real(53, scale=0.1)),
        "norm.weight": (dtype, 1 + real(40, scale=0.2)),
        "norm.bias": (dtype, real(40, seed=1, scale=0.1)),
        "filter": (dtype, real(19, 5, 3, 3, scale=0.2)),
    }


class Kernels(Narrow):
    def check_kernels(self, real_type, stored, precision="f32", off=None):
        """`off`: how far from the evaluator, as a share of the largest value, narrow products may be."""
        dtype = {"bf16": "BF16", "f16": "F16"}[real_type]
        self.compile(KERNELS, kernel_weights(stored), ["--set", f"real={real_type}"], ["--precision", precision])
        self.assertLessEqual({"contraction", "attention", "row_reduction", "lookup", "pointwise", "convolution"}, self.kinds())

        def given(*shape, seed=0):
            return (dtype, real(*shape, seed=seed))

        calls = []
        for b in (1, 3, 8, 100):  # 100: where panels are widened for all tiles
            calls.append(("dense", {"x": given(b, 40), "r": given(b, 53)}))
        calls.append(("batch", {"x": given(3, 5, 7), "y": given(3, 9, 7)}))
        for b, s in ((1, 1), (2, 19), (1, 50)):
            calls.append(("attention", {"q": given(b, s, 3, 11), "k": given(b, s, 3, 11, seed=1), "v": given(b, s, 3, 13),
                                        "n": ("I32", np.arange(b) * 3 + (s + 1) // 2)}))
        calls += [("rows", {"x": given(b, 40)}) for b in (1, 7)]
        calls.append(("lookup", {"ids": ("I32", np.arange(12).reshape(3, 4) * 4)}))
        calls += [("pointwise", {"x": given(b, s)}) for b, s in ((1, 1), (3, 37))]
        calls += [("picture", {"x": given(b, 9, 11, 5), "z": given(b, 5, 9, 11)}) for b in (1, 2)]
        calls.append(("steps", {"x": given(2, 5, 6), "start": given(2, 6)}))
        self.check(calls, 4, off / 4 if off else UNIT[real_type])
        return json.loads((self.library / "model.json").read_text())["weights_bytes"]

    def test_every_kind_of_kernel_agrees_with_the_evaluator_in_bf16_with_f32_weights(self):
        self.check_kernels("bf16", "F32")

    def test_every_kind_of_kernel_agrees_with_the_evaluator_in_f16_with_bf16_weights(self):
        self.check_kernels("f16", "BF16")

    def test_a_precision_makes_products_narrow_in_models_that_store_bf16_or_f16(self):
        for real_type in ("bf16", "f16"):
            sizes = [self.check_kernels(real_type, "F32", *how) for how in (("bf16", 0.03), ("int8", 0.08))]
            self.assertLess(sizes[1], sizes[0])


class Types(Narrow):
    def test_special_numbers_are_rounded_to_nearest_even_and_nan_stays(self):
        self.compile("""
            dim N <= 4096
            model M {
              entry run(x: f32[N]) -> b: bf16[N], h: f16[N], w: f32[N], v: f32[N], i: i32[N], c: i8[N] {
                b[n] = x[n]
                h[n] = x[n]
                w[n] = f32(bf16(x[n]))
                v[n] = f32(f16(x[n]))
                i[n] = i32(x[n])
                c[n] = i8(x[n])
                return b, h, w, v, i, c
              }
              entry back(b: bf16[N], h: f16[N]) -> x: f32[N], y: f32[N] {
                x[n] = b[n]
                y[n] = h[n]
                return x, y
              }
            }""")
        # No number that is denormal in f32: it may be taken for 0.
        special = [0.0, -0.0, np.inf, -np.inf, np.nan, 65504, 65519.996, 65520, 1e30, 3.3895e38, 3.4e38, 6e-8, 2.9e-8,
                   3e-8, 6.1e-5, 6.0975552e-05, 1.2e-38, 127, 128, -129, 2147483520, 3e9, -3e9, 1.00390625, 1.01171875]
        ties = np.arange(0x3F800000, 0x3F840000, 0x800, dtype=np.uint32).view(np.float32)
        x = np.concatenate([np.array(special, np.float32), ties, real(400), real(400, scale=1e-6), real(200, scale=1e5)])
        self.check([("run", {"x": ("F32", x)})], 0, 0)
        bits = np.arange(0, 1 << 16, 17, dtype=np.uint16)
        half = bits.view(np.float16).astype(np.float32)
        self.check([("back", {"b": ("BF16", (bits.astype(np.uint32) << 16).view(np.float32)), "h": ("F16", half)})], 0, 0)

    def test_whole_numbers_beside_narrow_reals_are_not_rounded(self):
        text = """
            dim N <= 64
            model M {
              entry run(n: i32[N], x: real[N]) -> y: real[N], z: f32[N], w: real[N] {
                y[i] = n[i] - x[i]
                z[i] = real(n[i]) / 4 - 64
                w[i] = sin(n[i] * 0.1)
                return y, z, w
              }
            }"""
        n = np.array([1, 255, 257, 2049, 65537], np.int32)
        for real_type in ("bf16", "f16"):
            self.compile(text, settings=["--set", f"real={real_type}"])
            x = np.where(n < 60000, n - 1, 0)
            calls = [("run", {"n": ("I32", n[i : i + 1]), "x": (real_type.upper(), x[i : i + 1])}) for i in range(len(n))]
            self.check(calls, 2, UNIT[real_type])

    def test_what_is_no_number_or_has_no_end_shows_in_products_of_any_precision(self):
        text = """
            dim S <= 64
            model M {
              param w: real[40, 64]
              entry run(x: f32[S, 64]) -> y: f32[S, 40] {
                y[s, o] = sum[i](x[s, i] * w[o, i])
                return y
              }
            }"""
        x, w = real(12, 64), real(40, 64, seed=1)
        x[1, 5], x[2, 63], x[3, 0], x[4] = np.nan, np.inf, -np.inf, 0
        w[7, 9], w[8] = np.nan, 0
        odd = np.zeros((12, 40), bool)
        odd[1:4], odd[:, 7] = True, True
        for precision in ("f32", "bf16", "int8"):
            self.compile(text, {"w": ("F32", w)}, ["--precision", precision])
            save(self.folder / "in.safetensors", {"x": ("F32", x)})
            must("run", self.library, "--in", self.folder / "in.safetensors", "--out", self.folder / "out.safetensors")
            y = load(self.folder / "out.safetensors")["y"][1]
            np.testing.assert_array_equal(~np.isfinite(y), odd, precision)

    def test_convolutions_in_int8(self):
        """Against f32 of the same weights. A window has one scale per picture, a filter of 1 x 1 one per place; a ReLU's result takes all
        256 numbers; three channels stay floats. A number is off by half of 1 / 127 of its picture's largest, a weight of its
        channel's."""
        text = """
            dim B, Y, X
            model C {
              param stem: real[40, 3, 3, 3]
              param wide: real[50, 40, 3, 3]
              param odd: real[36, 50, 2, 3]
              param step: real[33, 40]
              entry run(x: real[B, Y, X, 3]) -> a: real[B, Y, X, 50], b: real[B, (Y - 1) // 2 + 1, (X - 1) // 2 + 1, 36],
                                                 c: real[B, (Y - 1) // 2 + 1, (X - 1) // 2 + 1, 33] {
                h[b, i in Y, j in X, o] = sum[c, u, v](x[b, i + u - 1, j + v - 1, c | 0] * stem[o, c, u, v])
                a[b, i in Y, j in X, o] = sum[c, u, v](h[b, i + u - 1, j + v - 1, c | 0] * wide[o, c, u, v])
                r[b, i, j, o] = relu(a[b, i, j, o])
                b[b, i in (Y - 1) // 2 + 1, j in (X - 1) // 2 + 1, o] =
                  sum[c, u, v](r[b, 2 * i + u - 1, 2 * j + 2 * v - 2, c | 0] * odd[o, c, u, v])
                c[b, i in (Y - 1) // 2 + 1, j in (X - 1) // 2 + 1, o] = sum[c](h[b, 2 * i, 2 * j, c] * step[o, c])
                return a, b, c
              }
            }"""
        weights = {"stem": real(40, 3, 3, 3), "wide": real(50, 40, 3, 3), "odd": real(36, 50, 2, 3), "step": real(33, 40)}
        weights = {name: ("F32", w) for name, w in weights.items()}
        for shape in ((1, 1, 1, 3), (2, 5, 9, 3), (3, 16, 13, 3)):
            x = real(*shape, seed=2)
            x[0] *= 100  # a picture's scale is its own
            results = {}
            for precision in ("f32", "int8"):
                library = self.folder / precision
                if not library.exists():
                    self.library = library
                    self.compile(text, weights, ["--precision", precision])
                save(self.folder / "in.safetensors", {"x": ("F32", x)})
                must("run", library, "--in", self.folder / "in.safetensors", "--out", self.folder / "out.safetensors")
                results[precision] = load(self.folder / "out.safetensors")
            for key, (_, exact) in results["f32"].items():
                for got, want in zip(results["int8"][key][1], exact):
                    off = np.abs(got - want) / np.abs(want).max()
                    self.assertLessEqual(off.mean(), 0.01, key)
                    self.assertLessEqual(off.max(), 0.04, key)

    def test_whole_numbers_of_eight_bits_compute_as_i32_and_are_exact(self):
        self.compile("""
            dim M <= 128
            model Q {
              param w: i8[37, 70]
              param scale: bf16[37]
              entry dense(x: i8[M, 70]) -> y: i32[M, 37], z: f32[M, 37] {
                y[m, o] = sum[i](i32(x[m, i]) * i32(w[o, i]))
                z[m, o] = y[m, o] * f32(scale[o])
                return y, z
              }
              entry mixed(a: i8[M], b: i8[M]) -> s: i8[M], h: i32[M], n: i8[M], top: i8, total: i32, less: bool[M] {
                s[m] = a[m] + b[m]
                h[m] = (a[m] + b[m]) // 2
                n[m] = i8(a[m] * b[m])
                top = max[m](a[m])
                total = sum[m](a[m] * b[m])
                less[m] = a[m] < b[m]
                return s, h, n, top, total, less
              }
            }""", {"w": ("I8", np.random.default_rng(3).integers(-128, 128, (37, 70))), "scale": ("BF16", real(37))})
        values = np.random.default_rng(4)
        calls = [("dense", {"x": ("I8", values.integers(-128, 128, (m, 70)))}) for m in (1, 8, 100)]
        calls.append(("mixed", {"a": ("I8", values.integers(-128, 128, 50)), "b": ("I8", values.integers(-128, 128, 50))}))
        self.check(calls, 0, 0)

    def test_states_and_defaults_are_stored_narrow(self):
        text = """
            dim B <= 8
            model M {
              state total: real[B] = 0.1
              state bits: i8[B] = 3
              entry add(x: real[B], by: real = 0.3) -> y: real[B], n: i8[B] {
                y[b] = total[b] + x[b] * by
                total <- y
                n[b] = bits[b] + 1
                bits <- n
                return y, n
              }
            }"""
        for kind, dtype in (("bf16", "BF16"), ("f16", "F16")):
            self.compile(text, settings=["--set", f"real={kind}"])
            self.check([("add", {"x": (dtype, real(3, seed=i))}) for i in range(4)], 1, UNIT[kind])

    def test_a_conversion_that_the_author_wrote_rounds_though_the_value_stays_in_a_kernel(self):
        self.compile("""
            dim N <= 64
            model M {
              entry run(x: real[N]) -> y: f32[N] {
                h[n] = bf16(x[n] * x[n])
                y[n] = f32(h[n]) * 3
                return y
              }
            }""", settings=["--set", "real=bf16"])
        x = real(33)
        self.check([("run", {"x": ("BF16", x)})], 0, 0)


class Weights(Narrow):
    text = """
        dim B <= 8
        model M {
          param w: real[5, 40]
          entry run(x: real[B, 40]) -> y: f32[B, 5] { y[b, o] = sum[i](f32(x[b, i]) * f32(w[o, i])) return y }
        }"""

    def result(self, stored, real_type):
        self.compile(self.text, {"w": (stored, real(5, 40))}, ["--set", f"real={real_type}", "--target", "x86-64-v3"])
        dtype = {"f32": "F32", "bf16": "BF16", "f16": "F16"}[real_type]
        (got, want), = self.both([("run", {"x": (dtype, np.eye(8, 40))})])
        np.testing.assert_array_equal(got["y"][1], want["y"][1])
        return got["y"][1]

    def test_floats_of_any_width_are_rounded_or_widened_to_the_models_type(self):
        w = real(5, 40)[:, :8].T
        bf16 = (to_bf16(w).astype(np.uint32) << 16).view(np.float32)
        np.testing.assert_array_equal(self.result("F32", "bf16"), bf16)
        np.testing.assert_array_equal(self.result("BF16", "f32"), bf16)
        np.testing.assert_array_equal(self.result("F16", "f32"), w.astype(np.float16).astype(np.float32))
        np.testing.assert_array_equal(self.result("F64", "f16"), w.astype(np.float16).astype(np.float32))
        self.assertEqual((self.library / "model.weights").stat().st_size, 4096 + 40 * 8 * 2)  # in panels of 8

    def test_what_the_models_type_cannot_hold_is_refused(self):
        model = self.folder / "model.heddle"
        model.write_text(self.text)
        save(self.folder / "w.safetensors", {"w": ("F32", np.full((5, 40), 1e5))})
        status, errors = heddle("compile", model, "--weights", self.folder / "w.safetensors", "--set", "real=f16", "-o", self.library)
        self.assertEqual(status, 1)
        self.assertIn("tensor `w` has the value 100000, which f16 cannot hold; bf16 has the range of f32", errors)

    def test_inputs_of_another_width_are_refused(self):
        self.compile(self.text, {"w": ("F32", real(5, 40))}, ["--set", "real=bf16"])
        save(self.folder / "x.safetensors", {"x": ("F32", real(8, 40))})
        status, errors = heddle("run", self.library, "--in", self.folder / "x.safetensors")
        self.assertEqual(status, 1)
        self.assertIn("bf16", errors)


if __name__ == "__main__":
    unittest.main()
