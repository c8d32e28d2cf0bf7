#!/usr/bin/env python3
"""Sums whose terms go to places that numbers name agree with the evaluator, whatever the numbers are, and give the same bits for any
number of threads: gradients of tables with their updates, counts, means by group, places that are computed."""

import json
import unittest

import numpy as np
from program import Program, real

import heddle

TABLES = """
    dim B, S
    model Tables {
      param word: real[50, 24]
      param kind: real[2, 24]
      param scale: real[50]
      state m: params() = 0
      state v: params() = 0
      entry train(ids: index(50)[B, S], kinds: index(2)[B, S], y: real[B, S, 24], step: i32) -> loss: real, before: real {
        x[b, s, d] = word[ids[b, s], d] + kind[kinds[b, s], d] + word[(ids[b, s] + 7) % 50, d] + scale[ids[b, s]]
        loss = mean[b, s, d]((x[b, s, d] - y[b, s, d]) ** 2)
        for p in params() {
          let w, a, b = adam(p, m[p], v[p], grad(loss, p), step, 0.05, 0.9, 0.999, 1e-8)
          p <- w
          m[p] <- a
          v[p] <- b
        }
        return loss, sum[n, d](word[n, d])
      }
    }"""
WEIGHTS = {"word": real(50, 24), "kind": real(2, 24), "scale": real(50)}
SUMS = """
    dim N, K <= 300
    model Sums {
      entry rows(ids: i32[N], x: real[N, 37]) -> total: real[9, 37], half: real[9, 37] {
        t[v in 9, d] = sum[n where ids[n] == v](x[n, d])
        h[v in 9, d] = t[v, d] / 2
        return t, h
      }
      entry counts(ids: i32[N], keep: bool[N]) -> count: i32[9], kept: i32[9] {
        c[v in 9] = sum[n where ids[n] == v](1)
        k[v in 9] = sum[n where keep[n] and v == ids[n]](2)
        return c, k
      }
      entry last(ids: i32[N], x: real[4, N]) -> y: real[4, 9] {
        y[h in 4, v in 9] = sum[n where ids[n] == v](x[h, n])
        return y
      }
      entry heads(ids: i32[N], x: real[3, N, 20]) -> y: real[3, 9, 20] {
        y[h in 3, v in 9, d in 20] = sum[n where ids[n] == v](x[h, n, d])
        return y
      }
      entry distances(x: real[N, N, 5]) -> y: real[7, 5] {
        y[v in 7, d] = sum[i, j where min(max(i - j, -3), 3) + 3 == v](x[i, j, d])
        return y
      }
      entry any_table(ids: i32[N], x: real[N, 5], sized: real[K]) -> y: real[K, 5] {
        y[v in K, d] = sized[v] + sum[n where ids[n] == v](x[n, d])
        return y
      }
    }"""


def calls(entry, **shapes):
    """Calls with few and many numbers, some of which name no place."""
    rng = np.random.default_rng(3)
    for n in (0, 1, 5, 300):
        inputs = {"ids": rng.integers(-2, 12, n).astype("i4")} if entry != "distances" else {}
        if n:
            inputs.get("ids", np.zeros(1, "i4"))[0] = 2147483647
        for name, shape in shapes.items():
            inputs[name] = rng.standard_normal([n if extent is None else extent for extent in shape]).astype("f4")
        yield entry, inputs


class Scatter(Program):
    def kinds(self):
        manifest = json.loads(next(self.library.glob("*.json")).read_text())
        return [kernel["kind"] for kernel in manifest["kernels"]]

    def test_sums_by_number(self):
        self.compile(SUMS)
        rng = np.random.default_rng(4)
        counts = [("counts", inputs | {"keep": rng.integers(0, 2, len(inputs["ids"])).astype(bool)}) for _, inputs in calls("counts")]
        self.check([*calls("rows", x=(None, 37)), *counts, *calls("last", x=(4, None)), *calls("heads", x=(3, None, 20)),
                    *[(e, i) for e, i in calls("distances", x=(None, None, 5)) if len(i["x"]) < 100],
                    *calls("any_table", x=(None, 5), sized=(17,))])  # fmt: skip
        self.assertGreaterEqual(self.kinds().count("scatter"), 6)

    def steps(self):
        rng = np.random.default_rng(5)
        for step, (b, s) in enumerate([(2, 9), (1, 1), (3, 40), (2, 9)]):
            yield "train", {"ids": rng.integers(0, 50, (b, s)).astype("i4"), "kinds": rng.integers(0, 2, (b, s)).astype("i4"),
                            "y": rng.standard_normal((b, s, 24)).astype("f4"), "step": np.int32(step + 1)}  # fmt: skip

    def test_gradients_of_tables_and_their_updates(self):
        self.compile(TABLES, WEIGHTS)
        self.check(list(self.steps()))
        self.assertEqual(self.kinds().count("scatter"), 3)

    def test_the_same_bits_for_any_number_of_threads(self):
        self.compile(TABLES, WEIGHTS)
        learned = []
        for threads in (1, 2, 5):
            session = heddle.load(self.library).session(threads=threads)
            for entry, inputs in self.steps():
                session.run(inputs, entry)
            learned.append(np.concatenate([session.state(name).ravel() for name in session.model.states]))
        np.testing.assert_array_equal(learned[0], learned[1])
        np.testing.assert_array_equal(learned[0], learned[2])


if __name__ == "__main__":
    unittest.main()
