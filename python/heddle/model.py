"""Models and sessions: what `import heddle` offers."""

import ctypes as c
import os
import typing
import weakref
from dataclasses import dataclass

import numpy as np

from heddle import _c
from heddle.device import release
from heddle.session import Session

@dataclass(frozen=True)
class Dim:
    """A run-time size of a model; `most` is None where it has no bound."""

    name: str
    most: int | None


@dataclass(frozen=True)
class Extent:
    """One extent of a tensor: a dim's name, or a number, or (both None) computed from dims."""

    dim: str | None
    value: int | None

    def __str__(self):
        return self.dim or ("…" if self.value is None else str(self.value))


@dataclass(frozen=True)
class Value:
    """An input or a result. `initial` is what an optional input holds when it is left out; inputs with `below`
    hold indices 0 .. below - 1."""

    name: str
    dtype: str
    extents: tuple[Extent, ...]
    optional: bool
    initial: float | None
    below: Extent | None

    def __str__(self):
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.extents))}]"


@dataclass(frozen=True)
class Entry:
    """A function of the model."""

    name: str
    doc: str
    inputs: tuple[Value, ...]
    results: tuple[Value, ...]


@dataclass(frozen=True)
class State:
    """What sessions keep between calls. Without an `initial` value an entry must set it before another reads it, unless it
    is a parameter, which begins as the weights file's."""

    name: str
    dtype: str
    extents: tuple[Extent, ...]
    initial: float | None
    parameter: str | None = None

    def __str__(self):
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.extents))}]"


