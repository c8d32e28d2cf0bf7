#!/usr/bin/env python3
"""A file without a model, opened alone: what is wrong in it whatever uses it is said, what depends on its users is said
where a model beside it uses it so, and nothing else is."""

import re
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from language_client import ROOT
from test_server import Conversation

WHOLE = {"start": {"line": 0, "character": 0}, "end": {"line": 9999, "character": 0}}


class Alone(Conversation):
    def said(self, text, name="parts.heddle"):
        """Line, first word and message of everything that is published for the text."""
        uri = self.opened(text, name)
        out = []
        for message in self.client.messages(uri):
            begin = message["range"]["start"]
            out.append((begin["line"], text.split("\n")[begin["line"]][begin["character"]:message["range"]["end"]["character"]],
                        message["code"], message["message"]))
        return out

    def hints(self, uri):
        return [hint["label"] for hint in self.client.request("textDocument/inlayHint", textDocument={"uri": uri}, range=WHOLE)]

    def test_names_types_ranks_and_calls_are_checked(self):
        self.assertEqual(self.said("""module One(N) {
  param w: real[N]
  sub norm = LayerNorm(N)
  fn call(x: real[..S, N]) -> real[..S, N] {
    y[..s, n] = x[..s, n] * ww[n]
    z[..s, n] = x[..s, n] + w[n, n]
    return softmax(z, y)
  }
}
fn two(x: real[B, N], n: i32) -> bool[B] {
  y[b] = sum[i](x[b, i])
  return y
}
fn three(x: real[B, B]) -> real = max[k](x)
"""), [
            (2, "LayerNorm", "E029", "`LayerNorm` takes 2 sizes, but is given 1\nhelp: call it as `LayerNorm(N, EPS)`"),
            (4, "ww", "E020", "`ww` is not known here\nhelp: did you mean `w`?"),
            (5, "w[n, n]", "E025", "`w` has shape [N], but is given 2 subscripts\nhelp: give one subscript for each dimension"),
            (6, "softmax(z, y)", "E029", "`softmax` takes 1 argument, but is given 2\nhelp: call it as `softmax(x)`"),
            (9, "N", "E036", "size `N` is used only once\nhelp: write `_`: it constrains nothing"),
            (11, "return y", "E031", "`two(…)` is f32 where bool is needed\nhelp: convert it (`real(x)`, `i32(x)`), or compare it (`x != 0`)"),
            (13, "k", "E023", "index `k` has no range\nhelp: no subscript is just `k`: write `k in N` where it is introduced"),
            (9, "n", "W103", "parameter `n` is never used\nhelp: remove it, or call it `_n`"),
        ])

    def test_a_syntax_error_hides_no_other_mistake_and_makes_none(self):
        self.assertEqual([(line, code) for line, _, code, _ in self.said("""module One(N) {
  param w real[N]
  fn call(x: real[N]) -> real[N] {
    let y = x +
    return w * y + zz
  }
}
fn two(x: real) -> real = exp(x, x)
""")], [(1, "E017"), (3, "E008"), (4, "E020"), (7, "E029")])

    def test_what_a_caller_may_choose_is_no_mistake(self):
        """Sizes that agree, numbers that are in range, ranks that fit: for some caller all of this is right."""
        self.assertEqual(self.said("""module Any(N, M, LAYERS, act, depths, eps) {
  param w: real[N, M] stored [N * M]
  sub layers[LAYERS] as "l{LAYERS}" = Linear(N, depths[1])
  if LAYERS > 2 {
    sub more = Linear(N, N)
  }
  fn call(x: real[B, N], y: real[B, M], n: i32) -> real[B, N] {
    require N == M
    z[b, i] = x[b, i] + y[b, i] + w[i, i] + x[b, 3] + x[b, n] + x[b, i + n]
    for l in LAYERS with z { z = layers[l](z) }
    let u = if act == "gelu" then gelu(z) else relu(z)
    let v = if LAYERS > 2 then more(u) else u
    return v / sqrt(eps + depths.length)
  }
}
fn ranks(x: real[..S, N]) -> real[..S, N] = attend(x, x)
fn steps(x: real[N], n: i32) -> real[N] { y[i in n] = x[i] return y }
"""), [])

    def test_where_nothing_is_left_to_choose_reads_are_proven(self):
        self.assertEqual(self.said("dim B\nfn next(x: real[B]) -> real[B] { y[b in B] = x[b + 1] return y }\n")[0][:3], (1, "b + 1", "E021"))

    def test_shapes_have_the_names_of_sizes(self):
        text = """module One(I, O) {
  param w: real[O, I]
  fn call(x: real[..S, I], s: real[_, I]) -> real[..S, O] {
    y[..s, o] = sum[i](x[..s, i] * w[o, i])
    u[t, i, k in 2 * I] = s[t, i] + k
    return y
  }
}
"""
        uri = self.opened(text)
        self.client.messages(uri)
        self.assertEqual(self.hints(uri), [": f32[..S, O]", ": f32[_, I, 2 * I]"])
        self.assertIn('`w`: `f32[O, I], weight "w"`', self.hover(uri, "w[o, i]", text=text))

    def test_a_model_beside_it_says_what_its_users_give(self):
        text = "module Part(N) {\n  fn call(x: real[B, N]) -> real[B] { y[b] = x[b, 3] return y }\n}\n"
        self.assertEqual(self.said(text), [])
        user = ("use middle: Middle\ndim B\nmodel M {\n  sub part = Middle\n"
                "  entry run(x: real[B, 3]) -> y: real[B] { return part(x) }\n}\n")
        (self.folder / "user.heddle").write_text(user)
        (self.folder / "middle.heddle").write_text(
            "use parts: Part\nmodule Middle {\n  sub part = Part(3)\n  fn call(x: real[B, 3]) -> real[B] = part(x)\n}\n")
        uri = (self.folder / "parts.heddle").as_uri()
        count = len(self.client.published[uri])
        self.client.notify("workspace/didChangeWatchedFiles", changes=[])
        self.client.wait(lambda: len(self.client.published[uri]) > count)
        [message] = self.client.messages(uri)
        self.assertEqual(message["range"], {"start": {"line": 1, "character": 50}, "end": {"line": 1, "character": 51}})
        self.assertEqual(message["code"], "E021")
        self.assertEqual(message["message"].split("\nhelp: ")[0], "`x` is read at row 3; its rows are 0 to N - 1 (N = 3)\nis 3; "
                         f"called in line 5, column 51 of {self.folder / 'user.heddle'}")

    def test_what_a_model_requires_proves_reads_in_what_it_uses(self):
        text = "dim B\nfn second(x: real[B]) -> real = x[1]\n"
        self.assertEqual([code for _, _, code, _ in self.said(text)], ["E021"])
        (self.folder / "user.heddle").write_text("use parts: second\ndim B\nmodel M {\n  entry run(x: real[B]) -> y: real {\n"
                                                 "    require B >= 2\n    return second(x)\n  }\n}\n")
        uri = (self.folder / "parts.heddle").as_uri()
        self.client.notify("workspace/didChangeWatchedFiles", changes=[])
        self.client.wait(lambda: self.client.published[uri][-1]["diagnostics"] == [])

    def test_modules_of_all_models_and_the_prelude_have_no_mistakes_alone(self):
        """They are right, so every message would be a false one. Of what the model uses nothing is known without it."""
        checked = 0
        for path in sorted([*ROOT.glob("models/*/*.heddle"), *ROOT.glob("dsl/prelude/*.heddle"), *ROOT.glob("examples/layers/*.heddle")]):
            text = path.read_text()
            model = re.search(r"^model \w+ \{.*?^\}", text, re.M | re.S)
            if model:
                text = text.replace(model[0], "")
            if not re.search(r"^(fn|module)\b", text, re.M):
                continue
            with self.subTest(path.name):
                uri = self.client.open(path.parent / "alone.heddle", text)
                self.assertEqual([m for m in self.client.messages(uri) if m["severity"] == 1], [])
                self.client.notify("textDocument/didClose", textDocument={"uri": uri})
                self.client.wait(lambda: self.client.published[uri][-1]["diagnostics"] == [])
                self.client.published[uri] = []
                checked += 1
        self.assertGreater(checked, 20)

    def test_files_that_use_each_other_are_answered(self):
        one, other = "use b: g\nfn f(x: real) -> real = x\n", "use a: f\nfn g(x: real) -> real = f(x)\n"
        (self.folder / "b.heddle").write_text(other)
        uri = self.opened(one, "a.heddle")
        self.assertEqual(self.client.messages(uri), [])
        [message] = self.client.messages((self.folder / "b.heddle").as_uri())
        self.assertEqual((message["code"], message["range"]["start"]), ("E055", {"line": 0, "character": 4}))
        target = self.client.at("definition", uri, 0, 7)
        self.assertEqual(target["uri"], (self.folder / "b.heddle").as_uri())
        found = self.client.request("textDocument/references", textDocument={"uri": uri}, position={"line": 1, "character": 3},
                                    context={"includeDeclaration": True})
        self.assertEqual([(Path(one["uri"]).name, one["range"]["start"]["line"]) for one in found], [("a.heddle", 1), ("b.heddle", 0), ("b.heddle", 1)])


if __name__ == "__main__":
    unittest.main()
