#!/usr/bin/env python3
"""`--precision` with its exceptions (`--keep`), and what tells how to choose them."""

import json
import sys
import unittest
from pathlib import Path

import numpy as np
from test_cli import Scratch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "models"))
import narrow_tensors  # noqa: E402

# The table is looked up, and multiplied by what comes out.
NET = """dim S <= 64
module Layer {
  param up: real[96, 64]
  param down: real[64, 96]
  fn call(x: real[S, 64]) -> real[S, 64] {
    h[s, o] = relu(sum[k](x[s, k] * up[o, k]))
    y[s, d] = x[s, d] + sum[o](h[s, o] * down[d, o])
    return y
  }
}
model Net {
  param table: real[50, 64]
  sub norm = LayerNorm(64, 1e-5)
  sub layers[2] = Layer
  entry forward(ids: index(50)[S]) -> scores: real[S, 50], first: real[S, 50] {
    x[s, d] = table[ids[s], d]
    let y = norm(layers[1](layers[0](x)))
    scores[s, v] = sum[d](y[s, d] * table[v, d])
    first[s, v] = sum[d](x[s, d] * table[v, d])
    return scores, first
  }
}
"""


class Precision(Scratch):
    def setUp(self):
        super().setUp()
        (self.folder / "parts.heddle").write_text(NET)
        random = np.random.default_rng(2)
        self.shapes = shapes = {"table": (50, 64), "norm.weight": (64,), "norm.bias": (64,)}
        for layer in "01":
            shapes |= {f"layers.{layer}.up": (96, 64), f"layers.{layer}.down": (64, 96)}
        self.save("parts.safetensors", {name: random.standard_normal(shape, np.float32) / 8 for name, shape in shapes.items()})
        self.save("ids.safetensors", {"ids": random.integers(0, 50, 40).astype(np.int32)})

    def scores(self, *options):
        self.done("compile", "parts.heddle", "--weights", "parts.safetensors", *options, "-o", "lib")
        self.done("run", "lib", "--in", "ids.safetensors", "--out", "y.safetensors")
        return self.load("y.safetensors")["scores"]

    def manifest(self):
        return json.loads((self.folder / "lib" / "parts.json").read_text())


class Keep(Precision):
    def test_all_parts_kept_is_f32_bit_by_bit_and_one_part_is_in_between(self):
        exact = self.scores()
        self.assertNotIn("kept", self.manifest())
        whole = ["--keep", "layers=f32", "--keep", "table=f32"]
        for precision in ("bf16", "int8"):
            error = {}
            for name, kept in {"none": [], "head": whole[2:], "all": whole}.items():
                error[name] = np.abs(self.scores("--precision", precision, *kept) - exact).mean()
            self.assertEqual(error["all"], 0)
            self.assertLess(0, error["head"])
            self.assertLess(error["head"], error["none"])
        self.assertEqual((self.manifest()["precision"], self.manifest()["kept"]), ("int8", {"layers": "f32", "table": "f32"}))
        self.assertIn('"kept": {', self.done("show", "lib"))
        self.assertIn("// Computes in f32, but products of 8 bits with sums of i32, or of bf16; kept: layers in f32, table in f32. Any number",
                      (self.folder / "lib" / "parts.h").read_text())  # fmt: skip

    def test_a_part_alone_is_narrow(self):
        exact = self.scores()
        some, all = (np.abs(self.scores(*words) - exact).mean() for words in (["--keep", "layers.0=int8"], ["--precision", "int8"]))
        self.assertLess(0, some)
        self.assertLess(some, all)

    def test_a_shared_table_is_stored_in_both_types_where_both_are_read(self):
        def stored(*options):
            self.scores(*options, "--single-copy")
            return self.manifest()["weights_bytes"]

        narrow = stored("--precision", "bf16")
        both = stored("--precision", "bf16", "--keep", "scores=f32")
        self.assertGreaterEqual(both, narrow + 4 * 50 * 64)
        self.assertLess(stored("--precision", "bf16", "--keep", "table=f32"), both)

    def test_parts_that_are_none_and_parts_without_products_are_refused(self):
        listed = "\n`heddle show MODEL --stage tree` lists weights and definitions by their paths\n"
        for path, nearest in {"layer.0": "; did you mean `layers.0`?", "down": "; did you mean `layers.0.down`?", "ids": ""}.items():
            self.refused(f"error: --keep {path}=f32: the model has no part `{path}`{nearest}{listed}", "compile", "parts.heddle",
                         "--weights", "parts.safetensors", "--keep", f"{path}=f32")
        self.refused("error: --keep norm=…: no product is computed there, and all else is as the model has it in any precision; "
                     "leave it out, or name a part that has products\n",
                     "compile", "parts.heddle", "--weights", "parts.safetensors", "--precision", "int8", "--keep", "norm=f32")
        self.refused("error: --keep table=bf16: `table` was f32 before; name one precision\n", "compile", "parts.heddle", "--weights",
                     "parts.safetensors", "--keep", "table=f32", "--keep", "table=bf16")
        for word in ("layers", "layers=f64", "=f32"):
            status, out, err = self.heddle("show", "parts.heddle", "--keep", word)
            self.assertEqual((status, out, err), (2, "", f"error: --keep wants PATH=P, P one of f32, tf32, bf16 and int8, not `{word}`\n"))
        for words, instead in ((("--precision", "tf32"), "--precision f32"), (("--keep", "layers=tf32"), "--keep PATH=f32")):
            status, out, err = self.heddle("show", "parts.heddle", "--target", "x86-64-v3", *words)
            self.assertEqual((status, out, err), (2, "", f"error: --target x86-64-v3: only GPUs have products of tf32; say {instead}, or "
                                                         "name a GPU, such as cuda:sm_80\n"))


