#!/usr/bin/env python3
"""Whole models against independent sources, mostly PyTorch in float32: each folder under goldens/ is compiled once, and
that one library runs every call and every session of the folder (several batches and lengths). The makers of the
folders say what they hold.

    python tests/models/test_goldens.py [FOLDER...]           ctest runs each folder as a case of its own, models_FOLDER

With $HEDDLE_TARGET libraries are compiled for that target; ctest does so for GPUs, as cuda_FOLDER on the emulated one. With
HEDDLE_PRECISION=bf16 products are in bf16, and results are held to that precision's limits: cuda_bf16_FOLDER."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np
from drawn_weights import draw
from heddle_command import GOLDENS, ROOT, difference, must, save, tensors
from tolerances import F32, WHOLE, narrow

sys.path.insert(0, str(ROOT / "python"))
import heddle  # noqa: E402

TARGET = ["--target", os.environ["HEDDLE_TARGET"]] if "HEDDLE_TARGET" in os.environ else []
IN_BF16 = os.environ.get("HEDDLE_PRECISION") == "bf16"
OPTIONS = [*TARGET, *(["--precision", "bf16"] if IN_BF16 else [])]
evaluates = unittest.skipIf(OPTIONS, "the evaluator is the same for every target")


def answer(path):
    return tensors(path.with_name(path.name.replace(".in.", ".out.")))


def calls(folder):
    """Per call its name, inputs and results."""
    for path in sorted(folder.glob("*.in.safetensors")):
        yield path.name.removesuffix(".in.safetensors"), tensors(path), answer(path)


def sessions(folder):
    """Calls that go to one session: per session its name and (entry, inputs, results) of each call, in order."""
    for session in sorted(folder.glob("session_*")):
        yield session.name, [(path.name.split(".")[1], tensors(path), answer(path))
                             for path in sorted(session.glob("*.in.safetensors"))]


def largest_values(folder):
    """Of each result, in all of a folder's calls and sessions."""
    out = {}
    for path in folder.glob("**/*.out.safetensors"):
        for name, values in tensors(path).items():
            out[name] = max(out.get(name, 0), float(np.abs(values.astype(np.float64)).max(initial=0)))
    return out


class Folder:
    """The tests of one golden folder; one class per folder is made below."""

    @classmethod
    def setUpClass(cls):
        if len(list(calls(cls.folder))) < 2:
            raise AssertionError(f"{cls.folder.name} has no two calls: what is tested there?")
        cls.scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.scratch.cleanup)
        source = cls.folder
        if (cls.folder / "weights.json").exists():
            source = Path(cls.scratch.name) / "source"
            source.mkdir()
            shutil.copy(cls.folder / "config.json", source)
            save(source / "model.safetensors", draw(cls.folder))
        must("compile", source, "-o", Path(cls.scratch.name) / "library", *OPTIONS)
        cls.model = heddle.load(Path(cls.scratch.name) / "library")
        cls.addClassCleanup(cls.model.close)
        cls.largest = largest_values(cls.folder)
        cls.entry = "forward" if "forward" in cls.model.entries else None

    def assert_close(self, got, want, call):
        if IN_BF16:
            return self.assert_close_in_bf16(got, want, call)
        worst = difference(got, want)
        self.assertNotIsInstance(worst, str, f"{call}: {worst}")
        self.assertLessEqual(worst, F32, call)

    def assert_close_in_bf16(self, got, want, call):
        """As shares of the largest value that the golden has of a result in any call; of whole numbers, how many differ."""
        self.assertEqual(sorted(got), sorted(want))
        mean, most = narrow(self.folder.name)
        for key, value in want.items():
            self.assertEqual((got[key].dtype, got[key].shape), (value.dtype, value.shape), f"{call}: {key}")
            if value.dtype.kind != "f":
                self.assertLessEqual((got[key] != value).sum(), WHOLE * value.size, f"{call}: {key}")
            elif value.size:
                off = np.abs(got[key].astype(np.float64) - value) / self.largest[key]
                self.assertLessEqual(off.mean(), mean, f"{call}: {key}")
                self.assertLessEqual(off.max(), most, f"{call}: {key}")

    def test_one_library_agrees_for_every_shape_with_the_same_bits_for_any_number_of_threads(self):
        for call, given, want in calls(self.folder):
            with self.subTest(call), self.model.session(threads=1) as one, self.model.session(threads=2) as two:
                got = one.run(given, entry=self.entry)
                self.assert_close(got, want, call)
                for name, value in two.run(given, entry=self.entry).items():
                    self.assertEqual(value.tobytes(), got[name].tobytes(), f"{call}: {name}")

    def test_consecutive_calls_of_one_session_do_not_disturb_each_other(self):
        if self.model.states:
            if not list(self.folder.glob("*.bf16.safetensors")):  # a narrow twin: its f32 folder has the sessions
                self.assertIsInstance(self, Sessions, "what it remembers is tested by no session_*")
            self.skipTest("its calls are meant to: it remembers")
        with self.model.session(threads=2) as session:
            for call, given, want in [*calls(self.folder)] * 2:
                self.assert_close(session.run(given, entry=self.entry), want, call)

    def evaluate(self, folder, names, entries=()):
        """What `heddle run --reference` gives for calls of a folder, one after the other."""
        words, results = [], []
        for number, name in enumerate(names):
            results.append(Path(self.scratch.name) / f"reference-{number}.safetensors")
            words += ["--in", folder / f"{name}.in.safetensors", "--out", results[-1]]
        must("run", self.folder, "--reference", *words, *(word for entry in entries for word in ("--entry", entry)))
        return zip(map(tensors, results), (answer(folder / f"{name}.in.safetensors") for name in names), names)

    @evaluates
    def test_the_evaluator_agrees(self):
        """It is slow: of the calls, the smallest that has more than one element per dim; and no large model."""
        if (self.folder / "weights.json").exists():
            self.skipTest("too large for it")
        sizes = {name: sum(value.size for value in given.values()) for name, given, _ in calls(self.folder)
                 if not set(name.split("x")) <= {"1"}}
        for got, want, name in self.evaluate(self.folder, [min(sizes, key=sizes.get)]):
            self.assert_close(got, want, name)


