#!/usr/bin/env python3
"""Compiles a model and links its kernels and its host program into one object, without the runtime: what a test links to a
runtime of its own making. The code is that which `heddle show --stage asm` prints.
    objects.py HEDDLE CLANG MODEL FOLDER OBJECT        the library, its weights and headers go to FOLDER"""

import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


def main(heddle, clang, model, folder, target):
    subprocess.run([heddle, "compile", model, "-o", folder], check=True, stderr=subprocess.PIPE, text=True)
    shown = subprocess.run([heddle, "show", model, "--stage", "asm"], check=True, capture_output=True, text=True)
    # One assembler file after the other, each kernel's under its name; the host program comes last.
    files = re.split(r"(?m)^(?=\t\.file\t)", re.sub(r"(?m)^// k.*\n", "", shown.stdout))[1:]
    with tempfile.TemporaryDirectory() as scratch:
        paths = [Path(scratch) / f"{number}.s" for number in range(len(files))]
        for path, text in zip(paths, files):
            path.write_text(text)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(lambda path: subprocess.run([clang, "-c", path, "-o", path.with_suffix(".o")], check=True), paths))
        objects = [path.with_suffix(".o") for path in paths]
        subprocess.run([clang, "-r", "-nostdlib", "-fuse-ld=lld", "-o", target, *objects], check=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
