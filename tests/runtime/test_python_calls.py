"""Calls from Python against libraries that play artifacts: tensors of others by DLPack, rooms for results, pools of threads,
event loops, and what a call costs."""

import asyncio
import ctypes
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import threading
import time
import timeit
import unittest
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import heddle
from heddle import _tensors
from test_python import LIBRARY, STATEFUL, weights_file


class Foreign:
    """A tensor of another library: its memory can be reached by DLPack alone."""

    def __init__(self, array, device=1, code=None, bits=None):
        self.array, self.device, self.code, self.bits = array, device, code, bits

    def __dlpack__(self):
        capsule = self.array.__dlpack__()
        dl = _tensors._DLTensor.from_address(_tensors._pointer_of(capsule, b"dltensor"))
        dl.device_type = self.device
        if self.code is not None:
            dl.code, dl.bits = self.code, self.bits
        return capsule


class Torch(Foreign):
    """A tensor of torch's: what it says of itself costs less than an array over it."""

    arrays = 0

    def __init__(self, array, is_cpu=True, requires_grad=False, negated=False, code=None, bits=None):
        super().__init__(array, code=code, bits=bits)
        self.dtype, self.shape, self.is_cpu, self.requires_grad, self.negated = array.dtype.type, array.shape, is_cpu, requires_grad, negated

    def numpy(self):
        Torch.arrays += 1
        if self.requires_grad or self.negated or not self.is_cpu or self.code is not None:
            raise RuntimeError("it has no array")
        return self.array

    def __dlpack__(self):
        if self.requires_grad or self.negated:
            raise BufferError("it shares nothing")
        return super().__dlpack__()

    def stride(self):
        return tuple(stride // self.array.itemsize for stride in self.array.strides)

    def is_neg(self):
        return self.negated

    def data_ptr(self):
        return self.array.ctypes.data


Torch.__module__ = "torch"


class Calls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        path = pathlib.Path(cls.folder.name)
        shutil.copy(LIBRARY, path / "libfake.so")
        (path / "fake.weights").write_bytes(weights_file())
        cls.model = heddle.load(path)

    @classmethod
    def tearDownClass(cls):
        cls.model.close()
        cls.folder.cleanup()

    def refused(self, message, *arguments, **keywords):
        with self.model.session() as session, self.assertRaises(heddle.Error) as caught:
            session.run(*arguments, **keywords)
        self.assertEqual((caught.exception.status, str(caught.exception)), ("BAD_TENSOR", message))

    def test_nothing_is_no_array(self):
        self.refused("'ids' is None; give an array, or leave it out where it is optional", {"ids": None}, "encode")

    def test_tensors_whose_rank_or_extents_cannot_be(self):
        for field, wrong in (("ndim", 1000000), ("ndim", 9), ("ndim", -1), ("shape", -5)):
            ids = np.zeros((2, 3), np.int64)

            class Lying:
                def __dlpack__(self):  # a capsule per call: NumPy may take the first one, whatever lies behind two extents
                    capsule = ids.__dlpack__()
                    dl = _tensors._DLTensor.from_address(_tensors._pointer_of(capsule, b"dltensor"))
                    if field == "ndim":
                        dl.ndim = wrong
                    else:
                        dl.shape[0] = wrong
                    return capsule

                def __dlpack_device__(self):
                    return 2, 0

            rank = wrong if field == "ndim" else 2
            self.refused(f"'ids': a tensor of {rank} axes, or of extents below 0; at most 8 axes can be given", {"ids": Lying()}, "encode")

    def test_a_session_closed_by_another_thread_ends_no_call_in_the_middle(self):
        ids = np.arange(12).reshape(3, 4)
        for turn in range(30):
            session, seen = self.model.session(), set()

            def run():
                try:
                    for _ in range(200):
                        session.run({"ids": ids}, "encode")
                except heddle.Error as error:
                    seen.add(error.status)

            thread = threading.Thread(target=run)
            thread.start()
            try:
                session.close()
            except heddle.Error as error:
                self.assertEqual(error.status, "BUSY")
            thread.join()
            self.assertLessEqual(seen, {"BUSY", "INVALID_ARGUMENT"})

    def test_tensors_of_others_go_in_and_out_by_dlpack(self):
        with self.model.session() as session:
            ids = np.arange(12).reshape(3, 4).T[::2]
            want = session.run({"ids": ids}, "encode")["y"]
            room = np.full((2, 3, 8), -1, np.float32)
            result = Foreign(room[..., ::2])
            out = session.run({"ids": Foreign(ids), "mask": Foreign(np.ones((2, 3), np.int8))}, "encode", out={"y": result})
            self.assertIs(out["y"], result)
            np.testing.assert_array_equal(room[..., ::2], want)
            self.assertTrue((room[..., 1::2] == -1).all())
            bf16 = Foreign(np.uint16([0x3F80] * 4), code=4, bits=16)
            results = session.run({"x": Foreign(np.ones((1, 1), np.float32)), "bf16": bf16}, "floats")
            self.assertEqual(results["bf16"].view(np.uint16).tolist(), [0x3F80] * 4)
            session.run({"x": Foreign(np.empty((0,), np.float32))}, "spread")

    def test_tensors_of_torch_share_their_memory(self):
        ids = np.arange(12).reshape(3, 4).T[::2]
        room = np.zeros((2, 3, 8), np.float32)
        with self.model.session() as session:
            want = session.run({"ids": ids}, "encode")["y"]
            session.run({"ids": Torch(ids)}, "encode", out={"y": Torch(room[..., ::2])})
            np.testing.assert_array_equal(room[..., ::2], want)
            for number in (0x3F80, 0x4000):
                bf16 = Torch(np.uint16([number] * 4), code=4, bits=16)
                results = session.run({"x": Torch(np.ones((1, 1), np.float32)), "bf16": bf16}, "floats")
                self.assertEqual(results["bf16"].view(np.uint16).tolist(), [number] * 4)

    def test_a_tensor_of_torch_like_the_one_before_makes_no_array(self):
        with self.model.session() as session:
            session.run({"x": Torch(np.float32([1, 2, 3]))}, "spread")
            made = Torch.arrays
            for x in (np.float32([4, 5, 6]), np.float32([7, 8, 9])):
                self.assertEqual(session.run({"x": Torch(x)}, "spread")["y"].tolist(), np.cumsum(x).tolist())
            self.assertEqual(Torch.arrays, made)
            for x in (np.float32([1, 0, 2, 0, 3])[::2], np.float32([1, 2]), np.float32([1, 2, 3])):
                for given in (Torch(x), x):
                    self.assertEqual(session.run({"x": given}, "spread")["y"].tolist(), np.cumsum(x).tolist())
            session.run({"x": Torch(np.float32([1, 2, 3]))}, "spread")
            for how in ({"requires_grad": True}, {"negated": True}):
                with self.assertRaisesRegex(heddle.Error, "'x': Torch does not share its memory: it shares nothing"):
                    session.run({"x": Torch(np.float32([1, 2, 3]), **how)}, "spread")
            size = type("Size", (tuple,), {"__module__": "torch"})
            self.assertEqual(session.run({"x": size((1, 2, 3))}, "spread")["y"].tolist(), [1, 3, 6])

    def test_memory_of_a_dlpack_tensor_goes_back_to_its_owner(self):
        array = np.ones(5, np.float32)
        before = sys.getrefcount(array)
        with self.model.session() as session:
            for _ in range(3):
                session.run({"x": Foreign(array)}, "spread")
        self.assertEqual(sys.getrefcount(array), before)

    def test_dlpack_tensors_that_cannot_be_taken_say_why(self):
        x = np.ones(3, np.float32)
        self.refused("'x' is not in the memory of the CPU; move it there, as with .cpu()", {"x": Foreign(x, device=2)}, "spread")
        self.refused("'x': elements of 32 bits and DLPack's type 5 cannot be given; convert to one of bf16, bool, f16, f32, i32, i64, i8, u8",
                     {"x": Foreign(x, code=5, bits=32)}, "spread")  # fmt: skip

        class Locked:
            def __dlpack__(self):
                raise BufferError("it wants a gradient")

        self.refused("'x': Locked does not share its memory: it wants a gradient", {"x": Locked()}, "spread")

        class Odd:
            def __dlpack__(self):
                return 7

        self.refused("'x': what Odd.__dlpack__() gives is no tensor, or was taken before", {"x": Odd()}, "spread")

    def test_lists_and_numbers_become_what_is_wanted(self):
        with self.model.session() as session:
            for given in ([[1.5, 2]], ((1.5, 2),), [np.float64([1.5, 2])]):
                result = session.run({"x": given, "f16": [1, 2, 3, 4.5], "f32": [1, 2, 3, 4]}, "floats")
                self.assertEqual((result["y"].dtype, result["y"].tolist()), (np.float32, [[1.5, 2]]))
                self.assertEqual((result["f16"].tolist(), result["f32"].tolist()), ([1, 2, 3, 4.5], [1, 2, 3, 4]))
            # bf16 without ml_dtypes: halfway to the even one, over the end of the range, and what has no number.
            for given, bits in (([1, 2, -3, 0.5], [0x3F80, 0x4000, 0xC040, 0x3F00]), ([True, 1.00390625, 1.01171875, float("nan")], [0x3F80, 0x3F80, 0x3F82, 0x7FC0]),
                                ((3.4e38, -float("inf"), -0.0, 1e-40), [0x7F80, 0xFF80, 0x8000, 1])):  # fmt: skip
                self.assertEqual(session.run({"x": [[1]], "bf16": given}, "floats")["bf16"].view(np.uint16).tolist(), bits)

    def test_what_is_no_array_and_no_dict_is_named(self):
        with self.model.session() as session:
            for inputs, out, message in (
                (np.ones(3), None, "inputs: give a dict of names and arrays, not ndarray"),
                ({"x": [1]}, [np.ones(3)], "out: give a dict of names and arrays, not list"),
                ({"x": [[1, 2], [3]]}, None, "'x': list makes no array: "),
            ):
                with self.assertRaises(heddle.Error) as caught:
                    session.run(inputs, "spread", out=out)
                self.assertTrue(str(caught.exception).startswith(message), caught.exception)

    def test_calls_of_changing_shapes_layouts_and_rooms(self):
        with self.model.session() as session:
            random = np.random.default_rng(0)
            for _ in range(300):
                b, s = random.integers(0, 4, 2)
                ids = random.integers(0, 100, (b, s)).astype(random.choice([np.int32, np.int64, np.uint8]))
                ids = np.asfortranarray(ids) if random.random() < 0.3 else ids
                out = {}
                if random.random() < 0.5:
                    out["y"] = np.empty((b, s, 8), np.float32)[..., ::2] if random.random() < 0.5 else np.empty((b, s, 4), np.float32)
                results = session.run({"ids": ids}, "encode", out=out)
                np.testing.assert_array_equal(results["y"], ids[..., None].astype(np.float32) + np.float32([0.5, 1.5, 2.5, 3.5]))
                np.testing.assert_array_equal(results["total"], ids.sum(1))
                if out:
                    self.assertIs(results["y"], out["y"])
            kept = session.run({"ids": [[1]]}, "encode")["y"]
            session.run({"ids": [[9]]}, "encode")
            self.assertEqual(kept[0, 0, 0], 1.5, "results belong to the caller")

    def test_small_results_lie_in_one_block_and_keep_no_large_one(self):
        with self.model.session() as session:
            small = session.run({"ids": [[1, 2]]}, "encode")
            self.assertIs(small["y"].base, small["total"].base)
            self.assertTrue(all(result.__array_interface__["data"][0] % 64 == 0 for result in small.values()))
            large = session.run({"ids": np.ones((2, 500), int)}, "encode")
            self.assertLess(large["total"].base.nbytes, 1000)
            self.assertEqual(large["total"].tolist(), [500, 500])

    def test_memory_of_results_serves_again_when_nothing_looks_into_it(self):
        with self.model.session() as session:
            def call(first):
                return session.run({"x": np.float32([first] + [0] * 15)}, "spread")["y"]

            places = {call(0).ctypes.data for _ in range(9)}
            self.assertEqual(len(places), 1, "nobody has kept one")
            y = None
            for first in range(9):  # the one of before is kept until the next is there
                y = call(first)
                places.add(y.ctypes.data)
            self.assertEqual(len(places), 2)
            random, kept = np.random.default_rng(0), []
            looks = (lambda y: y, lambda y: y[:], lambda y: y.reshape(4, 4), memoryview, lambda y: np.from_dlpack(y).T,
                     lambda y: y.ctypes, lambda y: iter([y]), lambda y: (y, y[1:]), lambda y: y.base)  # fmt: skip
            for first in range(500):
                y = call(first)
                if random.random() < 0.3:
                    kept.append((first, y.ctypes.data, looks[random.integers(len(looks))](y)))
                if random.random() < 0.1:
                    kept.pop(0) if kept else None
                for known, at, _ in kept:
                    self.assertEqual(np.ctypeslib.as_array((ctypes.c_float * 16).from_address(at))[3], known)

    def test_a_result_that_was_written_or_reshaped_does_no_harm(self):
        with self.model.session() as session:
            x = np.ones((2, 2), np.int64)
            for _ in range(5):
                y = session.run({"ids": x}, "encode")["y"]
                self.assertEqual((y.shape, y[0, 0, 0], y.flags.writeable), ((2, 2, 4), 1.5, True))
                y[:] = -1
                y.shape = (16,)
                y.flags.writeable = False
                del y

    def test_weights_from_bytes_and_from_a_function(self):
        path, whole = pathlib.Path(self.folder.name) / "libfake.so", weights_file()
        asked = []

        def read(offset, count):
            asked.append((offset, count))
            return memoryview(whole)[offset : offset + count]

        for weights in (whole, bytearray(whole), memoryview(whole), np.frombuffer(whole, np.uint8), read):
            with heddle.load(path, weights=weights) as model, model.session() as session:
                self.assertEqual(session.run({"ids": [[10]]}, "encode")["y"].tolist(), [[[10.5, 11.5, 12.5, 13.5]]])
        self.assertEqual(asked, [(0, 64), (4096, 16)])
        with self.assertRaisesRegex(heddle.Error, "the image of the weights is truncated"):
            heddle.load(path, weights=whole[:-1])
        with self.assertRaisesRegex(KeyError, "no such secret"):
            heddle.load(path, weights=lambda *_: {}["no such secret"])
        with self.assertRaisesRegex(ValueError, r"read\(0, 64\) gave 0 bytes"):
            heddle.load(path, weights=lambda *_: b"")

    def test_kernels_run_on_an_executor_s_threads(self):
        with ThreadPoolExecutor(3) as pool, self.model.session(pool=pool) as session:
            self.assertEqual(session.threads, 4)
            np.testing.assert_array_equal(session.run({"x": np.ones(100_000, np.float32)}, "spread")["y"][-1], 100_000)
            with self.assertRaisesRegex(heddle.Error, "cannot be cloned"):
                session.clone()

    def test_a_call_within_a_task_of_its_own_executor_waits_for_no_one(self):
        x = {"x": np.ones(2000, np.float32)}
        with ThreadPoolExecutor(1) as pool, self.model.session(pool=pool) as session:
            done = pool.submit(session.run, x, "spread").result(timeout=60)
            np.testing.assert_array_equal(done["y"][-1], 2000)

    def test_helpers_that_come_late_or_never_touch_no_call_that_is_over(self):
        class Late(ThreadPoolExecutor):
            def __init__(self):
                super().__init__(3)
                self.kept = []

            def submit(self, *call):
                if len(self.kept) % 3 == 2:
                    self.kept.append(None)
                    raise RuntimeError("can't start new thread")
                self.kept.append(call)

        x = {"x": np.ones(2000, np.float32)}
        with Late() as pool, self.model.session(pool=pool) as session:
            for _ in range(5):
                np.testing.assert_array_equal(session.run(x, "spread")["y"][-1], 2000)
            for call in filter(None, pool.kept):
                function, *arguments = call
                function(*arguments)
            self.assertGreater(len(pool.kept), 5)

    def test_ctrl_c_within_a_callback_is_raised_by_the_call(self):
        class Interrupted(ThreadPoolExecutor):
            def submit(self, *call):
                signal.raise_signal(signal.SIGINT)
                return super().submit(*call)

        x = {"x": np.ones(2000, np.float32)}
        room = np.zeros_like(self.model.session().run(x, "spread")["y"])
        with Interrupted(1) as pool, self.model.session(pool=pool) as session:
            self.assertRaises(KeyboardInterrupt, session.run, x, "spread", {"y": room})
            np.testing.assert_array_equal(room[-1], 2000)
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(STATEFUL.with_name("libheddle_fake_text_3.so"), pathlib.Path(folder) / "libtext.so")
            (pathlib.Path(folder) / "text.weights").write_bytes(weights_file(b"t\x03", b""))
            with heddle.load(folder) as model, model.session() as session:
                for number in range(30):
                    caller = threading.Timer(number * 1e-4, signal.raise_signal, [signal.SIGINT])
                    with self.assertRaises(KeyboardInterrupt):
                        caller.start()
                        session.generate({"ids": np.ones((200, 1), int)}, 28, min_steps=28, beams=1 + number % 2, listener=lambda *_: None)
                        caller.join()
                        time.sleep(0.01)
                    caller.join()
        self.assertIs(signal.getsignal(signal.SIGINT), signal.default_int_handler)

    def test_a_message_that_is_no_utf8_is_an_error_of_heddle_s(self):
        with self.assertRaises(heddle.Error):
            heddle.load(STATEFUL, weights=b"/nowhere/\xff".decode(errors="surrogateescape"))

    def test_names_and_paths_with_a_zero_are_not_cut_off(self):
        before = sorted(pathlib.Path(self.folder.name).iterdir())
        with self.model.session() as session:
            for call in (
                lambda: session.run({"ids\0": [[1]]}, "encode"),
                lambda: session.run({"ids": [[1]]}, "encode\0"),
                lambda: session.save(self.folder.name + "/states\0"),
                lambda: session.parameters.save(self.folder.name + "/states\0"),
                lambda: heddle.load(self.folder.name + "\0"),
                lambda: heddle.load(self.folder.name, weights="fake.weights\0"),
                lambda: heddle.load(self.folder.name, target="x86-64-v3\0"),
            ):
                with self.assertRaisesRegex(heddle.Error, "has a zero in it, which no name and no path may have"):
                    call()
            with self.assertRaisesRegex(heddle.Error, "5 is no name; give it as text"):
                session.run({5: [[1]]}, "encode")
        self.assertEqual(sorted(pathlib.Path(self.folder.name).iterdir()), before)

    def test_numbers_that_are_too_large_are_not_cut_off(self):
        with self.model.session() as session:
            for call in (
                lambda: self.model.session(threads=2**32 + 1),
                lambda: self.model.session(memory_limit=2**64 + 64),
                lambda: self.model.memory_needed("encode", B=2**64 + 1),
                lambda: session.capacity(B=2**64 + 1),
                lambda: session.generate({"ids": [[1]]}, 2**32 + 1),
                lambda: session.generate({"ids": [[1]]}, 1, tokens={"eos_token_id": [2**64]}),
            ):
                with self.assertRaisesRegex(heddle.Error, "is out of range|more than 64 bits hold"):
                    call()
            with self.assertRaisesRegex(heddle.Error, "B is 1.5; give a whole number"):
                session.capacity(B=1.5)

    def test_states_are_restored_from_whatever_holds_bytes(self):
        with self.model.session() as session:
            saved = session.save()
            for same in (bytearray(saved), memoryview(saved), np.frombuffer(saved, np.uint8), np.frombuffer(saved, np.uint32)):
                session.restore(same)

    def test_folders_whose_names_are_no_utf8(self):
        folder = pathlib.Path(self.folder.name + "/\udcff")
        shutil.copytree(self.folder.name, folder, ignore=lambda *_: [folder.name])
        for path in (folder, os.fsencode(folder)):
            with heddle.load(path) as model, model.session() as session:
                self.assertEqual(session.run({"ids": [[10]]}, "encode")["y"].tolist(), [[[10.5, 11.5, 12.5, 13.5]]])
        (folder / "libnone.so").write_bytes(b"no library")
        with self.assertRaises(heddle.Error):
            heddle.load(folder / "libnone.so")
        shutil.rmtree(folder)

    def test_a_memory_limit_is_kept(self):
        with self.model.session(memory_limit=64) as session, self.assertRaises(heddle.Error) as caught:
            session.run({"ids": np.zeros((8, 100), int)}, "encode")
        self.assertEqual(caught.exception.status, "OUT_OF_MEMORY")

    def test_a_call_costs_a_few_times_what_ctypes_takes(self):
        with self.model.session(threads=1) as session:
            x, room = np.ones(16, np.float32), {"y": np.empty(16, np.float32)}
            session.run({"x": x}, "spread")
            plan = session._plans["spread"]
            calls = (lambda: plan.enter(*plan.arguments), lambda: session.run({"x": x}, "spread"), lambda: session.run({"x": x}, "spread", out=room))
            # In turns, so that what else the machine does takes from all.
            bare, plain, given = (min(times) for times in zip(*([timeit.timeit(call, number=200) for call in calls] for _ in range(50))))
            print(f"[INFO] a call: ctypes {bare / 200 * 1e6:.2f} us, run {plain / bare:.1f} times that, with out= {given / bare:.1f}")
            self.assertLess(plain / bare, 6)
            self.assertLess(given / bare, 6)


class Generation(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        shutil.copy(STATEFUL.with_name("libheddle_fake_text_3.so"), pathlib.Path(folder.name) / "libtext.so")
        (pathlib.Path(folder.name) / "text.weights").write_bytes(weights_file(b"t\x03", b""))
        self.model = heddle.load(folder.name)
        self.addCleanup(self.model.close)
        self.prompts = {"ids": [[1, 2], [3, 4]]}

    def test_an_event_loop_goes_on_while_texts_are_written(self):
        async def main():
            with self.model.session() as session:
                texts, _ = session.generate(self.prompts, 6, min_steps=6)
                same, _ = await session.generate_async(self.prompts, 6, min_steps=6)
                np.testing.assert_array_equal(same, texts)
                streamed = [tokens async for tokens in session.stream(self.prompts, 6, min_steps=6)]
                np.testing.assert_array_equal(np.stack(streamed, 1), texts[:, 2:])
                with self.model.session() as other:
                    async def whole():
                        return [tokens async for tokens in other.stream(self.prompts, 6, min_steps=6)]

                    both = await asyncio.gather(whole(), session.generate_async(self.prompts, 6, min_steps=6))
                np.testing.assert_array_equal(np.stack(both[0], 1), both[1][0][:, 2:])

        asyncio.run(main())

    def test_leaving_a_stream_ends_the_generation(self):
        async def main():
            with self.model.session() as session:
                stream = session.stream(self.prompts, 100_000, min_steps=100_000)
                first = await anext(stream)
                await stream.aclose()
                self.assertEqual(first.shape, (2,))
                self.assertEqual(threading.active_count() - 1, len([t for t in threading.enumerate() if "asyncio" in t.name]))
                session.generate(self.prompts, 2)  # the session is free again

        asyncio.run(main())

    def test_a_failure_reaches_the_loop(self):
        async def main():
            with self.model.session() as session:
                with self.assertRaisesRegex(heddle.Error, "steps must be at least 1"):
                    async for _ in session.stream(self.prompts, 0):
                        pass

        asyncio.run(main())


if __name__ == "__main__":
    unittest.main()
