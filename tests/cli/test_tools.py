#!/usr/bin/env python3
"""The commands for authors of models: the page of `show --html`, `compare`, `check --watch`, `fmt` over every program
there is, and the help of every command. The command is $HEDDLE or build/bin/heddle."""

import os
import re
import select
import signal
import subprocess
import tempfile
import time
import unittest
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
from safetensors import numpy as safetensors

from test_cli import HEDDLE, ROOT, Scratch, run


class Balanced(HTMLParser):
    """Every tag is closed in its order, and nothing is fetched from elsewhere."""
    VOID = {"meta", "br", "rect"}

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.links, self.texts = [], set(), [], []

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        assert tag not in ("script", "link", "img", "iframe"), tag
        assert not any(name in attributes for name in ("src", "onload", "onclick")), attributes
        if "id" in attributes:
            assert attributes["id"] not in self.ids, attributes["id"]
            self.ids.add(attributes["id"])
        if "href" in attributes:
            self.links.append(attributes["href"])
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> after {self.open[-3:]}"
        self.open.pop()

    def handle_data(self, data):
        self.texts.append(data)


class Page(Scratch):
    def page(self, *words):
        self.done("show", *words, "--html", "page.html")
        text = (self.folder / "page.html").read_text()
        page = Balanced()
        page.feed(text)
        self.assertEqual(page.open, [])
        for link in page.links:
            self.assertTrue(link.startswith("#") and link[1:] in page.ids, link)
        self.assertNotIn("http", re.sub(r'<td>[^<]*</td>', "", text))  # the model's own comments may say it
        return text, "".join(page.texts)

    def test_it_shows_kernels_sources_sizes_memory_and_weights(self):
        text, words = self.page("net.heddle", "--dim", "B=2")
        for part in ["Net", "entry apply", "z[b, s, i] = x[b, s, i] + table[kind[b, s], i]", "f32[B, S, 3]", "B = 2", "S = 40",
                     "fc.weight", "memory plan" if "slot 0" in words else "kernels", "relu(fc(z))", "row-major"]:
            self.assertIn(part, words)
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["net.heddle", "page.html", "w.safetensors", "x.safetensors"])

    def test_every_model_folder_of_the_tests_has_a_page_whose_plan_is_drawn(self):
        for name in ("bert_model", "vit_model"):
            text, words = self.page(ROOT / "tests" / "models" / "goldens" / name)
            self.assertIn("<svg", text)
            self.assertIn("attention", words)
            drawn = [int(end) for end in re.findall(r"slot (\d+), ", words)]
            self.assertEqual(drawn, list(range(len(drawn))))

    def test_text_of_the_model_cannot_break_the_page(self):
        (self.folder / "net.heddle").write_text((self.folder / "net.heddle").read_text() + "# <b>&\"'</table>\n")
        self.page("net.heddle")

    def test_wrong_sizes_are_refused(self):
        self.refused("error: the model has no dim `Q`; it has: B, S\n", "show", "net.heddle", "--html", "p.html", "--dim", "Q=3")
        for command in (("show", "net.heddle", "--html", "p.html"), ("compile", "net.heddle", "--weights", "w.safetensors")):
            for word in ("B", "B=", "B=x", "=3", "B=-1", "B=2147483648", "B=99999999999999999999"):
                status, out, err = self.heddle(*command, "--dim", word)
                self.assertEqual((status, out), (2, ""))
                self.assertIn(f"--dim wants NAME=N, N at most 2147483647, not `{word}`", err)
            self.refused("error: --dim S=41: the model allows at most 40\n", *command, "--dim", "S=41")
            self.refused("error: --dim B=3: B was 2 before; name one size\n", *command, "--dim", "B=2", "--dim", "B=3")
        self.refused("error: nowhere/p.html: cannot write: No such file or directory\n", "show", "net.heddle", "--html", "nowhere/p.html")


