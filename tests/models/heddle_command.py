"""How the tests of whole models reach the `heddle` command and compare tensors. The command is $HEDDLE, which ctest
sets, or build/bin/heddle."""

import os
import subprocess
from pathlib import Path

import numpy as np
from safetensors import numpy as safetensors

ROOT = Path(__file__).resolve().parents[2]
HEDDLE = os.environ.get("HEDDLE", str(ROOT / "build" / "bin" / "heddle"))
GOLDENS = Path(__file__).resolve().parent / "goldens"


def heddle(*arguments, cwd=None):
    """Runs the command; returns its exit status and what it wrote to stderr."""
    done = subprocess.run([HEDDLE, *map(str, arguments)], capture_output=True, text=True, cwd=cwd, timeout=600)
    return done.returncode, done.stderr


def must(*arguments):
    status, errors = heddle(*arguments)
    if status:
        raise AssertionError(f"heddle {' '.join(map(str, arguments))}\nexit status {status}\n{errors}")
    return errors


def tensors(path):
    return safetensors.load_file(path)


def save(path, values):
    safetensors.save_file({name: np.ascontiguousarray(value) for name, value in values.items()}, path)


def difference(got, want):
    """Largest difference, as a share of the largest value of the reference; a reason where they can't be compared. What is
    no number compares with nothing: `max` and `<` would let it through."""
    if sorted(got) != sorted(want):
        return f"results are {sorted(got)}, not {sorted(want)}"
    worst = 0.0
    for name, reference in want.items():
        if got[name].dtype != reference.dtype or got[name].shape != reference.shape:
            return f"{name} is {got[name].dtype}{list(got[name].shape)}, not {reference.dtype}{list(reference.shape)}"
        for whose, values in (("", got[name]), (" of the reference", reference)):
            if not np.isfinite(values).all():
                return f"{name}{whose} holds values that are no numbers"
        if reference.size:
            apart = float(np.abs(got[name].astype(np.float64) - reference).max())
            largest = float(np.abs(reference.astype(np.float64)).max())
            worst = max(worst, apart / largest if largest else float("inf") if apart else 0.0)
    return worst
