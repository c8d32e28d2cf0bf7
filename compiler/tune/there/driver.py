"""NVIDIA's driver by ctypes: memory, events and launches, for measuring. $HEDDLE_CUDA_DRIVER names another file, as for
compiled libraries."""

import ctypes as c
import os
import statistics


class Error(Exception):
    """`code`: the driver's, 0 where it has said nothing."""

    def __init__(self, text, code=0):
        super().__init__(text)
        self.code = code


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
            raise Error(f"{function}: {(text.value or b'unknown').decode()} ({result})", result)

    def attribute(self, number):
        value = c.c_int()
        self("cuDeviceGetAttribute", c.byref(value), number, 0)
        return value.value

    def get(self, count):
        address = c.c_uint64()
        self("cuMemAlloc_v2", c.byref(address), c.c_size_t(count))
        self.fill(address.value, 0, count)
        return address.value

    def give(self, address):
        self("cuMemFree_v2", c.c_uint64(address))

    def copy(self, to, source, count):
        self("cuMemcpyDtoDAsync_v2", c.c_uint64(to), c.c_uint64(source), c.c_size_t(count), c.c_void_p(self.stream))

    def put(self, to, data):
        self("cuMemcpyHtoDAsync_v2", c.c_uint64(to), data, c.c_size_t(len(data)), c.c_void_p(self.stream))

    def read(self, source, count):
        self.wait()
        room = c.create_string_buffer(max(count, 1))
        self("cuMemcpyDtoH_v2", room, c.c_uint64(source), c.c_size_t(count))
        return room.raw[:count]

    def fill(self, to, byte, count):
        self("cuMemsetD8Async", c.c_uint64(to), c.c_ubyte(byte), c.c_size_t(count), c.c_void_p(self.stream))

    def wait(self):
        self("cuStreamSynchronize", c.c_void_p(self.stream))

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

    def graph(self, work, count):
        """Puts so many times `work` into the stream at once, when it is called."""
        graph, launched, stream = c.c_void_p(), c.c_void_p(), c.c_void_p(self.stream)
        self("cuStreamBeginCapture_v2", stream, 1)
        for _ in range(count):
            work()
        self("cuStreamEndCapture", stream, c.byref(graph))
        self("cuGraphInstantiate_v2", c.byref(launched), graph, None, None, c.c_size_t(0))
        self("cuGraphDestroy", graph)
        return lambda: self("cuGraphLaunch", launched, stream)

    def elapsed(self, work):
        """Seconds of what one `work` puts into the stream, by events."""
        self("cuEventRecord", self.events[0], c.c_void_p(self.stream))
        work()
        self("cuEventRecord", self.events[1], c.c_void_p(self.stream))
        self("cuEventSynchronize", self.events[1])
        elapsed = c.c_float()
        self("cuEventElapsedTime", c.byref(elapsed), *self.events)
        return elapsed.value / 1e3

    def seconds(self, work, count, batches=5):
        """Of one `work`, which puts something into the stream: the median of batches of `count`, by events; after one that
        isn't counted."""
        work(), work()
        return statistics.median(self.elapsed(lambda: [work() for _ in range(count)]) / count for _ in range(batches))
