"""NVIDIA's driver by ctypes: memory, events and launches, for measuring. $HEDDLE_CUDA_DRIVER names another file, as for
compiled libraries."""

import ctypes as c
import os
import statistics


class Error(Exception):
    pass


class Gpu:
    """The first device, its primary context current in this thread."""

    def __init__(self):
        path = os.environ.get("HEDDLE_CUDA_DRIVER") or "libcuda.so.1"
        try:
            self.library = c.CDLL(path)
        except OSError as error:
            raise Error(f"NVIDIA's driver cannot be opened: {error}") from None
        version, context, stream, name = c.c_int(), c.c_void_p(), c.c_void_p(), c.create_string_buffer(128)
        self("cuInit", 0)
        self("cuDriverGetVersion", c.byref(version))
        self("cuDeviceGetName", name, 127, 0)
        self.name, self.version = name.value.decode(), version.value
        self.multiprocessors = self.attribute(16)
        self.capability = 10 * self.attribute(75) + self.attribute(76)
        self("cuDevicePrimaryCtxRetain", c.byref(context), 0)
        self("cuCtxPushCurrent_v2", context)
        self("cuStreamCreate", c.byref(stream), 1)
        self.stream = stream.value
        self.events = [c.c_void_p(), c.c_void_p()]
        for event in self.events:
            self("cuEventCreate", c.byref(event), 0)

    def __call__(self, function, *arguments):
        result = getattr(self.library, function)(*arguments)
        if result:
            text = c.c_char_p()
            self.library.cuGetErrorString(result, c.byref(text))
            raise Error(f"{function}: {(text.value or b'unknown').decode()} ({result})")

    def attribute(self, number):
        value = c.c_int()
        self("cuDeviceGetAttribute", c.byref(value), number, 0)
        return value.value

    def get(self, count):
        address = c.c_uint64()
        self("cuMemAlloc_v2", c.byref(address), c.c_size_t(count))
        self("cuMemsetD8_v2", address, 0, c.c_size_t(count))
        return address.value

    def give(self, address):
        self("cuMemFree_v2", c.c_uint64(address))

    def copy(self, to, source, count):
        self("cuMemcpyDtoDAsync_v2", c.c_uint64(to), c.c_uint64(source), c.c_size_t(count), c.c_void_p(self.stream))

    def load(self, ptx):
        module = c.c_void_p()
        self("cuModuleLoadData", c.byref(module), ptx + b"\0")
        return module

    def function(self, module, name):
        function = c.c_void_p()
        self("cuModuleGetFunction", c.byref(function), module, name.encode())
        return function

    def unload(self, module):
        self("cuModuleUnload", module)

    def launch(self, function, blocks, threads, *values):
        addresses = (c.c_void_p * len(values))(*(c.addressof(value) for value in values))
        self("cuLaunchKernel", function, blocks, 1, 1, threads, 1, 1, 0, c.c_void_p(self.stream), addresses, None)

    def seconds(self, work, count, batches=5):
        """Of one `work`, which puts something into the stream: the median of batches of `count`, by events; after one that
        isn't counted."""
        work(), work()
        times = []
        for _ in range(batches):
            self("cuEventRecord", self.events[0], c.c_void_p(self.stream))
            for _ in range(count):
                work()
            self("cuEventRecord", self.events[1], c.c_void_p(self.stream))
            self("cuEventSynchronize", self.events[1])
            elapsed = c.c_float()
            self("cuEventElapsedTime", c.byref(elapsed), *self.events)
            times.append(elapsed.value / 1e3 / count)
        return statistics.median(times)
