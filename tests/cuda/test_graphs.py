#!/usr/bin/env python3
"""Runs as CUDA graphs on the emulated device: the same bits as call by call, fewer calls of the driver, no more graphs than
a session may keep, and runs that do something else than the ones before."""

import subprocess
import sys
import unittest
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
from little import HEDDLE, ROOT, TOKENS, Little, heddle  # noqa: E402


class Graphs(Little):
    def run_texts(self, session, times):
        """The results of so many rounds of calls, and the driver's calls and the launches that each round took."""
        results, calls, launches = [], [], []
        for _ in range(times):
            session.reset()
            before = self.emulator.calls(), self.emulator.launches()
            results += [session.run({"ids": ids}) for ids in TOKENS]
            calls.append(self.emulator.calls() - before[0])
            launches.append(self.emulator.launches() - before[1])
        return results, calls, launches

    def test_results_have_the_same_bits_with_and_without(self):
        with self.load() as model, model.session() as graphs, model.session(graphs=-1) as none:
            mine, calls, launches = self.run_texts(graphs, 4)
            self.assertGreater(self.emulator.usage()["graphs"], 0)
            theirs, plain_calls, plain_launches = self.run_texts(none, 4)
        self.assert_as_wanted(mine)
        for a, b in zip(mine, theirs):
            np.testing.assert_array_equal(a["y"], b["y"])
            np.testing.assert_array_equal(a["best"], b["best"])
        self.assertEqual(launches, plain_launches)
        self.assertEqual(calls[2], calls[3], "what a graph is told does not grow")
        self.assertLess(calls[3], plain_calls[3] - launches[3] // 2)

    def test_no_more_are_kept_than_a_session_may(self):
        with self.load() as model, model.session() as many, model.session(graphs=1) as one:
            self.run_texts(many, 2)
            of_many = self.emulator.usage()["graphs"]
            self.run_texts(one, 2)  # each size drives out the one before it, and none comes twice in a row
            self.assertEqual(self.emulator.usage()["graphs"], of_many)
            for _ in range(3):
                one.reset()
                one.run({"ids": TOKENS[2]})
            of_one = self.emulator.usage()["graphs"] - of_many
            self.assertGreater(of_one, 0)
            self.assertLess(of_one, of_many)
            one.reset()
            results, _, _ = self.run_texts(one, 1)
            self.assert_as_wanted(results)
            self.assertEqual(self.emulator.usage()["graphs"], of_many, "the one was given up")

    def test_the_least_recently_used_goes(self):
        def calls(session, ids):
            session.reset()
            before = self.emulator.calls()
            session.run({"ids": ids})
            return self.emulator.calls() - before

        with self.load() as model, model.session(graphs=2) as session, model.session(graphs=-1) as plain:
            a, b, c = TOKENS
            for ids in (a, a, b, b, a, c):  # c takes the place of b
                calls(session, ids)
            for ids in (a, b):
                calls(plain, ids)
            self.assertLess(calls(session, a), calls(plain, a))
            self.assertEqual(calls(session, b), calls(plain, b))

    def test_a_run_that_is_refused_half_way_leaves_the_graphs_as_they_were(self):
        with self.load() as model, model.session() as session, model.session(graphs=-1) as plain:
            eight = np.arange(8, dtype=np.int32)
            for _ in range(3):
                results = []
                for each in (session, plain):
                    each.reset()
                    results.append([each.run({"ids": eight})["y"] for _ in range(2)])
                    with self.assertRaisesRegex(heddle.Error, "the cache is full"):
                        each.run({"ids": eight})
                np.testing.assert_array_equal(*results)
                np.testing.assert_array_equal(session.state("cache"), plain.state("cache"))

    def test_an_equal_call_allocates_nothing(self):
        with self.load() as model, model.session() as session:
            self.run_texts(session, 3)
            before = self.emulator.usage(), session.memory
            self.run_texts(session, 2)
            self.assertEqual((self.emulator.usage(), session.memory), before)


class Deviations(Little):
    """Work that isn't always the same for the same dims."""

    def test_a_state_that_slides_moves_now_and_then(self):
        folder = Path(self.scratch.name)
        draw = np.random.default_rng(8)
        np.savez(folder / "s.npz", weight=draw.normal(size=(5, 5)).astype(np.float32))
        done = subprocess.run([HEDDLE, "compile", ROOT / "tests" / "cuda" / "sliding.heddle", "--weights", folder / "s.npz", "--target",
                               "cuda:sm_80", "-o", folder / "sliding"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        with heddle.load(folder / "sliding") as model, model.session() as graphs, model.session(graphs=-1) as plain:
            for number in range(30):
                x = draw.normal(size=(2 if number % 5 else 7, 5)).astype(np.float32)
                mine, theirs = graphs.run({"x": x})["y"], plain.run({"x": x})["y"]
                np.testing.assert_array_equal(mine, theirs, err_msg=f"call {number}")
            np.testing.assert_array_equal(graphs.state("past"), plain.state("past"))


if __name__ == "__main__":
    unittest.main()
