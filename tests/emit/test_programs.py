#!/usr/bin/env python3
"""Programs with loops over run-time sizes, states and requirements: one library of each runs several calls on one session
and must agree with the reference evaluator in every result of every call."""

import math
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "models"))
from heddle_command import ROOT, heddle, must, tensors  # noqa: E402
from safetensors import numpy as safetensors  # noqa: E402

sys.path.insert(0, str(ROOT / "python"))
import heddle as heddle_library  # noqa: E402


def save(path, values):
    safetensors.save_file({name: np.asarray(value, order="C") for name, value in values.items()}, path)


def real(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


def whole(*values):
    return np.array(values, np.int32)


class Program(unittest.TestCase):
    """Compiles `text` and compares `calls`, pairs of an entry and its inputs, with the evaluator."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)

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


class Loops(Program):
    def test_a_carried_tensor_and_a_collected_one_for_no_turn_one_and_several(self):
        self.compile("""
            dim B <= 8, S <= 64
            model M {
              entry run(x: real[B, S, 3], start: real[B, 3]) -> last: real[B, 3], all: real[B, S, 3] {
                h[b, d] = start[b, d]
                for s in S with h {
                  h[b, d] = 0.5 * h[b, d] + x[b, s, d]
                  ys[b, s, d] = h[b, d] * 2
                }
                return h, ys
              }
            }""")
        self.check([("run", {"x": real(b, s, 3), "start": real(b, 3)}) for b, s in ((2, 5), (1, 1), (3, 0), (2, 33))])

    def test_carried_tensors_change_places_and_take_what_was_carried_before(self):
        self.compile("""
            dim B <= 8, S <= 64
            model M {
              entry run(x: real[S], a0: real[B], b0: real[B]) -> a: real[B], b: real[B], c: real[B] {
                let a = a0
                let b = b0
                let c = a0
                for s in S with a, b, c {
                  let old = a
                  let kept = b
                  a[i] = kept[i] + x[s]
                  let b = old
                  let c = kept
                }
                return a, b, c
              }
            }""")
        self.check([("run", {"x": real(s), "a0": real(3), "b0": real(3, seed=1)}) for s in (0, 1, 2, 3, 8)])

    def test_the_turn_is_a_number(self):
        self.compile("""
            dim S <= 64
            model M {
              entry run(x: real[S, 2]) -> y: real[S, 2] {
                for s in S {
                  y[s, d] = x[s, d] * s + (if s > 0 then x[s - 1, d] else 0)
                }
                return y
              }
            }""")
        self.check([("run", {"x": real(s, 2)}) for s in (0, 1, 2, 9)])

    def test_loops_in_loops(self):
        self.compile("""
            dim S <= 16, T <= 16
            model M {
              entry run(x: real[S, T]) -> y: real[S, T], h: real {
                let h = 0.0
                for s in S with h {
                  for t in T with h {
                    h = 0.5 * h + x[s, t]
                    row[t] = h + s - t
                  }
                  y[s, t in T] = row[t]
                }
                return y, h
              }
            }""")
        self.check([("run", {"x": real(s, t)}) for s, t in ((3, 4), (0, 3), (3, 0), (1, 1), (5, 2))])

    def test_an_lstm_whose_input_product_is_made_for_all_turns_at_once(self):
        self.compile("""
            config I = 5, N = 6
            dim B <= 8, S <= 64
            model M {
              param wi: real[4, N, I]
              param wh: real[4, N, N]
              entry run(x: real[B, S, I], n: i32[B]) -> ys: real[B, S, N], h: real[B, N], c: real[B, N] {
                h[b in B, k in N] = 0
                c[b in B, k in N] = 0
                for s in S with h, c {
                  g[k, b, n] = sum[i](x[b, s, i] * wi[k, n, i]) + sum[m](h[b, m] * wh[k, n, m])
                  c1[b, n] = sigmoid(g[1, b, n]) * c[b, n] + sigmoid(g[0, b, n]) * tanh(g[2, b, n])
                  h1[b, n] = sigmoid(g[3, b, n]) * tanh(c1[b, n])
                  h[b, k] = if s < n[b] then h1[b, k] else h[b, k]
                  c[b, k] = if s < n[b] then c1[b, k] else c[b, k]
                  ys[b, s, k] = h[b, k]
                }
                return ys, h, c
              }
            }""", {"wi": real(4, 6, 5), "wh": real(4, 6, 6)})
        self.check([("run", {"x": real(3, 7, 5), "n": whole(7, 3, 1)}), ("run", {"x": real(1, 1, 5), "n": whole(1)}),
                    ("run", {"x": real(2, 0, 5), "n": whole(1, 1)})])


class Sliding(Program):
    """States that drop rows at one end and append as many at the other: their windows move through memory."""

    text = """
        config L = 3, M = 5
        dim B <= 4, S <= 32
        model Memory {
          state past: real[L, M, B, 2] = 0.5
          state sums: real[M, B] = 0
          entry step(x: real[B, S, 2]) -> y: real[B, S, 2], before: real[M, B] {
            z[b, i, e] = x[b, i, e]
            for l in L with z {
              let old = past[l]
              n[b, i, e] = z[b, i, e] + sum[j in M](old[j, b, e] * (j + 1)) + l
              new[m in M, b, e] = if m + S < M then old[m + S, b, e] else z[b, m + S - M, e]
              past[l, m, b, e] <- new[m, b, e]
              z = n
            }
            total[b, i] = sum[e](x[b, i, e])
            sums[m, b] <- if m >= M - S then total[b, m - M + S] else sums[m + S, b]
            return z, sums
          }
          entry two(x: real[B, 2]) -> y: real[B] {
            for l in L {
              past[l, m, b, e] <- if M - 2 > m then past[l, m + 2, b, e] else x[b, m + 2 - M] + l
            }
            y[b] = sum[m, e](past[1, m, b, e] * (m + 2)) + sum[m](sums[m, b])
            return y
          }
        }"""
    steps = (1, 3, 1, 0, 2, 9, 1, 4, 5, 1, 1, 1, 6, 2)

    def calls(self):
        out = []
        for i, rows in enumerate(self.steps):
            out.append(("step", {"x": real(2, rows, 2, seed=i)}))
            if i % 4 == 3:
                out.append(("two", {"x": real(2, 2, seed=i)}))
        return out

    def test_calls_of_any_length_agree(self):
        self.compile(self.text)
        self.check(self.calls())
        self.check([("step", {"x": real(1, rows, 2)}) for rows in (8, 1, 2)])

    def test_copies_and_saved_sessions_go_on_where_they_were_made(self):
        self.compile(self.text)
        with heddle_library.load(self.library) as model, model.session() as session:
            past = np.full((3, 5, 2, 2), 0.5, np.float32)
            for entry, inputs in self.calls():
                with session.clone() as clone, model.session() as restored:
                    if past[0, 0, 0, 0] != 0.5:
                        restored.restore(session.save())
                        want = clone.run(inputs, entry=entry)
                        for name, value in restored.run(inputs, entry=entry).items():
                            np.testing.assert_array_equal(value, want[name])
                        np.testing.assert_array_equal(restored.state("past"), clone.state("past"))
                session.run(inputs, entry=entry)
                x = inputs["x"] if entry == "step" else np.stack([inputs["x"]] * 2, -1)
                past[0] = np.concatenate([past[0], x.transpose(1, 0, 2)])[-5:]
                np.testing.assert_allclose(session.state("past")[0], past[0], rtol=1e-6)

    def test_what_one_entry_updates_otherwise_or_reads_across_does_not_slide(self):
        self.compile(self.text.replace("entry two", """entry across() -> y: real[M, B] {
            y[m, b] = sum[l, e](past[l, m, b, e] * (l + 1))
            return y
          }
          entry two"""))
        self.check(self.calls() + [("across", {})])
        self.compile(self.text.replace("entry two", """entry clear(x: real[B]) {
            past[l, m, b, e] <- x[b]
          }
          entry two"""))
        self.check(self.calls()[:3] + [("clear", {"x": real(2)})] + self.calls()[3:])


class States(Program):
    def test_a_state_keeps_its_value_from_call_to_call(self):
        self.compile("""
            dim B <= 8
            model M {
              state total: real[B, 3] = 1
              state calls: i32 = 0
              entry add(x: real[B, 3]) -> y: real[B, 3], n: i32 {
                total <- total + x
                calls <- calls + 1
                return total, calls
              }
            }""")
        self.check([("add", {"x": real(2, 3, seed=i)}) for i in range(4)])

    def test_rows_are_appended_to_a_cache_and_read_up_to_there(self):
        self.compile("""
            config E = 4
            dim P <= 12, T <= 8, B <= 4
            model M {
              state k: real[2, B, P, E] = 0
              state seen: i32 = 0
              entry step(x: real[B, T, E]) -> y: real[B, T, E], n: i32 {
                require 0 <= seen and seen + T <= P else "the cache is full"
                for l in 2 with x {
                  s[b, i, j in P] = if j < seen then sum[e](x[b, i, e] * k[l, b, j, e]) else -inf
                  let p = softmax(s)
                  let h = x
                  x[b, i, e] = h[b, i, e] + sum[j](p[b, i, j] * k[l, b, j, e])
                  k[l, b, seen + t, e] <- h[b, t, e]
                }
                seen <- seen + T
                return x, seen
              }
              entry look() -> all: real[2, B, P, E] { return k }
            }""")
        steps = [("step", {"x": real(2, t, 4, seed=t)}) for t in (3, 1, 1, 5)]
        self.check(steps)
        self.check(steps[:2] + [("look", {})] + steps[2:] + [("look", {})])
        self.refused(steps + [("step", {"x": real(2, 3, 4)})], "the cache is full")

    def test_a_memory_of_all_layers_is_shifted(self):
        self.compile("""
            config L = 3, M = 5, D = 4
            dim B <= 4, T <= 16
            model X {
              param w: real[L, D, D]
              state mem: real[L, B, M, D] = 0
              entry step(x: real[B, T, D]) -> y: real[B, T, D] {
                for l in L with x {
                  let h = x
                  a[b, d] = sum[m](mem[l, b, m, d])
                  x[b, t, d] = tanh(sum[e](h[b, t, e] * w[l, d, e]) + a[b, d])
                  mem[l, b, m, d] <- if m + T < M then mem[l, b, m + T, d] else h[b, m + T - M, d]
                }
                return x
              }
            }""", {"w": real(3, 4, 4)})
        self.check([("step", {"x": real(2, t, 4, seed=t)}) for t in (2, 1, 9, 3, 5)])

    def test_states_take_each_others_values(self):
        self.compile("""
            dim B <= 8
            model M {
              state a: real[B, 2] = 0
              state b: real[B, 2] = 1
              entry turn(x: real[B, 2]) -> was: real[B, 2], other: real[B, 2] {
                a <- b
                b <- a + x
                return a, b
              }
              entry part(i: index(2)[1]) -> was: real[B, 2] {
                require i[0] >= 0
                a[q, i[0]] <- b[q, i[0]]
                return a
              }
            }""")
        turn = [("turn", {"x": real(3, 2, seed=i)}) for i in range(3)]
        self.check(turn + [("part", {"i": whole(1)}), ("part", {"i": whole(0)})] + turn)

    def test_a_state_is_updated_in_a_loop_and_read_as_it_was(self):
        self.compile("""
            dim S <= 16
            model M {
              state rows: real[S, 2] = 0
              state log: real[S, 2] = 0
              entry run(x: real[S, 2]) -> y: real[S, 2] {
                for s in S {
                  let r = S - 1 - s
                  v[d] = x[s, d] + rows[s, d]
                  rows[r, d] <- v[d] * 2
                  log[s, d] <- v[d]
                  y[s, d] = v[d]
                }
                return y
              }
              entry look(x: real[S]) -> a: real[S, 2], b: real[S, 2] { return rows + x[0] * 0, log }
            }""".replace("return rows + x[0] * 0, log", "return rows, log"))
        calls = [("run", {"x": real(4, 2, seed=i)}) for i in range(3)]
        self.check(calls + [("look", {"x": real(4)})])

    def test_entries_share_states_and_dims_come_from_them(self):
        self.compile("""
            config N = 4
            dim B <= 4, S <= 16
            model M {
              param w: real[N, N]
              state mem: real[B, S, N]
              state len: i32[B]
              state hid: real[B, N] = 0
              entry encode(x: real[B, S, N], n: i32[B]) {
                require all[b](1 <= n[b] and n[b] <= S) else "each source length must lie in 1..S"
                h[b in B, k in N] = 0
                for s in S with h {
                  h1[b, k] = tanh(x[b, s, k] + sum[m](h[b, m] * w[k, m]))
                  h[b, k] = if s < n[b] then h1[b, k] else h[b, k]
                  ys[b, s, k] = h[b, k]
                }
                mem <- ys
                len <- n
                hid <- h
              }
              entry step(x: real[B, N]) -> y: real[B, N] {
                h[b, k] = tanh(x[b, k] + sum[m](hid[b, m] * w[k, m]))
                s[b, j in S] = if j < len[b] then sum[m](h[b, m] * mem[b, j, m]) else -inf
                let p = softmax(s)
                hid <- h
                return h + [sum[j](p[b, j] * mem[b, j, n])]
              }
              entry reorder(parent: index(B)[B]) { hid[b, n] <- hid[parent[b], n] }
            }""".replace("return h + [sum[j](p[b, j] * mem[b, j, n])]",
                         "y[b, n] = h[b, n] + sum[j](p[b, j] * mem[b, j, n])\n                return y"), {"w": real(4, 4)})
        encode = ("encode", {"x": real(3, 5, 4), "n": whole(5, 2, 1)})
        step = ("step", {"x": real(3, 4)})
        self.check([encode, step, ("reorder", {"parent": whole(2, 0, 0)}), step,
                    ("encode", {"x": real(1, 9, 4), "n": whole(9)}), ("step", {"x": real(1, 4)})])
        self.refused([("encode", {"x": real(3, 5, 4), "n": whole(5, 6, 1)})], "each source length must lie in 1..S")


class Weights(Program):
    def test_matrices_that_lie_in_one_weight_are_read_apart(self):
        """The middle axis, two axes around one, the last axis, and one that is read as a whole, too."""
        weights = {"w": real(6, 3 * 5), "v": real(2, 6, 3, 5), "u": real(6, 5, 2), "t": real(3, 5)}
        self.compile("""
            config I = 6, O = 5
            dim B <= 8
            model M {
              param w: real[I, 3, O] stored [I, 3 * O]
              param v: real[2, I, 3, O]
              param u: real[I, O, 2]
              param t: real[3, O]
              entry run(x: real[B, I], n: index(3)[B]) -> y: real[B, O], z: real[B, O] {
                y[b, o] = sum[i](x[b, i] * w[i, 1, o]) + sum[i](x[b, i] * v[1, i, 2, o]) * sum[i](x[b, i] * v[0, i, 2, o])
                z[b, o] = sum[i](x[b, i] * u[i, o, 1]) + sum[i](x[b, i] * w[i, 2, o]) + t[0, o] * t[n[b], o]
                return y, z
              }
            }""", weights)
        self.check([("run", {"x": real(b, 6), "n": whole(*range(b)) % 3}) for b in (1, 2, 7)])


class Requirements(Program):
    text = """
        dim B <= 8, T <= 8
        model M {
          state n: i32 = 0
          entry run(x: real[B, T], most: i32) -> y: real[B], m: i32 {
            require B % 2 == 0 else "pairs are wanted"
            require T <= most else "too long"
            y[b] = sum[t](x[b, t])
            require all[b](y[b] < 100) else "too much"
            n <- n + 1
            return y, n
          }
        }"""

    def test_each_says_what_it_was_told_to(self):
        self.compile(self.text)
        good = {"x": real(2, 3), "most": np.int32(3)}
        self.check([("run", good), ("run", good)])
        self.refused([("run", {"x": real(3, 3), "most": np.int32(3)})], "pairs are wanted")
        self.refused([("run", {"x": real(2, 4), "most": np.int32(3)})], "too long")
        self.refused([("run", {"x": 100 + real(2, 3), "most": np.int32(3)})], "too much")


class Numbers(Program):
    """Requirements and places are computed without overflow, as in proofs: what leaves 32 bits is a refused call."""
    most = np.int32(2**31 - 1)

    def test_a_sum_in_a_requirement_does_not_wrap(self):
        self.compile("""
            dim B, T <= 16, P <= 64
            model M {
              state cache: real[B, P] = 0
              entry put(x: real[B, T], at: i32) -> y: real[B] {
                require 0 <= at and at + T <= P else "no room"
                cache[b, at + t] <- x[b, t]
                y[b] = x[b, 0 | 0]
                return y
              }
              entry get(w: real[B, P], x: real[B, T], at: i32) -> y: real[B, T] {
                require 0 <= at and at + T <= P else "no room"
                y[b, t] = w[b, at + t] + x[b, t]
                return y
              }
              entry peek(b: real[B]) -> y: real[B] { y[i] = b[i] + sum[p](cache[i, p]) return y }
            }""")
        put = {"x": real(2, 4), "at": np.int32(60)}
        get = {"w": real(2, 9), "x": real(2, 4), "at": np.int32(5)}
        self.check([("put", put), ("peek", {"b": real(2)})])
        self.check([("get", get)])
        for at in (61, 2**31 - 4, self.most, -1, -(2**31)):
            self.refused([("put", {"x": real(2, 4), "at": np.int32(at)})], "no room")
            self.refused([("get", {"w": real(2, 9), "x": real(2, 4), "at": np.int32(at)})], "no room")

    def test_a_counter_that_leaves_32_bits_is_refused(self):
        self.compile("""
            dim P <= 64
            model M {
              state cache: real[P] = 0
              state n: i32 = 0
              entry add(x: real[4], by: i32) -> y: real[4] {
                require by >= 0 and n + 4 <= P else "full"
                require n >= 0 else "negative"
                cache[n + t] <- x[t]
                n <- n + by
                y[t] = x[t] * 2
                return y
              }
            }""")
        add = [("add", {"x": real(4), "by": np.int32(by)}) for by in (3, 50, self.most - 53)]
        self.check(add[:3])
        self.refused([*add, ("add", {"x": real(4), "by": np.int32(1)})], "full")
        self.refused([add[0], ("add", {"x": real(4), "by": self.most})],
                     "`n + by` does not fit the 32 bits of a whole number")

    def test_products_and_what_is_made_of_them(self):
        self.compile("""
            dim N
            model M {
              entry run(x: real[N], a: i32, b: i32, c: i32) -> y: real, n: i32 {
                require a * b * c < 1000 else "too many"
                require min(a + b, 7) >= 0 else "less than none"
                let n = (a + b) // 2
                require 0 <= n and n < N else "out of the rows"
                return x[n], n * 3 - a
              }
            }""")
        given = lambda a, b, c, n=9: [("run", {"x": real(n), "a": whole(a)[0], "b": whole(b)[0], "c": whole(c)[0]})]
        self.check(given(3, 4, 5))
        self.refused(given(1, 7, -(2**31)), "`a * b * c` does not fit the 32 bits of a whole number")
        self.refused(given(65536, 65536, 0), "`a * b` does not fit the 32 bits of a whole number")
        self.refused(given(1000, 1, 1), "too many")
        self.refused(given(-5, 4, 1), "less than none")
        self.refused(given(2**31 - 1, 1, -1), "out of the rows")

    def test_a_quotient_by_nothing_is_0_and_the_least_number_has_no_opposite(self):
        self.compile("""
            model M {
              entry run(a: i32, b: i32) -> q: i32, r: i32 {
                let q = a // b
                let r = a % b
                return q, r
              }
            }""")
        self.check([("run", {"a": whole(a)[0], "b": whole(b)[0]}) for a, b in ((7, 2), (-7, 2), (7, -2), (5, 0), (0, 0))])
        self.refused([("run", {"a": whole(-(2**31))[0], "b": whole(-1)[0]})], "does not fit the 32 bits of a whole number")

    def test_what_is_required_of_every_element_does_not_wrap(self):
        self.compile("""
            dim B, T <= 8, P <= 64
            model M {
              entry run(w: real[P], n: i32[B], x: real[T]) -> y: real[B], z: real[B, T] {
                require all[b](0 <= n[b] and n[b] + T <= P) else "no room"
                require T > 0 else "nothing"
                y[b] = w[n[b]]
                z[b, t] = w[n[b] + t] * x[t]
                return y, z
              }
            }""")
        given = lambda *n: [("run", {"w": real(20), "n": whole(*n), "x": real(4)})]
        self.check(given(0, 16, 3))
        for n in (17, 2**31 - 1, 2**31 - 4, -1):
            self.refused(given(0, n, 3), "no room")

    def test_a_turn_counts_and_a_number_of_a_tensor_is_read(self):
        self.compile("""
            dim S, N <= 8
            model M {
              entry run(k: i32[N], x: real[S], step: i32) -> n: i32, y: real {
                let n = k[0 | 5]
                for s in S with n { n = n + step }
                require 0 <= n and n < S else "out of the rows"
                return n, x[n]
              }
            }""")
        given = lambda step, *k, s=6: [("run", {"k": whole(*k), "x": real(s), "step": whole(step)[0]})]
        self.check(given(-1, 9) + given(0, s=7))
        self.refused(given(2**30, 2**30), "`n + step` does not fit the 32 bits of a whole number")
        self.refused(given(1, 0), "out of the rows")

    def test_extents_whose_product_leaves_64_bits(self):
        self.compile("""
            dim A, B, C, E
            model M {
              entry run(x: real[E, A], y: real[E, B], z: real[E, C]) -> r: real[E] {
                p[e, a, b, c] = x[e, a] * y[e, b] * z[e, c]
                big[a in A, b in B, c in C] = sum[e](p[e, a, b, c])
                r[e] = sum[a in A, b in B, c in C](big[a, b, c] + p[e, a, b, c])
                return r
              }
            }""")
        self.check([("run", {"x": real(2, 3), "y": real(2, 4), "z": real(2, 5)})])
        model = heddle_library.load(self.library)
        huge = np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (0, 2**31 - 1), (4, 0))
        with self.assertRaisesRegex(heddle_library.Error, "more than 2147483647 elements"):
            model.session(threads=1).run({"x": huge, "y": huge, "z": huge})

    def test_a_tensor_without_elements_that_kernels_cannot_address(self):
        self.compile("""
            dim T, R, S, B
            model M {
              entry run(x: real[T, R, S], q: real[B]) -> y: real[B] {
                y[i in B] = q[i] + x[i, R - 1, S - 1 | 0.5]
                return y
              }
            }""")
        call = lambda r, s: [("run", {"x": np.zeros((0, r, s), np.float32), "q": real(3)})]
        self.check(call(3, 40000))
        model = heddle_library.load(self.library)
        with self.assertRaisesRegex(heddle_library.Error, "a tensor without elements would have more than 2147483647 of them"):
            model.session(threads=1).run(call(60000, 60000)[0][1])


class Functions(Program):
    """Where formulas are infinite, or NaN."""

    def test_functions_and_powers_of_what_has_no_end_or_no_value(self):
        odd = np.array([np.nan, np.inf, -np.inf, 0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3, -3, 1e30, -1e30, 1e-30, 89, -104], np.float32)
        x, y = (a.reshape(-1) for a in np.meshgrid(odd, odd))
        functions = {f"of_{name}": (f"{name}(x[n])", lambda x, y, f=getattr(np, name): f(x)) for name in ("exp", "log", "sqrt", "tanh", "floor", "abs")}
        functions["of_erf"] = "erf(x[n])", lambda x, y: np.where(abs(x) < 1e-20, 0, np.vectorize(math.erf)(x))
        functions["log_of_more"] = "exp(-abs(log(1 + abs(x[n]))))", lambda x, y: 1 / (1 + abs(x))
        functions["power"] = "x[n] ** y[n]", lambda x, y: x**y
        for i, power in enumerate((0, 1, 2, 3, 9, -1, -2, -9, 0.5, -0.5, 1.5, -2.7)):
            functions[f"power{i}"] = f"x[n] ** {power}", lambda x, y, power=power: x ** np.full_like(x, power)
            functions[f"base{i}"] = f"({power}) ** x[n]", lambda x, y, power=power: np.full_like(x, power) ** x
        results = ", ".join(f"{name}: real[N]" for name in functions)
        lines = "\n".join(f"    {name}[n] = {text}" for name, (text, _) in functions.items())
        self.compile(f"dim N\nmodel M {{\n  entry run(x: real[N], y: real[N]) -> {results} {{\n{lines}\n"
                     f"    return {', '.join(functions)}\n  }}\n}}\n")
        with heddle_library.load(self.library) as model, model.session(threads=1) as session, np.errstate(all="ignore"):
            got = session.run({"x": x, "y": y})
            for name, (text, function) in functions.items():
                exact = function(x.astype(np.float64), y.astype(np.float64)).astype(np.float32)
                want = np.where(abs(exact) < 2**-126, 0 * exact, exact)
                for a, b, c, d in zip(x, y, got[name], want):
                    self.assertTrue(np.isclose(c, d, 3e-5, 1e-6, equal_nan=True), f"{text} is {c}, not {d}, where x is {a} and y {b}")


class Places(Program):
    """Reads that used to be taken for inside, and bounds that are kept."""

    def test_arms_and_turns_keep_the_bound_of_a_place(self):
        self.compile("""
            config N = 5
            dim S <= 8
            model M {
              param t: real[N]
              entry run(x: real[S, N], first: bool) -> y: real[S], z: real {
                a[s] = argmax[n](x[s, n])
                b[s] = argmin[n](x[s, n])
                c[s] = if first then a[s] else b[s]
                y[s] = t[c[s]]
                let at = 0
                for s in S with at { at = argmax[n](x[s, n] + t[at]) }
                return y, t[at]
              }
            }""", {"t": real(5)})
        self.check([("run", {"x": real(s, 5), "first": np.bool_(f)}) for s, f in ((3, 0), (1, 1), (0, 1), (8, 0))])

    def test_a_product_read_under_a_condition_that_never_holds(self):
        self.compile("""
            dim M
            model F {
              param up: real[10, 5]
              param down: real[5, 10]
              entry run(x: real[M, M, M, 5]) -> y: real[M, M, M, 5] {
                h[a, b, c, k] = sum[d](x[a, b, c, d] * up[k, d])
                z[a, b, c, d] = sum[k](h[a, b, c, k] * down[d, k])
                y[t, n, p in M, d] = if 1 > x[n, t, n, d] then (if t != t then z[p, n, t, d] else 0.125) else x[n, t, t, d]
                return y
              }
            }""", {"up": real(10, 5), "down": real(5, 10)})
        self.check([("run", {"x": real(m, m, m, 5)}) for m in (3, 1, 0)])


if __name__ == "__main__":
    unittest.main()