class Parts(Precision):
    """`compare --parts`: a row for each kernel, those that add the largest errors first."""

    def table(self, *words):
        header, *rows = self.done("compare", "parts.heddle", "--weights", "parts.safetensors", "--in", "ids.safetensors", "--threads", "1",
                                  "--parts", *words).splitlines()
        self.assertEqual(header.split()[:4], ["definition", "adds", "mean", "largest"])
        self.assertEqual(rows.pop().split()[0], "all")
        return header, {row.split()[0]: row.split()[1:] for row in rows}

    def test_errors_times_and_shares_of_each_part(self):
        header, rows = self.table("--precision", "int8", "--keep", "layers.0=f32")
        self.assertEqual(header.split()[4:], ["int8", "f32", "share"])
        added = [float(row[0]) for row in rows.values()]
        self.assertEqual(added, sorted(added, reverse=True))
        for name, row in rows.items():
            adds, mean, largest = float(row[0]), float(row[2]), float(row[4])
            self.assertLessEqual(adds, mean)
            self.assertEqual(mean == 0, largest == 0, name)
            self.assertLess(mean, 5, name)
        # What is kept adds nothing, and what comes after it carries the error of what is not.
        self.assertEqual({name: float(rows[name][2]) for name in rows if name.startswith("layers.0")},
                         {name: 0 for name in rows if name.startswith("layers.0")})
        self.assertGreater(float(rows["layers.1.h"][0]), 0)
        self.assertGreater(float(rows["scores"][2]), 0)
        self.assertAlmostEqual(sum(float(row[-2]) for row in rows.values()), 100, delta=0.1 * len(rows))

    def test_what_is_no_number_on_both_sides_is_no_error(self):
        weights = self.load("parts.safetensors")
        weights["table"][7, 3] = np.nan
        weights["layers.1.up"][5] = np.inf
        self.save("parts.safetensors", weights)
        self.save("ids.safetensors", {"ids": np.array([1, 7, 9], np.int32)})
        _, rows = self.table("--precision", "int8")
        for name, row in rows.items():
            self.assertTrue(np.isfinite([float(row[0]), float(row[2]), float(row[4])]).all(), (name, row))

    def test_wrong_words(self):
        for words, message in {
            (): "--parts says what each part loses by --precision; name one, such as --precision bf16",
            ("--precision", "bf16", "--library", "lib"): "--parts compares with the model's own f32; leave --against and --library out",
        }.items():
            status, out, err = self.heddle("compare", "parts.heddle", "--in", "ids.safetensors", "--parts", *words)
            self.assertEqual((status, out, err), (2, "", f"error: {message}\n"))