class Compare(Scratch):
    words = ["compare", "net.heddle", "--weights", "w.safetensors", "--in", "x.safetensors"]

    def test_a_compiled_model_agrees_with_the_evaluator(self):
        out = self.done(*self.words)
        self.assertRegex(out, r"^net\.heddle: \d+ definitions? agrees?; the largest difference is [\d.e-]+ of the largest value \(tolerance 0\.0002\)\n$")
        lines = self.done(*self.words, "--all").splitlines()
        self.assertTrue(all(line.startswith("agrees  ") for line in lines[:-1]), lines)

    def test_the_tolerance_follows_the_types_that_numbers_are_computed_in(self):
        self.save("n.safetensors", {"w": np.array([1, 2, 3], np.float32)})
        self.save("nx.safetensors", {"x": np.linspace(-2, 3, 6, dtype=np.float32).reshape(2, 3)})
        words = ["compare", "narrow.heddle", "--weights", "n.safetensors", "--in", "nx.safetensors"]
        for kind, formula, tolerance in [("bf16", "x[n, i] + f32(w[i])", "0.0002"),  # a narrow weight rounds nothing
                                         ("f16", "exp(f16(x[n, i]) + w[i])", "0.01"),
                                         ("bf16", "exp(bf16(x[n, i]) + w[i])", "0.04")]:
            (self.folder / "narrow.heddle").write_text(
                f"dim N <= 8\nmodel M {{\n  param w: {kind}[3]\n  entry run(x: f32[N, 3]) -> y: f32[N, 3] {{\n"
                f"    a[n, i] = {formula}\n    y[n, i] = f32(a[n, i])\n    return y\n  }}\n}}\n")
            out = self.done(*words)
            self.assertTrue(out.endswith(f"(tolerance {tolerance})\n"), out)
        out = self.done(*words, "--tolerance", "0.5")
        self.assertTrue(out.endswith("(tolerance 0.5)\n"), out)

    def test_a_dump_that_differs_names_the_definition_and_by_how_much(self):
        z = self.x + self.weights["table"][2]
        y = self.expected(self.x)
        self.save("dump.safetensors", {"y": y, "z": z})
        self.done(*self.words, "--against", "dump.safetensors")
        z[1, 2, 3] += 0.25
        y[0, 0, 0] += 4
        self.save("dump.safetensors", {"y": y, "z": z})
        status, out, err = self.heddle(*self.words, "--against", "dump.safetensors")
        self.assertEqual((status, out), (1, ""))
        self.assertRegex(err, r"^error: net\.heddle:9:5: `z` is the first definition that differs: largest difference 0\.25 \([\d.e-]+ of the "
                              r"largest value\), at \[1, 2, 3\]: [-\d.]+ instead of [-\d.]+\n$")

    def test_whole_numbers_that_differ_in_narrow_types_may_be_ties(self):
        (self.folder / "best.heddle").write_text(
            "dim B\nmodel M {\n  param w: real[8, 8]\n  entry run(x: real[B, 8]) -> best: i32[B] {\n"
            "    y[b, o] = sum[i](x[b, i] * w[o, i])\n    best[b] = argmax[o](y[b, o])\n    return best\n  }\n}\n")
        self.save("b.safetensors", {"w": np.eye(8, dtype=np.float32)})
        self.save("bx.safetensors", {"x": np.eye(3, 8, dtype=np.float32)})
        self.save("dump.safetensors", {"best": np.array([0, 1, 7], np.int32)})
        for precision, says in (("bf16", True), ("f32", False)):
            status, out, err = self.heddle("compare", "best.heddle", "--weights", "b.safetensors", "--in", "bx.safetensors",
                                           "--against", "dump.safetensors", "--precision", precision)
            self.assertEqual((status, out), (1, ""))
            self.assertIn("`best` is the first definition that differs: largest difference 5", err)
            self.assertEqual("Compare in f32 to see whether it is that" in err, says, err)

    def test_a_dump_may_have_merged_axes_but_no_others(self):
        z = self.x + self.weights["table"][2]
        self.save("dump.safetensors", {"z": z.reshape(1, z.shape[0], -1)})
        self.done(*self.words, "--against", "dump.safetensors")
        self.save("dump.safetensors", {"z": np.zeros(z.shape[::-1], np.float32)})
        status, out, err = self.heddle(*self.words, "--against", "dump.safetensors")
        self.assertEqual((status, out), (1, ""))
        shapes = [str(list(shape)).replace("[", r"\[").replace("]", r"\]") for shape in (z.shape, z.shape[::-1])]
        self.assertRegex(err, f"has shape {shapes[0]} instead of {shapes[1]}\n$")

    def test_a_library_of_other_weights_is_found_out(self):
        self.save("other.safetensors", {**self.weights, "fc.bias": self.weights["fc.bias"] + 1})
        self.done("compile", "net.heddle", "--weights", "other.safetensors", "-o", "out")
        status, out, err = self.heddle(*self.words, "--library", "out")
        self.assertEqual((status, out), (1, ""))
        self.assertIn("`y` of out differs", err)
        self.assertIn("a library that is compiled from the model now agrees", err)

    def test_the_kernel_of_a_difference_is_opened(self):
        """Without any tolerance the exponentials differ: the kernel's end first, then what is in it."""
        (self.folder / "soft.heddle").write_text("dim N <= 8\nmodel Soft {\n  entry run(x: real[N, 50]) -> y: real[N, 50] { return softmax(x) }\n}\n")
        self.save("soft.safetensors", {"x": np.linspace(-3, 5, 350, dtype=np.float32).reshape(7, 50)})
        status, out, err = self.heddle("compare", "soft.heddle", "--in", "soft.safetensors", "--tolerance", "0")
        self.assertEqual((status, out), (1, ""))
        first, kernel = err.splitlines()
        self.assertRegex(first, r"^error: .*: `[\w.]+` is the first definition that differs: largest difference [\d.e-]+ ")
        self.assertRegex(kernel, r"^In its kernel \([\w., ]*softmax\.e, [\w., ]*\) the first that differs is .*`softmax\.e`: largest difference [\d.e-]+ "
                                 r"|^Its kernel computes .*softmax\.e, .*; returned one by one, all of them agree")
        self.assertEqual(self.heddle("compare", "soft.heddle", "--in", "soft.safetensors")[0], 0)

    def test_user_errors(self):
        self.save("dump.safetensors", {"zz": self.x})
        self.refused("error: dump.safetensors: entry `apply` has no definition `zz`; `heddle show MODEL --stage tree` lists those there are\n",
                     *self.words, "--against", "dump.safetensors")
        self.refused("error: there is no entry `fly`; there are: apply\n", *self.words, "--entry", "fly")
        for words in [["--against", "x.safetensors", "x.safetensors"], ["--entry", "apply", "--entry", "apply"]]:
            self.assertEqual(self.heddle(*self.words, *words)[0], 2)


