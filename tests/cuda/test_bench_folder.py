#!/usr/bin/env python3
"""The folder that bench/gpu/run makes, on the emulated device: a golden agrees, a small model is timed, and a golden that is
wrong, or a machine that lacks what is needed, is told of. It runs without any package of Python's."""

import json
import os
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from emulator import HEDDLE, ROOT, OnEmulatedGpu  # noqa: E402


class Folder(OnEmulatedGpu):
    def run_there(self, *words, status=0, **environment):
        done = subprocess.run([sys.executable, "-I", "-S", self.made / "run.py", *words], capture_output=True, text=True, cwd="/",
                              env={**os.environ, **environment})
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout, done.stderr

    def test_it_is_made_and_runs_without_packages(self):
        self.made = self.folder / "made"
        words = [sys.executable, ROOT / "bench/gpu/run", "-o", self.made, "--heddle", HEDDLE, "--target", "cuda:sm_80", "--only",
                 "gpt2_untied", "--tiny"]  # fmt: skip
        done = subprocess.run(words, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"MB, 2 goldens, 2 timings; there: python3 made/run\.py\n$")
        again = subprocess.run(words, capture_output=True, text=True)
        self.assertEqual((again.returncode, again.stderr), (1, f"error: {self.made} is there already; remove it, or name another folder by -o\n"))
        moved = self.folder / "elsewhere" / "folder"
        moved.parent.mkdir()
        shutil.move(self.made, moved)
        self.made = moved

        out, _ = self.run_there()
        self.assertIn("2 of 2 goldens agree", out)
        results = json.loads((moved / "results.json").read_text())
        self.assertEqual([golden["name"] for golden in results["goldens"]], ["gpt2_untied", "gpt2_untied bf16"])
        for golden in results["goldens"]:
            self.assertEqual(golden["wrong"], "")
            self.assertGreater(golden["calls"], 5)
        self.assertGreater(min(results["limits"].values()), 0)
        for row in results["timings"]:
            self.assertGreater(min(row[name] for name in ("graphs", "no_graphs", "from_main_memory", "at_limit", "expected")), 0, row)
        self.assertEqual(len(results["timings"]), 2)
        self.assertIn("| a golden's BERT, 9 tokens, bf16 |", (moved / "results.md").read_text())

        path = next((moved / "goldens/gpt2_untied").glob("2x9.out.safetensors"))
        data = bytearray(path.read_bytes())
        data[-1] ^= 0x41
        path.write_bytes(data)
        out, _ = self.run_there("--no-timings", status=1)
        self.assertRegex(out, r"gpt2_untied +WRONG: 2x9\.in\.safetensors: \w+: off by ")
        self.assertRegex(out, r"gpt2_untied bf16 +WRONG: 2x9\.in\.safetensors: \w+: off by ")
        self.assertIn("0 of 2 goldens agree", out)
        _, error = self.run_there(status=1, HEDDLE_CUDA_DRIVER="/no/where")
        self.assertRegex(error, r"^error: NVIDIA's driver cannot be opened: /no/where: ")


if __name__ == "__main__":
    unittest.main()
