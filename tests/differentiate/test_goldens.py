#!/usr/bin/env python3
"""Gradients against PyTorch's autograd (make_goldens.py): of layers, and of all parameters of BERT with both losses;
evaluated and compiled, within 1e-4 of the largest value of each; and the losses of fifty steps of Adam, within 2e-5."""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np
from safetensors import numpy as safetensors

ROOT = Path(__file__).resolve().parents[2]
HEDDLE = os.environ.get("HEDDLE", str(ROOT / "build" / "bin" / "heddle"))
GOLDENS = Path(__file__).resolve().parent / "goldens"
ALLOWED = 1e-4


def heddle(*words):
    done = subprocess.run([HEDDLE, *map(str, words)], capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise AssertionError(done.stderr)
    return done.stdout


class Gradients(unittest.TestCase):
    def run_model(self, folder, inputs, expected, *words):
        """`expected`: results by name. Both ways to run agree with it."""
        safetensors.save_file(inputs, folder / "in.safetensors")
        least = 1e-3 * max(np.abs(want).max() for want in expected.values())  # a key's bias has none but for rounding
        for mode in (["--reference"], []):
            heddle("run", *words, *mode, "--in", folder / "in.safetensors", "--out", folder / "out.safetensors")
            got = safetensors.load_file(folder / "out.safetensors")
            self.assertEqual(sorted(got), sorted(expected))
            for name, want in expected.items():
                off = np.abs(got[name].reshape(want.shape) - want).max() / max(least, np.abs(want).max())
                self.assertLess(off, ALLOWED, f"{name} {'evaluated' if mode else 'compiled'}")

    def layer(self, name):
        tensors = safetensors.load_file(GOLDENS / f"{name}.safetensors")
        kind = lambda k: {n.removeprefix(k): v for n, v in tensors.items() if n.startswith(k)}  # noqa: E731
        expected = {"d_" + n.replace(".", "_"): v for n, v in kind("gradient:").items()}
        asked = set(re.findall(r"\bd_\w+", (GOLDENS / f"{name}.heddle").read_text()))
        expected = {"loss": tensors["loss"], **{n: v for n, v in expected.items() if n in asked}}
        self.assertEqual(asked, set(expected) - {"loss"})
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            safetensors.save_file(kind("weight:"), folder / "weights.safetensors")
            self.run_model(folder, kind("input:"), expected, GOLDENS / f"{name}.heddle", "--weights",
                           folder / "weights.safetensors")

    def test_linear_gelu_norm(self):
        self.layer("linear_gelu_norm")

    def test_attention(self):
        self.layer("attention")

    def test_embedding(self):
        self.layer("embedding")

    def test_convolution(self):
        self.layer("convolution")

    def test_cross_entropy(self):
        self.layer("cross_entropy")

    def test_lstm(self):
        self.layer("lstm")

    def bert(self, folder, change):
        """A copy of BERT's model file with another entry `loss`; the golden folder with its weights."""
        source = ROOT / "models" / "bert"
        for file in source.glob("*.heddle"):
            (folder / file.name).write_text(file.read_text())
        text, there = re.subn(r"-> loss: real \{(.*?)return (both\(.*?\))\n    \}", change, (source / "bert.heddle").read_text(),
                              flags=re.S)
        self.assertEqual(there, 1)
        (folder / "bert.heddle").write_text(text)
        return ROOT / "tests" / "models" / "goldens" / "bert_loss"

    def test_all_parameters_of_bert(self):
        golden = ROOT / "tests" / "models" / "goldens" / "bert_loss"
        gradients = safetensors.load_file(GOLDENS / "bert_loss.safetensors")
        tree = heddle("show", golden, "--stage", "tree")
        weights = re.findall(r'^weight (\S+): f32(\[.*?\]) as "(\S+)"', tree, re.M)
        self.assertEqual({name for _, _, name in weights}, set(gradients) - {"loss"})
        results = "".join(f", g{i}: real{shape}" for i, (_, shape, _) in enumerate(weights))
        paths = [re.sub(r"[.]([0-9]+)", r"[\1]", path) for path, _, _ in weights]
        asked = "".join(f", grad(loss, {path})" for path in paths)
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            self.bert(folder, lambda m: f"-> loss: real{results} {{{m[1]}loss = {m[2]}\n      return loss{asked}\n    }}")
            expected = {"loss": gradients["loss"], **{f"g{i}": gradients[name] for i, (_, _, name) in enumerate(weights)}}
            self.run_model(folder, safetensors.load_file(golden / "3x19.in.safetensors"), expected, folder / "bert.heddle",
                           "--config", golden, "--weights", golden / "model.safetensors")

    def test_fifty_steps_of_bert(self):
        step = """
      let t = step + 1
      step <- t
      for p in params(bert, words, next) {
        let new, a, b = adam(p, m[p], v[p], grad(loss, p), t, inverse_square_root(t, 10, 0.001), 0.9, 0.98, 1e-8)
        p <- new
        m[p] <- a
        v[p] <- b
      }
      return loss
    }"""
        steps = safetensors.load_file(GOLDENS / "bert_steps.safetensors")
        losses = steps.pop("losses")
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            golden = self.bert(folder, lambda m: f"-> loss: real {{{m[1]}loss = {m[2]}{step}")
            text = (folder / "bert.heddle").read_text()
            states = "  state m: params(bert, words, next) = 0\n  state v: params(bert, words, next) = 0\n  state step: i32 = 0\n"
            (folder / "bert.heddle").write_text(text.replace("\n  if HEAD ==", "\n" + states + "\n  if HEAD ==", 1))
            words = ["run", folder / "bert.heddle", "--config", golden, "--weights", golden / "model.safetensors"]
            for i in range(len(losses)):
                safetensors.save_file({k: np.ascontiguousarray(v[i]) for k, v in steps.items()}, folder / f"in{i}.safetensors")
                words += ["--in", folder / f"in{i}.safetensors", "--out", folder / f"out{i}.safetensors"]
            for mode in (["--reference"], []):
                heddle(*words, *mode)
                for i, want in enumerate(losses):
                    got = safetensors.load_file(folder / f"out{i}.safetensors")["loss"]
                    self.assertLess(abs(got - want) / want, 2e-5, f"step {i + 1} {'evaluated' if mode else 'compiled'}")


if __name__ == "__main__":
    unittest.main()
