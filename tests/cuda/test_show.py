#!/usr/bin/env python3
"""What `heddle show` says of kernels for GPUs: launches and what they take, as they are made on the emulated device."""

import os
import re
import stat
import subprocess
import sys
import unittest
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
from emulator import HEDDLE, ROOT, OnEmulatedGpu  # noqa: E402

import heddle  # noqa: E402

# As ptxas -v speaks: of each entry registers and what was spilled.
ASSEMBLER = """#!/usr/bin/env python3
import re, sys
text = open(next(a for a in sys.argv if a.endswith(".ptx"))).read()
for name in re.findall(r"entry (\\w+)\\(", text):
    print(f"ptxas info    : Compiling entry function '{name}' for 'sm_80'\\nptxas info    : Function properties for {name}\\n"
          f"    8 bytes stack frame, 24 bytes spill stores, 72 bytes spill loads\\n"
          f"ptxas info    : Used 128 registers, used 1 barriers, 400 bytes cmem[0]", file=sys.stderr)
open(sys.argv[sys.argv.index("-o") + 1], "wb").write(b"cubin")
"""


class Show(OnEmulatedGpu):
    def heddle(self, command, *words, status=0, ptxas="none"):
        sizes = () if "--set" in words else ("--set", "N=24", "--set", "K=16")
        words = [HEDDLE, command, ROOT / "tests/cuda/products.heddle", *sizes, *words]
        done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "HEDDLE_PTXAS": ptxas})
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stderr if status else done.stdout

    def assembler(self, text=ASSEMBLER):
        path = self.folder / "ptxas"
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    def launches(self, *words, **how):
        return self.heddle("show", "--target", "cuda:sm_80", "--stage", "launches", *words, **how)

    def test_launches_are_those_that_are_made(self):
        for rows in (1, 5, 1000):
            out = self.compile("--dim", f"M={rows}")
            text = self.launches("--dim", f"M={rows}").split("entry batches")[0]
            shown = re.findall(r"^    (\w+): (\d+) blocks? of", text, re.M)
            self.emulator.heddle_emulator_clear_counters()
            with heddle.load(out) as model, model.session() as session:
                session.run({"x": self.normal(rows, 16), "rest": self.normal(rows, 24)}, entry="layer")
                made = {name: self.emulator.heddle_emulator_launches(name.encode()) for name, _ in shown}
                self.assertEqual(self.emulator.heddle_emulator_launches(b""), len(shown))
            self.assertEqual(made, {name: 1 for name, _ in shown})
            self.assertIn(f"entry layer: {len(shown)} launch", text)

    def test_schedules_are_those_of_the_sizes_that_are_given(self):
        """A library for all sizes has one schedule for a few rows; for one row there is a better one."""
        large = ("--set", "N=1001", "--set", "K=768")
        for rows, variant in ((1, "few_rows (rows = 1, warps = 2)"), (5, "few_rows (rows = 8, warps = 2)")):
            self.assertIn(f"contraction, {variant}: layer.y\n", self.launches(*large, "--dim", f"M={rows}"))

    def test_what_they_take(self):
        text = self.launches("--dim", "M=5")
        self.assertTrue(text.startswith("cuda:sm_80, B = 64, M = 5, L = 64\n\nentry layer: 1 launch, expected "), text)
        # A tile of 64 x 64 has all of 5 x 24; f32: inputs, weights, results.
        moved = 4 * (5 * 16 + 24 * 16 + 24 + 2 * 5 * 24)
        self.assertRegex(text, rf"contraction, staged_tiles \(per_thread = 2\): layer\.y\n    4\.2 kflop, {moved / 1000:.3g} kB, expected ")
        self.assertIn(": 1 block of 256 threads, 16384 bytes of shared memory; at most 8 at once, 100 % of the warps\n", text)
        self.assertIn("Registers are not known", text)
        seconds, share = re.search(r"kB, expected ([\d.]+) us: ([\d.]+) % of the roof \(memory\)", text).groups()
        self.assertAlmostEqual(float(share), 100 * moved / 1.56e12 / (1e-6 * float(seconds)), delta=0.06)

    def test_registers_are_the_assemblers(self):
        text = self.launches("--dim", "M=5", ptxas=self.assembler())
        self.assertIn(": 1 block of 256 threads, 16384 bytes of shared memory, 128 registers, 96 bytes spilled; 2 at once, 25 % of the warps\n", text)
        self.assertNotIn("not known", text)
        self.heddle("show", "--target", "cuda:sm_80", "--dim", "M=5", "--html", self.folder / "page.html", ptxas=self.assembler())
        page = (self.folder / "page.html").read_text()
        self.assertIn("1 block of 256 threads, 16384 bytes of shared memory, 128 registers, 96 bytes spilled; 2 at once, 25 % of the warps", page)
        self.assertIn("% of the roof (memory)", page)

    def compile(self, *words, **how):
        np.savez(self.folder / "w.npz", weight=self.normal(24, 16), bias=self.normal(24))
        out = self.folder / "out"
        self.heddle("compile", "--weights", self.folder / "w.npz", "--target", "cuda:sm_80,native", "-o", out, *words, **how)
        return out

    def test_the_text_is_written_beside_the_library(self):
        out = self.compile("--emit", "so,ptx")
        shown = self.heddle("show", "--target", "cuda:sm_80", "--stage", "ptx")
        self.assertEqual((out / "products.sm_80.ptx").read_text(), shown)
        self.assertIn("there are so, a, o and ptx", self.heddle("compile", "--emit", "cubin", status=2))
        self.assertIn("is written beside a library; add so", self.heddle("compile", "--target", "cuda:sm_80", "--emit", "ptx", status=2))
        self.assertIn("ptx is for GPUs", self.heddle("compile", "--emit", "so,ptx", "--target", "x86-64-v3", status=2))

    def test_machine_code_lies_beside_the_text(self):
        text = ASSEMBLER.replace('b"cubin"', r'b"\x7fELF" + text.encode()')  # which the emulator does not take
        out = self.compile(ptxas=self.assembler(text))
        self.assertEqual((out / "libproducts.so").read_bytes().count(b".visible .entry k0_0_0("), 2)
        x, rest = self.normal(3, 16), self.normal(3, 24)
        results = []
        for sm in (80, 90):  # which takes the machine code, and which can't
            self.emulator.heddle_emulator_set(b"sm", sm)
            before = self.emulator.heddle_emulator_calls()
            with heddle.load(out, target="cuda:sm_80") as model:
                results.append(self.emulator.heddle_emulator_calls() - before)
                with model.session() as session:
                    got = session.run({"x": x, "rest": rest}, entry="layer")["y"]
            weights = np.load(self.folder / "w.npz")
            np.testing.assert_allclose(got, np.tanh(x @ weights["weight"].T + weights["bias"]) + rest, atol=2e-5)
        self.emulator.heddle_emulator_set(b"sm", 80)
        self.assertEqual(results[0], results[1] + 1, "it was tried where it fits")

    def test_an_assembler_that_does_not_do(self):
        self.assertEqual(self.launches(status=1, ptxas="/no/where"),
                         "error: HEDDLE_PTXAS=/no/where: there is no such program; name NVIDIA's assembler, ptxas, or take the variable "
                         "away\n")  # fmt: skip
        refusing = self.assembler("#!/bin/sh\necho 'ptxas fatal: no license' >&2\nexit 255\n")
        self.assertRegex(self.launches(status=1, ptxas=refusing), r"^error: .*ptxas does not assemble the kernels for sm_80: ptxas fatal: no license; HEDDLE_PTXAS=none does without it\n$")
        self.assertIn("--stage launches is for GPUs", self.heddle("show", "--target", "x86-64-v3", "--stage", "launches", status=1))


if __name__ == "__main__":
    unittest.main()
