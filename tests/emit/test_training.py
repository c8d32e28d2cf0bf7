#!/usr/bin/env python3
"""Sessions that train: their parameters, the files that they leave, and runs that go on from these."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import unittest

import numpy as np
from program import ROOT, Program, heddle as command, must, real, safetensors, save

import heddle

NET = """
    dim B
    model Net {
      sub first as "net.0" = Linear(4, 6)
      param last as "net.last": real[3, 2, 3] stored [3, 6]
      param fixed: real[3]
      state m: params(first, last) = 0
      state v: params(first, last) = 0
      state step: i32 = 0
      fn out(x: real[B, 4], key: i32[2]) -> real[B, 3] {
        let h = dropout(tanh(first(x)), key, 0.25)
        y[b, k] = sum[i, j](h[b, i * 3 + j] * last[k, i, j]) + fixed[k]
        return y
      }
      entry train(x: real[B, 4], y: real[B, 3], key: i32[2]) -> loss: real {
        let z = out(x, fold(key, step))
        loss = mean[b, k]((z[b, k] - y[b, k]) ** 2)
        let t = step + 1
        step <- t
        for p in params(first, last) {
          let w, a, b = adam(p, m[p], v[p], grad(loss, p), t, 0.01, 0.9, 0.98, 1e-9)
          p <- w
          m[p] <- a
          v[p] <- b
        }
        return loss
      }
      entry predict(x: real[B, 4]) -> y: real[B, 3] {
        let h = tanh(first(x))
        y[b, k] = sum[i, j](h[b, i * 3 + j] * last[k, i, j]) + fixed[k]
        return y
      }
    }"""
BIGRAM = """
    dim B, T, N
    model Bigram {
      param table: real[7, 7]
      state written: i32 = 0
      entry step(input_ids: index(7)[B, T]) -> logits: real[B, 7] {
        require T >= 1 else "no token"
        logits[b, v] = table[input_ids[b, T - 1], v]
        written <- written + T
        return logits
      }
      entry train(x: index(7)[N], y: index(7)[N]) -> loss: real {
        z[n, v] = table[x[n], v]
        let each = cross_entropy(z, y, 0.0)
        loss = mean[n](each[n])
        table <- table - 5.0 * grad(loss, table)
        return loss
      }
    }"""
WEIGHTS = {"net.0.weight": real(6, 4), "net.0.bias": real(6), "net.last": real(3, 6), "fixed": real(3)}
TRAINED = ["net.0.weight", "net.0.bias", "net.last"]

# A program that saves its session after every step, and says so.
LOOP = """
    import sys
    sys.path.insert(0, sys.argv[1])
    import numpy as np, heddle
    session = heddle.load(sys.argv[2]).session()
    for step in range(10000):
        x = np.random.default_rng(step).standard_normal((5, 7)).astype("f4")
        session.run({"x": x[:, :4].copy(), "y": x[:, 4:].copy(), "key": np.int32([3, 1])}, "train")
        session.save(sys.argv[3])
        session.parameters.save(sys.argv[4])
        print(step + 1, flush=True)
