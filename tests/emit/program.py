"""One library of a program runs several calls on one session and must agree with the reference evaluator in every result of every
call."""

import sys
from pathlib import Path

import numpy as np

sys.path += [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[1] / "models")]
from heddle_command import ROOT, heddle, must, tensors  # noqa: E402
from safetensors import numpy as safetensors  # noqa: E402
from scratch import Scratch  # noqa: E402

sys.path.insert(0, str(ROOT / "python"))


def save(path, values):
    safetensors.save_file({name: np.asarray(value, order="C") for name, value in values.items()}, path)


def real(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


def whole(*values):
    return np.array(values, np.int32)


class Program(Scratch):
    """Compiles `text` and compares `calls`, pairs of an entry and its inputs, with the evaluator."""

    def compile(self, text, weights=None, name="model"):
        self.model = self.folder / f"{name}.heddle"
        self.model.write_text(text)
        self.options = []
        if weights:
            save(self.folder / "weights.safetensors", weights)
            self.options = ["--weights", self.folder / "weights.safetensors"]
        self.library = self.folder / "library"
        must("compile", self.model, *self.options, "-o", self.library)

    def arguments(self, calls, side):
        out = []
        for i, (entry, inputs) in enumerate(calls):
            given = self.folder / f"{i}.in.safetensors"
            save(given, inputs)
            out += ["--entry", entry, "--in", given, "--out", self.folder / f"{i}.{side}.safetensors"]
        return out

    def check(self, calls, *options):
        self.assertTrue(calls)
        must("run", self.library, *self.arguments(calls, "out"), *options)
        must("run", self.model, *self.options, "--reference", *self.arguments(calls, "want"))
        for i, (entry, _) in enumerate(calls):
            got, want = (tensors(self.folder / f"{i}.{side}.safetensors") for side in ("out", "want"))
            self.assertEqual(sorted(got), sorted(want), f"call {i}, {entry}")
            for name in want:
                place, off = f"call {i}, {entry}: {name}", 2e-5 if want[name].dtype.kind == "f" else 0
                self.assertEqual((got[name].dtype, got[name].shape), (want[name].dtype, want[name].shape), place)
                np.testing.assert_allclose(got[name], want[name], rtol=off, atol=off, err_msg=place)

    def refused(self, calls, message):
        for side, command in (("out", ["run", self.library]), ("want", ["run", self.model, *self.options, "--reference"])):
            status, errors = heddle(*command, *self.arguments(calls, side))
            self.assertEqual(status, 1)
            self.assertIn(message, errors)
