"""Compiled libraries by ctypes alone: models, sessions, tensors here and on the device, and safetensors files."""

import array
import ctypes as c
import gzip
import json
import random
import struct
import tempfile
from pathlib import Path

import heddle_c as h  # python/heddle/_c.py

Error = h.Error
CODES = {"f32": "f", "bf16": "H", "f16": "H", "i8": "b", "i32": "i", "bool": "B", "i64": "q", "u8": "B"}
NAMES = {"F32": "f32", "BF16": "bf16", "F16": "f16", "I8": "i8", "I32": "i32", "BOOL": "bool", "I64": "i64", "U8": "u8"}


class Tensor:
    """A dense tensor here, over bytes at an address that is a multiple of 64."""

    def __init__(self, dtype, shape, data=b""):
        self.dtype, self.shape = dtype, tuple(shape)
        self.bytes = struct.calcsize(CODES[dtype])
        for extent in shape:
            self.bytes *= extent
        self.room = c.create_string_buffer(max(self.bytes, 1) + 64)
        self.address = -(-c.addressof(self.room) // 64) * 64
        if data:
            c.memmove(self.address, data, self.bytes)

    memory = h.MAIN_MEMORY

    def values(self):
        out = array.array(CODES[self.dtype], c.string_at(self.address, self.bytes))
        if self.dtype == "bf16":
            out = array.array("f", struct.pack(f"<{len(out)}I", *(bits << 16 for bits in out)))
        return out


class There:
    """One on the device."""

    memory = h.DEVICE_MEMORY

    def __init__(self, dtype, shape, count, address):
        self.dtype, self.shape, self.bytes, self.address = dtype, tuple(shape), count, address


def read(path):
    data = Path(path).read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    out = {}
    for name, what in json.loads(data[8 : 8 + length]).items():
        if name != "__metadata__":
            begin, end = what["data_offsets"]
            out[name] = Tensor(NAMES[what["dtype"]], what["shape"], data[8 + length + begin : 8 + length + end])
    return out


def drawn(dtype, shape, below, seed):
    """Numbers from a seed; whole ones in 0 .. below - 1."""
    stream, count = random.Random(seed), 1
    for extent in shape:
        count *= extent
    block = array.array(CODES[dtype], [stream.randrange(below or 2) if dtype != "f32" else stream.gauss(0, 1) for _ in range(min(count, 65536))])
    data = block.tobytes() * (-(-count // max(1, len(block))))
    return Tensor(dtype, shape, data[: count * block.itemsize])


def drawn_weights(head, count, seed=1):
    """A weights file whose payload is small normal numbers in bf16, which as f32 are the same ones and a little more."""
    stream = random.Random(seed)
    block = struct.pack("<262144I", *(struct.unpack("<I", struct.pack("<f", stream.gauss(0, 0.02)))[0] for _ in range(262144)))
    block = b"".join(block[i + 2 : i + 4] for i in range(0, len(block), 4))
    out = Tensor("u8", (len(head) + count,))
    c.memmove(out.address, head, len(head))
    for at in range(0, count, len(block)):
        c.memmove(out.address + len(head) + at, block, min(len(block), count - at))
    return out


class Model(h.Owner):
    """Of a library that is packed: lib<name>.so.gz."""

    def __init__(self, path, drawn_weights=False):
        with tempfile.TemporaryDirectory() as scratch:
            unpacked = Path(scratch) / Path(path).stem
            unpacked.write_bytes(gzip.decompress(Path(path).read_bytes()))
            self.library = library = h.Library(str(unpacked))
        options, pointer = h.ModelOptions(), c.c_void_p()
        if drawn_weights:
            head = next(Path(path).parent.glob("*.head")).read_bytes()
            (count,) = struct.unpack_from("<Q", head, 24)  # heddle_weights_header.payload_bytes
            self.weights = globals()["drawn_weights"](head, count)
            options.image, options.image_bytes = self.weights.address, self.weights.bytes
        library.call("model_load", c.byref(options), c.byref(pointer))
        self._own(library, pointer, "model")
        info = h.ModelInfo()
        self._call("model_describe", c.byref(info))
        self.states, self.target, self.entries = info.n_states, info.target.decode(), {}
        if not self.target.startswith("cuda:"):
            raise Error(f"the code for {self.target} would be used, not that for the GPU", "UNSUPPORTED_CPU")
        for number in range(info.n_entries):
            entry = h.EntryInfo()
            self._call("entry_describe", number, c.byref(entry))
            self.entries[entry.name.decode()] = number, entry.n_results
        self.dims = []
        for number in range(info.n_dims):
            dim = h.DimInfo()
            self._call("dim_describe", number, c.byref(dim))
            self.dims.append(dim.name.decode())

    def entry(self, name):
        if name is None:
            return next(iter(self.entries.values()))
        if name not in self.entries:
            raise Error(f"the library has no entry {name}", "NOT_FOUND")
        return self.entries[name]

    def session(self, stream=None, graphs=0):
        return Session(self, stream, graphs)


def fill(tensor, name, given):
    tensor.name, tensor.data, tensor.memory = name.encode(), given.address, given.memory
    tensor.dtype, tensor.rank = h.DTYPES.index(given.dtype), len(given.shape)
    stride = struct.calcsize(CODES[given.dtype])
    for axis in reversed(range(len(given.shape))):
        tensor.shape[axis], tensor.strides[axis] = given.shape[axis], stride
        stride *= given.shape[axis]


class Session(h.Owner):
    def __init__(self, model, stream, graphs):
        self.model, options, pointer = model, h.SessionOptions(graphs=graphs, stream=stream), c.c_void_p()
        model._call("session_create", c.byref(options), c.byref(pointer))
        self._own(model._library, pointer, "session", keeps=model)
        self.laid = {}

    def tensors(self, tensors):
        out = (h.Tensor * max(1, len(tensors)))()
        for tensor, (name, given) in zip(out, tensors.items()):
            fill(tensor, name, given)
        return out

    def shapes(self, entry, inputs):
        """(name, dtype, shape) of each result."""
        number, count = self.model.entry(entry)
        given, results = self.tensors(inputs), (h.Tensor * max(1, count))()
        self._call("session_result_shapes", number, given, len(inputs), results, count)
        return [(results[i].name.decode(), h.DTYPES[results[i].dtype], tuple(results[i].shape[: results[i].rank])) for i in range(count)]

    def room(self, inputs, entry=None):
        """Results in main memory, of the shapes that these inputs give."""
        return {name: Tensor(dtype, shape) for name, dtype, shape in self.shapes(entry, inputs)}

    def run(self, inputs, entry=None):
        results = self.room(inputs, entry)
        self.run_there(entry, inputs, results)
        return results

    def run_there(self, entry, inputs, results):
        """Into these results, wherever all of them lie."""
        key = entry, id(inputs), id(results)
        if key not in self.laid:
            self.laid[key] = self.tensors(inputs), self.tensors(results), inputs, results
        given, room, _, _ = self.laid[key]
        self._call("run", self.model.entry(entry)[0], given, len(inputs), room, len(results))

    def reset(self):
        self._call("session_reset")

    def capacity(self, sizes):
        for name, size in sizes.items():
            self._call("session_capacity", self.model.dims.index(name), size)

    def generate(self, case):
        """The texts of a case of generation.json."""
        options = h.GenerateOptions(steps=case["steps"], beams=1, length_penalty=1, temperature=1, top_p=1)
        how = dict(case["options"])
        options.early_stopping = h.EARLY_STOPPING[how.pop("early_stopping", False)]
        options.flags = h.SAMPLE if how.pop("sample", False) else 0
        pairs = [(name, value) for name, ids in how.pop("tokens", {}).items() for value in (ids if isinstance(ids, list) else [ids])]
        tokens = (h.Token * (len(pairs) + 1))(*((name.encode(), value) for name, value in pairs))
        options.tokens, options.n_tokens = tokens, len(pairs)
        for name, value in how.items():
            setattr(options, name, value)
        inputs = {}
        for name in ("input_ids", "attention_mask", "lengths"):
            if name in case:
                rows = case[name]
                flat = [value for row in rows for value in row] if isinstance(rows[0], list) else rows
                shape = (len(rows), len(rows[0])) if isinstance(rows[0], list) else (len(rows),)
                inputs[name] = Tensor("i64", shape, array.array("q", flat).tobytes())
        given, made, length = self.tensors(inputs), h.Tensor(), c.c_int64()
        self._call("generate", c.byref(options), given, len(inputs), c.byref(made), c.byref(length), None)
        texts = Tensor("i64", tuple(made.shape[:2]))
        fill(made, "sequences", texts)
        self._call("generate", c.byref(options), given, len(inputs), c.byref(made), c.byref(length), None)
        values, width = list(texts.values()), texts.shape[1]
        return [values[row * width : row * width + length.value] for row in range(texts.shape[0])]


def device_room(model, dtype, shape):
    count, address = struct.calcsize(CODES[dtype]), c.c_void_p()
    for extent in shape:
        count *= extent
    model._call("device_get", count, c.byref(address))
    return There(dtype, shape, count, address.value)


def to_device(model, session, tensor):
    there, to, source = device_room(model, tensor.dtype, tensor.shape), h.Tensor(), h.Tensor()
    fill(to, "", there)
    fill(source, "", tensor)
    session._call("session_copy", c.byref(to), c.byref(source))
    return there


def device_results(model, session, entry, inputs):
    return {name: device_room(model, dtype, shape) for name, dtype, shape in session.shapes(entry, inputs)}


def give(model, tensors):
    for tensor in tensors:
        model._call("device_give", c.c_void_p(tensor.address))
