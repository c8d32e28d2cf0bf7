#!/usr/bin/env python3
"""Products of run-time sizes and merged indices: the compiled library agrees with the evaluator, for sizes of 0 and 1, too.
What the programs compute is checked against numpy once, so that both cannot be wrong alike."""

import unittest

import numpy as np

from program import Program, real, tensors, whole

SIZES = [(2, 3), (1, 5), (4, 1), (1, 1), (0, 3), (3, 0), (7, 6)]

TOKENS = """
    config P = 2, D = 5
    dim B <= 3, H <= 16, W <= 16
    let Y = H // P
    let X = W // P
    model M {
      param patch: real[D, P, P]
      param first: real[D]
      entry run(image: real[B, H, W], place: real[Y * X, D]) -> tokens: real[B, Y * X + 1, D], grid: real[B, Y, X, D] {
        e[b, n in (y in Y, x in X), d] = sum[i, j](image[b, P * y + i, P * x + j] * patch[d, i, j]) + place[n, d]
        t[b in B, n in Y * X + 1, d] = if n == 0 then first[d] else e[b, n - 1, d]
        g[b, y in Y, x in X, d] = e[b, y * X + x, d]
        return t, g
      }
    }"""


class Products(Program):
    def test_the_tokens_of_an_image_of_any_size(self):
        weights = {"patch": real(5, 2, 2), "first": real(5)}
        self.compile(TOKENS, weights)
        calls = [("run", {"image": real(2, 2 * y, 2 * x), "place": real(y * x, 5, seed=1)}) for y, x in SIZES]
        odd = {"image": real(2, 5, 9), "place": real(8, 5, seed=1)}  # the last row and column are in no patch
        self.check([("run", odd)])
        self.check(calls)
        for i, ((y, x), (_, given)) in enumerate(zip(SIZES, calls)):
            patches = given["image"].reshape(2, y, 2, x, 2).transpose(0, 1, 3, 2, 4).reshape(2, y * x, 4)
            e = patches @ weights["patch"].reshape(5, 4).T + given["place"]
            got = tensors(self.folder / f"{i}.out.safetensors")
            np.testing.assert_allclose(got["tokens"], np.concatenate([np.broadcast_to(weights["first"], (2, 1, 5)), e], 1), 1e-4, 1e-5)
            np.testing.assert_allclose(got["grid"], e.reshape(2, y, x, 5), 1e-4, 1e-5)

    def test_a_function_takes_tokens_as_any_other_length(self):
        self.compile("""
            dim Y <= 8, X <= 8
            fn mixed(q: real[N, E]) -> real[N, E] {
              s[i, j] = sum[e](q[i, e] * q[j, e])
              let p = softmax(s)
              o[i, e] = sum[j](p[i, j] * q[j, e])
              return o
            }
            model M {
              entry run(image: real[Y, X, 8]) -> y: real[Y, X, 8] {
                t[n in (i in Y, j in X), e] = image[i, j, e]
                let u = mixed(t)
                y[i in Y, j in X, e] = u[i * X + j, e]
                return y
              }
            }""")
        self.check([("run", {"image": real(y, x, 8)}) for y, x in SIZES if y * x])

    def test_a_merged_index_in_a_reduction_and_with_three_pieces(self):
        self.compile("""
            dim Z <= 4, Y <= 8, X <= 8
            model M {
              entry run(v: real[Z, Y, X], w: real[Y * X]) -> flat: real[Z * Y * X], total: real, best: i32, rows: real[Y], parts: real[Z * Y * X] {
                flat[n in (k in Z, i in Y, j in X)] = v[k, i, j]
                t = sum[n in (i in Y, j in X)](w[n] * v[0, i, j | 0])
                b = argmax[n in (k in Z, i in Y, j in X)](v[k, i, j])
                r[i in Y] = sum[j in X](w[i * X + j])
                parts[n in (k in Z, i in Y, j in X)] = sum[m in X where m <= j](v[k, i, m]) + 100 * i + n
                return flat, t, b, r, parts
              }
            }""")
        sizes = [(2, 3, 4), (1, 1, 5), (3, 2, 1), (1, 7, 6)]
        calls = [("run", {"v": real(*s), "w": real(s[1] * s[2])}) for s in sizes]
        self.check(calls)
        for i, (_, given) in enumerate(calls):
            got = tensors(self.folder / f"{i}.out.safetensors")
            np.testing.assert_array_equal(got["flat"], given["v"].reshape(-1))
            self.assertEqual(got["best"], given["v"].argmax())

    def test_rows_of_pixels_of_a_padded_window(self):
        self.compile("""
            config R = 3, S = 2, PAD = 1
            dim H <= 9, W <= 9
            model M {
              entry run(image: real[H, W], kernel: real[R, R]) -> y: real[((H + 2 * PAD - R) // S + 1) * ((W + 2 * PAD - R) // S + 1)] {
                require H >= 1 and W >= 1 else "an image has pixels"
                y[n in (i in (H + 2 * PAD - R) // S + 1, j in (W + 2 * PAD - R) // S + 1)] =
                  sum[u, v](image[S * i + u - PAD, S * j + v - PAD | 0] * kernel[u, v])
                return y
              }
            }""")
        self.check([("run", {"image": real(h, w), "kernel": real(3, 3)}) for h, w in [(5, 7), (1, 1), (2, 9), (8, 8)]])
        self.refused([("run", {"image": real(0, 3), "kernel": real(3, 3)})], "an image has pixels")

    def test_a_loop_and_a_state_over_a_product(self):
        self.compile("""
            dim Y <= 4, X <= 4
            model M {
              state seen: real[Y * X] = 0
              entry run(v: real[Y, X]) -> y: real[Y * X], last: real {
                a[n in (i in Y, j in X)] = v[i, j]
                t = 0.0
                for n in Y * X with t {
                  t = t + a[n]
                  y[n] = t + seen[n]
                }
                seen <- y
                return y, t
              }
            }""")
        self.check([("run", {"v": real(2, 3)}), ("run", {"v": real(2, 3, seed=1)})])


class States(Program):
    def test_updates_in_the_arms_of_an_if_may_meet(self):
        self.compile("""
            model M {
              state kept: real[2, 3] = 0
              state row: i32 = 0
              entry run(x: real[3], what: i32) -> before: real[2, 3] {
                if what == 0 { kept[0, i] <- x[i] }
                else if what == 1 { kept[0, i] <- kept[1, i] + 1 row <- row + 1 }
                else { kept[0, i] <- 2 * kept[0, i] row <- 0 }
                kept[1, i] <- if what == 2 then x[i] else kept[1, i]
                return kept
              }
              entry rows() -> n: i32 { return row }
            }""")
        self.check([step for what in (0, 2, 1, 1, 3, 0, 2) for step in
                    (("run", {"x": real(3, seed=what), "what": np.int32(what)}), ("rows", {}))])

    def test_slices_of_all_layers_are_a_whole_update(self):
        self.compile("""
            config L = 3
            dim S <= 8
            model M {
              state seen: real[L, S]
              entry fill(x: real[S]) -> y: real[S] {
                y = x
                for l in L with y {
                  seen[l, s] <- y[s]
                  y = 2 * y
                }
                return y
              }
              entry look(z: real[S]) -> y: real[L, S] {
                y[l, s] = seen[l, s] + z[s]
                return y
              }
            }""")
        self.check([("fill", {"x": real(4)}), ("look", {"z": real(4)}), ("fill", {"x": real(7)}), ("look", {"z": real(7)})])
        self.refused([("look", {"z": real(4)})], "seen")


if __name__ == "__main__":
    unittest.main()
