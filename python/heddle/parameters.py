"""The parameters of a session: the params that entries update, under their names and shapes in the weights file."""

import collections.abc
import json
import os
import typing

import numpy as np

from heddle import _c
from heddle._tensors import array_of, result_type

# As safetensors calls them.
_DTYPES = {"F32": "f32", "BF16": "bf16", "F16": "f16", "I8": "i8", "I32": "i32", "BOOL": "bool", "I64": "i64", "U8": "u8"}


def read_safetensors(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """The tensors of a safetensors file, mapped."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    data = np.memmap(path, np.uint8, "r", 8 + length)
    out = {}
    for name, tensor in header.items():
        if name == "__metadata__":
            continue
        if tensor["dtype"] not in _DTYPES:
            raise _c.Error(f"{path}: '{name}' is {tensor['dtype']}, which no parameter can be", "BAD_TENSOR")
        begin, end = tensor["data_offsets"]
        out[name] = data[begin:end].view(result_type(_DTYPES[tensor["dtype"]])).reshape(tensor["shape"])
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
        parameter = self._find(name)
        array = array_of(name, value, {name: parameter.dtype})
        if array.shape != parameter.shape:
            raise _c.Error(f"'{name}' is {list(array.shape)}, but must be {list(parameter.shape)}", "BAD_TENSOR")
        extents = self._session.model.states[parameter.state].extents
        self._session.set_state(parameter.state, array.reshape([extent.value for extent in extents]))

    def __contains__(self, name: object) -> bool:
        return name in self._all

    def __iter__(self) -> typing.Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes them to a safetensors file, which `heddle compile --weights` and other programs read; whole or not at
        all, whatever ends the process."""
        self._session._call("session_save_parameters", os.fsencode(path))

    def load(self, path: str | os.PathLike[str]) -> None:
        """Takes over those of a safetensors file, which must have all of them."""
        tensors = read_safetensors(path)
        for name in self._all:
            if name not in tensors:
                raise _c.Error(f"{path}: there is no '{name}'", "NOT_FOUND")
        for name in self._all:
            self[name] = tensors[name]
