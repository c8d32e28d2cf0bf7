#!/usr/bin/env python3
"""Programs whose weights are read in parts, with requirements, whole numbers, functions of what has no end: the library agrees with the
reference evaluator, also in what it refuses."""

import math
import unittest

import numpy as np
from program import Program, must, real, whole

import heddle as heddle_library


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

    def test_elements_at_other_places_are_gathered(self):
        """Taps of phases, of which some have fewer; a rotation; a weight that is also read as it is."""
        self.compile("""
            config C = 3, O = 5
            dim B, N
            model M {
              param w: real[C, O, 3, 3]
              param g: real[O, 6]
              entry run(x: real[B, C, N, N]) -> y: real[B, O, 2 * N + 1, 2 * N + 1], z: real[B, 6] {
                y[b, o, i in 2 * N + 1, j in 2 * N + 1] = sum[c, u, v where (i + 1 - u) % 2 == 0 and (j + 1 - v) % 2 == 0](
                  x[b, c, (i + 1 - u) // 2, (j + 1 - v) // 2 | 0] * w[c, o, u, v])
                h[k in 6, o in O] = g[o, (k + 5 - o) % 6]
                r[b, o] = sum[c, i, j](x[b, c, i, j] * w[c, o, 1, 2])
                z[b, k in 6] = sum[o](r[b, o] * h[k, o])
                return y, z
              }
            }""", {"w": real(3, 5, 3, 3), "g": real(5, 6)})
        self.check([("run", {"x": real(b, 3, n, n)}) for b, n in ((1, 1), (2, 4), (3, 7))])

    computed = """
        config I = 20, O = 36
        dim B <= 8
        model M {
          param w:    real[O, I]
          param gain: real[O]
          param mu:   real[O]
          param down: real[3, I]
          param up:   real[O, 3]
          param q:    i8[O, I]
          fn normalised() -> real[O, I] {
            n[o] = sum[i](w[o, i] ** 2)
            y[o, i] = gain[o] * w[o, i] / sqrt(n[o])
            return y
          }
          entry layer(x: real[B, I]) -> y: real[B, O] {
            let v = normalised()
            merged[o, i] = v[o, i] + sum[r](up[o, r] * down[r, i])
            y[b, o] = sum[i](x[b, i] * merged[o, i]) - mu[o] * gain[o]
            return y
          }
          entry whole_numbers(x: real[B, I]) -> y: real[B, O], best: i32[O] {
            v[o, i] = real(q[o, i]) * gain[o]
            top[o] = argmax[i](v[o, i])
            y[b, o] = sum[i](x[b, i] * v[o, i]) + x[b, top[o]]
            return y, top
          }
          entry table(x: real[B, I]) -> y: real[B, I], v: real[O, I] {
            angle[i in I] = exp(-real(i // 2) / 5)
            y[b, i] = x[b, i] * angle[i] + sin(angle[i])
            return y, normalised()
          }
        }"""

    def of_computed(self):
        return {"w": real(36, 20), "gain": real(36), "mu": real(36, seed=1), "down": real(3, 20), "up": real(36, 3),
                "q": np.random.default_rng(1).integers(-128, 128, (36, 20)).astype(np.int8)}

    def test_what_is_made_of_weights_alone_is_computed_when_packing(self):
        """Normalised and merged matrices, whole numbers with a scale, a table made of nothing; one that is returned as well."""
        self.compile(self.computed, self.of_computed())
        calls = [(entry, {"x": real(b, 20)}) for b in (1, 7) for entry in ("layer", "whole_numbers", "table")]
        self.check(calls)
        files = [(self.library / "model.weights").read_bytes()]
        for options in (["--embed-weights"], ["--target", "x86-64-v3,x86-64-v4"], ["--precision", "bf16"], []):
            must("compile", self.model, *self.options, "-o", self.library, *options)
            if "bf16" not in options:
                self.check(calls)
            if not options:
                files.append((self.library / "model.weights").read_bytes())
        self.assertEqual(*(file[4096:] for file in files))


