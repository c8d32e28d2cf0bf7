#!/usr/bin/env python3
"""Tensors of the caller's on the emulated device: taken as they are and given by DLPack, in streams of the caller's, without
copies and without waiting. Their memory is reached through the driver only."""

import ctypes as c
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
from emulator import OnEmulatedGpu  # noqa: E402
from little import HEDDLE, ROOT, TOKENS, Emulator, Little, heddle  # noqa: E402

from heddle import _tensors, device  # noqa: E402


class Driver:
    """The emulated driver as another library of the process uses it, with the primary context current."""

    def __init__(self, library):
        self.library = library
        context = c.c_void_p()
        self("cuInit", 0)
        self("cuDevicePrimaryCtxRetain", c.byref(context), 0)
        self("cuCtxPushCurrent_v2", context)

    def __call__(self, name, *arguments):
        result = getattr(self.library, name)(*arguments)
        assert result == 0, f"{name}: {result}"

    def get(self, bytes):
        address = c.c_uint64()
        self("cuMemAlloc_v2", c.byref(address), c.c_size_t(max(1, bytes)))
        return address.value

    def give(self, address):
        self("cuMemFree_v2", c.c_uint64(address))

    def stream(self):
        stream = c.c_void_p()
        self("cuStreamCreate", c.byref(stream), 1)
        return stream.value

    def close(self):
        self("cuCtxPopCurrent_v2", c.byref(c.c_void_p()))
        self("cuDevicePrimaryCtxRelease_v2", 0)


class Foreign:
    """A tensor of another library's on the device, as DLPack shares it; strides in elements."""

    def __init__(self, driver, array, strides=None, offset=0, number=0):
        self.driver, self.number = driver, number
        self.array = np.ascontiguousarray(array)
        self.shape = self.array.shape
        self.strides, self.offset, self.streams = strides, offset, []
        data = self.array
        if strides is not None:  # laid out with gaps
            room = np.zeros(1 + sum((n - 1) * s for n, s in zip(self.shape, strides)), self.array.dtype)
            np.lib.stride_tricks.as_strided(room, self.shape, [s * room.itemsize for s in strides])[...] = self.array
            data = room
        self.bytes = data.nbytes + offset
        self.base = driver.get(self.bytes)
        if data.nbytes:
            driver("cuMemcpyHtoD_v2", c.c_uint64(self.base + offset), data.ctypes.data_as(c.c_void_p), c.c_size_t(data.nbytes))
        self.dtype = self.array.dtype

    def peek(self):
        """What is there now, without waiting for anybody."""
        array, side = np.empty(self.shape, self.dtype), self.driver.stream()
        self.driver("cuMemcpyDtoHAsync_v2", array.ctypes.data_as(c.c_void_p), c.c_uint64(self.base + self.offset),
                    c.c_size_t(array.nbytes), c.c_void_p(side))  # fmt: skip
        self.driver("cuStreamSynchronize", c.c_void_p(side))
        self.driver("cuStreamDestroy_v2", c.c_void_p(side))
        return array

    def numpy(self):
        array = np.empty(self.shape, self.dtype)
        if array.nbytes:
            self.driver("cuMemcpyDtoH_v2", array.ctypes.data_as(c.c_void_p), c.c_uint64(self.base + self.offset), c.c_size_t(array.nbytes))
        return array

    def __dlpack_device__(self):
        return 2, self.number

    def __dlpack__(self, stream=None):
        self.streams.append(stream)
        return device.share(self, self.base, self.shape, self.strides, _tensors.NAMES[self.dtype], self.number, self.offset)

    def give(self):
        self.driver.give(self.base)


