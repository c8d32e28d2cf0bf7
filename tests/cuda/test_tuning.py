#!/usr/bin/env python3
"""Kernels of a GPU are timed elsewhere: the folder that `heddle tune --pack` writes, run on the emulated device without any
package of Python's; what comes of candidates that are wrong, fault or hang; and compilations that go by the timings."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
from emulator import HEDDLE, ROOT, OnEmulatedGpu  # noqa: E402

sys.path.insert(0, str(ROOT / "compiler/tune/there"))
sys.dont_write_bytecode = True
import measure  # noqa: E402

import heddle  # noqa: E402

MODEL = """dim N
model Dense {
  param w: real[32, 48]
  entry forward(x: real[N, 48]) -> y: real[N, 32] {
    y[n, o] = tanh(sum[i](x[n, i] * w[o, i]))
    return y
  }
}
"""
# Few rows: several blocks share a head's keys, and a second launch adds up their parts.
ATTENTION = """dim N
model Dense {
  entry forward(x: real[4, 2, 32], past: real[N, 2, 32]) -> y: real[4, 2, 32] {
    q[i, h, e] = x[i, h, e] + 0.5
    k[j, h, e] = 0.5 * past[j, h, e]
    v[j, h, e] = past[j, h, e] - 0.25
    s[h, i, j] = sum[e](q[i, h, e] * k[j, h, e])
    p = softmax(s)
    y[i, h, e] = sum[j](p[h, i, j] * v[j, h, e])
    return y
  }
}
"""
GPU = "Emulated GPU sm_80"
# The first lines of an entry, in place of its work.
PLANTED = {
    "wrong": "ret;",
    "faults": ".reg .b64 %planted; mov.u64 %planted, 64; st.global.u64 [%planted], %planted;",
    "hangs": "planted: bra planted;",
}


class Folder(OnEmulatedGpu):
    def setUp(self):
        super().setUp()
        (self.folder / "dense.heddle").write_text(MODEL)
        np.savez(self.folder / "w.npz", w=self.normal(32, 48))
        self.environment = {**os.environ, "HEDDLE_DB": str(self.folder / "t.db"), "HEDDLE_PTXAS": "none"}

    def heddle(self, *words, status=0):
        done = subprocess.run([HEDDLE, *map(str, words)], capture_output=True, text=True, cwd=self.folder, env=self.environment)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stderr if status else done.stdout

    def pack(self, *words, most=100):
        """A folder, moved elsewhere, with the first candidates of each kernel."""
        out = self.heddle("tune", "dense.heddle", "--target", "cuda:sm_80", "--dim", "N=16", "--pack", "made", *words)
        self.made = self.folder / "elsewhere" / "folder"
        self.made.parent.mkdir()
        shutil.move(self.folder / "made", self.made)
        self.plan = json.loads((self.made / "candidates.json").read_text())
        for task in self.plan["tasks"]:
            del task["candidates"][most:]
        self.write_plan()
        return out

    def write_plan(self):
        (self.made / "candidates.json").write_text(json.dumps(self.plan))

    def words(self, *words):
        return [sys.executable, "-I", "-S", self.made / "run", *words]

    def run_there(self, *words, status=0, **environment):
        done = subprocess.run(self.words(*words), capture_output=True, text=True, cwd="/", env={**os.environ, **environment})
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout, done.stderr

    def timings(self):
        """By row of the schedule what is known of it."""
        lines = (self.made / "timings").read_text().splitlines()
        self.assertEqual(lines[:3], ["heddle tuning records, format 1", "", f"[{GPU} | cuda:sm_80 | 1 thread]"])
        return {line.split(" | ")[3]: line.split(" | ")[4] for line in lines[3:]}

    def forget(self, row):
        path = self.made / "timings"
        path.write_text("".join(line for line in path.read_text().splitlines(True) if f"| {row} |" not in line))

    def rows(self):
        (task,) = self.plan["tasks"]
        return [candidate["row"] for candidate in task["candidates"]]


class Timing(Folder):
    def test_every_candidate_is_timed_once(self):
        out = self.pack()
        self.assertRegex(out, r"^made: \d+ candidates of 1 kernel for cuda:sm_80, [\d.]+ MB; where the GPU is: made/run; then here: "
                              r"heddle tune --import made/timings\n$")  # fmt: skip
        self.assertTrue(os.access(self.made / "run", os.X_OK))
        out, _ = self.run_there()
        rows = self.rows()
        self.assertGreater(len(rows), 4)
        self.assertIn(f"dense N=16 on {GPU}: 0 of {len(rows)} candidates of 1 kernel known\n", out)
        self.assertIn(f"{len(rows)} of {len(rows)} candidates known, {len(rows)} of them now, 0 of no use", out)
        known = self.timings()
        self.assertEqual(list(known), rows)
        for value in known.values():
            self.assertRegex(value, r"^\d+(\.\d+)? us$")

        self.forget(rows[2])
        self.assertIn(f"{len(rows)} of {len(rows)} candidates known, 1 of them now", self.run_there()[0])
        again = self.timings()
        self.assertEqual({row: value for row, value in again.items() if row != rows[2]}, {row: value for row, value in known.items() if row != rows[2]})
        self.assertIn(", 0 of them now", self.run_there()[0])

    def test_timings_of_two_machines_stand_side_by_side(self):
        self.pack(most=2)
        self.run_there()
        self.assertIn(" candidates known, 0 of them now", self.run_there()[0])
        out, _ = self.run_there(HEDDLE_EMULATED_SM="90")
        self.assertIn(f"{len(self.rows())} of them now", out)
        out = self.heddle("tune", "--import", self.made / "timings")
        self.assertIn(f": {2 * len(self.rows())} records from ", out)

    def test_operands_come_from_memory_where_the_model_has_many_weights(self):
        self.pack()
        fills = []
        for weights in (1e6, 1e9):
            self.plan["tasks"][0]["weights"] = weights
            self.write_plan()
            measured = subprocess.run([sys.executable, self.made / "measure.py", "0", "1"], capture_output=True, text=True,
                                      env={**os.environ, "HEDDLE_EMULATED_LOG": "1"})  # fmt: skip
            self.assertGreater(json.loads(measured.stdout.splitlines()[-1])["seconds"], 0, measured.stderr[-500:])
            fills.append(measured.stderr.count("cuMemsetD8Async"))
        self.assertGreaterEqual(fills[1] - fills[0], 2 * 5, "one before each sample")

    def test_narrow_attention_agrees_with_the_usual_schedule(self):
        (self.folder / "dense.heddle").write_text(ATTENTION)
        self.pack("--precision", "bf16")
        out, _ = self.run_there()
        self.assertIn(", 0 of no use", out)
        rows = [candidate["row"] for task in self.plan["tasks"] for candidate in task["candidates"]]
        self.assertTrue(any(row.startswith("tensor_keys") for row in rows), rows)
        self.assertTrue(any(len(candidate["launches"]) > 1 and candidate["scratch"] for task in self.plan["tasks"] for candidate in task["candidates"]))


class Faults(Folder):
    def plant(self, chosen, text):
        path = self.made / self.plan["tasks"][0]["candidates"][chosen]["code"]
        path.write_text(re.sub(r"(\.entry [^{]*\{\n)", lambda found: found[1] + text + "\n", path.read_text()))

    def test_each_is_a_line_and_the_others_are_timed(self):
        self.pack(most=6)
        rows = self.rows()
        for chosen, what in enumerate(PLANTED, 1):
            self.plant(chosen, PLANTED[what])
        (self.made / self.plan["tasks"][0]["candidates"][4]["code"]).write_text("no PTX\n")
        out, _ = self.run_there(HEDDLE_EMULATED_LIMIT="100000")
        known = self.timings()
        self.assertRegex(known[rows[0]], " us$")
        self.assertRegex(known[rows[1]], r"^! its result is wrong: nan where the usual schedule has -?[\d.]+$")
        self.assertRegex(known[rows[2]], r"^! cu\w+: .* \(700\)$")
        self.assertRegex(known[rows[3]], r"^! cu\w+: .* \(702\)$")
        self.assertRegex(known[rows[4]], r"^! cuModuleLoadData: ")
        for row in rows[5:]:
            self.assertRegex(known[row], " us$")
        self.assertIn(", 4 of no use", out)
        self.assertIn(f"  {rows[1]}: its result is wrong: nan", out)
        self.assertIn(f": {len(rows)} records from ", self.heddle("tune", "--import", self.made / "timings"))

    def test_one_that_hangs_is_ended(self):
        self.pack(most=3)
        rows = self.rows()
        self.run_there()
        self.forget(rows[1])
        self.plant(1, PLANTED["hangs"])
        endless = {"HEDDLE_EMULATED_LIMIT": str(1 << 60)}
        self.run_there("--limit", "15", **endless)
        self.assertEqual(self.timings()[rows[1]], "! it was not done in 15 s")

        path = self.made / "timings"
        path.unlink()
        self.plant(0, PLANTED["hangs"])
        out, errors = self.run_there("--limit", "5", status=1, **endless)
        self.assertIn(f"{rows[0]}: not measured: it was not done in 5 s\n", errors)
        self.assertIn(f"0 of {len(rows)} candidates known, 0 of them now, 0 of no use", out)
        self.assertFalse(path.exists(), "without the usual schedule there is nothing to compare with")

    def test_what_the_device_lacks_is_no_fault_of_a_candidate(self):
        self.pack()
        _, errors = self.run_there(status=1, HEDDLE_EMULATED_MEMORY="4096")
        self.assertRegex(errors, r"^error: k0 contraction 16: .*: not measured: cuMemAlloc_v2: .* \(2\)\n$")
        for environment, message in (
            ({"HEDDLE_CUDA_DRIVER": "/no/where"}, r"^error: NVIDIA's driver cannot be opened: /no/where: "),
            ({"HEDDLE_EMULATED_SM": "75"}, r"^error: Emulated GPU sm_75 has compute capability 7\.5; code for cuda:sm_80 wants 8\.0\n$"),
            ({"HEDDLE_EMULATED_VERSION": "10020"}, r"^error: the driver is for CUDA 10\.2; code for cuda:sm_80 wants one for 11\.0 or later\n$"),
        ):
            self.assertRegex(self.run_there(status=1, **environment)[1], message)
        (self.made / "timings").write_text("notes\n")
        self.assertRegex(self.run_there(status=1)[1], r"^error: .*/timings: these are no timings of such a folder; move the file away\n$")
        self.assertEqual((self.made / "timings").read_text(), "notes\n")

    def test_an_interrupted_run_goes_on(self):
        self.pack(most=6)
        run = subprocess.Popen(self.words(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(run.kill)
        while run.poll() is None and not (self.made / "timings").exists():
            time.sleep(0.02)
        run.send_signal(signal.SIGINT)
        _, errors = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 130, errors)
        before = self.timings()
        self.assertIn(f"interrupted; {len(before)} of {len(self.rows())} candidates are in ", errors)
        out, _ = self.run_there()
        self.assertIn(f"{len(self.rows()) - len(before)} of them now", out)
        self.assertEqual({row: self.timings()[row] for row in before}, before)


class Compiling(Folder):
    WORDS = ("dense.heddle", "--target", "cuda:sm_80", "--dim", "N=16")

    def setUp(self):
        super().setUp()
        self.pack(most=4)
        self.run_there()
        self.slowest = self.rows()[-1]  # as is expected
        text = (self.made / "timings").read_text()
        planted = "".join(re.sub(r"[\d.]+ us$", "0.0100 us", line) if f"| {self.slowest} |" in line else line for line in text.splitlines(True))
        self.assertNotEqual(planted, text)
        (self.made / "timings").write_text(planted)
        self.heddle("tune", "--import", self.made / "timings")

    def compile(self, *words, **how):
        return self.heddle("compile", *self.WORDS, "--weights", "w.npz", "-o", "out", *words, **how)

    def chosen(self, *words):
        """The row that is marked, and whether it was measured."""
        (found,) = re.findall(r"^  \* +[\d.]+ us  (.*)$", self.heddle("show", *self.WORDS, "--why", *words), re.M)
        return found

    def test_timings_choose_the_schedule_of_their_machine(self):
        usual = self.chosen()
        self.assertNotIn("measured", usual)
        planted = re.sub(r"/\d+", "", self.slowest)
        self.assertNotEqual(usual, planted)
        self.assertEqual(self.chosen("--machine", GPU), f"{planted}, measured")
        self.assertIn(f"schedules: 1 of 1 kernel as measured on {GPU}\n", self.compile("--machine", GPU))
        x = self.normal(16, 48)
        with heddle.load(self.folder / "out") as model, model.session() as session:
            got = session.run({"x": x})["y"]
        np.testing.assert_allclose(got, np.tanh(x @ np.load(self.folder / "w.npz")["w"].T), rtol=1e-4, atol=1e-5)

    def test_timings_of_another_machine_are_not_used_unless_it_is_named(self):
        out = self.compile()
        self.assertIn(f'schedules: by expected cost; --machine goes by what was measured on "{GPU}"\n', out)
        self.assertNotIn(" as measured on", out)
        self.assertEqual(self.compile("--machine", "NVIDIA H100", status=1),
                         f'error: --machine "NVIDIA H100": for cuda:sm_80 there are records of "{GPU}"\n')  # fmt: skip
        other = self.heddle("compile", "dense.heddle", "--target", "cuda:sm_90", "--dim", "N=16", "--weights", "w.npz", "-o", "out", "--machine", GPU, status=1)
        self.assertEqual(other, f'error: --machine "{GPU}": for cuda:sm_90 there are records of no machine\n')
        self.assertIn("its records are left out by --db none", self.compile("--machine", GPU, "--db", "none", status=2))
        both = self.heddle("compile", "dense.heddle", "--target", "cuda:sm_80,x86-64-v3", "--dim", "N=16", "--weights", "w.npz", "-o", "out", "--machine", GPU)
        self.assertIn(f"schedules: 1 of 1 kernel as measured on {GPU}, for cuda:sm_80\n", both)


class Comparing(unittest.TestCase):
    def difference(self, mine, usual, is_narrow=False):
        kind = {"float32": "f32", "int8": "i8", "int32": "i32", "int64": "i64", "float16": "f16", "bool": "bool"}[mine.dtype.name]
        return measure.difference(kind, mine.tobytes(), usual.astype(mine.dtype).tobytes(), is_narrow)

    def test_sums_may_be_made_in_another_order(self):
        usual = np.array([-8.0, 0.5, np.inf, np.nan], np.float32)
        self.assertEqual(self.difference(usual + np.float32(0.0075), usual), "")
        self.assertEqual(self.difference(usual + np.float32(0.01), usual), "its result is wrong: -7.99 where the usual schedule has -8")
        self.assertEqual(self.difference(usual + np.float32(0.3), usual, is_narrow=True), "")
        self.assertIn("is wrong", self.difference(usual + np.float32(0.4), usual, is_narrow=True))
        for mine in ([-8, 0.5, 1, np.nan], [-8, 0.5, np.inf, 1], [np.nan, 0.5, np.inf, np.nan], [-8, 0.5, -np.inf, np.nan]):
            self.assertIn("is wrong", self.difference(np.array(mine, np.float32), usual), mine)
        self.assertEqual(self.difference(np.float16([1, 2]), np.array([1.01, 2]), is_narrow=True), "")
        self.assertIn("is wrong", self.difference(np.float16([1, 2]), np.array([1.2, 2]), is_narrow=True))

    def test_whole_numbers_that_come_of_sums_may_be_their_neighbours(self):
        self.assertEqual(self.difference(np.int8([-5, 127]), np.array([-4, 126])), "")
        self.assertIn("is wrong: -5 where the usual schedule has -3", self.difference(np.int8([-5, 127]), np.array([-3, 127])))
        magnitude = np.array([1.5, 0.25], np.float32).view(np.int32)
        self.assertEqual(self.difference(magnitude + 20, magnitude), "")
        self.assertIn("is wrong", self.difference(np.array([1.51, 0.25], np.float32).view(np.int32), magnitude))
        for dtype in (np.int32, np.int64):
            self.assertIn("is wrong", self.difference(np.array([7, 901], dtype), np.array([7, 900])))
        self.assertIn("is wrong", self.difference(np.array([True, False]), np.array([True, True])))

    def test_made_up_numbers_are_those_of_their_type(self):
        real = np.array(measure.numbers_of("f32", measure.made_up("f32")))
        self.assertTrue(np.all(np.abs(real) <= 1) and np.std(real) > 0.5)
        np.testing.assert_allclose(np.array(measure.numbers_of("bf16", measure.made_up("bf16"))), real, atol=2**-8)
        np.testing.assert_allclose(measure.numbers_of("f16", measure.made_up("f16")), real, atol=2**-11)
        self.assertEqual(set(measure.numbers_of("i8", measure.made_up("i8"))), set(range(127)))
        for kind in ("i32", "i64", "bool"):
            self.assertEqual(set(measure.numbers_of(kind, measure.made_up(kind))), {1})


class Usage(Folder):
    def test_wrong_usage(self):
        tune = ("tune", "dense.heddle", "--dim", "N=16")
        self.assertIn("--pack made: wants a MODEL, whose kernels are to be timed", self.heddle("tune", "--pack", "made", status=2))
        self.assertEqual(self.heddle(*tune, "--weights", "w.npz", "--target", "cuda:sm_80", status=1),
                         "error: --target cuda:sm_80: kernels of a GPU are timed where one is; --pack DIR writes a folder that does it\n")  # fmt: skip
        self.assertEqual(self.heddle(*tune, "--target", "x86-64-v3", "--pack", "made", status=1),
                         "error: --target x86-64-v3: --pack is for GPUs, such as cuda:sm_80; without it, tune measures on this CPU\n")  # fmt: skip
        self.assertIn("give it with --dim N=N", self.heddle("tune", "dense.heddle", "--target", "cuda:sm_80", "--pack", "made", status=1))
        self.assertRegex(self.heddle(*tune, "--target", "cuda:sm_80", "--pack", "made", "--budget", "5m", status=2),
                         "error: --(pack excludes --budget|budget excludes --pack)\n")  # fmt: skip
        self.assertFalse((self.folder / "made").exists())
        (self.folder / "made").mkdir()
        self.assertEqual(self.heddle(*tune, "--target", "cuda:sm_80", "--pack", "made", status=1),
                         "error: made: is there already, perhaps with timings; remove it, or name another folder\n")  # fmt: skip
        self.assertEqual(list((self.folder / "made").iterdir()), [])


if __name__ == "__main__":
    unittest.main()
