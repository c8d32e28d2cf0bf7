#!/usr/bin/env python3
"""Whole models against PyTorch's float32: each Hugging Face folder under goldens/ is compiled once, and that one
library runs every call of the folder (several batch sizes and lengths). See make_goldens.py for what they hold."""

import json
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np
from heddle_command import GOLDENS, ROOT, difference, must, save, tensors

sys.path.insert(0, str(ROOT / "python"))
import heddle  # noqa: E402

TOLERANCE = 2e-4  # of the largest value: float32 sums in another order, over two layers


def calls(folder):
    for path in sorted(folder.glob("*.in.safetensors")):
        yield path.name.removesuffix(".in.safetensors"), path, tensors(path.with_name(path.name.replace(".in.", ".out.")))


def sessions(folder):
    """Calls that go to one session: per session its name and (entry, inputs, results) of each call, in order."""
    for session in sorted(folder.glob("session_*")):
        yield session.name, [(path.name.split(".")[1], path, tensors(path.with_name(path.name.replace(".in.", ".out."))))
                             for path in sorted(session.glob("*.in.safetensors"))]


class Folder:
    """The tests of one golden folder; one class per folder is made below."""

    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.library = Path(cls.scratch.name) / "library"
        must("compile", cls.folder, "-o", cls.library)

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def run_library(self, given, *options):
        result = Path(self.scratch.name) / "result.safetensors"
        must("run", self.library, "--in", given, "--out", result, *options)
        return result

    def assert_close(self, got, want, call, tolerance):
        worst = difference(got, want)
        self.assertNotIsInstance(worst, str, f"{call}: {worst}")
        self.assertLessEqual(worst, tolerance, call)

    def test_one_library_agrees_with_pytorch_for_every_shape(self):
        for call, given, want in calls(self.folder):
            with self.subTest(call):
                self.assert_close(tensors(self.run_library(given)), want, call, TOLERANCE)

    def test_the_number_of_threads_changes_no_bit(self):
        for call, given, want in calls(self.folder):
            with self.subTest(call):
                one = self.run_library(given, "--threads", "1").read_bytes()
                two = self.run_library(given, "--threads", "2").read_bytes()
                self.assertEqual(one, two, call)

    def test_the_reference_evaluator_agrees_with_pytorch(self):
        for call, given, want in calls(self.folder):
            with self.subTest(call):
                result = Path(self.scratch.name) / "reference.safetensors"
                must("run", self.folder, "--reference", "--in", given, "--out", result)
                self.assert_close(tensors(result), want, call, TOLERANCE)

    def test_consecutive_calls_of_one_session_do_not_disturb_each_other(self):
        if any(json.loads(path.read_text()).get("states") for path in self.library.glob("*.json")):
            self.skipTest("its calls are meant to: it remembers")
        arguments, wanted = [], []
        for round in range(2):
            for call, given, want in calls(self.folder):
                result = Path(self.scratch.name) / f"{round}-{call}.safetensors"
                arguments += ["--in", given, "--out", result]
                wanted.append((result, call, want))
        must("run", self.library, *arguments)
        for result, call, want in wanted:
            self.assert_close(tensors(result), want, call, TOLERANCE)

    def run_session(self, made, *options):
        arguments, results = [], []
        for number, (entry, given, want) in enumerate(made):
            results.append(Path(self.scratch.name) / f"session-{number}.safetensors")
            arguments += ["--entry", entry, "--in", given, "--out", results[-1]]
        must("run", *options, *arguments)
        return [tensors(result) for result in results]

    def test_calls_of_one_session_agree_with_pytorch(self):
        for name, made in sessions(self.folder):
            with self.subTest(name):
                for got, (entry, given, want) in zip(self.run_session(made, self.library), made):
                    self.assert_close(got, want, given.name, TOLERANCE)

    def test_the_reference_evaluator_agrees_with_pytorch_in_sessions(self):
        for name, made in sessions(self.folder):
            with self.subTest(name):
                for got, (entry, given, want) in zip(self.run_session(made, self.folder, "--reference"), made):
                    self.assert_close(got, want, given.name, TOLERANCE)


