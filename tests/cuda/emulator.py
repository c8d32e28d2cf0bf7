"""The emulated GPU as tests of libraries for GPUs see it: which driver they open, and what the device counts."""

import ctypes
import os
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "python")]
from scratch import Scratch  # noqa: E402

HEDDLE = os.environ.get("HEDDLE", str(ROOT / "build" / "bin" / "heddle"))
DRIVER = os.environ.setdefault("HEDDLE_CUDA_DRIVER", str(Path(HEDDLE).parents[1] / "emulated-gpu" / "libcuda.so.1"))


class Counter(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("warps", "lanes", "requests", "cost", "ideal")]


def counted(emulator, what, kernel=""):
    """Of a kernel's launches, or of all kernels', since the counters were cleared."""
    counter = Counter()
    emulator.heddle_emulator_get_counter.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p]
    assert emulator.heddle_emulator_get_counter(kernel.encode(), what.encode(), ctypes.byref(counter)), what
    return counter


def rounded(x):
    """To bf16, to nearest, ties to even."""
    bits = x.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


def rounded_to_tf32(x):
    """To nearest, ties away from zero, as `cvt.rna.tf32` does."""
    return ((x.view(np.uint32) + 0x1000) & 0xFFFFE000).astype(np.uint32).view(np.float32)


def blocks(emulator, kernel=""):
    """How many blocks were launched, and how many of these were executed."""
    both = ctypes.c_uint64(), ctypes.c_uint64()
    emulator.heddle_emulator_get_blocks(kernel.encode(), *map(ctypes.byref, both))
    return both[0].value, both[1].value


class OnEmulatedGpu(Scratch):
    """Tests that draw their inputs and look at what the device has counted."""

    def setUp(self):
        super().setUp()
        self.emulator = ctypes.CDLL(DRIVER)
        self.draw = np.random.default_rng(3)

    def normal(self, *shape):
        return self.draw.normal(size=shape).astype(np.float32)

    def assert_costs(self, **limits):
        """There were such accesses, and they took at most so many times what they need."""
        for what, most in limits.items():
            counter = counted(self.emulator, what)
            self.assertGreater(counter.requests, 0, what)
            self.assertLessEqual(counter.cost, most * counter.ideal, what)
