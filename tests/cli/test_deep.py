#!/usr/bin/env python3
"""Programs that are deep in one way or another, within the limits of the language: none overflows the stack."""

import unittest

from test_cli import Scratch


class Deep(Scratch):
    def check(self, text):
        (self.folder / "deep.heddle").write_text(text)
        self.assertRegex(self.done("check", "deep.heddle"), r"\Adeep\.heddle: no errors")

    def test_high_formulas_that_call_high_formulas(self):
        text = "fn f0(x: real) -> real = x\n"
        for i in range(1, 10):
            text += f"fn f{i}(x: real) -> real = f{i - 1}(x)" + " + x" * 800 + "\n"
        self.check(text + "model M { entry run(x: real) -> y: real { return f9(x) } }\n")

    def test_a_chain_of_numbers(self):
        lets = "".join(f"let a{i} = a{i - 1} * x\n" for i in range(1, 30000))
        self.check("model M { entry run(x: real) -> y: real {\nlet a0 = x\n" + lets + "return a29999 } }\n")

    def test_whole_numbers_that_are_used_twice_each(self):
        lets = "".join(f"let a{i} = a{i - 1} + a{i - 1}\n" for i in range(1, 40))
        self.check("model M { entry run(x: i32) -> y: i32 {\nlet a0 = x\n" + lets + "return a39 } }\n")

    def test_places_that_are_used_twice_each(self):
        """As a place that a size makes, and as one that numbers of a tensor make: both are compiled in a moment."""
        def steps(index):
            return "".join(f"a{i}{index} = max(a{i - 1}{index}, 0 - a{i - 1}{index})\n" for i in range(1, 30))
        sizes = "".join("let " + line + "\n" for line in steps("").splitlines())
        for lets, body in [("let a0 = min(N, 7)\n" + sizes, "y[i] = x[index(N)(a29)] + x[i]\n"),
                           ("", "a0[i] = p[i]\n" + steps("[i]") + "y[i] = x[index(N)(a29[i])]\n")]:
            text = ("dim N <= 99\n" + lets + "model M { entry run(x: real[N], p: i32[N]) -> y: real[N] {\n" + body +
                    "return y } }\n").replace(", p: i32[N]", ", _p: i32[N]" if lets else ", p: i32[N]")  # fmt: skip
            self.check(text)
            self.done("compile", "deep.heddle", "-o", "out")

    def test_sines_of_sines(self):
        """A sine is many uses of its angle: in a sum, a product with weights, a convolution and attention."""
        def steps(name):
            return "f(" * 7 + name + ")" * 7
        text = "dim N <= 99\nfn f(x: real) -> real = 0.5 * x * sin(x)\n"
        for sums in [f"y[n, o in 8] = sum[i]({steps('x[n, i]')}) + w[o, 0, 0]\n",
                     f"y[n, o] = sum[i]({steps('x[n, i]')} * w[o, i, 0])\n",
                     f"y[n, o] = sum[i](x[n, i] * {steps('w[o, i, 0]')})\n",
                     f"y[n in N, o] = sum[i, k]({steps('x[n + k - 1, i | 0]')} * w[o, i, k])\n",
                     f"""s[i in N, j in N] = sum[d]({steps('x[i, d]')} * {steps('x[j, d]')}) + w[0, 0, 0]
                         let a = softmax(s)
                         y[i, o in 8] = sum[j](a[i, j] * {steps('x[j, o]')})\n""",
                     f"y[v in N, o in 8] = sum[n](if at[n] == v then {steps('x[n, o]')} * w[0, 0, 0] else 0)\n"]:  # fmt: skip
            (self.folder / "deep.heddle").write_text(text + "model M {\nparam w: real[8, 16, 3]\n"
                f"entry run(x: real[N, 16], {'at' if 'at[n]' in sums else '_at'}: i32[N]) -> y: real[N, 8] {{\n" + sums + "return y } }\n")  # fmt: skip
            self.done("compile", "--blank", "deep.heddle", "-o", "out")

    def test_long_unrolled_loops(self):
        self.check("model M { entry run(x: real) -> y: real {\nlet h = x\n"
                   "for i in 160 with h { for j in 100 with h { h = h * x + 1 } }\nreturn h } }\n")  # fmt: skip
        tree = self.done("show", "--stage", "tree", "deep.heddle")
        self.assertRegex(tree, r"\A[^…]*(…[^…]*)\Z")  # one mark for what is too much
        self.assertIn("… * x + 1.0) * x + 1.0) * x + 1.0", tree)


if __name__ == "__main__":
    unittest.main()