class Scales(Precision):
    """`calibrate` finds scales of activations, `--scales` takes them."""

    def calibrate(self, *words):
        out = self.done("calibrate", "parts.heddle", "--weights", "parts.safetensors", "--in", "ids.safetensors", "-o", "s.json", *words)
        return out, json.loads((self.folder / "s.json").read_text())

    def quantized(self, *words):
        return self.scores("--precision", "int8", *words)

    def test_scales_are_the_largest_magnitudes_and_results_stay_close(self):
        exact = self.scores()
        out, scales = self.calibrate()
        names = ["layers.0.h", "layers.1.h", "x"]
        self.assertLessEqual(set(names), set(scales["activations"]))
        self.assertEqual((scales["format"], scales["model"]), (1, "Net"))
        self.assertEqual(out, f"s.json: scales of {len(scales['activations'])} activations from 1 call\n")
        x = self.load("parts.safetensors")["table"][self.load("ids.safetensors")["ids"]]
        self.assertEqual(scales["activations"]["x"], {"shape": ["S", "64"], "largest": float(np.abs(x).max())})
        static, dynamic = self.quantized("--scales", "s.json"), self.quantized()
        self.assertLess(np.abs(static - exact).max(), 0.05 * np.abs(exact).max())
        self.assertTrue((static != dynamic).any())

    def test_activations_that_were_nothing_but_zero_get_no_scale(self):
        self.save("parts.safetensors", {name: np.zeros(shape, np.float32) for name, shape in self.shapes.items()})
        out, scales = self.calibrate()
        self.assertEqual(scales["activations"], {})
        self.assertIn("or without a number but 0", out)

    def test_layers_share_their_kernels_and_no_row_is_searched_for_its_largest(self):
        self.calibrate()
        self.quantized("--scales", "s.json")
        static = self.manifest()
        self.quantized()
        self.assertLessEqual(len(static["kernels"]), len(self.manifest()["kernels"]))
        self.assertAlmostEqual(static["scales"]["x"], json.loads((self.folder / "s.json").read_text())["activations"]["x"]["largest"], 5)

    def test_what_exceeds_its_scale_is_clamped(self):
        self.calibrate()
        scales = json.loads((self.folder / "s.json").read_text())
        for activation in scales["activations"].values():
            activation["largest"] /= 4
        (self.folder / "s.json").write_text(json.dumps(scales))
        exact, clamped = self.scores(), self.quantized("--scales", "s.json")
        off = np.abs(clamped - exact).max() / np.abs(exact).max()
        self.assertTrue(0.05 < off < 1.5, off)  # numbers that wrapped around would have the other sign

    def test_a_percentile_leaves_the_largest_out(self):
        _, all = self.calibrate()
        _, most = self.calibrate("--percentile", "90")
        for name, activation in all["activations"].items():
            self.assertLess(most["activations"][name]["largest"], activation["largest"], name)
            self.assertGreater(most["activations"][name]["largest"], activation["largest"] / 8, name)

    def test_files_of_other_models_are_refused_with_one_message(self):
        self.calibrate()
        good = (self.folder / "s.json").read_text()
        again = "; `heddle calibrate` makes one for this model\n"
        damaged = "is no file of `heddle calibrate`, or damaged: "
        for old, new, message in [
            ('"Net"', '"Nut"', "has scales of model `Nut`, and this is `Net`" + again),
            ('"x"', '"xx"', "has a scale of `xx`, which this model doesn't compute" + again),
            ('"64"', '"65"', None),
            ('"format": 1', '"format": 9', "has format 9, and this Heddle reads 1; calibrate again\n"),
            ('"activations"', '"actuations"', damaged + "`activations` is no object\n"),
            ("{", "[", damaged + "it is not a JSON object\n"),
        ]:
            (self.folder / "s.json").write_text(good.replace(old, new))
            words = ["compile", "parts.heddle", "--weights", "parts.safetensors", "--precision", "int8", "--scales", "s.json", "-o", "new"]
            if message:
                self.refused(f"error: s.json: {message}", *words)
            else:
                status, _, err = self.heddle(*words)
                self.assertEqual(status, 1)
                self.assertRegex(err, r"^error: s.json: `.*` has shape \[S, 65\] there, and here it is \[S, 64\]; `heddle calibrate` makes one for this model\n$")
        status, out, err = self.heddle("show", "parts.heddle", "--scales", "s.json", "--precision", "bf16")
        self.assertEqual((status, out, err), (2, "", "error: --scales s.json: only int8 has scales; say --precision int8, too\n"))


