"""Models and sessions: what `import heddle` offers."""

import ctypes as c
import os
import weakref
from dataclasses import dataclass

import numpy as np

from heddle import _c

# NumPy has no bf16: such results are ml_dtypes.bfloat16 where that package is installed, else their raw 16 bits as uint16.
# Both are taken as inputs, with or without the package.
_NUMPY = {"f32": "f4", "bf16": "u2", "f16": "f2", "i8": "i1", "i32": "i4", "bool": "?", "i64": "i8", "u8": "u1"}
_NAMES = {np.dtype(_NUMPY[name]): name for name in _c.DTYPES}


def _result_type(name):
    if name == "bf16":
        try:
            from ml_dtypes import bfloat16
        except ImportError:
            pass
        else:
            return np.dtype(bfloat16)
    return np.dtype(_NUMPY[name])


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
    """What sessions keep between calls. Without an `initial` value an entry must set it before another reads it."""

    name: str
    dtype: str
    extents: tuple[Extent, ...]
    initial: float | None

    def __str__(self):
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.extents))}]"


def load(path, weights=None, copy_weights=False):
    """Loads an artifact: a folder that `heddle compile` wrote, or the lib<name>.so in one."""
    return Model(path, weights, copy_weights)


class Model:
    """Weights and entries; may be shared by threads. `name`, `target`, `compiler`, `build` (of the library's code, as in
    its manifest), `dims`, and by name `entries`, `states` and `tokens` (ids that the configuration tells, lists of them) tell
    what is in it."""

    def __init__(self, path, weights=None, copy_weights=False):
        self._pointer = None
        self._library = _c.Library(_c.find_library(path))
        options = _c.ModelOptions(flags=_c.COPY_WEIGHTS if copy_weights else 0)
        if weights is not None:
            options.weights = os.fsencode(weights)
        pointer = c.c_void_p()
        self._library.call("model_load", c.byref(options), c.byref(pointer))
        self._pointer = pointer
        self._finalizer = weakref.finalize(self, self._library.api.model_free, pointer)
        self._describe()

    def _describe(self):
        info = _c.ModelInfo()
        self._call("model_describe", c.byref(info))
        self.name, self.target, self.compiler = (x.decode() for x in (info.name, info.target, info.compiler))
        self.build = f"{info.build:016x}"
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
        self.states = {}
        for i in range(info.n_states):
            state = _c.StateInfo()
            self._call("state_describe", i, c.byref(state))
            initial = state.initial if state.has_initial else None
            self.states[state.name.decode()] = State(
                state.name.decode(), _c.DTYPES[state.dtype], self._extents(state), initial
            )
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

    def _call(self, function, *arguments):
        if not self._pointer:
            raise _c.Error("the model is closed", "INVALID_ARGUMENT")
        self._library.call(function, self._pointer, *arguments)

    def _entry_number(self, name):
        number = c.c_int32()
        self._call("entry_find", None if name is None else name.encode(), c.byref(number))
        return number.value

    def session(self, threads=0, memory_limit=0):
        """A session that uses at most so many threads; 0: one per core that this process may use."""
        return Session(self, threads, memory_limit)

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
        values = (c.c_int64 * (len(self.dims) + 1))(*(dims.get(dim.name, 0) for dim in self.dims))
        needed = c.c_int64()
        self._call("memory_needed", self._entry_number(entry), values, c.byref(needed))
        return needed.value

    def close(self):
        """Frees the model; its sessions must be closed first. Deleting the last reference does the same."""
        if self._pointer:
            self._call("model_free")
            self._finalizer.detach()
            self._pointer = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __repr__(self):
        return f"<heddle.Model {self.name} for {self.target}: {', '.join(self.entries)}>"


def _dtype_code(array):
    name = "bf16" if array.dtype.name == "bfloat16" else _NAMES.get(array.dtype)
    if name is None:
        raise _c.Error(
            f"arrays of {array.dtype} cannot be given; convert to one of "
            + ", ".join(np.dtype(_NUMPY[name]).name for name in _c.DTYPES if name != "bf16"),
            "BAD_TENSOR",
        )
    return _c.DTYPES.index(name)


def _describe(tensor, name, array, wanted=None):
    """Fills a Tensor that looks into `array`."""
    if array.ndim > _c.RANK:
        raise _c.Error(f"'{name}' has {array.ndim} dimensions; at most {_c.RANK} are supported", "BAD_TENSOR")
    tensor.name = name.encode()
    tensor.data = array.ctypes.data
    tensor.dtype = _dtype_code(array)
    if wanted == "bf16" and array.dtype == np.uint16:
        tensor.dtype = _c.DTYPES.index("bf16")
    tensor.rank = array.ndim
    for i in range(array.ndim):
        tensor.shape[i] = array.shape[i]
        tensor.strides[i] = array.strides[i]


