#!/usr/bin/env python3
"""Every example of docs/reference runs: a ```heddle block is a whole program, the ```text block after it says what it
gives, or which message. Programs that give numbers are evaluated and compiled, and both agree with the page. The
error index and the list of the prelude are what the sources say.

    test_reference.py --update      writes messages, error index and prelude list anew (after a look at the diff)"""

import json
import math
import os
import re
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from safetensors import numpy as safetensors

ROOT = Path(__file__).resolve().parents[2]
HEDDLE = os.environ.get("HEDDLE", str(ROOT / "build" / "bin" / "heddle"))
PAGES = ROOT / "docs" / "reference"
BLOCKS = re.compile(r"```heddle\n(.*?)```\n\n```text\n(.*?)```", re.S)


def heddle(*words, cwd):
    done = subprocess.run([HEDDLE, *map(str, words)], capture_output=True, text=True, cwd=cwd, timeout=300)
    return done.returncode, done.stdout, done.stderr


def tensor(text):
    """JSON with inf and nan; reals have a point."""
    real = re.search(r"\.|inf|nan", text) is not None
    value = json.loads(text.replace("inf", "Infinity").replace("nan", "NaN"))
    first = value
    while isinstance(first, list):
        first = first[0]
    return np.array(value, np.bool_ if isinstance(first, bool) else np.float32 if real else np.int32)


def calls_of(transcript):
    """(settings, inputs and weights, results) of each call."""
    calls = [([], {}, {})]
    for line in filter(None, transcript.splitlines()):
        if line.startswith("then") or line.startswith("--set"):
            if line.startswith("then"):
                calls.append(([], {}, {}))
            calls[-1][0].extend(line.removeprefix("then").split())
        elif match := re.fullmatch(r"([\w.]+) = (.*)", line):
            calls[-1][1][match[1]] = tensor(match[2])
        else:
            name, value = line.split(": ", 1)
            calls[-1][2][name] = tensor(value)
    return calls


def first_message(errors):
    return errors.split("\n\n")[0].rstrip("\n")


class Example:
    def __init__(self, page, number, program, text):
        self.name = f"{page.name} example {number + 1}"
        self.program, self.text = program, text

    def message(self):
        return "error[" in self.text

    def check(self):
        """What is wrong with it, or nothing."""
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "model.heddle").write_text(self.program)
            if self.message():
                status, _, errors = heddle("check", "model.heddle", cwd=folder)
                if status != 1 or errors.rstrip("\n") != self.text.rstrip("\n"):
                    return f"{self.name}: the message is\n{errors}"
                return None
            calls = calls_of(self.text)
            problems = []
            for mode in (["--reference"], []):
                begin = 0
                while begin < len(calls) and not problems:
                    end = begin + 1  # calls with other settings or weights are another session
                    while end < len(calls) and not calls[end][0]:
                        end += 1
                    problems += self.run(Path(folder), calls[begin:end], mode)
                    begin = end
            return "\n".join(problems) or None

    def run(self, folder, calls, mode):
        settings = calls[0][0]
        status, tree, errors = heddle("show", "model.heddle", "--stage", "tree", *settings, cwd=folder)
        if status or errors:
            return [f"{self.name}: {errors}"]
        paths = re.findall(r'^weight .* as "([^"]*)"', tree, re.M)
        weights = {name: value for name, value in calls[0][1].items() if name in paths}
        words = ["run", "model.heddle", *settings, *mode]
        for i, call in enumerate(calls):
            safetensors.save_file({name: value for name, value in call[1].items() if name not in weights}, folder / f"in{i}.safetensors")
            words += ["--in", f"in{i}.safetensors", "--out", f"out{i}.safetensors"]
        if weights:
            safetensors.save_file(weights, folder / "weights.safetensors")
            words += ["--weights", "weights.safetensors"]
        status, _, errors = heddle(*words, cwd=folder)
        how = "evaluated" if mode else "compiled"
        if status:
            return [f"{self.name}, {how}: {errors}"]
        problems = []
        for i, call in enumerate(calls):
            got = safetensors.load_file(folder / f"out{i}.safetensors")
            if sorted(got) != sorted(call[2]):
                problems.append(f"{self.name}, {how}: results are {sorted(got)}")
                continue
            for name, wanted in call[2].items():
                if got[name].shape != wanted.shape or got[name].dtype != wanted.dtype or not np.allclose(got[name], wanted, 1e-5, 1e-6, equal_nan=True):
                    problems.append(f"{self.name}, {how}: {name} is {got[name].dtype} {got[name].tolist()}")
        return problems


def examples():
    return [Example(page, i, *match.groups()) for page in sorted(PAGES.glob("*.md")) for i, match in enumerate(BLOCKS.finditer(page.read_text()))]