class Sessions:
    """The tests of a folder with calls that go to one session."""

    def test_calls_of_one_session_agree(self):
        for name, made in sessions(self.folder):
            self.assertTrue(made, name)
            with self.subTest(name), self.model.session(threads=2) as session:
                for number, (entry, given, want) in enumerate(made, 1):
                    self.assert_close(session.run(given, entry=entry), want, f"{name}, call {number}")

    @evaluates
    def test_the_evaluator_agrees_in_sessions(self):
        for session in sorted(self.folder.glob("session_*")):
            names = sorted(path.name.removesuffix(".in.safetensors") for path in session.glob("*.in.safetensors"))
            for got, want, name in self.evaluate(session, names, [name.split(".")[1] for name in names]):
                self.assert_close(got, want, f"{session.name}, {name}")


class Generation:
    """The tests of a folder with a generation.json: texts that the compiled model writes."""

    def inputs(self, case):
        return {name: np.array(case[name]) for name in ("input_ids", "attention_mask", "lengths") if name in case}

    @unittest.skipIf(IN_BF16, "texts of random weights part where two words are nearly as likely")
    def test_generated_texts_and_scores_are_those_of_the_source(self):
        with self.model.session() as session:
            for number, case in enumerate(self.cases):
                with self.subTest(number):
                    sequences, scores = session.generate(self.inputs(case), case["steps"], **case["options"])
                    self.assertEqual(sequences.tolist(), case["sequences"])
                    if case["scores"]:
                        np.testing.assert_allclose(scores, case["scores"], rtol=1e-4, atol=1e-4)

    def test_a_texts_score_is_the_sum_of_its_log_probabilities(self):
        case = self.cases[0]
        with self.model.session() as session:
            inputs = self.inputs(case)
            sequences, scores = session.generate(inputs, 6, min_steps=6)
            if "decode_step" in self.model.entries:
                parts = session.score(inputs, sequences[:, 1:])
                self.assertEqual(parts.shape, sequences[:, 1:].shape)
            else:
                parts = session.score({"input_ids": sequences})[:, inputs["input_ids"].shape[1] :]
            np.testing.assert_allclose(parts.sum(1), scores, rtol=1e-4)


class Perplexity:
    """The test of a folder with a perplexity.json: the example over a real text, whose tokens are its bytes."""

    def test_perplexity_and_bits_per_character_of_a_text_are_those_of_the_source(self):
        want = json.loads((self.folder / "perplexity.json").read_text())
        script, library = ROOT / "examples" / "perplexity" / "perplexity.py", Path(self.scratch.name) / "library"
        words = [sys.executable, script, library, ROOT / want["text"], "--bytes"]
        for option in ("window", "stride", "segment"):
            words += [f"--{option}", want[option]] if option in want else []
        done = subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=600)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for name in ("perplexity", "bits per character"):
            got = float(re.search(rf"^{name} +(\S+)$", done.stdout, re.M)[1])
            self.assertAlmostEqual(got, want[name], delta=(5e-3 if IN_BF16 else 2e-4) * want[name])


for folder in sorted(path for path in GOLDENS.iterdir() if path.is_dir()):
    members, kinds = {"folder": folder}, (Folder, unittest.TestCase)
    if any(folder.glob("session_*")):
        kinds = (Sessions, *kinds)
    if (folder / "generation.json").exists():
        members["cases"], kinds = json.loads((folder / "generation.json").read_text()), (Generation, *kinds)
    if (folder / "perplexity.json").exists():
        kinds = (Perplexity, *kinds)
    globals()[folder.name] = type(folder.name, kinds, members)

if __name__ == "__main__":
    unittest.main()