class Inputs(unittest.TestCase):
    """What a caller may vary in one call; with the plain encoder."""

    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.library = Path(cls.scratch.name) / "library"
        must("compile", GOLDENS / "bert_model", "-o", cls.library)
        cls.given = tensors(GOLDENS / "bert_model" / "3x37.in.safetensors")

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def outputs(self, given):
        into, out = Path(self.scratch.name) / "given.safetensors", Path(self.scratch.name) / "out.safetensors"
        save(into, given)
        must("run", self.library, "--in", into, "--out", out)
        return tensors(out)

    def test_integers_may_come_in_any_width_that_holds_them(self):
        want = self.outputs(self.given)
        for dtype in ("int32", "uint8"):
            self.assertEqual(0, difference(self.outputs({name: value.astype(dtype) for name, value in self.given.items()}), want))
        boolean = {**self.given, "attention_mask": self.given["attention_mask"].astype(bool)}
        self.assertEqual(0, difference(self.outputs(boolean), want))

    def test_an_absent_optional_input_is_its_default(self):
        ids = self.given["input_ids"]
        plain = self.outputs({"input_ids": ids})
        self.assertEqual(0, difference(self.outputs({"input_ids": ids, "attention_mask": ids * 0 + 1}), plain))
        self.assertEqual(0, difference(self.outputs({"input_ids": ids, "token_type_ids": ids * 0}), plain))

    def test_what_is_masked_out_does_not_reach_the_rest(self):
        ids = self.given["input_ids"].copy()
        mask = self.given["attention_mask"] != 0
        ids[~mask] = 7
        got, want = self.outputs({**self.given, "input_ids": ids}), self.outputs(self.given)
        rows = "last_hidden_state"
        self.assertEqual(0, difference({rows: got[rows][mask]}, {rows: want[rows][mask]}))

    def test_a_text_does_not_depend_on_its_neighbours_in_the_batch(self):
        want = self.outputs(self.given)
        for row in range(3):
            alone = self.outputs({name: value[row : row + 1] for name, value in self.given.items()})
            self.assertLessEqual(difference(alone, {name: value[row : row + 1] for name, value in want.items()}), 1e-5)

    def test_an_empty_batch_gives_empty_results(self):
        got = self.outputs({"input_ids": self.given["input_ids"][:0]})
        self.assertEqual([(0, 37, 60), (0, 60)], [got["last_hidden_state"].shape, got["pooler_output"].shape])


class Memory(unittest.TestCase):
    """What a session holds, told by the library; with an encoder of 4096 positions."""

    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        folder = Path(cls.scratch.name) / "long"
        folder.mkdir()
        config = json.loads((GOLDENS / "bert_model" / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 4096}))
        weights = tensors(GOLDENS / "bert_model" / "model.safetensors")
        name = "embeddings.position_embeddings.weight"
        weights[name] = np.tile(weights[name], (64, 1))
        save(folder / "model.safetensors", weights)
        must("compile", folder, "-o", folder / "library")
        cls.model = heddle.load(folder / "library")

    @classmethod
    def tearDownClass(cls):
        del cls.model
        cls.scratch.cleanup()

    def test_scores_of_all_pairs_never_exist(self):
        session = self.model.session(threads=2)
        session.run({"input_ids": np.ones((1, 4096), np.int32)})
        held = session.memory
        all_pairs = 5 * 4096 * 4096 * 4  # five heads of float32
        self.assertLess(held["arena_bytes"] + held["scratch_bytes"], all_pairs // 10)

    def test_a_call_no_larger_than_an_earlier_one_allocates_nothing(self):
        session = self.model.session(threads=2)
        for batch, length in ((2, 100), (1, 7), (2, 33)):  # kernels for short and for long texts
            session.run({"input_ids": np.ones((batch, length), np.int32)})
        before = session.memory["allocations"]
        for batch, length in ((2, 100), (2, 33), (1, 7), (1, 99)):
            session.run({"input_ids": np.ones((batch, length), np.int32)})
        self.assertEqual(before, session.memory["allocations"])


for folder in sorted(path for path in GOLDENS.iterdir() if path.is_dir()):
    globals()[folder.name] = type(folder.name, (Folder, unittest.TestCase), {"folder": folder})

if __name__ == "__main__":
    unittest.main()
