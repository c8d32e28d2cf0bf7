#!/usr/bin/env python3
"""What the language server knows of names: rename and references across files, signature help, semantic tokens, inlay
hints, symbols of the workspace. Whole answers are compared; columns are UTF-16 units."""

import re
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from test_server import NET, Conversation

PARTS = """dim B
# Twice a number. x: what is doubled. n, m: nothing that matters,
# on two lines.
fn twice(x: real, n: i32, m: i32) -> real = 2 * x
fn half(x: real) -> real = 0.5 * x
module Inner(N) {
  param w: real[N]
  fn call(x: real[B, N]) -> real[B, N] = x * w
}
"""
USER = """use parts: twice, Inner
config D = 4
dim B
module Outer {
  sub inner = Inner(D)
}
model M {
  sub outer = Outer
  entry run(x: real[B, D]) -> y: real[B, D] {
    z[b, d] = twice(x[b, d], 1, 2) * outer.inner.w[d]
    let twice_z = z
    return twice_z
  }
}
"""


class Files(Conversation):
    """`parts.heddle` and `user.heddle`, which uses it, in one folder; the second is open."""

    def setUp(self):
        super().setUp()
        (self.folder / "parts.heddle").write_text(PARTS)
        self.texts = {(self.folder / "parts.heddle").as_uri(): PARTS, (self.folder / "user.heddle").as_uri(): USER}
        self.parts = (self.folder / "parts.heddle").as_uri()
        self.user = self.opened(USER, "user.heddle")

    def at(self, uri, word, nth=1, **more):
        line, column = self.place(self.texts[uri], word, nth)
        return {"textDocument": {"uri": uri}, "position": {"line": line, "character": column}, **more}

    def rename(self, uri, word, new_name, nth=1):
        """The texts after the rename, by URI; the message where it is refused."""
        answer = self.client.answer(self.client.ask("textDocument/rename", **self.at(uri, word, nth, newName=new_name)))
        if "error" in answer:
            self.assertEqual(answer["error"]["code"], -32803)
            return answer["error"]["message"]
        out = {}
        for changed, edits in answer["result"]["changes"].items():
            lines = self.texts[changed].split("\n")
            for edit in sorted(edits, key=lambda e: -(e["range"]["start"]["line"] * 10000 + e["range"]["start"]["character"])):
                begin, end = edit["range"]["start"], edit["range"]["end"]
                self.assertEqual(begin["line"], end["line"])
                line = lines[begin["line"]].encode("utf-16-le")
                lines[begin["line"]] = (line[:2 * begin["character"]].decode("utf-16-le") + edit["newText"]
                                        + line[2 * end["character"]:].decode("utf-16-le"))
            out[changed] = "\n".join(lines)
        return out