class OnDevice(OnEmulatedGpu):
    """A product with a residual: y = tanh(x w' + b) + rest."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.status = Emulator()
        draw = np.random.default_rng(2)
        cls.scratch_of_class = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.scratch_of_class.cleanup)
        folder = Path(cls.scratch_of_class.name)
        cls.weight, cls.bias = draw.normal(size=(24, 16)).astype(np.float32), draw.normal(size=24).astype(np.float32)
        np.savez(folder / "w.npz", weight=cls.weight, bias=cls.bias)
        cls.libraries = {}
        for target in ("cuda:sm_80", "native"):
            cls.libraries[target] = folder / target
            words = [HEDDLE, "compile", ROOT / "tests/cuda/products.heddle", "--weights", folder / "w.npz", "--target", target,
                     "--set", "N=24", "--set", "K=16", "-o", cls.libraries[target]]  # fmt: skip
            done = subprocess.run(words, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr

    def setUp(self):
        super().setUp()
        self.driver = Driver(self.emulator)
        self.addCleanup(self.driver.close)
        self.x, self.rest = self.normal(5, 16), self.normal(5, 24)
        self.want = np.tanh(self.x.astype(np.float64) @ self.weight.T + self.bias) + self.rest

    def foreign(self, array, **how):
        tensor = Foreign(self.driver, array, **how)
        self.addCleanup(tensor.give)
        return tensor

    def load(self, target="cuda:sm_80"):
        return heddle.load(self.libraries[target])

    def assert_right(self, got):
        np.testing.assert_allclose(got, self.want, atol=2e-5)

    def test_inputs_and_results_stay_where_they_are(self):
        before = self.status.usage()
        with self.load() as model, model.session() as session:
            x, rest, y = self.foreign(self.x), self.foreign(self.rest), self.foreign(np.zeros((5, 24), np.float32))
            for _ in range(3):
                got = session.run({"x": x, "rest": rest}, entry="layer", out={"y": y})
                self.assertIs(got["y"], y)
                self.assert_right(y.numpy())
            self.assertEqual(session.memory["arena_bytes"], 64, "nothing is copied")
            self.assertEqual(self.status.usage()["pinned"], before["pinned"], "nothing comes here")
            self.assertEqual(x.streams, [session.cuda_stream] * 3)

    def test_each_tensor_may_lie_here_or_there(self):
        with self.load() as model, model.session() as session:
            for number in range(8):
                x, rest = self.x, self.rest
                y = np.zeros((5, 24), np.float32)
                x = self.foreign(x) if number & 1 else x
                rest = self.foreign(rest) if number & 2 else rest
                y = self.foreign(y) if number & 4 else y
                session.run({"x": x, "rest": rest}, entry="layer", out={"y": y})
                self.assert_right(y if isinstance(y, np.ndarray) else y.numpy())

    def test_layouts_that_kernels_do_not_take_are_copied_there(self):
        with self.load() as model, model.session() as session:
            for strides, offset in (((16, 1), 4), ((20, 1), 0), ((1, 5), 0), ((33, 2), 8)):
                x = self.foreign(self.x, strides=strides, offset=offset)
                got = session.run({"x": x, "rest": self.foreign(self.rest)}, entry="layer", on_device=True)
                self.assert_right(got["y"].numpy())
                y = self.foreign(np.zeros((5, 24), np.float32), strides=(30, 1))
                session.run({"x": x, "rest": self.rest}, entry="layer", out={"y": y})
                room = np.empty(4 * 30 + 24, np.float32)
                self.driver("cuMemcpyDtoH_v2", room.ctypes.data_as(c.c_void_p), c.c_uint64(y.base), c.c_size_t(room.nbytes))
                self.assert_right(np.lib.stride_tricks.as_strided(room, (5, 24), (120, 4)))
            a, b = self.normal(2, 3, 7), self.normal(2, 7, 24)
            for strides in ((21, 7, 1), (40, 8, 1), (1, 2, 6), (7, 14, 1)):
                got = session.run({"a": self.foreign(a, strides=strides), "b": b}, entry="batches")["y"]
                np.testing.assert_allclose(got, a @ b, atol=2e-5, err_msg=str(strides))

    def test_results_are_given_by_dlpack(self):
        before = self.status.usage()
        with self.load() as model, model.session() as session:
            first = session.run({"x": self.x, "rest": self.rest}, entry="layer", on_device=True)["y"]
            self.assertIsInstance(first, heddle.DeviceTensor)
            self.assertEqual((first.shape, first.dtype, first.__dlpack_device__()), ((5, 24), np.float32, (2, 0)))
            second = session.run({"x": self.x, "rest": first}, entry="layer", on_device=True)["y"]
            np.testing.assert_allclose(second.numpy(), self.want + self.want - self.rest, atol=4e-5)
            capsule = first.__dlpack__(stream=1)
            self.assertEqual(len(device._shared), 1)
            held = self.status.usage()["allocations"]
            del first
            self.assertEqual(self.status.usage()["allocations"], held, "the capsule keeps the memory")
            del capsule
            device._sweep()
            self.assertEqual((self.status.usage()["allocations"], len(device._shared)), (held - 1, 0))
            np.testing.assert_array_equal(session.to_device(self.x).numpy(), self.x)
            del second
        self.assertEqual(self.status.usage(), before)

    def test_calls_in_a_stream_of_the_callers_do_not_wait(self):
        stream = self.driver.stream()
        with self.load() as model, model.session(stream=stream) as session:
            self.assertEqual(session.cuda_stream, stream)
            x, rest, y = self.foreign(self.x), self.foreign(self.rest), self.foreign(np.zeros((5, 24), np.float32))
            for _ in range(3):
                self.driver("cuMemsetD8_v2", c.c_uint64(y.base), 0, c.c_size_t(y.bytes))
                session.run({"x": x, "rest": rest}, entry="layer", out={"y": y})
                self.assertFalse(y.peek().any(), "somebody has waited")
                session.wait()
                self.assert_right(y.numpy())
            z = self.foreign(np.zeros((5, 24), np.float32))
            session.run({"x": x, "rest": y}, entry="layer", out={"y": z})  # in the order of the stream
            session.run({"x": x, "rest": z}, entry="layer", out={"y": y})
            self.driver("cuStreamSynchronize", c.c_void_p(stream))
            np.testing.assert_allclose(y.numpy(), 3 * self.want - 2 * self.rest, atol=8e-5)
            # What lies here is taken before the call returns, and what is wanted here is there.
            for number in range(4):
                mine = self.x + number
                session.run({"x": mine, "rest": rest}, entry="layer", out={"y": z})
                mine[:] = 0
                session.wait()
                np.testing.assert_allclose(z.numpy(), np.tanh((self.x + number) @ self.weight.T + self.bias) + self.rest, atol=2e-5)
            self.assert_right(session.run({"x": x, "rest": rest}, entry="layer")["y"])
            given = session.run({"x": x, "rest": rest}, entry="layer", on_device=True)["y"]
            given.__dlpack__(stream=stream)
            given.__dlpack__(stream=-1)
            self.assert_right(given.numpy())
            del given
        self.driver("cuStreamDestroy_v2", c.c_void_p(stream))

    def test_streams_of_other_libraries(self):
        class Torch:
            cuda_stream = 0

        class Core:
            def __cuda_stream__(self):
                return 0, 7

        self.assertEqual([device.handle_of(s) for s in (0, 5, Torch(), Core())], [1, 5, 1, 7])
        with self.load() as model, model.session(stream=Torch()) as session:
            self.assertEqual(session.cuda_stream, 1)
            self.assert_right(session.run({"x": self.x, "rest": self.foreign(self.rest)}, entry="layer")["y"])
            with self.assertRaisesRegex(heddle.Error, "a stream is a number or an object of .*, not str"):
                model.session(stream="main")

    def test_tensors_that_cannot_be_taken(self):
        with self.load() as model, model.session() as session:
            with self.assertRaisesRegex(heddle.Error, "'x' is on device 1, and the model computes on device 0"):
                session.run({"x": self.foreign(self.x, number=1), "rest": self.rest}, entry="layer")
            rest = self.foreign(self.rest)
            session.run({"x": self.x, "rest": rest}, entry="layer", out={"y": rest})
            self.assert_right(rest.numpy())
        with self.load("native") as model, model.session() as session:
            for refused in (lambda: session.run({"x": self.foreign(self.x), "rest": self.rest}, entry="layer"),
                            lambda: session.run({"x": self.x, "rest": self.rest}, entry="layer", on_device=True),
                            lambda: session.cuda_stream, lambda: model.session(stream=1)):  # fmt: skip
                with self.assertRaises(heddle.Error) as caught:
                    refused()
                self.assertRegex(str(caught.exception), "computes on the CPU|not in the memory of the CPU")
            session.wait()


class Numbers(Little):
    """Inputs of whole numbers, which must be in a range, and states."""

    def setUp(self):
        self.driver = Driver(self.emulator.library)
        self.addCleanup(self.driver.close)

    def foreign(self, array, **how):
        tensor = Foreign(self.driver, array, **how)
        self.addCleanup(tensor.give)
        return tensor

    def test_they_are_converted_and_checked(self):
        with self.load() as model, model.session() as session:
            for dtype, strides in ((np.int32, None), (np.int64, None), (np.uint8, (1,)), (np.int64, (3,))):
                session.reset()
                self.assert_as_wanted([session.run({"ids": self.foreign(ids.astype(dtype), strides=strides)}) for ids in TOKENS])
            before = session.state("cache")
            for dtype in (np.int32, np.int64):
                with self.assertRaisesRegex(heddle.Error, r"input 'ids': element \[1\] is 11, but must be in 0 .. 10"):
                    session.run({"ids": self.foreign(np.array([3, 11], dtype))})
            np.testing.assert_array_equal(session.state("cache"), before)
            with self.assertRaisesRegex(heddle.Error, "not in the memory of the CPU"):
                session.generate({"ids": self.foreign(TOKENS[0])}, 3)

    def test_states_in_a_stream_of_the_callers(self):
        stream = self.driver.stream()
        with self.load() as model, model.session(stream=stream) as session:
            for _ in range(3):
                session.reset()
                got = [session.run({"ids": self.foreign(ids)}, on_device=True) for ids in TOKENS]
                with session.clone() as copy:
                    self.assertEqual(copy.cuda_stream, stream)
                    np.testing.assert_array_equal(copy.state("cache"), session.state("cache"))
                self.assert_as_wanted([{name: tensor.numpy() for name, tensor in each.items()} for each in got])
            del got
        self.driver("cuStreamDestroy_v2", c.c_void_p(stream))


class Faults(Numbers):
    """Each driver call of a life with tensors on the device fails in its turn."""

    def life(self):
        with self.load() as model, model.session(stream=1) as session:
            got = []
            for _ in range(3):
                session.reset()
                for ids in TOKENS:
                    here = session.run({"ids": session.to_device(ids)}, on_device=True)
                    got.append({name: tensor.numpy() for name, tensor in here.items()})
        return got

    def test_a_status_each_time(self):
        for code, status in ((2, "OUT_OF_MEMORY"), (1, "DEVICE_FAILED")):
            first = self.emulator.calls()
            self.assert_as_wanted(self.life())
            refused = 0
            for number in range(1, self.emulator.calls() - first + 1):
                before = self.emulator.usage()
                self.emulator.fail(number, code)
                try:
                    self.assert_as_wanted(self.life())
                except heddle.Error as error:
                    refused += 1
                    self.assertEqual(error.status, status, error)
                self.emulator.reset()
                self.assertEqual(self.emulator.usage(), before, f"call {number}")
            self.assertGreater(refused, 50)


if __name__ == "__main__":
    unittest.main()
