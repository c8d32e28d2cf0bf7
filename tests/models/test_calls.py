#!/usr/bin/env python3
"""What callers of one compiled library may vary, and what a session holds; with a BERT encoder of 4096 positions."""

import json
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np
from heddle_command import GOLDENS, ROOT, difference, must, save, tensors

sys.path.insert(0, str(ROOT / "python"))
import heddle  # noqa: E402


def setUpModule():
    """The golden encoder with 64 times as many positions, of which the first are its own."""
    global MODEL, GIVEN
    scratch = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(scratch.cleanup)
    folder = Path(scratch.name) / "long"
    folder.mkdir()
    config = json.loads((GOLDENS / "bert_model" / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 4096}))
    weights = tensors(GOLDENS / "bert_model" / "model.safetensors")
    name = "embeddings.position_embeddings.weight"
    weights[name] = np.tile(weights[name], (64, 1))
    save(folder / "model.safetensors", weights)
    must("compile", folder, "-o", folder / "library")
    MODEL = heddle.load(folder / "library")
    unittest.addModuleCleanup(MODEL.close)
    GIVEN = tensors(GOLDENS / "bert_model" / "3x37.in.safetensors")


def outputs(given):
    with MODEL.session(threads=2) as session:
        return session.run(given)


class Inputs(unittest.TestCase):
    def test_integers_may_come_in_any_width_that_holds_them(self):
        want = outputs(GIVEN)
        for dtype in ("int32", "uint8"):
            self.assertEqual(0, difference(outputs({name: value.astype(dtype) for name, value in GIVEN.items()}), want))
        boolean = {**GIVEN, "attention_mask": GIVEN["attention_mask"].astype(bool)}
        self.assertEqual(0, difference(outputs(boolean), want))

    def test_an_absent_optional_input_is_its_default(self):
        ids = GIVEN["input_ids"]
        plain = outputs({"input_ids": ids})
        self.assertEqual(0, difference(outputs({"input_ids": ids, "attention_mask": ids * 0 + 1}), plain))
        self.assertEqual(0, difference(outputs({"input_ids": ids, "token_type_ids": ids * 0}), plain))

    def test_what_is_masked_out_does_not_reach_the_rest(self):
        ids = GIVEN["input_ids"].copy()
        mask = GIVEN["attention_mask"] != 0
        ids[~mask] = 7
        got, want = outputs({**GIVEN, "input_ids": ids}), outputs(GIVEN)
        rows = "last_hidden_state"
        self.assertEqual(0, difference({rows: got[rows][mask]}, {rows: want[rows][mask]}))

    def test_a_text_does_not_depend_on_its_neighbours_in_the_batch(self):
        want = outputs(GIVEN)
        for row in range(3):
            alone = outputs({name: value[row : row + 1] for name, value in GIVEN.items()})
            self.assertLessEqual(difference(alone, {name: value[row : row + 1] for name, value in want.items()}), 1e-5)

    def test_an_empty_batch_gives_empty_results(self):
        got = outputs({"input_ids": GIVEN["input_ids"][:0]})
        self.assertEqual([(0, 37, 60), (0, 60)], [got["last_hidden_state"].shape, got["pooler_output"].shape])


class Memory(unittest.TestCase):
    def test_scores_of_all_pairs_never_exist(self):
        session = MODEL.session(threads=2)
        session.run({"input_ids": np.ones((1, 4096), np.int32)})
        held = session.memory
        all_pairs = 5 * 4096 * 4096 * 4  # five heads of float32
        self.assertLess(held["arena_bytes"] + held["scratch_bytes"], all_pairs // 10)

    def test_a_call_no_larger_than_an_earlier_one_allocates_nothing(self):
        session = MODEL.session(threads=2)
        for batch, length in ((2, 100), (1, 7), (2, 33)):  # kernels for short and for long texts
            session.run({"input_ids": np.ones((batch, length), np.int32)})
        before = session.memory["allocations"]
        for batch, length in ((2, 100), (2, 33), (1, 7), (1, 99)):
            session.run({"input_ids": np.ones((batch, length), np.int32)})
        self.assertEqual(before, session.memory["allocations"])

    def test_memory_of_restricted_attention_grows_with_the_length(self):
        with tempfile.TemporaryDirectory() as scratch:
            must("compile", GOLDENS / "restricted_attention", "-o", scratch)
            with heddle.load(scratch) as model:
                held = []
                for length in (1024, 8192):
                    with model.session(threads=2) as session:
                        session.run({"src": np.ones((1, length, 20), np.float32)})
                        held.append(session.memory["arena_bytes"] + session.memory["scratch_bytes"])
        self.assertLess(held[1], 9 * held[0])


if __name__ == "__main__":
    unittest.main()