class Rename(Files):
    def test_a_function_is_renamed_in_every_file_that_uses_it(self):
        self.assertEqual(self.client.request("textDocument/rename", **self.at(self.user, "twice(x", newName="double")), {"changes": {
            self.parts: [{"newText": "double", "range": {"start": {"line": 3, "character": 3}, "end": {"line": 3, "character": 8}}}],
            self.user: [{"newText": "double", "range": {"start": {"line": 0, "character": 11}, "end": {"line": 0, "character": 16}}},
                        {"newText": "double", "range": {"start": {"line": 9, "character": 14}, "end": {"line": 9, "character": 19}}}]}})

    def test_a_weight_keeps_its_name_in_the_weights_file(self):
        self.assertEqual(self.rename(self.user, "w[d]", "scale"), {
            self.parts: PARTS.replace("param w:", 'param scale as "w":').replace("x * w", "x * scale"),
            self.user: USER.replace("inner.w[d]", "inner.scale[d]")})
        self.assertEqual(self.rename(self.user, "inner = ", "core"), {
            self.user: USER.replace("sub inner =", 'sub core as "inner" =').replace("outer.inner.w", "outer.core.w")})
        array = "module A { param w: real[2] }\nmodel M {\n  sub many[2] = A\n  sub b as \"b\" = A\n  entry run(x: real[2]) -> y: real[2] { return x + many[0].w + b.w }\n}\n"
        uri = self.opened(array, "array.heddle")
        self.texts[uri] = array
        self.assertEqual(self.rename(uri, "many[0]", "each"), {
            uri: array.replace("many[2]", 'each[2] as "many"').replace("many[0]", "each[0]")})
        self.assertEqual(self.rename(uri, "b.w", "other"), {uri: array.replace("sub b", "sub other").replace("b.w", "other.w")})

    def test_a_dim_is_one_in_all_files_of_a_program(self):
        self.assertEqual(self.rename(self.user, "B, D] {", "Batch"), {
            self.parts: re.sub(r"\bB\b", "Batch", PARTS), self.user: re.sub(r"\bB\b", "Batch", USER)})

    def test_what_hides_a_name_is_left_alone(self):
        text = """config N = 3
fn f(x: real[_]) -> real = sum[N](x[N])
model M {
  entry run(x: real[3], N: i32) -> y: real[3] {
    y[i] = x[i] * N
    return y
  }
  entry other(x: real[N]) -> y: real[N] { return (((x))) + (N) }
}
"""
        uri = self.opened(text, "hidden.heddle")
        self.texts[uri] = text
        self.assertEqual(self.rename(uri, "N = 3", "K"), {
            uri: text.replace("config N", "config K").replace("[N]) -> y: real[N]", "[K]) -> y: real[K]").replace("(N) }", "(K) }")})
        self.assertEqual(self.rename(uri, "N](x", "k"), {uri: text.replace("sum[N](x[N])", "sum[k](x[k])")})
        self.assertEqual(self.rename(uri, "N: i32", "n"), {uri: text.replace("N: i32", "n: i32").replace("* N", "* n")})
        self.assertEqual(self.rename(uri, "x: real[N]", "a"), {uri: text.replace("other(x: real[N]", "other(a: real[N]").replace("(((x)))", "(((a)))")})

    def test_names_in_braces_in_the_names_of_weights_are_renamed(self):
        text = """module A(LAYER) { param b as "b{LAYER}": real[2] }
model M {
  sub a[l in 2] as "a{l}" = A(l)  # "l"
  entry run(x: real[2]) -> y: real[2] { return x + a[1].b }
}
"""
        uri = self.opened(text, "braces.heddle")
        self.texts[uri] = text
        self.assertEqual(self.rename(uri, "LAYER", "N"), {uri: text.replace("LAYER", "N")})
        self.assertEqual(self.rename(uri, "l}", "n"), {uri: text.replace("l in 2", "n in 2").replace("{l}", "{n}").replace("A(l)", "A(n)")})

    def test_a_name_that_changes_what_another_means_is_refused(self):
        for word, new_name, why in [
                ("twice(x", "half", "`half` is something else in line 5 of parts.heddle"),
                ("twice(x", "Outer", "`Outer` is something else in line 4 of user.heddle"),
                ("z[b, d]", "x", "`x` is something else in line 9 of user.heddle"),
                ("z[b, d]", "twice_z", "`twice_z` is something else in line 11 of user.heddle"),
                ("b, d] =", "d", "`d` is something else in line 10 of user.heddle"),
                ("twice(x", "if", "`if` is not a name: it is a reserved word"),
                ("twice(x", "2x", "`2x` is not a name"), ("twice(x", "a b", "`a b` is not a name"), ("twice(x", "", "`` is not a name"),
                ("twice(x", "_", "`_` is not a name"), ("z[b, d]", "größe", "`größe` is not a name"),
                ("twice(x", "exp", "`exp` is a function of the language"), ("twice(x", "sum", "`sum` is a function of the language"),
                ("let", "x", "no name that is defined somewhere stands here")]:
            with self.subTest(word=word, to=new_name):
                self.assertEqual(self.rename(self.user, word, new_name), why)

    def test_a_name_that_would_catch_uses_of_the_prelude_is_refused(self):
        text = NET.replace("top[b, d]", "high[b, d]").replace("sub layers", "sub other = Mlp(D, F)\n  sub layers")
        uri = self.opened(text, "catch.heddle")
        self.texts[uri] = text
        self.assertEqual(self.rename(uri, "Mlp(I", "Linear"), "`Linear` would change what line 7 of catch.heddle means")
        self.assertEqual(self.rename(uri, "gelu", "g"), "`gelu` comes with Heddle")
        answer = self.client.answer(self.client.ask("textDocument/prepareRename", **self.at(uri, "gelu")))
        self.assertEqual(answer["error"], {"code": -32803, "message": "`gelu` comes with Heddle"})

    def test_a_file_that_does_not_parse_is_not_renamed_in(self):
        (self.folder / "parts.heddle").write_text(PARTS + "module {\n")
        self.client.notify("workspace/didChangeWatchedFiles", changes=[])
        self.assertEqual(self.rename(self.user, "twice(x", "double"), "parts.heddle has mistakes that hide what its names mean")

    def test_what_is_renamed_is_shown_before(self):
        self.assertEqual(self.client.request("textDocument/prepareRename", **self.at(self.user, "wice(x")), {
            "placeholder": "twice", "range": {"start": {"line": 9, "character": 14}, "end": {"line": 9, "character": 19}}})
        self.assertIsNone(self.client.request("textDocument/prepareRename", **self.at(self.user, "model")))

    def test_a_document_without_a_file_is_answered_like_any_other(self):
        uri = "untitled:Untitled-1"
        self.texts[uri] = NET
        self.client.notify("textDocument/didOpen", textDocument={"uri": uri, "languageId": "heddle", "version": 1, "text": NET})
        self.assertEqual(self.client.messages(uri, 1), [])
        self.assertEqual(self.rename(uri, "top[b", "high"), {uri: NET.replace("top[", "high[")})
        self.assertIn("`z`: `f32[B, S, D = 6]`", self.hover(uri, "z[b, s, d]"))
        self.client.change(uri, 2, (0, 0, 0, 0, "use \n"))
        self.assertEqual(self.client.at("completion", uri, 0, 4), {"isIncomplete": False, "items": []})

    def test_bytes_that_are_no_text_are_question_marks(self):
        (self.folder / "parts.heddle").write_bytes(b"# \xff\xfe \xf0\x9d\x92\xaf\n" + PARTS.replace("Twice", "Tw\xffce").encode("latin-1"))
        self.client.notify("workspace/didChangeWatchedFiles", changes=[])
        self.assertIn("Tw?ce a number.", self.hover(self.user, "twice(x", text=USER))
        edits = self.client.request("textDocument/rename", **self.at(self.user, "twice(x", newName="double"))["changes"]
        self.assertEqual(edits[self.parts][0]["range"], {"start": {"line": 4, "character": 3}, "end": {"line": 4, "character": 8}})

    def test_columns_behind_other_characters_are_utf16(self):
        text = 'model M {\n  entry run(x: real[2]) -> y: real[2] {\n    require 1 < 2 else "𝒯∑" let q = x return q\n  }\n}\n'
        uri = self.opened(text, "wide.heddle")
        self.texts[uri] = text
        answer = self.client.request("textDocument/rename", textDocument={"uri": uri}, newName="r", position={"line": 2, "character": 33})
        self.assertEqual(answer["changes"][uri][0]["range"], {"start": {"line": 2, "character": 33}, "end": {"line": 2, "character": 34}})
        self.assertEqual(len(answer["changes"][uri]), 2)


