"""The installed command, for tests: `cmake --install` into a folder that is then moved, so that nothing in it can know where
it lies."""

import functools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

BUILD = Path(os.environ["HEDDLE"]).parent.parent
CMAKE = Path(sys.executable).parent / "cmake"
_scratch = tempfile.TemporaryDirectory()


@functools.cache
def prefix():
    first, moved = Path(_scratch.name) / "first", Path(_scratch.name) / "moved here"
    subprocess.run([CMAKE, "--install", BUILD, "--prefix", first], check=True, stdout=subprocess.DEVNULL)
    return first.rename(moved)


def run(*words, env=None, cwd=None):
    """A command's status, output and errors; of the environment it has nothing but `env`."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, cwd=cwd, env=env or {}, timeout=600)
    return done.returncode, done.stdout, done.stderr
