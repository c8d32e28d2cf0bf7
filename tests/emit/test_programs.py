#!/usr/bin/env python3
"""Programs whose weights are read in parts, with requirements, whole numbers, functions of what has no end: the library agrees with the
reference evaluator, also in what it refuses."""

import math
import unittest

import numpy as np
from program import Program, real, whole

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