class References(Files):
    def test_references_are_found_in_all_files_of_the_folder(self):
        def place(uri, line, begin, end):
            return {"uri": uri, "range": {"start": {"line": line, "character": begin}, "end": {"line": line, "character": end}}}
        uses = [place(self.user, 9, 49, 50)]
        self.assertEqual(self.client.request("textDocument/references", **self.at(self.user, "w[d]", context={"includeDeclaration": True})),
                         [place(self.parts, 6, 8, 9), place(self.parts, 7, 45, 46), *uses])
        self.assertEqual(self.client.request("textDocument/references", **self.at(self.user, "w[d]", context={"includeDeclaration": False})),
                         [place(self.parts, 7, 45, 46), *uses])


class Signatures(Files):
    def help(self, line, text=USER):
        """The help at the end of `line`, typed before `return`."""
        at, _ = self.place(text, "    return")
        self.version = getattr(self, "version", 1) + 1
        self.client.change(self.user, self.version, (at, 0, at, 0, line + "\n"))
        answer = self.client.at("signatureHelp", self.user, at, len(line))
        self.version += 1
        self.client.change(self.user, self.version, (at, 0, at + 1, 0, ""))
        return answer

    def test_a_function_shows_its_parameters_with_what_its_comment_says_of_each(self):
        comment = "Twice a number. x: what is doubled. n, m: nothing that matters,\non two lines."
        self.assertEqual(self.help("    q = 1 + twice(x[0, 0], "), {"activeSignature": 0, "activeParameter": 1, "signatures": [
            {"label": "twice(x: real, n: i32, m: i32) -> real", "documentation": comment, "parameters": [
                {"label": [6, 13], "documentation": "what is doubled."},
                {"label": [15, 21], "documentation": "nothing that matters,\non two lines."},
                {"label": [23, 29], "documentation": "nothing that matters,\non two lines."}]}]})

    def test_modules_members_and_what_the_language_brings_have_signatures(self):
        for line, label, active in [
                ("    q = outer.inner(", "inner(x: real[B, N]) -> real[B, N]", 0),
                ("    q = exp(", "exp(x)", 0), ("    q = max(x[0, (1)], (2 + ", "max(x, y)", 1),
                ("    q = sum[k in 3](x[0, k", "sum[i](x)", 0), ("    q = real(", "real(x)", 0), ("    q = index(", "index(N)(n)", 0),
                ("    q = attend(x, softmax(y), ", "attend(s: real[B, H, T, K], v: real[B, K, H, E]) -> real[B, T, H, E]", 2)]:
            with self.subTest(line):
                answer = self.help(line)
                self.assertEqual((answer["signatures"][0]["label"], answer["activeParameter"]), (label, active))
        self.client.change(self.user, 500, (4, 0, 5, 0, "  sub inner = Inner(\n"))
        self.assertEqual(self.client.at("signatureHelp", self.user, 4, 20), {"activeSignature": 0, "activeParameter": 0, "signatures": [
            {"label": "Inner(N)", "parameters": [{"label": [6, 7]}]}]})

    def test_where_nothing_is_called_there_is_no_help(self):
        for line in ["    q = (", "    q = x[0, ", "    q = y.z(", "    # twice(", "    require 1 < 2 else \"twice(", "    q = nobody(", "    q = x("]:
            with self.subTest(line):
                self.assertIsNone(self.help(line))
        self.client.change(self.user, 900, (8, 0, 9, 0, "  entry run(x: real[B, D\n"))
        self.assertIsNone(self.client.at("signatureHelp", self.user, 8, 24))


