"""Times a candidate of candidates.json beside the usual schedule of its kernel. It does so in a process of its own, so that `run`
goes on whatever becomes of it. What is known is a line of JSON on standard output:

    measure.py                    {"machine": …, "capability": …, "driver": …}
    measure.py TASK CANDIDATE     {"ready": true} once the usual schedule has run; then one of
                                  {"seconds": …, "usual": …} of a call
                                  {"fault": …}               what is wrong with the candidate
                                  {"failure": …}             why nothing can be measured here and now"""

import array
import ctypes as c
import json
import math
import os
import signal
import struct
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import driver  # noqa: E402

SCALARS = {"f32": c.c_float, "i32": c.c_int32, "i8": c.c_int8, "bool": c.c_uint8}
BYTES = {"f32": 4, "bf16": 2, "f16": 2, "i8": 1, "i32": 4, "i64": 8, "bool": 1}
CODES = {"f32": "f", "i8": "b", "i32": "i", "i64": "q", "bool": "B"}
OUT_OF_MEMORY = 2  # CUDA_ERROR_OUT_OF_MEMORY
L2_BYTES = 38  # CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE
PERIOD = 65521  # of made-up numbers: a prime, so that no two rows of a matrix begin alike

WARM_UP = 0.1  # seconds: an idle device's clock is low
SAMPLE = 200e-6  # seconds of calls between two events, where a call is shorter
MOST_CALLS = 200
LEAST_TURNS, MOST_TURNS, SECONDS = 5, 50, 0.5


def made_up(kind):
    """Numbers that a tensor repeats: below 1 and of both signs; whole ones are 1, which as an index lies in any tensor, or in 8
    bits below 127."""
    real = [((number * 2654435761 & 0xFFFFFFFF) >> 8) / (1 << 23) - 1 for number in range(PERIOD)]
    if kind == "f16":
        return struct.pack(f"<{PERIOD}e", *real)
    if kind == "bf16":
        whole = array.array("f", real).tobytes()
        return bytes(byte for at in range(0, len(whole), 4) for byte in whole[at + 2 : at + 4])
    numbers = {"f32": real, "i8": [number % 127 for number in range(PERIOD)]}
    return array.array(CODES[kind], numbers.get(kind, [1] * PERIOD)).tobytes()


def numbers_of(kind, data):
    if kind == "f16":
        return struct.unpack(f"<{len(data) // 2}e", data)
    if kind == "bf16":
        whole = bytearray(2 * len(data))
        whole[2::4], whole[3::4] = data[0::2], data[1::2]
        return array.array("f", bytes(whole))
    return array.array(CODES[kind], data)


def difference(kind, got, want, is_narrow):
    """Where a result differs from the usual schedule's; empty: nowhere that counts. `is_narrow`: some operand is bf16 or f16, and
    schedules round what lies between at other places."""
    if got == want:
        return ""
    mine, usual = numbers_of(kind, got), numbers_of(kind, want)
    largest = max((abs(b) for b in usual if math.isfinite(b)), default=0)
    if kind == "i8":  # rounded to 8 bits: to either neighbour where sums in another order lie between two
        allowed = 1
    elif kind == "i32":  # a row's largest magnitude is kept by the bits that it has as f32; below a million all must agree
        allowed = 1e-6 * largest
    elif kind in ("f32", "bf16", "f16"):
        allowed = (0.04 if is_narrow else 1e-3) * largest
    else:
        allowed = 0
    for a, b in zip(mine, usual):
        if not abs(a - b) <= allowed and a != b and (a == a or b == b):
            return f"its result is wrong: {a:.6g} where the usual schedule has {b:.6g}"
    return ""


class Operands:
    """What all candidates of a task take, on the device."""

    def __init__(self, gpu, task):
        self.gpu, self.parameters, self.results = gpu, [], []
        for argument in task["arguments"]:
            if "value" in argument:
                self.parameters.append(SCALARS[argument["type"]](argument["value"]))
                continue
            count = argument["elements"] * BYTES[argument["type"]]
            address = gpu.get(count + 1)  # there is no memory of no bytes
            data = made_up(argument["type"]) * 64
            for at in range(0, count, len(data)):
                gpu.put(address + at, data[: count - at])
            self.parameters.append(c.c_uint64(address))
        for result in task["results"]:
            count = result["elements"] * BYTES[result["type"]]
            self.results.append((result["type"], gpu.get(count + 1), count))
            self.parameters.append(c.c_uint64(self.results[-1][1]))

    def spoil_results(self):
        for _, address, count in self.results:
            self.gpu.fill(address, 0xFF, count + 1)

    def read_results(self):
        return [self.gpu.read(address, count) for _, address, count in self.results]


