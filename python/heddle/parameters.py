"""The parameters of a session: the params that entries update, under their names and shapes in the weights file."""

import collections.abc
import json
import math
import os
import stat
import typing

import numpy as np

from heddle import _c
from heddle._tensors import NUMPY, array_of, result_type, whole_numbers_as

# As safetensors calls them.
_DTYPES = {"F32": "f32", "BF16": "bf16", "F16": "f16", "I8": "i8", "I32": "i32", "BOOL": "bool", "I64": "i64", "U8": "u8"}


def _open_without_waiting(path, flags):  # for the other end of a FIFO
    return os.open(path, flags | os.O_NONBLOCK)


def _map(path):
    """The header of a safetensors file, and the bytes behind it, mapped."""
    damaged = _c.Error(f"{path}: is no safetensors file, or damaged", "BAD_WEIGHTS")
    try:
        with open(path, "rb", opener=_open_without_waiting) as file:
            info = os.fstat(file.fileno())
            if not stat.S_ISREG(info.st_mode):
                raise _c.Error(f"{path}: is no regular file; give a safetensors file", "FILE_ERROR")
            length = int.from_bytes(file.read(8), "little")
            if 8 + length > info.st_size:
                raise damaged
            header = json.loads(file.read(length))
            if not isinstance(header, dict):
                raise damaged
            rest = info.st_size - 8 - length
            return header, np.memmap(file, np.uint8, "r", 8 + length) if rest else np.empty(0, np.uint8)
    except OSError as error:
        raise _c.Error(f"{path} cannot be opened: {error.strerror}", "FILE_ERROR") from None
    except (ValueError, RecursionError):
        raise damaged from None


def _are_whole(numbers):
    return isinstance(numbers, list) and all(type(x) is int and x >= 0 for x in numbers)


def read_safetensors(path: str | os.PathLike[str], names: typing.Iterable[str]) -> dict[str, np.ndarray]:
    """Those tensors of a safetensors file, mapped; all of them, or an Error."""
    path = os.fsdecode(_c.path(path))
    header, data = _map(path)
    out = {}
    for name in names:
        tensor = header.get(name)
        if tensor is None:
            raise _c.Error(f"{path}: there is no '{name}'", "NOT_FOUND")
        dtype, shape, place = (tensor.get(x) if isinstance(tensor, dict) else None for x in ("dtype", "shape", "data_offsets"))
        if isinstance(dtype, str) and dtype not in _DTYPES:
            raise _c.Error(f"{path}: '{name}' is {dtype}, which no parameter can be", "BAD_TENSOR")
        good = isinstance(dtype, str) and _are_whole(shape) and _are_whole(place) and len(place) == 2 and place[1] <= len(data)
        of = result_type(_DTYPES[dtype]) if good else None
        if not good or place[1] - place[0] != math.prod(shape) * of.itemsize:
            raise _c.Error(f"{path}: the header's entry of '{name}' is wrong; the file is damaged", "BAD_WEIGHTS")
        out[name] = data[place[0] : place[1]].view(of).reshape(shape)
    return out


class Parameters(collections.abc.Mapping[str, np.ndarray]):
    """`session.parameters`: `parameters[name]` is a copy of one as it is now, `parameters[name] = array` writes it, and
    `save` and `load` are for all of them. Names and shapes are those of the weights file."""

    def __init__(self, session: typing.Any) -> None:
        self._session, self._all = session, session.model.parameters

    def _find(self, name):
        if name not in self._all:
            raise _c.Error(f"model '{self._session.model.name}' has no parameter {name}", "NOT_FOUND")
        return self._all[name]

    def __getitem__(self, name: str) -> np.ndarray:
        parameter = self._find(name)
        return self._session.state(parameter.state).reshape(parameter.shape)

    def __setitem__(self, name: str, value: typing.Any) -> None:
        self._write(name, self._fit(name, value))

    def _fit(self, name, value):
        """An array that the parameter can take over."""
        parameter = self._find(name)
        array = whole_numbers_as(name, parameter.dtype, array_of(name, value, {name: parameter.dtype}))
        if array.shape != parameter.shape:
            raise _c.Error(f"'{name}' is {list(array.shape)}, but must be {list(parameter.shape)}", "BAD_TENSOR")
        if array.dtype not in (result_type(parameter.dtype), NUMPY[parameter.dtype]):
            raise _c.Error(f"'{name}' is {array.dtype}, but must be {parameter.dtype}", "BAD_TENSOR")
        return array

    def _write(self, name, array):
        state = self._all[name].state
        extents = self._session.model.states[state].extents
        self._session.set_state(state, array.reshape([extent.value for extent in extents]))

    def __contains__(self, name: object) -> bool:
        return name in self._all

    def __iter__(self) -> typing.Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes them to a safetensors file, which `heddle compile --weights` and other programs read; whole or not at
        all, whatever ends the process."""
        self._session._call("session_save_parameters", _c.path(path))

    def load(self, path: str | os.PathLike[str]) -> None:
        """Takes over those of a safetensors file, which must have all of them; where one does not fit, none."""
        arrays = {name: self._fit(name, array) for name, array in read_safetensors(path, self._all).items()}
        for name, array in arrays.items():
            self._write(name, array)
