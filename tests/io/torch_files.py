"""Files as torch.save writes them, without PyTorch: its pickle names functions and classes by module, so stand-ins of these
names make the same pickle."""

import io
import pickle
import struct
import sys
import types
import zipfile
from collections import OrderedDict

import numpy as np

_STORAGES = {"<f4": "FloatStorage", "<f2": "HalfStorage", "<f8": "DoubleStorage", "<i8": "LongStorage", "<i4": "IntStorage",
             "|i1": "CharStorage", "|u1": "ByteStorage", "|b1": "BoolStorage", "<i2": "ShortStorage"}  # fmt: skip


def _named(name, module):
    """A function that pickles as module.name."""
    made = types.FunctionType((lambda *_: None).__code__, {}, name)
    made.__module__, made.__qualname__ = module, name
    parent = sys.modules.setdefault(module, types.ModuleType(module))
    setattr(parent, name, made)
    return made


_rebuild = _named("_rebuild_tensor_v2", "torch._utils")
_parameter = _named("_rebuild_parameter", "torch._utils")
_types = {name: _named(name, "torch") for name in [*_STORAGES.values(), "BFloat16Storage"]}


class Storage:
    """Elements that tensors look into."""

    def __init__(self, elements, kind=None):
        self.elements = np.ascontiguousarray(elements).reshape(-1)
        self.kind = kind or _STORAGES[self.elements.dtype.str]


class Tensor:
    """A tensor over a storage; by default all of it, in row-major order."""

    def __init__(self, storage, shape, strides=None, offset=0, parameter=False):
        self.storage, self.shape, self.offset, self.parameter = storage, tuple(shape), offset, parameter
        self.strides = tuple(strides) if strides is not None else tuple(
            int(np.prod(self.shape[i + 1:])) for i in range(len(self.shape)))  # fmt: skip

    def __reduce__(self):
        data = (_rebuild, (self.storage, self.offset, self.shape, self.strides, False, OrderedDict()))
        return (_parameter, (_Data(data), True, OrderedDict())) if self.parameter else data


class _Data:
    def __init__(self, reduced):
        self.reduced = reduced

    def __reduce__(self):
        return self.reduced


def tensor(array, **options):
    return Tensor(Storage(array), np.shape(array), **options)


class _Pickler(pickle.Pickler):
    def __init__(self, file, protocol, keys, legacy):
        super().__init__(file, protocol)
        self.keys, self.legacy = keys, legacy

    def persistent_id(self, value):
        if not isinstance(value, Storage):
            return None
        key = self.keys.setdefault(id(value), (str(len(self.keys)), value))[0]
        return ("storage", _types[value.kind], key, "cpu", len(value.elements), *([None] if self.legacy else []))


def save(value, path, protocol=2, compression=zipfile.ZIP_STORED):
    """As torch.save does since 1.6."""
    keys, program = {}, io.BytesIO()
    _Pickler(program, protocol, keys, False).dump(value)
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("archive/data.pkl", program.getvalue())
        archive.writestr("archive/byteorder", "little")
        for key, storage in keys.values():
            archive.writestr(f"archive/data/{key}", storage.elements.tobytes())
        archive.writestr("archive/version", "3\n")


def save_stream(value, path):
    """As torch.save did before."""
    keys = {}
    with open(path, "wb") as file:
        pickle.dump(0x1950A86A20F9469CFC6C, file, 2)
        pickle.dump(1001, file, 2)
        pickle.dump({"protocol_version": 1001, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}, file, 2)
        _Pickler(file, 2, keys, True).dump(value)
        pickle.dump(sorted(key for key, _ in keys.values()), file, 2)
        for key, storage in sorted(keys.values(), key=lambda pair: pair[0]):
            file.write(struct.pack("<q", len(storage.elements)) + storage.elements.tobytes())


def state_dict(tensors):
    """The dictionary of a module: ordered, with an attribute beside it."""
    out = OrderedDict((name, tensor(array)) for name, array in tensors.items())
    out._metadata = OrderedDict([("", {"version": 1})])
    return out
