"""docs/tutorial.md, done as its reader does it: files are written as they stand, commands run in their order, and what they print
is what the page says. Without PyTorch its script is left out, and what it once saved is taken instead."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from pages import blocks, commands, matches, path_with

HEDDLE = Path(os.environ["HEDDLE"])
SAVED = Path(__file__).resolve().parent / "verse"
CXX = next(path for path in map(shutil.which, ("clang++-22", "g++")) if path)


def python_with_torch():
    for python in (sys.executable, "/usr/bin/python3"):
        try:
            if subprocess.run([python, "-c", "import torch, safetensors.torch"], capture_output=True).returncode == 0:
                return python
        except FileNotFoundError:
            pass
    return None


class Tutorial(unittest.TestCase):
    def test_every_block_in_its_order(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        folder = Path(scratch.name) / "work"
        torch = python_with_torch()
        folder.mkdir()
        path = path_with(Path(scratch.name) / "bin", {"heddle": HEDDLE, "c++": CXX, "python3": torch or sys.executable})
        env = {"PATH": path, "HOME": scratch.name, "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
        done = {"heddle": 0, "python": 0, "cpp": 0, "console": 0}
        for kind, name, text in blocks("tutorial.md"):
            done[kind] += 1
            if kind != "console":
                (folder / name).write_text(text)
                continue
            for command, wanted in commands(text):
                if command == "python3 train.py" and not torch:
                    print("[SKIP] no PyTorch: train.py is not run")
                    for file in SAVED.iterdir():
                        shutil.copy(file, folder)
                    continue
                ran = subprocess.run(command, shell=True, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                # NumPy's warnings about an old PyTorch are no words of the script's.
                said = ran.stdout[ran.stdout.rfind("loss ") :] if command == "python3 train.py" else ran.stdout
                self.assertTrue(matches(said, wanted), f"$ {command}\n{ran.stdout}instead of\n{wanted}")
        self.assertEqual(done, {"heddle": 2, "python": 1, "cpp": 1, "console": 9})


if __name__ == "__main__":
    unittest.main()