@dataclass(frozen=True)
class Parameter:
    """A param that entries update: its name, type and shape in the weights file, and the name of the state that it is in a
    session."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    state: str


def load(path: str | os.PathLike[str], weights: typing.Any = None, copy_weights: bool = False, target: str | None = None) -> "Model":
    """Loads an artifact: a folder that `heddle compile` wrote, or the lib<name>.so in one.

    `weights` may be the path of another weights file than the one beside the library, or the bytes of one (bytes,
    memoryview, mmap, …), or a function read(offset, count) that gives them, decrypted or fetched from elsewhere.
    Of a library with code for several targets `target` names one; else it is the best that this machine can run."""
    return Model(path, weights, copy_weights, target)


def _give_weights(options, weights, failed):
    """Sets where the weights come from; returns what has to live as long as the model."""
    if weights is None:
        return None
    if isinstance(weights, (str, os.PathLike)):
        options.weights = _c.path(weights)
        return None
    if not callable(weights):
        view = np.frombuffer(weights, np.uint8)
        options.image, options.image_bytes = view.ctypes.data, view.nbytes
        return view

    def _read(_, offset, to, count):
        try:
            data = bytes(weights(offset, count))
            if len(data) != count:
                raise ValueError(f"read({offset}, {count}) gave {len(data)} bytes")
            c.memmove(to, data, count)
            return 0
        except BaseException as error:
            failed.append(error)
            return 1

    options.read = type(options.read)(_read)
    return None


class Model(_c.Owner):
    """Weights and entries; may be shared by threads. `name`, `target`, `compiler`, `build` (of the library's code, as in
    its manifest), `dims`, and by name `entries`, `states`, `parameters` (by the name in the weights file) and `tokens` (ids
    that the configuration tells, lists of them) tell what is in it."""

    def __init__(self, path: str | os.PathLike[str], weights: typing.Any = None, copy_weights: bool = False, target: str | None = None) -> None:
        library = _c.Library(_c.find_library(path))
        options = _c.ModelOptions(flags=_c.COPY_WEIGHTS if copy_weights else 0)
        if target is not None:
            options.target = _c.text(target)
        failed = []
        self._kept = _give_weights(options, weights, failed)
        pointer = c.c_void_p()
        try:
            library.call("model_load", c.byref(options), c.byref(pointer))
        except _c.Error:
            if failed:  # in the caller's function
                raise failed[0] from None
            raise
        self._tensors, self._addresses, self._closed = weakref.WeakSet(), set(), False  # on the device
        self._own(library, pointer, "model")
        self._describe()

    def close(self):
        """Frees it. Deleting the last reference does the same. Its sessions must be closed first. Where others still have
        tensors of it on the device, the last of these frees it."""
        if self._pointer and self._addresses:
            release(self)
            self._closed = bool(self._addresses)
        if not self._addresses:
            super().close()

    def _describe(self):
        info = _c.ModelInfo()
        self._call("model_describe", c.byref(info))
        self.name, self.target, self.compiler = (x.decode() for x in (info.name, info.target, info.compiler))
        self.build = f"{info.build:016x}"
        self.on_device = self.target.startswith("cuda:")
        self.weights_bytes = info.weights_bytes
        dims = []
        for i in range(info.n_dims):
            dim = _c.DimInfo()
            self._call("dim_describe", i, c.byref(dim))
            dims.append(Dim(dim.name.decode(), dim.most if dim.most >= 0 else None))
        self.dims = tuple(dims)
        self.entries = {}
        for i in range(info.n_entries):
            entry = _c.EntryInfo()
            self._call("entry_describe", i, c.byref(entry))
            inputs = tuple(self._value("input_describe", i, k) for k in range(entry.n_inputs))
            results = tuple(self._value("result_describe", i, k) for k in range(entry.n_results))
            self.entries[entry.name.decode()] = Entry(entry.name.decode(), entry.doc.decode(), inputs, results)
        self._numbers = {name: number for number, name in enumerate(self.entries)}
        self.states, self.parameters = {}, {}
        for i in range(info.n_states):
            state = _c.StateInfo()
            self._call("state_describe", i, c.byref(state))
            name, dtype, initial = state.name.decode(), _c.DTYPES[state.dtype], state.initial if state.has_initial else None
            parameter = state.parameter.decode() if state.parameter else None
            self.states[name] = State(name, dtype, self._extents(state), initial, parameter)
            if parameter:
                shape = tuple(state.parameter_shape[: state.parameter_rank])
                self.parameters[parameter] = Parameter(parameter, dtype, shape, name)
        self.tokens = {}
        for i in range(info.n_tokens):
            token = _c.TokenInfo()
            self._call("token_describe", i, c.byref(token))
            self.tokens.setdefault(token.name.decode(), []).append(token.id)

    def _extent(self, extent):
        return Extent(
            self.dims[extent.dim].name if extent.dim >= 0 else None, extent.value if extent.dim == _c.FIXED else None
        )

    def _extents(self, info):
        return tuple(self._extent(x) for x in info.extents[: info.rank])

    def _value(self, function, entry, number):
        info = _c.ValueInfo()
        self._call(function, entry, number, c.byref(info))
        return Value(
            info.name.decode(),
            _c.DTYPES[info.dtype],
            self._extents(info),
            bool(info.optional),
            info.initial if info.optional else None,
            self._extent(info.below) if info.has_below else None,
        )

    def _entry_number(self, name):
        if name in self._numbers:
            return self._numbers[name]
        number = c.c_int32()
        self._call("entry_find", None if name is None else _c.text(name), c.byref(number))
        return number.value

    def session(self, threads: int = 0, memory_limit: int = 0, pool: typing.Any = None, graphs: int = 0,
                stream: typing.Any = None) -> Session:  # fmt: skip
        """A session that uses at most so many threads; 0: one per core that this process may use.

        A call that needs more than `memory_limit` bytes of arena, states and what is computed once is refused. `pool`: kernels run on the
        threads of a concurrent.futures.ThreadPoolExecutor instead of Heddle's own. `graphs`: on a GPU, of how many entries
        with their dims the work is kept as a CUDA graph; 0: 8, below 0: none. `stream`: the CUDA stream that work is put
        into, a number or an object of torch, CuPy or cuda.core, such as torch.cuda.current_stream(); calls whose tensors
        lie on the device don't wait then."""
        return Session(self, threads, memory_limit, pool, graphs, stream)

    def verify(self):
        """Compares all weights with their checksum."""
        self._call("model_verify")

    def _number(self, kind, names, name):
        names = list(names)
        if name not in names:
            raise _c.Error(f"model '{self.name}' has no {kind} {name}; it has: {', '.join(names) or 'none'}", "NOT_FOUND")
        return names.index(name)

    def memory_needed(self, entry=None, **dims):
        """Bytes of memory that a call with these dims takes inside, as in memory_needed(B=8, S=128)."""
        for name in dims:
            self._number("dim", (dim.name for dim in self.dims), name)
        values = (c.c_int64 * (len(self.dims) + 1))(*(_c.number(dim.name, dims.get(dim.name, 0)) for dim in self.dims))
        needed = c.c_int64()
        self._call("memory_needed", self._entry_number(entry), values, c.byref(needed))
        return needed.value
