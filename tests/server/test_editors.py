#!/usr/bin/env python3
"""The editor's files agree with the language: the words that the VS Code grammar knows are the lexer's, and every file
is what VS Code reads."""

import json
import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "editors" / "vscode"


def listed(name):
    text = (ROOT / "dsl" / "syntax" / "lexer.cc").read_text()
    return set(re.findall(r'"([^"]+)"', re.search(rf"constexpr std::string_view {name}\[\] = \{{(.*?)\}};", text, re.S)[1]))


def words(pattern):
    return set(re.search(r"\(([a-z0-9|]+)\)", pattern)[1].split("|"))


class Grammar(unittest.TestCase):
    def setUp(self):
        self.grammar = json.loads((FOLDER / "syntaxes" / "heddle.tmLanguage.json").read_text())["repository"]

    def test_its_keywords_are_those_of_the_lexer(self):
        known = [words(pattern["match"]) for pattern in self.grammar["keyword"]["patterns"]]
        self.assertEqual(set().union(*known), listed("keywords"))
        self.assertEqual(sum(map(len, known)), len(listed("keywords")), "a word stands in two groups")

    def test_its_types_and_reducers_are_those_of_the_lexer(self):
        types = [pattern for pattern in self.grammar["keyword"]["patterns"] if pattern["name"].startswith("storage.type")]
        self.assertEqual(words(types[0]["match"]), listed("scalars"))
        self.assertEqual(words(self.grammar["reduction"]["match"]), listed("reducers"))

    def test_its_operators_cover_the_symbols(self):
        operator = re.compile(self.grammar["operator"]["match"])
        for symbol in listed("symbols") - set("()[]{}:,."):
            self.assertTrue(operator.fullmatch(symbol), symbol)

    def test_its_patterns_find_what_they_should(self):
        for rule, cases in {
                "number": {"x = 1e-5": ["1e-5"], "[2, 3.25]": ["2", "3.25"], "1..N": ["1"], "= .5": [".5"], "y2 = 7x": [],
                           "w_1 + 0.5E+3 * 7": ["0.5E+3", "7"], "a1.b2": []},
                "reduction": {"sum[i](max[j in 3](x))": ["sum", "max"], "max(a, b)": [], "summ[i]": []},
                "call": {"y = exp(x) + f (2)": ["exp", "f"], "x[i]": []},
                "size": {"x: real[..S, D_2, N]": ["S", "D_2", "N"], "Linear": []},
                "comment": {'x # "a" # b': ['# "a" # b']},
                "declaration": {"fn call(x)": ["fn call"], "model Net {": ["model Net"], "fnord x": []}}.items():
            for text, found in cases.items():
                with self.subTest(rule, text=text):
                    self.assertEqual([match[0] for match in re.finditer(self.grammar[rule]["match"], text)], found)

    def test_every_pattern_is_a_regular_expression(self):
        def patterns(rule):
            yield from (rule[key] for key in ("match", "begin", "end") if key in rule)
            for inner in rule.get("patterns", []):
                yield from patterns(inner)
        found = [pattern for rule in self.grammar.values() for pattern in patterns(rule)]
        self.assertGreater(len(found), 10)
        for pattern in found:
            re.compile(pattern)

    def test_every_file_that_the_manifest_names_is_there(self):
        package = json.loads((FOLDER / "package.json").read_text())
        language = package["contributes"]["languages"][0]
        named = [package["main"], language["configuration"]] + [grammar["path"] for grammar in package["contributes"]["grammars"]]
        for name in named:
            text = (FOLDER / name).read_text()
            if name.endswith(".json"):
                json.loads(text)
        self.assertIn('args: ["lsp", "--stdio"]', (FOLDER / package["main"]).read_text())


if __name__ == "__main__":
    unittest.main()