class Interface(Scratch):
    """`--io`: types of real inputs and results, whatever is computed in."""

    TEXT = """dim S <= 64
model Net {
  param w: real[24, 16]
  entry run(x: real[S, 16], by: real = 0.5, n: i32[S] = 1) -> y: real[S, 24], same: real[S, 16], twice: real[S, 24], top: i32[S] {
    y[s, o] = sum[i](x[s, i] * w[o, i]) * by * n[s]
    top[s] = argmax[o](y[s, o])
    return y, x, y, top
  }
}
"""

    def setUp(self):
        super().setUp()
        (self.folder / "io.heddle").write_text(self.TEXT)
        random = np.random.default_rng(3)
        self.save("io.safetensors", {"w": random.standard_normal((24, 16), np.float32)})
        self.x = random.standard_normal((5, 16), np.float32)

    def run_with(self, dtype, x, *options):
        self.done("compile", "io.heddle", "--weights", "io.safetensors", *options, "-o", "lib")
        narrow_tensors.save(self.folder / "x.safetensors", {"x": (dtype, x)})
        self.done("run", "lib", "--in", "x.safetensors", "--out", "y.safetensors")
        library = narrow_tensors.load(self.folder / "y.safetensors")
        self.done("run", "io.heddle", "--weights", "io.safetensors", *options, "--in", "x.safetensors", "--reference", "--out", "r.safetensors")
        reference = narrow_tensors.load(self.folder / "r.safetensors")
        self.assertEqual({name: of for name, (of, _) in library.items()}, {name: of for name, (of, _) in reference.items()})
        for name, (_, values) in reference.items():
            np.testing.assert_allclose(library[name][1].astype(np.float64), values.astype(np.float64), rtol=0, atol=2**-7 * np.abs(values).max())
        return library

    def described(self):
        manifest = json.loads((self.folder / "lib" / "io.json").read_text())
        return (self.folder / "lib" / "io.h").read_text(), manifest["entries"][0]["inputs"], manifest["entries"][0]["results"]

    def test_a_narrow_door_to_a_model_in_f32(self):
        bits = narrow_tensors.to_bf16(self.x)
        exact = self.run_with("F32", (bits.astype(np.uint32) << 16).view(np.float32))
        got = self.run_with("BF16", self.x, "--io", "bf16")
        self.assertEqual({name: of for name, (of, _) in got.items()}, {"y": "BF16", "same": "BF16", "twice": "BF16", "top": "I32"})
        for name in ("y", "same", "twice"):  # computed in f32, rounded once
            np.testing.assert_array_equal(narrow_tensors.to_bf16(got[name][1]), narrow_tensors.to_bf16(exact[name][1]), name)
        np.testing.assert_array_equal(got["top"][1], exact["top"][1])
        header, inputs, results = self.described()
        self.assertEqual([value["dtype"] for value in inputs + results], ["bf16", "bf16", "i32", "bf16", "bf16", "bf16", "i32"])
        self.done("compile", "io.heddle", "--weights", "io.safetensors", "--set", "real=bf16", "-o", "lib")
        self.assertEqual((header, inputs, results), self.described())  # as if the model's own types were these

    def test_an_f32_door_to_a_narrow_model(self):
        got = self.run_with("F32", self.x, "--set", "real=bf16", "--io", "f32")
        self.assertEqual({of for name, (of, _) in got.items() if name != "top"}, {"F32"})
        y = got["y"][1]
        np.testing.assert_array_equal(narrow_tensors.to_bf16(y).astype(np.uint32) << 16, y.view(np.uint32))  # still bf16 inside
        self.done("compile", "io.heddle", "--weights", "io.safetensors", "-o", "lib")
        plain = self.described()
        self.run_with("F32", self.x, "--io", "f32")
        self.assertEqual(self.described(), plain)

    def test_wrong_words(self):
        for words, message in {
            ("check", "io.heddle", "--io", "f64"): "--io wants f32, bf16 or f16, not `f64`",
            ("run", "lib", "--io", "bf16", "--in", "x.safetensors"): "--io says something of a model's source, and lib is a compiled library; give the .heddle file or the Hugging Face folder",
        }.items():
            self.done("compile", "io.heddle", "--weights", "io.safetensors", "-o", "lib")
            status, out, err = self.heddle(*words)
            self.assertEqual((status, out, err), (2, "", f"error: {message}\n"))
        self.done("compile", "io.heddle", "--weights", "io.safetensors", "--io", "bf16", "-o", "lib")
        self.save("x.safetensors", {"x": self.x})
        status, _, err = self.heddle("run", "lib", "--in", "x.safetensors")
        self.assertEqual(status, 1)
        self.assertIn("bf16", err)


if __name__ == "__main__":
    unittest.main()