"""


def batch(step):
    x = np.random.default_rng(step).standard_normal((5, 7)).astype(np.float32)
    return {"x": x[:, :4].copy(), "y": x[:, 4:].copy(), "key": np.int32([3, 1])}


class Sessions(Program):
    def setUp(self):
        super().setUp()
        self.compile(NET, WEIGHTS)

    def session(self, **options):
        return heddle.load(self.library).session(**options)

    def train(self, session, first, count):
        return [float(session.run(batch(step), "train")["loss"]) for step in range(first, first + count)]

    def test_parameters_begin_as_the_file_s_and_are_read_and_written_in_its_layout(self):
        session = self.session()
        model, parameters = session.model, session.parameters
        self.assertEqual(list(parameters), TRAINED)
        self.assertEqual(model.parameters["net.last"], heddle.Parameter("net.last", "f32", (3, 6), "last"))
        self.assertEqual((model.states["last"].parameter, model.states["last"].initial), ("net.last", None))
        self.assertEqual(model.states["m.last"].parameter, None)
        for name in TRAINED:
            np.testing.assert_array_equal(parameters[name], WEIGHTS[name])
        x = batch(9)["x"]
        before = session.run({"x": x}, "predict")["y"]
        self.train(session, 0, 3)
        self.assertFalse(np.array_equal(parameters["net.last"], WEIGHTS["net.last"]))
        for name in TRAINED:
            parameters[name] = WEIGHTS[name]
        np.testing.assert_array_equal(session.run({"x": x}, "predict")["y"], before)
        session.reset()
        np.testing.assert_array_equal(parameters["net.0.bias"], WEIGHTS["net.0.bias"])
        with self.assertRaisesRegex(heddle.Error, r"'net.last' is \[3, 2, 3\], but must be \[3, 6\]"):
            parameters["net.last"] = np.zeros((3, 2, 3), np.float32)
        with self.assertRaisesRegex(heddle.Error, "model 'model' has no parameter fixed"):
            parameters["fixed"]

    def test_what_is_written_must_be_like_the_state(self):
        session = self.session()
        session.set_state("step", 7)
        self.assertEqual(session.state("step"), 7)
        with self.assertRaisesRegex(heddle.Error, r"state 'm.last' is f32 \[3, 2, 3\], but the tensor to write is f32 \[2\]"):
            session.set_state("m.last", np.zeros(2, np.float32))
        for number in (2**31, -(2**40), np.uint64(2**63)):
            with self.assertRaisesRegex(heddle.Error, "'step': i32 does not hold all of these numbers"):
                session.set_state("step", number)
        self.assertEqual(session.state("step"), 7)

    def test_parameters_of_a_file_are_taken_over_all_or_none(self):
        session, path = self.session(), self.folder / "parameters.safetensors"
        session.parameters.save(path)
        whole = path.read_bytes()
        begin = 8 + int.from_bytes(whole[:8], "little")
        whole = whole[:begin] + np.float32(77).tobytes() + whole[begin + 4 :]  # the first of them has another value
        header = json.loads(whole[8:begin])
        last = header["net.last"]
        os.mkfifo(self.folder / "pipe")

        def with_last(**changes):
            text = json.dumps(header | {"net.last": last | changes}).encode()
            return len(text).to_bytes(8, "little") + text + whole[begin:]

        for content, status in (
            (b"", "BAD_WEIGHTS"),
            (whole[:4], "BAD_WEIGHTS"),
            (whole[: begin - 1], "BAD_WEIGHTS"),
            (whole[:-1], "BAD_WEIGHTS"),
            (b"\xff" * 99, "BAD_WEIGHTS"),
            (bytes([2]) + bytes(7) + b"[]", "BAD_WEIGHTS"),
            (with_last(shape=[3, -6]), "BAD_WEIGHTS"),
            (with_last(data_offsets=[0]), "BAD_WEIGHTS"),
            (with_last(dtype=None), "BAD_WEIGHTS"),
            (with_last(dtype="F64"), "BAD_TENSOR"),
            (with_last(shape=[6, 3]), "BAD_TENSOR"),
            (with_last(dtype="F16", shape=[6, 6]), "BAD_TENSOR"),
            (self.folder / "pipe", "FILE_ERROR"),
            (self.folder, "FILE_ERROR"),
            (self.folder / "nowhere", "FILE_ERROR"),
        ):
            if isinstance(content, bytes):
                path.write_bytes(content)
            with self.subTest(content=str(content)[:60]), self.assertRaises(heddle.Error) as caught:
                session.parameters.load(path if isinstance(content, bytes) else content)
            self.assertEqual(caught.exception.status, status)
            for name in TRAINED:
                np.testing.assert_array_equal(session.parameters[name], WEIGHTS[name])

    def test_saved_parameters_are_weights_for_the_next_compilation(self):
        session = self.session()
        losses = self.train(session, 0, 5)
        self.assertLess(losses[-1], losses[0])
        session.parameters.save(self.folder / "trained.safetensors")
        trained = safetensors.load_file(self.folder / "trained.safetensors")
        self.assertEqual(sorted(trained), sorted(TRAINED))
        for name in TRAINED:
            np.testing.assert_array_equal(trained[name], session.parameters[name])
        save(self.folder / "whole.safetensors", WEIGHTS | trained)
        must("compile", self.model, "--weights", self.folder / "whole.safetensors", "-o", self.folder / "next")
        x = batch(9)["x"]
        again = heddle.load(self.folder / "next").session()
        np.testing.assert_array_equal(again.run({"x": x}, "predict")["y"], session.run({"x": x}, "predict")["y"])
        other = self.session()
        other.parameters.load(self.folder / "trained.safetensors")
        np.testing.assert_array_equal(other.run({"x": x}, "predict")["y"], session.run({"x": x}, "predict")["y"])

    def test_a_run_that_was_saved_and_resumed_is_the_one_that_was_not_bit_for_bit(self):
        whole = self.session(threads=2)
        losses = self.train(whole, 0, 20)
        first = self.session(threads=1)
        self.assertEqual(self.train(first, 0, 8), losses[:8])
        first.save(self.folder / "session")
        first.close()
        second = self.session(threads=2)
        second.restore(self.folder / "session")
        self.assertEqual(self.train(second, 8, 12), losses[8:])
        self.assertEqual(second.save(), whole.save())

    def test_a_killed_run_leaves_its_last_files_whole(self):
        program = self.folder / "loop.py"
        program.write_text(textwrap.dedent(LOOP))
        states, parameters = self.folder / "session", self.folder / "parameters.safetensors"
        rng = np.random.default_rng(1)
        for _ in range(6):
            run = subprocess.Popen([sys.executable, program, ROOT / "python", self.library, states, parameters], stdout=subprocess.PIPE, text=True)  # fmt: skip
            run.stdout.readline()
            time.sleep(rng.uniform(0, 0.02))
            run.send_signal(signal.SIGKILL)
            said = [1, *map(int, run.stdout.read().split())][-1]
            run.wait()
            run.stdout.close()
            session = self.session()
            session.restore(states)
            reached = int(session.state("step"))
            self.assertIn(reached, (said, said + 1))
            expected = self.session()
            self.train(expected, 0, reached)
            self.assertEqual(session.save(), expected.save())
            self.assertEqual(sorted(safetensors.load_file(parameters)), sorted(TRAINED))

    def test_files_that_cannot_be(self):
        session = self.session()
        (self.folder / "text").write_text("no session")
        for message, call in (
            ("/dev/null is no regular file; name a file to write", lambda: session.save("/dev/null")),
            ("nowhere/x cannot be written: No such file or directory", lambda: session.parameters.save("nowhere/x")),
            ("nowhere cannot be opened: No such file or directory", lambda: session.restore("nowhere")),
            (f"{self.folder}/text does not hold a saved session; give one that heddle_session_save_file wrote",
             lambda: session.restore(self.folder / "text")),
        ):
            with self.assertRaises(heddle.Error) as caught:
                call()
            self.assertEqual(str(caught.exception), message)
        self.assertEqual([path.name for path in self.folder.glob("*.part")], [])


HALVES = """
    dim B
    model Net {
      sub up = Linear(3, 5)
      sub down = Linear(5, 2)
      state gradient: params() = 0
      state speed: params() = 0
      entry gradients(x: real[B, 3], y: real[B, 2]) -> loss: real {
        let z = down(tanh(up(x)))
        loss = mean[b, k]((z[b, k] - y[b, k]) ** 2)
        for p in params() { gradient[p] <- grad(loss, p) }
        return loss
      }
      entry apply(rate: real) -> rate: real {
        for p in params() {
          let w, s = sgd(p, speed[p], gradient[p], rate, 0.9)
          p <- w
          speed[p] <- s
        }
        return rate
      }
    }"""


class Halves(Program):
    def test_the_mean_of_two_halves_gradients_is_that_of_the_whole_batch(self):
        weights = {"up.weight": real(5, 3), "up.bias": real(5), "down.weight": real(2, 5), "down.bias": real(2)}
        self.compile(HALVES, weights)
        model = heddle.load(self.library)
        whole, halves = model.session(), [model.session(), model.session()]
        for step in range(20):
            rng = np.random.default_rng(step)
            x, y = (rng.standard_normal((8, n)).astype("f4") for n in (3, 2))
            whole.run({"x": x, "y": y}, "gradients")
            for i, half in enumerate(halves):
                half.run({"x": x[i::2].copy(), "y": y[i::2].copy()}, "gradients")
            for name in [name for name in model.states if name.startswith("gradient.")]:
                mean = (halves[0].state(name) + halves[1].state(name)) / 2
                for half in halves:
                    half.set_state(name, mean)
            for session in (whole, *halves):
                session.run({"rate": np.float32(0.05)}, "apply")
        for name in model.parameters:
            np.testing.assert_array_equal(halves[0].parameters[name], halves[1].parameters[name])
            np.testing.assert_allclose(halves[0].parameters[name], whole.parameters[name], rtol=1e-5, atol=1e-6)


class Texts(Program):
    def test_a_session_writes_with_what_it_has_learned(self):
        self.compile(BIGRAM, {"table": np.zeros((7, 7), np.float32)})
        session = heddle.load(self.library).session()
        follows = np.roll(np.arange(7, dtype=np.int32), -1)
        for _ in range(5):
            session.run({"x": np.arange(7, dtype=np.int32), "y": follows}, "train")
        learned = session.parameters["table"].copy()
        for _ in range(2):  # and does not remember the text before
            texts, _ = session.generate({"input_ids": np.int32([[2], [5]])}, 4, tokens={"eos_token_id": [], "pad_token_id": 0})
            np.testing.assert_array_equal(texts[:, -4:], [[3, 4, 5, 6], [6, 0, 1, 2]])
            self.assertEqual(session.state("written"), 4)
        np.testing.assert_array_equal(session.parameters["table"], learned)
        session.reset()
        np.testing.assert_array_equal(session.parameters["table"], np.zeros((7, 7)))


class Averages(Program):
    def test_the_mean_of_each_tensor(self):
        a, b = ({"w": real(3, 4, seed=i), "n": np.int32([7])} for i in range(2))
        for name, values in (("a", a), ("b", b), ("c", {"w": real(3, 4)}), ("d", {"w": real(4), "n": np.int32([7])}), ("e", a | {"n": np.int32([8])})):
            save(self.folder / f"{name}.safetensors", values)
        path = lambda name: self.folder / f"{name}.safetensors"  # noqa: E731
        must("average", path("a"), path("b"), "-o", path("out"))
        out = safetensors.load_file(path("out"))
        np.testing.assert_array_equal(out["w"], ((a["w"].astype(float) + b["w"]) / 2).astype(np.float32))
        np.testing.assert_array_equal(out["n"], [7])
        for other, message in (
            ("c", "c.safetensors: lacks `n`, which"),
            ("d", "d.safetensors: `w` is F32[4], but F32[3, 4] in"),
            ("e", "e.safetensors: `n` holds other whole numbers than in"),
        ):
            status, errors = command("average", path("a"), path(other), "-o", path("never"))
            self.assertEqual(status, 1)
            self.assertIn(message, errors)
        self.assertFalse(path("never").exists())


if __name__ == "__main__":
    unittest.main()
