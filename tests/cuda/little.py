"""The library of little.heddle on the emulated device, beside what the CPU's gives; what the device tells of a process."""

import ctypes
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
from emulator import DRIVER, HEDDLE, ROOT  # noqa: E402

import heddle  # noqa: E402

TOKENS = [np.array(ids, dtype=np.int32) for ids in ([3, 1, 4], [1, 5], [9])]


class Usage(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in
                ("allocations", "bytes", "pinned", "modules", "streams", "events", "graphs")]


class Emulator:
    """What the emulated device tells tests (tests/gpu/driver/control.h)."""

    def __init__(self):
        self.library = ctypes.CDLL(str(DRIVER))
        self.library.heddle_emulator_calls.restype = ctypes.c_uint64
        self.library.heddle_emulator_launches.restype = ctypes.c_uint64
        self.library.heddle_emulator_fail_call.argtypes = [ctypes.c_uint64, ctypes.c_int]
        self.library.heddle_emulator_set.argtypes = [ctypes.c_char_p, ctypes.c_uint64]

    def calls(self):
        return self.library.heddle_emulator_calls()

    def fail(self, number, code):
        self.library.heddle_emulator_fail_call(number, code)

    def launches(self):
        return self.library.heddle_emulator_launches(b"")

    def reset(self):
        self.library.heddle_emulator_fail_call(0, 0)
        self.library.heddle_emulator_reset()

    def set(self, name, value):
        assert self.library.heddle_emulator_set(name.encode(), value)

    def usage(self):
        usage = Usage()
        self.library.heddle_emulator_get_usage(ctypes.byref(usage))
        return {name: getattr(usage, name) for name, _ in Usage._fields_}


class Little(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.scratch.cleanup)
        folder = Path(cls.scratch.name)
        draw = np.random.default_rng(5)
        np.savez(folder / "w.npz", table=draw.normal(size=(11, 6)).astype(np.float32),
                 weight=draw.normal(size=(6, 6)).astype(np.float32), bias=draw.normal(size=6).astype(np.float32))
        cls.libraries = {}
        for target in ("cuda:sm_80", "cuda:sm_80,native", "native"):
            cls.libraries[target] = folder / target.replace(",", "-")
            done = subprocess.run([HEDDLE, "compile", ROOT / "tests" / "cuda" / "little.heddle", "--weights", folder / "w.npz",
                                   "--target", target, "-o", cls.libraries[target]], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
        cls.emulator = Emulator()
        cls.want = cls.texts(heddle.load(cls.libraries["native"]))

    @staticmethod
    def texts(model):
        """The results of three calls on one session."""
        with model, model.session() as session:
            return [session.run({"ids": ids}) for ids in TOKENS]

    def assert_as_wanted(self, got):
        for number, mine in enumerate(got):
            theirs = self.want[number % len(self.want)]
            np.testing.assert_allclose(mine["y"], theirs["y"], rtol=1e-5, atol=1e-5, err_msg=f"call {number}")
            np.testing.assert_array_equal(mine["best"], theirs["best"])

    def load(self, target="cuda:sm_80"):
        return heddle.load(self.libraries[target])