class Orders(Program):
    def test_an_index_that_both_factors_have_last(self):
        """Of results, with an epilogue, in a batch, of factors that are computed, of a weight; a sum of such a product, too."""
        self.compile("""
            config C = 5
            dim B <= 4, N
            model M {
              param w: real[7, C]
              entry run(x: real[N, N, C], z: real[N, N, C]) -> y: real[N, N, C], s: real[N, C] {
                y[i, j, c] = sum[k](x[i, k, c] * z[j, k, c])
                s[i, c] = sum[j](y[i, j, c]) + y[N - 1 - i, i, c]
                return y, s
              }
              entry batched(x: real[B, N, N, C], z: real[B, N, N, C]) -> y: real[B, N, N, C] {
                gated[b, i, j, c] = x[b, i, j, c] * exp(-z[b, j, i, c])
                y[b, i, j, c] = relu(sum[k](gated[b, k, i, c] * gated[b, k, j, c]) + z[b, i, j, c])
                return y
              }
              entry weighted(x: real[B, N, C]) -> y: real[B, N, 7, C] {
                y[b, n, o, c] = sum[m](x[b, m, c] * x[b, n, c]) * w[o, c]
                return y
              }
            }""", {"w": real(7, 5)})
        calls = []
        for b, n in ((1, 1), (2, 9), (3, 33)):
            calls += [("run", {"x": real(n, n, 5), "z": real(n, n, 5, seed=1)}),
                      ("batched", {"x": real(b, n, n, 5), "z": real(b, n, n, 5, seed=1)}), ("weighted", {"x": real(b, n, 5)})]
        self.check(calls)

    def test_what_is_added_to_patches_by_their_number(self):
        self.compile("""
            config C = 3, O = 20
            dim B
            model M {
              param w: real[O, C, 2, 2]
              param place: real[17, O]
              entry run(x: real[B, C, 8, 8], more: real[16]) -> y: real[B, 16, O] {
                e[b, n in 16, o] = sum[c, u, v](x[b, c, n // 4 * 2 + u, n % 4 * 2 + v] * w[o, c, u, v])
                y[b, n, o] = e[b, n, o] + place[n + 1, o] * more[15 - n] + real(n)
                return y
              }
            }""", {"w": real(20, 3, 2, 2), "place": real(17, 20)})
        self.check([("run", {"x": real(b, 3, 8, 8), "more": real(16)}) for b in (1, 5)])


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

    def test_a_subscript_that_leaves_32_bits_reads_its_tensor_or_is_refused(self):
        self.compile("""
            dim N, K
            model M {
              state s: index(4)[3] = 0
              entry sizes(x: real[N], z: real[K]) -> y: real[N] {
                require K > 0
                y[i in N] = x[min(i * 65536, N - 1)] + z[min(i * N * 3, K - 1)]
                return y
              }
              entry data(x: real[N], id: index(40000), a: index(2000000000)) -> y: real[N] {
                require N > 0
                y[i in N] = x[min(id * 65536, N - 1)] + x[max(0 - a - a, 0)]
                return y
              }
              entry keep(a: index(2000000000)[3]) -> y: index(4)[3] {
                s[i] <- (a[i] + 1500000000) // 1000000000
                return s
              }
            }""")
        self.check([("sizes", {"x": real(5), "z": real(7)})])
        with self.assertRaisesRegex(heddle_library.Error, "2147483647"):
            heddle_library.load(self.library).session(threads=1).run(
                {"x": np.zeros(40000, np.float32), "z": np.zeros(2, np.float32)}, entry="sizes")
        data = lambda id, a: {"x": real(5), "id": np.int32(id), "a": np.int32(a)}
        self.check([("data", data(2, 10**9))])
        session = heddle_library.load(self.library).session(threads=1)
        for wraps in (data(32768, 0), data(39999, 1_999_999_999)):
            got = session.run(wraps, entry="data")["y"]  # of two elements, whichever they are
            self.assertTrue(any(np.all(got == a + b) for a in wraps["x"] for b in wraps["x"]))
        kept = session.run({"a": np.full(3, 1_999_999_999, np.int32)}, entry="keep")["y"]
        self.assertTrue(((0 <= kept) & (kept < 4)).all())

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
        with self.assertRaisesRegex(heddle_library.Error, "would exceed 2147483647 for A ="):
            model.session(threads=1).run({"x": huge, "y": huge, "z": huge})

    def test_places_whose_quotients_change_with_what_is_taken_away(self):
        """Halide 21 takes (x * 6 - y) / 2 for x * 3 - y / 2 where it solves for x."""
        self.compile("""
            dim N <= 9
            model M {
              entry a(x: real[N], z: real[N]) -> y: real[2 * N] {
                y[i in 2 * N] = sum[p in N + 1](x[p // 2 + (i - p) % 2 | 0] * z[p | 0])
                return y
              }
              entry b(x: real[N], z: real[N]) -> y: real[2 * N] {
                y[i in 2 * N] = sum[p in N + 1](x[p // 2 + (i - p - 1) % 2 | 0] * z[p | 0])
                return y
              }
              entry c(x: real[N], z: real[N]) -> y: real[2 * N] {
                y[i in 2 * N] = sum[p in N + 1](x[i - p + p // 2 - (i - p) // 2 * 3 | 0] + z[i + (p - 6 * i) // 2 | 0] + z[3 * i - (6 * i - p) // 2 | 0])
                return y
              }
            }""")
        for n in (1, 5, 9):
            for entry in "abc":
                self.check([(entry, {"x": real(n), "z": real(n)})])

    def test_equations_with_a_term_on_both_sides(self):
        """Halide 21 takes 4 * y + a == 4 * y + b for y == 0 where it solves for y."""
        self.compile("""
            dim N <= 9, M <= 7
            model Net {
              param w: real[6, 5]
              entry e(x: real[N, M]) -> y: real[N + M] {
                y[i in N + M] = sum[p in 2 * M + 1, q in 4 where (2 * i + p) % 3 == 2 and 2 * q == 2 * p + 2 * q - 3 * i + 2](w[(q - 1) // 2 + 2 * ((-q - i) % 2), i - p - 2 | 0] * x[3 * q - 1, p + 1 | 0])
                return y
              }
            }""", {"w": real(6, 5)})
        for n, m in ((1, 1), (9, 7), (4, 6)):
            self.check([("e", {"x": real(n, m)})])

    def test_rows_of_a_table_in_buckets_that_grow(self):
        """Halide 21 takes the end that the range of such a choice lacks for a number: T5's relative positions."""
        self.compile("""
            dim N <= 60
            fn bucket(n: i32, N: i32) -> i32 = if n < N // 2 then n else min(N - 1, N // 2 + i32(log(n / (N // 2)) * 3))
            model Net {
              param table: real[32, 4]
              entry both(x: real[N]) -> y: real[4, N, N] {
                y[h in 4, i, j] = table[if j > i then 16 + bucket(j - i, 16) else bucket(i - j, 16), h | 0] + x[i] * x[j]
                return y
              }
              entry last(k: i32[N, N]) -> y: real[N, N, 4] {
                y[i in N, j in N, h in 4] = table[if i - j < 8 then i - j else min(15, k[i, j]), h | 0]
                return y
              }
            }""", {"table": real(32, 4)})
        for n in (1, 2, 23, 60):
            self.check([("both", {"x": real(n)}), ("last", {"k": whole(*range(n * n)).reshape(n, n) % 40 - 9})])

    def test_an_axis_that_splits_beside_others_that_turn(self):
        """MLIR asks a tensor for its extents where it splits an axis of what is read beside a sum."""
        self.compile("""
            dim B
            model Net {
              entry e(x: real[8, B, B]) -> y: real[8, B, B] {
                y[j, m, s in B] = x[j, s, m] + sum[q in 3](x[j, j // 2, m | 0])
                return y
              }
            }""")
        for b in (1, 3, 5):
            self.check([("e", {"x": real(8, b, b)})])

    def test_a_product_with_a_padded_read_whose_other_factor_has_rows_of_fixed_extent(self):
        self.compile("""
            dim B
            model Net {
              param w: real[3, 17]
              entry e(x: real[B, 3, B]) -> y: real[B, 17, B + 1] {
                y[b, o, i in B + 1] = sum[c](x[b, c, i | 0] * w[c, o])
                return y
              }
            }""", {"w": real(3, 17)})
        for b in (1, 4):
            self.check([("e", {"x": real(b, 3, b)})])

    def test_products_of_a_weight_and_of_its_parts(self):
        """The part lies in the panels of the whole, across which its lanes go."""
        self.compile("""
            dim B
            model Net {
              param w: real[43, 14]
              entry e(x: real[B, 14]) -> y: real[B, 43], z: real[B, 13], a: real[B, 30] {
                y[b, o] = sum[d](x[b, d] * w[o, d])
                z[b, o in 13] = sum[d](x[b, d] * w[o + 30, d])
                a[b, o in 30] = sum[d](x[b, d] * w[o, d])
                return y, z, a
              }
            }""", {"w": real(43, 14)})
        for b in (1, 7, 40):
            self.check([("e", {"x": real(b, 14)})])

    def test_parts_of_a_table_that_begin_where_panels_do(self):
        """The last panel of a part holds columns of the next one, the last of all what is behind the table's end."""
        self.compile("""
            dim B
            model Words {
              param w: real[203, 21]
              entry e(ids: index(203)[B]) -> first: real[B, 70], second: real[B, 25], last: real[B, 107] {
                x[b, d] = w[ids[b], d]
                p[b, o in 70] = sum[d](x[b, d] * w[o, d])
                q[b, o in 25] = sum[d](x[b, d] * w[o + 64, d])
                r[b, o in 107] = sum[d](x[b, d] * w[96 + o, d])
                return p, q, r
              }
            }""", {"w": real(203, 21)})
        for b in (1, 8, 41):
            self.check([("e", {"ids": whole(*np.random.default_rng(b).integers(0, 203, b))})])

    def test_a_sum_over_more_terms_than_32_bits_count(self):
        self.compile("""
            dim N
            model M {
              param w: real[100000]
              entry run(x: real[N]) -> y: real[N] {
                y[n] = sum[a, b](sin(max(w[a], w[b]) + x[n]))
                return y
              }
            }""", {"w": real(100000)})
        got = heddle_library.load(self.library).session(threads=1).run({"x": np.zeros(0, np.float32)})
        self.assertEqual(got["y"].shape, (0,))

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

    def test_the_best_few_of_a_row(self):
        """24 at once are compiled in a second, where each more than 12 doubled the time."""
        self.compile("""
            dim S <= 8
            model M {
              sub some = Top(7)
              sub many = Top(24)
              entry run(x: real[S, 40]) -> a: i32[S, 7], y: real[S, 7], b: i32[S, 24], z: real[S, 24] {
                let a, y = some(x)
                let b, z = many(x)
                return a, y, b, z
              }
            }""")
        self.check([("run", {"x": np.round(real(s, 40), 1)}) for s in (3, 1, 0, 8)])

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
