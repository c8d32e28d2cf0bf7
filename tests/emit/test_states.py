#!/usr/bin/env python3
"""Programs with loops over run-time sizes and with states, called several times on one session."""

import unittest

import numpy as np
from program import Program, real, whole

import heddle as heddle_library


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


if __name__ == "__main__":
    unittest.main()