class Drawn(Files):
    """What an editor draws by itself."""

    def test_hints_show_the_shapes_of_definitions(self):
        uri = self.opened(NET.replace("    return y", "    let half = 0.5 * y\n    return y"), "net.heddle")
        self.assertEqual(self.client.messages(uri, 1)[0]["code"], "W103")
        whole = {"start": {"line": 0, "character": 0}, "end": {"line": 99, "character": 0}}
        shapes = [((15, 14), ": f32[B, S, D = 6]"), ((17, 13), ": f32[B, O = 6]"), ((18, 14), ": f32[B, S, O = 6]"),
                  ((19, 12), ": f32[B, S, O = 6]")]
        expected = [{"kind": 1, "label": label, "paddingLeft": False, "paddingRight": False, "position": {"line": line, "character": column}}
                    for (line, column), label in shapes]
        self.assertEqual(self.client.request("textDocument/inlayHint", textDocument={"uri": uri}, range=whole), expected)
        part = {"start": {"line": 16, "character": 0}, "end": {"line": 18, "character": 0}}
        self.assertEqual(self.client.request("textDocument/inlayHint", textDocument={"uri": uri}, range=part), expected[1:2])

    def test_hints_are_asked_for_anew_when_a_check_knows_more(self):
        from language_client import Client
        other = Client(self.folder / "cache")
        self.addCleanup(other.kill)
        other.request("initialize", capabilities={"workspace": {"inlayHint": {"refreshSupport": True}}})
        other.open(self.folder / "user.heddle")
        other.wait(lambda: any(message.get("method") == "workspace/inlayHint/refresh" for message in other.asked))
        other.send({"id": other.asked[0]["id"], "result": None})
        self.assertEqual(other.stop(), 0)

    def test_tokens_say_what_every_name_is(self):
        text = 'use parts: twice\nconfig D = 2\nmodel M {\n  param w: real[D]\n  entry run(x: real[D]) -> y: real[D] {\n' \
               '    require 1 < 2 else "𝒯∑" z[d] = exp(twice(x[d], 1, 1)) * w[d] return relu(z)\n  }\n}\n'
        uri = self.opened(text, "tokens.heddle")
        legend = self.capabilities["semanticTokensProvider"]["legend"]
        data = self.client.request("textDocument/semanticTokens/full", textDocument={"uri": uri})["data"]
        lines, line, column, found = text.split("\n"), 0, 0, []
        for down, right, size, kind, modifiers in zip(*[iter(data)] * 5):
            line, column = line + down, right if down else column + right
            units = lines[line].encode("utf-16-le")
            found.append((line, units[2 * column:2 * (column + size)].decode("utf-16-le"), legend["tokenTypes"][kind],
                          *[name for bit, name in enumerate(legend["tokenModifiers"]) if modifiers >> bit & 1]))
        self.assertEqual(found, [
            (0, "twice", "function"), (1, "D", "variable", "declaration", "readonly"), (2, "M", "class", "declaration"),
            (3, "w", "property", "declaration", "readonly"), (3, "D", "variable", "readonly"),
            (4, "run", "method", "declaration"), (4, "x", "parameter", "declaration"), (4, "D", "variable", "readonly"), (4, "D", "variable", "readonly"),
            (5, "z", "variable", "declaration"), (5, "d", "enumMember", "declaration"), (5, "exp", "function", "defaultLibrary"),
            (5, "twice", "function"), (5, "x", "parameter"), (5, "d", "enumMember"), (5, "w", "property", "readonly"), (5, "d", "enumMember"),
            (5, "relu", "function", "defaultLibrary"), (5, "z", "variable")])

    def test_symbols_of_the_workspace_are_found_by_a_part_of_their_name(self):
        (self.folder / "deep" / ".hidden").mkdir(parents=True)
        (self.folder / "deep" / "other.heddle").write_text("fn twice_more(x: real) -> real = 4 * x\n")
        (self.folder / "deep" / ".hidden" / "not.heddle").write_text("fn twice_never(x: real) -> real = 4 * x\n")
        deep = (self.folder / "deep" / "other.heddle").as_uri()

        def symbol(name, kind, uri, line, begin, **more):
            return {"name": name, "kind": kind, **more, "location": {"uri": uri, "range": {
                "start": {"line": line, "character": begin}, "end": {"line": line, "character": begin + len(name)}}}}
        self.assertEqual(self.client.request("workspace/symbol", query="TWICE"),
                         [symbol("twice_more", 12, deep, 0, 3), symbol("twice", 12, self.parts, 3, 3)])
        self.assertEqual(self.client.request("workspace/symbol", query="inner"),
                         [symbol("Inner", 5, self.parts, 5, 7), symbol("inner", 19, self.user, 4, 6, containerName="Outer")])
        self.assertEqual(self.client.request("workspace/symbol", query="nobody"), [])


if __name__ == "__main__":
    unittest.main()
