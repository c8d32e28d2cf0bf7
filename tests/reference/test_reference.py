#!/usr/bin/env python3
"""Every example of docs/reference runs: a ```heddle block is a whole program, the ```text block after it says what it
gives, or which message. Programs that give numbers are evaluated and compiled, and both agree with the page. The
pages that repeat what stands in the sources (generated.py) are current.

    test_reference.py --update      writes messages and those pages anew (after a look at the diff)"""

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

sys.path.insert(0, str(Path(__file__).parent))
import generated  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
HEDDLE = os.environ.get("HEDDLE", str(ROOT / "build" / "bin" / "heddle"))
PAGES = ROOT / "docs" / "reference"
BLOCKS = re.compile(r"```heddle\n((?:(?!```).)*)```\n\n```text\n(.*?)```", re.S)
KERNELS = re.compile(r"```heddle\n((?:(?!```).)*)```\n\n```kernels\n(.*?)```", re.S)  # and the kinds of its kernels


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
    """(settings, inputs and weights, results, entries) of each call; `run NAME` names its entry."""
    calls = [([], {}, {}, [])]
    for line in filter(None, transcript.splitlines()):
        if line.startswith("then") or line.startswith("--set"):
            if line.startswith("then"):
                calls.append(([], {}, {}, []))
            calls[-1][0].extend(line.removeprefix("then").split())
        elif line.startswith("run "):
            calls[-1][3].append(line.removeprefix("run "))
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
            words += ["--in", f"in{i}.safetensors", "--out", f"out{i}.safetensors", *(f"--entry={name}" for name in call[3])]
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


def kernels(program):
    """The kinds of a program's kernels, a line for each entry, in the order of their calls."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "model.heddle").write_text(program)
        status, text, errors = heddle("show", "model.heddle", "--stage", "schedule", "--target", "x86-64-v3", cwd=folder)
    if status or errors:
        return errors
    functions = re.findall(r"^  func\.func (private )?@(\w+)\((.*?)^  }$", text, re.M | re.S)
    kinds = {name: kind[1] for private, name, rest in functions if (kind := re.search(r'heddle\.kernel = "(\w+)"', rest))}
    called = {name: re.findall(r"call @(\w+)", rest) for private, name, rest in functions if not private}
    return "".join(f"{entry}: {', '.join(kinds[name] for name in names)}\n" for entry, names in called.items())


def examples():
    return [Example(page, i, *match.groups()) for page in sorted(PAGES.glob("*.md")) for i, match in enumerate(BLOCKS.finditer(page.read_text()))]


class Reference(unittest.TestCase):
    def test_every_example_is_what_its_page_says(self):
        found = examples()
        self.assertGreaterEqual(len(found), 30)
        with ThreadPoolExecutor(2) as pool:
            problems = [problem for problem in pool.map(Example.check, found) if problem]
        self.assertEqual(problems, [], "\n".join(problems))

    def test_every_program_on_a_page_is_followed_by_what_it_gives(self):
        for page in sorted(PAGES.glob("*.md")):
            if page.name not in generated.PAGES_MADE:
                text = page.read_text()
                self.assertEqual(text.count("```heddle\n"), len(BLOCKS.findall(text)) + len(KERNELS.findall(text)), page.name)

    def test_forms_become_the_kernels_that_their_page_says(self):
        found = KERNELS.findall((PAGES / "fast_forms.md").read_text())
        self.assertGreaterEqual(len(found), 8)
        for program, kinds in found:
            self.assertEqual(kernels(program), kinds, program)

    def test_every_program_on_a_page_is_in_the_canonical_form(self):
        with tempfile.TemporaryDirectory() as folder:
            files = []
            programs = [example.program for example in examples()]
            programs += [program for page in PAGES.glob("*.md") for program, _ in KERNELS.findall(page.read_text())]
            for i, program in enumerate(programs):
                files.append(f"{i}.heddle")
                (Path(folder) / files[-1]).write_text(program)
            self.assertEqual(heddle("fmt", "--check", *files, cwd=folder), (0, "", ""))

    def test_the_pages_made_from_sources_are_current(self):
        for page, text in generated.pages().items():
            self.assertEqual(page.read_text(), text, f"{page.name}: run tests/reference/test_reference.py --update")

    def test_nothing_of_the_sources_is_missing_on_their_pages(self):
        c = (PAGES / "c.md").read_text()
        for function in re.findall(r"^static inline \S+ \*?(heddle_\w+)\(", (ROOT / "runtime/heddle.h").read_text(), re.M):
            if not generated.INTERNAL.fullmatch(function):
                self.assertIn(f" {function}(".replace("  ", " "), c.replace("*", " "))
        python = (PAGES / "python.md").read_text()
        for source in ("model.py", "session.py", "device.py"):
            text = re.sub(r"^class _.*?(?=^class |\Z)", "", (ROOT / "python/heddle" / source).read_text(), flags=re.M | re.S)
            for method in re.findall(r"^    (?:async )?def ([a-z]\w*)", text, re.M):
                self.assertIn(f".{method}", python)
        prelude = (PAGES / "prelude.md").read_text()
        for path in (ROOT / "dsl/prelude").glob("*.heddle"):
            for kind, name in re.findall(r"^ *(fn|module) (\w+)", path.read_text(), re.M):
                self.assertIn(f"`{kind} {name}(", prelude)

    def test_every_page_is_in_the_index_and_every_link_leads_somewhere(self):
        index = (PAGES / "README.md").read_text()
        for page in sorted(PAGES.glob("*.md")):
            if page.name != "README.md":
                self.assertIn(f"({page.name})", index)
            for link in re.findall(r"\]\(([^)#]+)[^)]*\)", re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.S)):
                if not link.startswith("http"):
                    self.assertTrue((page.parent / link).exists(), f"{page.name}: {link}")


def update():
    for page, text in generated.pages().items():
        page.write_text(text)
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
        def of_kernels(match):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "model.heddle"
                path.write_text(match[1])
                heddle("fmt", "model.heddle", cwd=folder)
                program = path.read_text()
            return f"```heddle\n{program}```\n\n```kernels\n{kernels(program)}```"
        page.write_text(KERNELS.sub(of_kernels, BLOCKS.sub(renew, page.read_text())))


if __name__ == "__main__":
    update() if "--update" in sys.argv else unittest.main()