class Candidate:
    def __init__(self, gpu, operands, candidate):
        self.gpu, self.operands = gpu, operands
        module = gpu.load((HERE / candidate["code"]).read_bytes())
        self.launches = [(gpu.function(module, name), blocks, threads) for name, blocks, threads in candidate["launches"] if blocks]
        self.parameters = [*operands.parameters, c.c_uint64(gpu.get(candidate["scratch"] + 1))]

    def __call__(self):
        for function, blocks, threads in self.launches:
            self.gpu.launch(function, blocks, threads, *self.parameters)

    def results(self):
        self.operands.spoil_results()
        self()
        return self.operands.read_results()


class Swept:
    """A sample: one call whose operands come from memory, since twice the second cache was written before."""

    def __init__(self, gpu, candidate, room, count):
        self.gpu, self.candidate, self.room, self.count = gpu, candidate, room, count

    def __call__(self):
        self.gpu.fill(self.room, 0, self.count)
        return self.gpu.elapsed(self.candidate)


class Repeated:
    """A sample: calls one after the other, as one graph: Python would take longer to ask for them than they take."""

    def __init__(self, gpu, candidate):
        self.gpu = gpu
        self.calls = max(1, min(MOST_CALLS, int(SAMPLE / max(gpu.elapsed(candidate), 1e-9))))
        self.work = gpu.graph(candidate, self.calls)

    def __call__(self):
        return self.gpu.elapsed(self.work) / self.calls


def seconds_of(gpu, candidates, from_memory):
    """Of a call of each, timed in turns, so that all see the same clocks: the lower quartile of its samples."""
    if from_memory:
        count = 2 * gpu.attribute(L2_BYTES)
        room = gpu.get(count)
        samples = [Swept(gpu, candidate, room, count) for candidate in candidates]
    else:
        samples = [Repeated(gpu, candidate) for candidate in candidates]
    begun, warm = time.perf_counter(), False
    while not warm:
        for sample in samples:
            sample()
        warm = time.perf_counter() - begun >= WARM_UP
    times, begun = [[] for _ in samples], time.perf_counter()
    while len(times[0]) < LEAST_TURNS or (len(times[0]) < MOST_TURNS and time.perf_counter() - begun < SECONDS):
        for own, sample in zip(times, samples):
            own.append(sample())
    out = [sorted(own)[len(own) // 4] for own in times]
    if min(out) <= 0:
        raise driver.Error("the device's clock stands still")
    return out


def say(**line):
    print(json.dumps(line), flush=True)


def measure(plan, number, chosen):
    task = plan["tasks"][number]
    weights = sum(each["calls"] * each["weights"] for each in plan["tasks"])
    try:
        gpu = driver.Gpu()
        # In a model the weights of the other kernels have been read since the last call.
        from_memory = task["weights"] > 0 and weights > gpu.attribute(L2_BYTES)
        operands = Operands(gpu, task)
        usual = Candidate(gpu, operands, task["candidates"][0])
        want = usual.results()
        if chosen == 0:
            (seconds,) = seconds_of(gpu, [usual], from_memory)
            say(seconds=seconds, usual=seconds)
            return
    except driver.Error as error:
        say(failure=str(error))
        return
    say(ready=True)
    is_narrow = any(operand["type"] in ("bf16", "f16") for operand in task["arguments"] + task["results"])
    try:
        candidate = Candidate(gpu, operands, task["candidates"][chosen])
        for (kind, _, _), got, wanted in zip(operands.results, candidate.results(), want):
            wrong = difference(kind, got, wanted, is_narrow)
            if wrong:
                say(fault=wrong)
                return
        before, seconds = seconds_of(gpu, [usual, candidate], from_memory)
        say(seconds=seconds, usual=before)
    except driver.Error as error:
        say(**{"failure" if error.code == OUT_OF_MEMORY else "fault": str(error)})


def end_with_parent():
    """A candidate that hangs doesn't outlive `run`."""
    parent = os.getppid()
    c.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        sys.exit(1)


if __name__ == "__main__":
    end_with_parent()
    if len(sys.argv) > 1:
        measure(json.loads((HERE / "candidates.json").read_text()), int(sys.argv[1]), int(sys.argv[2]))
    else:
        try:
            found = driver.Gpu()
            say(machine=found.name, capability=found.capability, driver=found.version)
        except driver.Error as error:
            say(failure=str(error))