class Watch(Scratch):
    def line(self, stream):
        ready, _, _ = select.select([stream], [], [], 60)
        self.assertTrue(ready, "nothing is said")
        return os.read(stream.fileno(), 65536).decode()

    def test_every_change_is_checked_until_the_interrupt(self):
        process = subprocess.Popen([HEDDLE, "check", "net.heddle", "--watch"], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        path = self.folder / "net.heddle"
        good = path.read_text()
        self.assertIn("no errors", self.line(process.stdout))
        path.write_text(good.replace("relu(fc(z))", "relu(fc(q))"))
        self.assertIn("`q` is not known here", self.line(process.stderr))
        (self.folder / "notes.txt").write_text("no model")  # does not concern it
        new = self.folder / "new"
        new.write_text(good)
        new.rename(path)  # as many editors save
        self.assertIn("no errors", self.line(process.stdout))
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=20), 130)

    def test_a_library_cannot_be_watched(self):
        self.compile()
        status, out, err = self.heddle("check", "out", "--watch")
        self.assertEqual((status, out), (2, ""))


def programs():
    """Every program of the repository that can be read: files, and those on pages."""
    for folder in ("models", "dsl/prelude", "examples", "tests"):
        for path in sorted((ROOT / folder).rglob("*.heddle")):
            yield str(path.relative_to(ROOT)), path.read_text()
    for path in [*sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "dsl/errors").glob("*.md"))]:
        blocks = re.findall(r"```heddle\n(.*?)```", path.read_text(), re.S)
        if path.stem < "E020" and path.stem.startswith("E"):
            blocks = blocks[-1:]  # pages of syntax: the others are wrong
        for i, text in enumerate(blocks):
            if "…" not in text and "..." not in text:  # a part of a program
                yield f"{path.relative_to(ROOT)} {i + 1}", text


def comments(text):
    out = []
    for line in text.splitlines():
        bare = re.sub(r'"(?:\\.|[^"\\])*"', "", line)
        if "#" in bare:
            out.append(bare[bare.index("#"):].rstrip())
    return sorted(out)


class Format(unittest.TestCase):
    def test_it_is_idempotent_and_keeps_every_comment_of_every_program_there_is(self):
        with tempfile.TemporaryDirectory() as folder:
            kept = {}
            for i, (name, text) in enumerate(programs()):
                path = Path(folder) / f"{i}.heddle"
                path.write_text(text)
                kept[path] = (name, text)
            self.assertGreater(len(kept), 120)
            self.assertEqual(run("fmt", *kept), (0, "", ""))
            once = {path: path.read_text() for path in kept}
            self.assertEqual(run("fmt", *kept), (0, "", ""))
            self.assertEqual(run("fmt", "--check", *kept), (0, "", ""))
            for path, (name, text) in kept.items():
                with self.subTest(name):
                    self.assertEqual(path.read_text(), once[path])
                    self.assertEqual(comments(once[path]), comments(text))


class Help(unittest.TestCase):
    COMMANDS = "check fmt explain compile run generate bench show compare lsp".split()

    def test_every_command_is_listed_and_says_what_each_option_does(self):
        _, out, _ = run("--help")
        listed = set(re.findall(r"^  ([a-z]+) +\S", out, re.M))
        self.assertLessEqual(set(self.COMMANDS), listed)
        for command in sorted(listed):
            with self.subTest(command):
                status, text, err = run(command, "--help")
                self.assertEqual((status, err), (0, ""))
                # An option or argument: two blanks, its name, what it takes, then words about it, here or on the next line.
                lines = text.splitlines()
                for i, line in enumerate(lines):
                    if re.match(r"^  (-|[A-Za-z]+ )", line):
                        about = line[34:].strip() or (lines[i + 1].strip() if i + 1 < len(lines) and lines[i + 1].startswith(" " * 30) else "")
                        self.assertTrue(about, f"{command}: {line.strip()} is not explained")

    def test_the_page_of_tools_names_every_command_for_authors(self):
        page = (ROOT / "docs/reference/tools.md").read_text()
        for command in ("check", "explain", "fmt", "show", "compare", "lsp"):
            self.assertIn(f"`heddle {command}", page)


if __name__ == "__main__":
    unittest.main()