def _aligned(shape, dtype):
    """An array that kernels can write without a copy: 64-byte aligned."""
    dtype = np.dtype(dtype)
    count = int(np.prod(shape, dtype=np.int64))
    raw = np.empty(count * dtype.itemsize + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + count * dtype.itemsize].view(dtype).reshape(shape)


def _free_session(model, pointer):
    model._library.api.session_free(pointer)


class Session:
    """Runs entries, one call at a time; other threads take sessions of their own."""

    def __init__(self, model, threads=0, memory_limit=0):
        self._pointer = None
        options = _c.SessionOptions(threads=threads, memory_limit=memory_limit)
        pointer = c.c_void_p()
        model._call("session_create", c.byref(options), c.byref(pointer))
        self._own(model, pointer)

    def _own(self, model, pointer):
        self.model = model
        self._pointer = pointer
        # It holds the model, so that sessions always go first, also when the interpreter ends.
        self._finalizer = weakref.finalize(self, _free_session, model, pointer)

    def _call(self, function, *arguments):
        if not self._pointer:
            raise _c.Error("the session is closed", "INVALID_ARGUMENT")
        self.model._library.call(function, self._pointer, *arguments)

    @property
    def threads(self):
        """How many threads a run uses at most."""
        threads = c.c_int32()
        self._call("session_threads", c.byref(threads))
        return threads.value

    @property
    def memory(self):
        """Bytes held and allocations made so far: a dict of arena_bytes, scratch_bytes, state_bytes,
        allocations."""
        info = _c.MemoryInfo()
        self._call("session_memory", c.byref(info))
        return {name: getattr(info, name) for name in ("arena_bytes", "scratch_bytes", "state_bytes", "allocations")}

    def run(self, inputs, entry=None, out=None):
        """Runs an entry on a dict of arrays (lists and numbers are converted) and returns its results by name.

        `out` may hold arrays for some of the results; they are filled instead of new ones. With several entries,
        `entry` names one."""
        number = self.model._entry_number(entry)
        description = list(self.model.entries.values())[number]
        wanted = {value.name: value.dtype for value in description.inputs + description.results}
        arrays = {name: np.asarray(array) for name, array in inputs.items()}  # alive until the call returns
        given = (_c.Tensor * (len(arrays) + 1))()
        for tensor, (name, array) in zip(given, arrays.items()):
            _describe(tensor, name, array, wanted.get(name))
        shapes = (_c.Tensor * len(description.results))()
        self._call("session_result_shapes", number, given, len(arrays), shapes, len(description.results))
        out = out or {}
        unknown = out.keys() - {value.name for value in description.results}
        if unknown:
            raise _c.Error(f"entry '{description.name}' has no result '{sorted(unknown)[0]}'", "NOT_FOUND")
        results = {}
        for tensor, value in zip(shapes, description.results):
            array = out.get(value.name)
            if array is None:
                array = _aligned(tuple(tensor.shape[: tensor.rank]), _result_type(value.dtype))
            elif not isinstance(array, np.ndarray) or not array.flags.writeable:
                raise _c.Error(f"result '{value.name}': give a writeable NumPy array", "BAD_TENSOR")
            _describe(tensor, value.name, array, value.dtype)
            results[value.name] = array
        self._call("run", number, given, len(arrays), shapes, len(results))
        return results

    def generate(self, inputs, steps, *, min_steps=0, beams=1, length_penalty=1.0, early_stopping=False, sample=False,
                 temperature=1.0, top_k=0, top_p=1.0, seed=0, tokens=None, keep_state=False, listener=None):  # fmt: skip
        """Writes texts (docs/generation.md): (sequences, scores), the tokens as int64 and what each text's probability is.

        `inputs` are the source, or the prompt of a decoder. `tokens` replaces ids of the model: {"eos_token_id": [2]}.
        `listener(step, tokens)` is told of the new tokens after every step of a greedy search or of sampling; when it
        returns something true, the generation ends there. An exception of it is raised when the call returns."""
        options = self._generate_options(tokens, keep_state)
        options.steps, options.min_steps, options.beams = steps, min_steps, beams
        options.length_penalty, options.early_stopping = length_penalty, _c.EARLY_STOPPING[early_stopping]
        options.flags |= _c.SAMPLE if sample else 0
        options.temperature, options.top_k, options.top_p, options.seed = temperature, top_k, top_p, seed
        failed = []

        def listen(_, step, new, texts):
            try:
                return bool(listener(step, np.ctypeslib.as_array(new, (texts,)).copy()))
            except BaseException as error:
                failed.append(error)
                return True

        if listener:
            options.listener = _c.Listener(listen)
        given, count, _arrays = self._given(inputs)
        result, score, length = _c.Tensor(), _c.Tensor(), c.c_int64()
        self._call("generate", c.byref(options), given, count, c.byref(result), c.byref(length), None)
        sequences = np.empty(result.shape[:2], np.int64)
        scores = np.empty(result.shape[0], np.float32)
        _describe(result, "sequences", sequences)
        _describe(score, "scores", scores)
        self._call("generate", c.byref(options), given, count, c.byref(result), c.byref(length), c.byref(score))
        if failed:
            raise failed[0]
        return sequences[:, : length.value], scores

    def score(self, inputs, labels=None, *, tokens=None, keep_state=False):
        """The log-probability of each token of given texts: of `labels` for an encoder-decoder, whose source `inputs`
        is, else of the texts in `inputs`."""
        options = self._generate_options(tokens, keep_state)
        given, count, _arrays = self._given(inputs)
        result, label = _c.Tensor(), None
        if labels is not None:
            labels, label = np.asarray(labels), _c.Tensor()
            _describe(label, "labels", labels)
        arguments = c.byref(options), given, count, None if label is None else c.byref(label), c.byref(result)
        self._call("score", *arguments)
        out = np.empty(result.shape[:2], np.float32)
        _describe(result, "log_probabilities", out)
        self._call("score", *arguments)
        return out

    def _generate_options(self, tokens, keep_state):
        pairs = [(name, value) for name, ids in (tokens or {}).items() for value in np.ravel(ids)]
        array = (_c.Token * (len(pairs) + 1))(*((name.encode(), int(value)) for name, value in pairs))
        return _c.GenerateOptions(
            n_tokens=len(pairs), tokens=array, steps=1, beams=1, length_penalty=1, temperature=1, top_p=1,
            flags=_c.KEEP_STATE if keep_state else 0,
        )  # fmt: skip

    def _given(self, inputs):
        """The tensors of a dict of arrays, their number, and the arrays, which must outlive the call."""
        arrays = {name: np.asarray(array) for name, array in inputs.items()}
        wanted = {value.name: value.dtype for entry in self.model.entries.values() for value in entry.inputs}
        given = (_c.Tensor * (len(arrays) + 1))()
        for tensor, (name, array) in zip(given, arrays.items()):
            _describe(tensor, name, array, wanted.get(name))
        return given, len(arrays), arrays

    def reset(self):
        """Forgets all states: they are as in a new session."""
        self._call("session_reset")

    def capacity(self, **dims):
        """Sets how large dims are that no input tells, in states that no one has written yet: capacity(P=64). None
        makes it the declared bound again."""
        for name, size in dims.items():
            number = self.model._number("dim", (dim.name for dim in self.model.dims), name)
            self._call("session_capacity", number, -1 if size is None else size)

    def state(self, name):
        """A copy of what a state holds, or None where nothing was written yet."""
        number = self.model._number("state", self.model.states, name)
        value, description = _c.StateValue(), self.model.states[name]
        self._call("session_state", number, c.byref(value))
        if not value.is_set:
            return None
        array = _aligned(tuple(value.shape[: len(description.extents)]), _result_type(description.dtype))
        tensor = _c.Tensor()
        _describe(tensor, name, array, description.dtype)
        self._call("session_read_state", number, c.byref(tensor))
        return array

    def save(self):
        """The states as bytes, for `restore` of any session of the same library."""
        size = c.c_size_t()
        self._call("session_save", None, 0, c.byref(size))
        buffer = c.create_string_buffer(size.value)
        self._call("session_save", buffer, size, c.byref(size))
        return buffer.raw

    def restore(self, saved):
        """Takes over states that `save` gave."""
        self._call("session_restore", saved, len(saved))

    def clone(self):
        """A second session with the same options and a copy of the states."""
        pointer = c.c_void_p()
        self._call("session_clone", c.byref(pointer))
        copy = Session.__new__(Session)
        copy._own(self.model, pointer)
        return copy

    def close(self):
        """Frees the session. Deleting the last reference does the same."""
        if self._pointer:
            self._call("session_free")
            self._finalizer.detach()
            self._pointer = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
