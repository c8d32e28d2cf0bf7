#!/usr/bin/env python3
"""What depends on weights and sizes alone is computed in an entry's first call, and again for other sizes; results are the
evaluator's in every order of sizes, and what changes from call to call is never kept."""

import unittest

from program import Program, must, real

import heddle

MODEL = """
dim B, S <= 64
model Relative {
  param w: real[24, 20]
  param v: real[24, 20]
  state t: i32 = 0
  state u: real[24, 20] = 1
  entry run(x: real[B, S, 24], scale: real) -> y: real[B, S, S] {
    code[n in S, d in 20] = sin(n / 100 ** (d / 20))
    r[n, e] = sum[d](code[n, d] * w[e, d])
    y[b, s, n] = scale * sum[e](x[b, s, e] * r[n, e])
    return y
  }
  # All of it depends on a state, an input, or is returned.
  entry nothing_kept(x: real[B, S, 24], scale: real) -> y: real[B, S, S], q: real[S, 24] {
    q[n in S, e in 24] = sum[d](sin(n / 100 ** (d / 20)) * w[e, d])
    p[n in S, e in 24] = sum[d](sin(n / 10 ** (d / 20)) * u[e, d])
    o[n in S, e in 24] = sum[d](sin((n + t) / 10 ** (d / 20)) * v[e, d])
    y[b, s, n] = scale * sum[e](x[b, s, e] * (q[n, e] + p[n, e] + o[n, e]))
    t <- t + 1
    u[e, d] <- u[e, d] + w[e, d]
    return y, q
  }
  entry first_value(x: real[B, 24]) -> y: real[B, 24] {
    start[e in 24] = sum[d](w[e, d] * cos(real(d)))
    h[b in B, e] = start[e]
    for i in 3 with h { h[b, e] = tanh(h[b, e] + x[b, e]) }
    y[b, e] = h[b, e] + start[e]
    return y
  }
}
"""


class Once(Program):
    def setUp(self):
        super().setUp()
        self.compile(MODEL, {"w": real(24, 20), "v": real(24, 20, seed=1)})

    def test_results_are_the_evaluators_in_every_order_of_sizes(self):
        def call(entry, b, s, seed):
            return entry, {"x": real(b, s, 24, seed=seed), "scale": real(seed=seed)}

        sizes = [(1, 5), (2, 5), (2, 5), (1, 9), (3, 5), (1, 0), (1, 64)]
        calls = [call("run", b, s, i) for i, (b, s) in enumerate(sizes)]
        self.check(calls)
        self.check([one for i, pair in enumerate(sizes[:5]) for one in (call("nothing_kept", *pair, i), call("run", *pair, 10 + i))])
        self.check([("first_value", {"x": real(2, 24, seed=i)}) for i in range(3)])

    def kernels(self, session, entry, inputs):
        seen = []
        session.observe(lambda kernel, begins: seen.append(kernel) if begins else None)
        session.run(inputs, entry=entry)
        session.observe(None)
        return len(seen)

    def test_a_call_of_the_same_sizes_leaves_it_out(self):
        with heddle.load(self.library) as model, model.session() as session:
            def count(b, s):
                return self.kernels(session, "run", {"x": real(b, s, 24), "scale": real()})

            first, second = count(2, 7), count(2, 7)
            self.assertGreater(first, second)
            self.assertEqual(count(5, 7), second, "B has no part in it")
            self.assertEqual(count(2, 8), first, "S has")
            self.assertEqual(count(2, 8), second)
            self.assertEqual(session.memory["once_bytes"], 8 * 24 * 4)
            allocations = session.memory["allocations"]
            count(2, 7)
            self.assertEqual(session.memory["allocations"], allocations, "nothing is allocated for smaller sizes")

    def test_the_page_says_which_kernels_are_called_once(self):
        page = self.folder / "page.html"
        must("show", self.model, "--html", page)
        entries = dict(part.split("</h2>", 1) for part in page.read_text().split(">entry ")[1:])
        said = {name for name, text in entries.items() if ">once in a session<" in text}
        self.assertEqual(said, {"run"})

    def test_what_a_call_changes_or_returns_is_not_kept(self):
        with heddle.load(self.library) as model, model.session() as session:
            inputs = {"x": real(1, 6, 24), "scale": real()}
            counts = {self.kernels(session, "nothing_kept", inputs) for _ in range(3)}
            self.assertEqual(len(counts), 1)
            self.assertEqual(session.memory["once_bytes"], 0)


if __name__ == "__main__":
    unittest.main()