# ------------------------------------------------------------------------------ what is generated
def error_index():
    rows = re.findall(r'^HEDDLE_ERROR\((\w+), (\w+), "((?:[^"\\]|\\.)*)"', (ROOT / "dsl/errors/errors.def").read_text(), re.M)
    out = ["# Errors\n", "Every message has a code with a page of its own: what it means, a program that gives it with the whole message, and a",
           "program that is right. `heddle explain CODE` shows the page. E001 to E019 are slips in the text, E020 to E079 names,",
           "types, sizes and reads, W101 and on warnings.\n", "| code | meaning | message |", "|---|---|---|"]
    for code, _, template in rows:
        page = ROOT / "dsl/errors" / f"{code}.md"
        title = re.match(rf"# {code}: (.*)\n", page.read_text())[1] if page.exists() else ""
        message = re.sub(r"\{\d\}", "…", template).replace("\\\"", '"').replace("|", "\\|")
        out.append(f"| [{code}](../../dsl/errors/{code}.md) | {title} | {message} |")
    return "\n".join(out) + "\n"


def prelude_list():
    out = []
    for path in sorted((ROOT / "dsl/prelude").glob("*.heddle")):
        text = path.read_text()
        out += [f"## {path.stem}", ""]
        for match in re.finditer(r"((?:^#.*\n)*)^(fn .*?(?= =$| = |\s*\{)|module .*?)\s*(?:=|\{)", text, re.M):
            comment = " ".join(line.lstrip("# ") for line in match[1].splitlines())
            out.append(f"- `{match[2].strip()}`" + (f" {comment}" if comment else ""))
        out.append("")
    builtin = re.findall(r'HEDDLE_SCALAR\("(\w+)", \w+, (\d)\)', (ROOT / "dsl/check/scalars.def").read_text())
    out += ["## Built in", "", ", ".join(f"`{name}(x{', y' * (count == '2')})`" for name, count in builtin), ""]
    return "\n".join(out)


def with_prelude(page):
    mark = "<!-- generated: prelude -->\n"
    return page[:page.index(mark) + len(mark)] + "\n" + prelude_list()


class Reference(unittest.TestCase):
    def test_every_example_is_what_its_page_says(self):
        found = examples()
        self.assertGreaterEqual(len(found), 30)
        with ThreadPoolExecutor(2) as pool:
            problems = [problem for problem in pool.map(Example.check, found) if problem]
        self.assertEqual(problems, [], "\n".join(problems))

    def test_every_program_on_a_page_is_followed_by_what_it_gives(self):
        for page in sorted(PAGES.glob("*.md")):
            if page.name != "errors.md":
                text = page.read_text()
                self.assertEqual(text.count("```heddle\n"), len(BLOCKS.findall(text)), page.name)

    def test_every_program_on_a_page_is_in_the_canonical_form(self):
        with tempfile.TemporaryDirectory() as folder:
            files = []
            for i, example in enumerate(examples()):
                files.append(f"{i}.heddle")
                (Path(folder) / files[-1]).write_text(example.program)
            self.assertEqual(heddle("fmt", "--check", *files, cwd=folder), (0, "", ""))

    def test_the_error_index_is_current(self):
        self.assertEqual((PAGES / "errors.md").read_text(), error_index(), "run tests/reference/test_reference.py --update")

    def test_the_list_of_the_prelude_is_current(self):
        page = (PAGES / "prelude.md").read_text()
        self.assertEqual(page, with_prelude(page), "run tests/reference/test_reference.py --update")

    def test_every_page_is_in_the_index_and_every_link_leads_somewhere(self):
        index = (PAGES / "README.md").read_text()
        for page in sorted(PAGES.glob("*.md")):
            if page.name != "README.md":
                self.assertIn(f"({page.name})", index)
            for link in re.findall(r"\]\(([^)#]+)[^)]*\)", re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.S)):
                if not link.startswith("http"):
                    self.assertTrue((page.parent / link).exists(), f"{page.name}: {link}")


def update():
    (PAGES / "errors.md").write_text(error_index())
    page = PAGES / "prelude.md"
    page.write_text(with_prelude(page.read_text()))
    for page in sorted(PAGES.glob("*.md")):
        def renew(match):
            program, text = match.groups()
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "model.heddle"
                path.write_text(program)
                heddle("fmt", "model.heddle", cwd=folder)
                program = path.read_text()
                if "error[" in text:
                    text = heddle("check", "model.heddle", cwd=folder)[2]
            return f"```heddle\n{program}```\n\n```text\n{text}```"
        page.write_text(BLOCKS.sub(renew, page.read_text()))


if __name__ == "__main__":
    update() if "--update" in sys.argv else unittest.main()
