#!/usr/bin/env python3
"""Libraries for GPUs on the emulated device, as a program meets them: several calls on a session, sessions saved, cloned
and restored, a machine without what the library needs, and driver calls that fail, each in its turn."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
from little import HEDDLE, ROOT, TOKENS, Emulator, Little, heddle  # noqa: E402

sys.path.insert(0, str(ROOT / "tests" / "models"))
from heddle_command import GOLDENS, must  # noqa: E402


class Calls(Little):
    def test_a_sessions_calls_agree_with_the_cpu_and_leave_nothing_behind(self):
        before = self.emulator.usage()
        self.assert_as_wanted(self.texts(self.load()))
        self.assertEqual(self.emulator.usage(), before)

    def test_sessions_do_not_disturb_each_other(self):
        with self.load() as model, model.session() as one, model.session() as two:
            got = [[session.run({"ids": ids}) for session in (one, two)] for ids in TOKENS]
        for session in (0, 1):
            self.assert_as_wanted([results[session] for results in got])

    def test_a_session_is_cloned_saved_restored_and_reset(self):
        with self.load() as model, model.session() as session:
            first = session.run({"ids": TOKENS[0]})
            saved = session.save()
            with session.clone() as copy:
                self.assert_as_wanted([first, *(copy.run({"ids": ids}) for ids in TOKENS[1:])])
            session.run({"ids": TOKENS[2]})
            session.restore(saved)
            self.assert_as_wanted([first, *(session.run({"ids": ids}) for ids in TOKENS[1:])])
            session.reset()
            self.assert_as_wanted([session.run({"ids": ids}) for ids in TOKENS])
            with self.load("native") as other, other.session() as there:
                for ids in TOKENS:
                    there.run({"ids": ids})
                np.testing.assert_allclose(session.state("cache"), there.state("cache"), rtol=1e-5, atol=1e-6)

    def test_a_requirement_that_needs_a_number_of_the_device_is_refused_and_changes_nothing(self):
        with self.load() as model, model.session() as session:
            for _ in range(2):
                session.run({"ids": np.arange(8, dtype=np.int32)})
            before = session.state("cache")
            with self.assertRaisesRegex(heddle.Error, "the cache is full"):
                session.run({"ids": TOKENS[2]})
            np.testing.assert_array_equal(session.state("cache"), before)

    def test_inputs_are_checked_and_strided_tensors_taken(self):
        with self.load() as model, model.session() as session:
            with self.assertRaisesRegex(heddle.Error, "element \\[1\\] is 11, but must be in 0 .. 10"):
                session.run({"ids": np.array([3, 11], dtype=np.int32)})
            wide = np.repeat(TOKENS[0].astype(np.int64), 3)
            self.assert_as_wanted([session.run({"ids": wide[::3]})])

    def test_an_equal_call_allocates_nothing(self):
        with self.load() as model, model.session() as session:
            session.run({"ids": TOKENS[0]})
            session.reset()
            session.run({"ids": TOKENS[0]})
            held, bytes_before = session.memory, self.emulator.usage()
            session.reset()
            session.run({"ids": TOKENS[0]})
            self.assertEqual(session.memory, held)
            self.assertEqual(self.emulator.usage(), bytes_before)


class Machines(Little):
    """Where a library does not run, it says so in one sentence, and one that has code for the CPU, too, takes that."""

    def expect(self, pattern, **environment):
        words = [HEDDLE, "run", self.libraries["cuda:sm_80"], "--in", f"ids={Path(self.scratch.name) / 'ids.npy'}"]
        np.save(Path(self.scratch.name) / "ids.npy", TOKENS[0])
        done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, **environment})
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertRegex(done.stderr, rf"^error: model 'little'[^\n]*{pattern}[^\n]*\n$")
        words[2] = self.libraries["cuda:sm_80,native"]
        done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, **environment})
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_there_is_no_driver(self):
        self.expect(r"cannot be opened \(/no/where: .*\); install NVIDIA's driver, or compile the model for a CPU, too",
                    HEDDLE_CUDA_DRIVER="/no/where")

    def test_it_is_a_fifo(self):
        fifo = Path(self.scratch.name) / "fifo"
        os.mkfifo(fifo)
        self.expect(r"cannot be opened \(/[^ ]*/fifo: it is no regular file\)", HEDDLE_CUDA_DRIVER=str(fifo))

    def test_it_is_another_library(self):
        self.expect("lacks cuInit; install a later driver", HEDDLE_CUDA_DRIVER="libm.so.6")

    def test_there_is_no_gpu(self):
        self.expect("the driver finds no GPU in this machine", HEDDLE_EMULATED_DEVICES="0")

    def test_the_driver_is_too_old(self):
        self.expect(r"needs a driver of CUDA 11\.0, and this one is of CUDA 10\.2", HEDDLE_EMULATED_VERSION="10020")

    def test_the_gpu_is_too_old(self):
        self.expect(r"has compute capability 7\.5; compile it for a lower target", HEDDLE_EMULATED_SM="75")

    def test_a_named_target_is_taken_or_refused(self):
        with heddle.load(self.libraries["cuda:sm_80,native"]) as model:
            self.assertEqual(model.target, "cuda:sm_80")


class Faults(Little):
    """Each driver call of a life fails in its turn: a status, nothing left behind, and the same life afterwards."""

    def life(self):
        with self.load() as model, model.session() as session:
            got = [session.run({"ids": ids}) for ids in TOKENS]
            for _ in range(2):  # the first of them writes its work down, the second does it as graphs
                session.reset()
                got += [session.run({"ids": ids}) for ids in TOKENS]
            session.restore(session.save())
        return got

    def fail_each(self, code, statuses, keeps_device):
        first = self.emulator.calls()
        self.assert_as_wanted(self.life())
        count = self.emulator.calls() - first
        self.assertGreater(count, 50)
        refused = 0
        for number in range(1, count + 1):
            with self.subTest(call=number, code=code):
                before = self.emulator.usage()
                self.emulator.fail(number, code)
                try:
                    self.assert_as_wanted(self.life())
                except heddle.Error as error:
                    refused += 1
                    self.assertIn(error.status, statuses, error)
                self.emulator.reset()
                if keeps_device:
                    self.assertEqual(self.emulator.usage(), before)
        self.assertGreater(refused, count // 2)
        self.assert_as_wanted(self.life())

    def test_out_of_memory(self):
        self.fail_each(2, {"OUT_OF_MEMORY"}, True)

    def test_calls_that_fail(self):
        self.fail_each(1, {"DEVICE_FAILED"}, True)

    def test_a_device_that_is_lost(self):
        self.fail_each(719, {"DEVICE_FAILED"}, False)


class Retries(Little):
    """A driver call fails in the life of a session that goes on: what was refused has changed nothing, and the same call
    made again gives what it would have given."""

    MOST = 40  # a run takes fewer driver calls

    def insist(self, number, run):
        self.emulator.fail(number, 2)
        try:
            return run()
        except heddle.Error as error:
            self.assertEqual(error.status, "OUT_OF_MEMORY", error)
            return run()
        finally:
            self.emulator.fail(0, 0)

    def test_states_begin_with_their_first_values(self):
        for graphs in (-1, 8):
            with self.load() as model, model.session(graphs=graphs) as session:
                for number in range(1, self.MOST):
                    session.reset()
                    got = [self.insist(number, lambda: session.run({"ids": TOKENS[0]}))]
                    got += [session.run({"ids": ids}) for ids in TOKENS[1:]]
                    with self.subTest(graphs=graphs, call=number):
                        self.assert_as_wanted(got)

    def test_a_state_slides_as_if_nothing_had_failed(self):
        folder, draw = Path(self.scratch.name), np.random.default_rng(8)
        np.savez(folder / "s.npz", weight=draw.normal(size=(5, 5)).astype(np.float32))
        must("compile", ROOT / "tests" / "cuda" / "sliding.heddle", "--weights", folder / "s.npz", "--target", "cuda:sm_80", "-o",
             folder / "sliding")
        for graphs in (-1, 8):
            with heddle.load(folder / "sliding") as model, model.session(graphs=graphs) as session, model.session() as plain:
                for number in range(2 * self.MOST):
                    x = draw.normal(size=(2, 5)).astype(np.float32)
                    got = self.insist(number // 2 + 1, lambda: session.run({"x": x})["y"])
                    np.testing.assert_array_equal(got, plain.run({"x": x})["y"], err_msg=f"{graphs}, call {number}")

    def test_a_session_is_restored_whole_or_not_at_all(self):
        with self.load() as model, model.session() as session:
            session.run({"ids": TOKENS[0]})
            saved = session.save()
            session.run({"ids": TOKENS[1]})
            before, refused = session.save(), 0
            for number in range(1, self.MOST):
                self.emulator.fail(number, 2)
                try:
                    session.restore(saved)
                except heddle.Error:
                    refused += 1
                    self.emulator.fail(0, 0)
                    self.assertEqual(session.save(), before, f"call {number}")
                self.emulator.fail(0, 0)
                session.restore(before)
            self.assertGreater(refused, 2)


class FaultsOfTexts(Faults):
    """The same of a model that writes texts: opened, asked for one greedily and one by a search, closed."""

    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.scratch.cleanup)
        cls.libraries, cls.emulator = {}, Emulator()
        for target in ("cuda:sm_80", "native"):
            cls.libraries[target] = Path(cls.scratch.name) / target
            must("compile", GOLDENS / "gpt2", "--target", target, "-o", cls.libraries[target])
        cls.want = cls.life(cls, "native")

    def life(self, target="cuda:sm_80"):
        prompts = {"input_ids": np.array([[3, 1, 4]], np.int32)}
        with heddle.load(self.libraries[target]) as model, model.session() as session:
            return [session.generate(prompts, 3), session.generate(prompts, 2, beams=2)]

    def assert_as_wanted(self, got):
        for (mine, scores), (theirs, best) in zip(got, self.want, strict=True):
            self.assertEqual(mine.tolist(), theirs.tolist())
            np.testing.assert_allclose(scores, best, rtol=1e-4)


if __name__ == "__main__":
    unittest.main()
