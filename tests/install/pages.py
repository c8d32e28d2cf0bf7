"""The blocks of a page, for tests that do what it says."""

import re
import subprocess
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"


def blocks(page):
    """(language, name of a file or "", text) of each block of docs/PAGE, in order."""
    return re.findall(r"```(\w+) ?(\S*)\n(.*?)```", (DOCS / page).read_text(), re.S)


def file(page, name):
    """The block that is the file of that name."""
    (text,) = (text for _, given, text in blocks(page) if given == name)
    return text


def commands(text):
    """(command, what it prints) of a block of a terminal."""
    return re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.M)


def matches(said, wanted):
    """… in a line is anything in it, and a line of its own any lines, or none."""
    pattern = "".join("(.*\n)*" if line == "…\n" else re.escape(line).replace("…", ".*") for line in wanted.splitlines(True))
    return re.fullmatch(pattern, said) is not None


def path_with(folder, programs):
    """A PATH on which these are found by these names: {"heddle": path}."""
    folder.mkdir()
    for name, program in programs.items():
        (folder / name).write_text(f'#!/bin/sh\nexec "{program}" "$@"\n')
        (folder / name).chmod(0o755)
    return f"{folder}:/usr/bin:/bin"


def follow(test, page, folder, env):
    """Does what docs/PAGE says, in its order: files are written, commands are run, and print what stands there."""
    for kind, name, text in blocks(page):
        if name:
            (folder / name).write_text(text)
        for command, wanted in commands(text) if kind == "console" else []:
            done = subprocess.run(command, shell=True, cwd=folder, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            test.assertTrue(matches(done.stdout, wanted), f"$ {command}\n{done.stdout}instead of\n{wanted}")
