"""The C interface as ctypes sees it: one class per struct of runtime/heddle.h, field by field, in its order.

tests/runtime/test_python.py compares every size and offset with what a C compiler says.
"""

import ctypes as c
import glob
import operator
import os
import struct
import weakref

RANK = 8
API_VERSION = 2
MAIN_MEMORY, DEVICE_MEMORY = 0, 1
FIXED, COMPUTED = -1, -2
COPY_WEIGHTS = 1
SAMPLE, KEEP_STATE = 1, 2
EARLY_STOPPING = {False: 0, True: 1, "never": 2}

STATUSES = (
    "OK", "INVALID_ARGUMENT", "NOT_FOUND", "BAD_TENSOR", "OUT_OF_RANGE", "OUT_OF_MEMORY", "FILE_ERROR", "BAD_WEIGHTS",
    "UNSUPPORTED_CPU", "UNSUPPORTED", "KERNEL_FAILED", "BUSY", "BAD_LIBRARY",
    "DEVICE_FAILED",
)  # fmt: skip
DTYPES = ("f32", "bf16", "f16", "i8", "i32", "bool", "i64", "u8")


class Error(Exception):
    """A call that failed: the library's sentence, and `status`, such as "OUT_OF_RANGE"."""

    def __init__(self, message, status):
        super().__init__(message)
        self.status = status


def text(given):
    """A name as C takes it, which ends at a zero."""
    try:
        return _whole(given.encode(), given)
    except (AttributeError, UnicodeEncodeError):
        raise Error(f"{given!r} is no name; give it as text", "INVALID_ARGUMENT") from None


def path(given):
    """The same of a path."""
    return _whole(os.fsencode(given), given)


def _whole(encoded, given):
    if b"\0" in encoded:
        raise Error(f"{given!r} has a zero in it, which no name and no path may have", "INVALID_ARGUMENT")
    return encoded


def number(name, given):
    """A whole number that int64 holds: ctypes would cut off the rest."""
    try:
        given = operator.index(given)
    except TypeError:
        raise Error(f"{name} is {given!r}; give a whole number", "INVALID_ARGUMENT") from None
    if c.c_int64(given).value != given:
        raise Error(f"{name} is {given}, which is more than 64 bits hold", "OUT_OF_RANGE")
    return given


def early_stopping(given):
    try:
        return EARLY_STOPPING[given]
    except (KeyError, TypeError):
        raise Error(f"early_stopping is {given!r}; give False, True or 'never'", "INVALID_ARGUMENT") from None


class Tensor(c.Structure):
    _fields_ = [
        ("name", c.c_char_p),
        ("data", c.c_void_p),
        ("dtype", c.c_int32),
        ("rank", c.c_int32),
        ("shape", c.c_int64 * RANK),
        ("strides", c.c_int64 * RANK),
        ("memory", c.c_int32),
        ("reserved", c.c_int32),
    ]


class Info(c.Structure):
    """Structs that begin with their own size."""

    def __init__(self, **fields):
        super().__init__(**fields)
        self.struct_size = c.sizeof(self)

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        held = getattr(self, name)
        if isinstance(held, int) and held != value:
            raise Error(f"{name} is {value}, which is out of range", "INVALID_ARGUMENT")


class ModelOptions(Info):
    _fields_ = [
        ("struct_size", c.c_size_t),
        ("weights", c.c_char_p),
        ("flags", c.c_uint32),
        ("reserved", c.c_uint32),
        ("image", c.c_void_p),
        ("image_bytes", c.c_size_t),
        ("read", c.CFUNCTYPE(c.c_int32, c.c_void_p, c.c_uint64, c.c_void_p, c.c_size_t)),
        ("read_context", c.c_void_p),
        ("allocator", c.c_void_p),
        ("target", c.c_char_p),
    ]


class SessionOptions(Info):
    _fields_ = [
        ("struct_size", c.c_size_t),
        ("threads", c.c_int32),
        ("graphs", c.c_int32),
        ("custom", c.c_void_p),
        ("memory_limit", c.c_int64),
        ("allocator", c.c_void_p),
        ("arena", c.c_void_p),
        ("arena_bytes", c.c_size_t),
        ("stream", c.c_void_p),
    ]


class ModelInfo(Info):
    _fields_ = [
        ("struct_size", c.c_size_t),
        ("name", c.c_char_p),
        ("target", c.c_char_p),
        ("compiler", c.c_char_p),
        ("weights_bytes", c.c_uint64),
        ("n_dims", c.c_int32),
        ("n_entries", c.c_int32),
        ("n_states", c.c_int32),
        ("n_tokens", c.c_int32),
        ("build", c.c_uint64),
    ]


class DimInfo(Info):
    _fields_ = [("struct_size", c.c_size_t), ("name", c.c_char_p), ("most", c.c_int64)]


class EntryInfo(Info):
    _fields_ = [
        ("struct_size", c.c_size_t),
        ("name", c.c_char_p),
        ("doc", c.c_char_p),
        ("n_inputs", c.c_int32),
        ("n_results", c.c_int32),
    ]


class ExtentInfo(c.Structure):
    _fields_ = [("dim", c.c_int32), ("reserved", c.c_int32), ("value", c.c_int64)]


class ValueInfo(Info):
    _fields_ = [
        ("struct_size", c.c_size_t),
        ("name", c.c_char_p),
        ("dtype", c.c_int32),
        ("rank", c.c_int32),
        ("extents", ExtentInfo * RANK),
        ("optional", c.c_int32),
        ("has_below", c.c_int32),
        ("below", ExtentInfo),
        ("initial", c.c_double),
    ]


class StateInfo(Info):
    _fields_ = [
        ("struct_size", c.c_size_t),
        ("name", c.c_char_p),
        ("dtype", c.c_int32),
        ("rank", c.c_int32),
        ("extents", ExtentInfo * RANK),
        ("has_initial", c.c_int32),
        ("parameter_rank", c.c_int32),
        ("initial", c.c_double),
        ("parameter", c.c_char_p),
        ("parameter_shape", c.c_int64 * RANK),
    ]


class StateValue(Info):
    _fields_ = [
        ("struct_size", c.c_size_t),
        ("is_set", c.c_int32),
        ("writer", c.c_int32),
        ("shape", c.c_int64 * RANK),
        ("bytes", c.c_int64),
    ]


class TokenInfo(Info):
    _fields_ = [("struct_size", c.c_size_t), ("name", c.c_char_p), ("id", c.c_int64)]


class Token(c.Structure):
    _fields_ = [("name", c.c_char_p), ("id", c.c_int64)]


Observer = c.CFUNCTYPE(None, c.c_void_p, c.c_char_p, c.c_int32)
Concurrency = c.CFUNCTYPE(c.c_int32, c.c_void_p)
Task = c.CFUNCTYPE(None, c.c_void_p, c.c_int32)
RunTasks = c.CFUNCTYPE(None, c.c_void_p, c.c_int32, Task, c.c_void_p)
Release = c.CFUNCTYPE(None, c.c_void_p)


class Threads(c.Structure):
    _fields_ = [("context", c.c_void_p), ("concurrency", Concurrency), ("run", RunTasks), ("release", Release)]


Listener = c.CFUNCTYPE(c.c_int32, c.c_void_p, c.c_int32, c.POINTER(c.c_int64), c.c_int32)


class GenerateOptions(Info):
    _fields_ = [
        ("struct_size", c.c_size_t),
        ("steps", c.c_int32),
        ("min_steps", c.c_int32),
        ("beams", c.c_int32),
        ("flags", c.c_uint32),
        ("length_penalty", c.c_float),
        ("early_stopping", c.c_int32),
        ("temperature", c.c_float),
        ("top_k", c.c_int32),
        ("top_p", c.c_float),
        ("n_tokens", c.c_int32),
        ("seed", c.c_uint64),
        ("tokens", c.POINTER(Token)),
        ("listener", Listener),
        ("listener_context", c.c_void_p),
    ]


class MemoryInfo(Info):
    _fields_ = [
        ("struct_size", c.c_size_t),
        ("arena_bytes", c.c_int64),
        ("scratch_bytes", c.c_int64),
        ("allocations", c.c_int64),
        ("state_bytes", c.c_int64),
        ("once_bytes", c.c_int64),
    ]


def _status(*arguments):
    return c.CFUNCTYPE(c.c_int, *arguments)


_void_p, _i32, _size_p = c.c_void_p, c.c_int32, c.POINTER(c.c_size_t)
_i32_p, _i64_p, _out = c.POINTER(c.c_int32), c.POINTER(c.c_int64), c.POINTER(c.c_void_p)
_tensors = c.POINTER(Tensor)


class Api(c.Structure):
    _fields_ = [
        ("size", c.c_uint32),
        ("version", c.c_uint32),
        ("text", c.c_char_p),
        ("last_error", c.CFUNCTYPE(c.c_char_p)),
        ("model_load", _status(c.POINTER(ModelOptions), _out)),
        ("model_free", _status(_void_p)),
        ("model_verify", _status(_void_p)),
        ("model_describe", _status(_void_p, c.POINTER(ModelInfo))),
        ("dim_describe", _status(_void_p, _i32, c.POINTER(DimInfo))),
        ("entry_describe", _status(_void_p, _i32, c.POINTER(EntryInfo))),
        ("input_describe", _status(_void_p, _i32, _i32, c.POINTER(ValueInfo))),
        ("result_describe", _status(_void_p, _i32, _i32, c.POINTER(ValueInfo))),
        ("entry_find", _status(_void_p, c.c_char_p, _i32_p)),
        ("result_shapes", _status(_void_p, _i32, _tensors, _i32, _tensors, _i32)),
        ("memory_needed", _status(_void_p, _i32, _i64_p, _i64_p)),
        ("session_create", _status(_void_p, c.POINTER(SessionOptions), _out)),
        ("session_free", _status(_void_p)),
        ("session_reset", _status(_void_p)),
        ("session_clone", _status(_void_p, _out)),
        ("session_save", _status(_void_p, _void_p, c.c_size_t, _size_p)),
        ("session_restore", _status(_void_p, _void_p, c.c_size_t)),
        ("session_memory", _status(_void_p, c.POINTER(MemoryInfo))),
        ("session_threads", _status(_void_p, _i32_p)),
        ("run", _status(_void_p, _i32, _void_p, _i32, _void_p, _i32)),  # addresses of tensors: converted faster
        ("run_dense", _status(_void_p, _i32, _i64_p, _out, _out)),
        ("pool", c.CFUNCTYPE(_void_p, c.c_uint32)),
        ("session_observe", _status(_void_p, _void_p, _void_p)),
        ("state_describe", _status(_void_p, _i32, c.POINTER(StateInfo))),
        ("token_describe", _status(_void_p, _i32, c.POINTER(TokenInfo))),
        ("session_capacity", _status(_void_p, _i32, c.c_int64)),
        ("session_state", _status(_void_p, _i32, c.POINTER(StateValue))),
        ("session_read_state", _status(_void_p, _i32, _tensors)),
        ("session_result_shapes", _status(_void_p, _i32, _tensors, _i32, _tensors, _i32)),
        ("generate", _status(_void_p, c.POINTER(GenerateOptions), _tensors, _i32, _tensors, _i64_p, _tensors)),
        ("score", _status(_void_p, c.POINTER(GenerateOptions), _tensors, _i32, _tensors, _tensors)),
        ("session_write_state", _status(_void_p, _i32, _tensors)),
        ("session_save_file", _status(_void_p, c.c_char_p)),
        ("session_restore_file", _status(_void_p, c.c_char_p)),
        ("session_save_parameters", _status(_void_p, c.c_char_p)),
        ("device_get", _status(_void_p, c.c_size_t, _out)),
        ("device_give", _status(_void_p, _void_p)),
        ("session_stream", _status(_void_p, _out)),
        ("session_wait", _status(_void_p)),
        ("session_copy", _status(_void_p, _tensors, _tensors)),
        ("session_observe_tasks", _status(_void_p, _void_p, _void_p)),
        ("run_typed", _status(_void_p, _i32, c.c_uint32, _i64_p, _out, _out)),
    ]


def find_library(path):
    """The lib<name>.so that an artifact folder holds, or the library itself."""
    path = os.fsdecode(_whole(os.fsencode(path), path))
    if os.path.isdir(path):
        found = glob.glob(os.path.join(glob.escape(path), "lib*.so"))
        if len(found) != 1:
            why = "holds several lib*.so; name the one to open" if found else "holds no lib*.so"
            raise Error(f"{path}: {why}; give a folder that `heddle compile` wrote", "FILE_ERROR")
        path = found[0]
    return os.path.abspath(path)


def spell(path):
    """The path written so that no other file was ever loaded under the same text, as heddle_spell of runtime/heddle.h does:
    the loader takes a text that it knows for the library that it has, although the file may have been replaced since."""
    try:
        file = os.stat(path)
    except OSError:
        return path  # loading it says why
    folder, name = os.path.split(path)
    key = hash((file.st_ino, file.st_dev, file.st_mtime_ns, file.st_size)) % 2**64
    return folder + "/" + "".join("./" if key >> bit & 1 else "/" for bit in range(64)) + name


def is_whole(path):
    """Whether a file has all bytes that its first ones promise, as heddle_is_whole of runtime/heddle.h tells."""
    try:
        with open(path, "rb") as file:
            head, size = file.read(64), os.fstat(file.fileno()).st_size
    except OSError:
        return True  # loading it says why
    if len(head) < 64 or not head.startswith(b"\x7fELF\x02\x01"):
        return True
    (table,), (each, count) = struct.unpack_from("<Q", head, 40), struct.unpack_from("<HH", head, 58)
    return table + each * count <= size


class Owner:
    """What a library has made for us: a pointer that is called with, and freed once, by `close` or the collector."""

    _pointer = None

    def _own(self, library, pointer, what, keeps=None):
        """`keeps` lives until then: a session's model, so that sessions go first, also when the interpreter ends."""
        self._pointer, self._library, self._what = pointer, library, what
        self._finalizer = weakref.finalize(self, _free, getattr(library.api, f"{what}_free"), pointer, keeps)

    def _call(self, function, *arguments):
        if not self._pointer:
            raise Error(f"the {self._what} is closed", "INVALID_ARGUMENT")
        self._library.call(function, self._pointer, *arguments)

    def close(self):
        """Frees it. Deleting the last reference does the same. A model's sessions must be closed first."""
        if self._pointer:
            self._call(f"{self._what}_free")
            self._finalizer.detach()
            self._pointer = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def _prepared(argument):
    if isinstance(argument, int):
        return argument
    return c.byref(c.c_char.from_address(argument.value) if isinstance(argument, c.c_void_p) else argument)


def _free(function, pointer, _keeps):
    function(pointer)


class Library:
    """One loaded library; `call` turns a status into an Error."""

    def __init__(self, path):
        if os.path.exists(path) and not os.path.isfile(path):  # dlopen would wait for a FIFO's writer
            raise Error(f"{path}: is not a regular file", "FILE_ERROR")
        if not is_whole(path):
            raise Error(f"{path}: is truncated; copy or compile it again", "FILE_ERROR")
        spelled = spell(path)
        try:
            self.handle = c.CDLL(spelled, mode=os.RTLD_NOW | os.RTLD_LOCAL)
        except UnicodeDecodeError:  # in the loader's own message, which names the path
            raise Error(f"{path}: cannot be loaded", "FILE_ERROR") from None
        except OSError as error:
            why = str(error).replace(spelled, path)  # as the caller knows it
            raise Error(f"{path}: cannot be loaded: {why}", "FILE_ERROR") from None
        try:
            self.api = Api.in_dll(self.handle, "heddle_api_1")
        except ValueError:
            raise Error(f"{path}: is not a library made by Heddle", "BAD_LIBRARY") from None
        if self.api.version != API_VERSION or self.api.size < c.sizeof(Api):
            raise Error(f"{path}: made by an incompatible version of Heddle; compile the model again", "BAD_LIBRARY")
        # Each look at a field of a struct makes a new object.
        self.functions = {name: getattr(self.api, name) for name, _ in Api._fields_[3:]}

    def call(self, function, *arguments):
        status = self.functions[function](*arguments)
        if status:
            self.fail(status)

    def prepared(self, function, *arguments):
        """A function and arguments that pass its call as they are, for calls that are repeated: converting six numbers takes
        a third of a microsecond."""
        entry = c.CFUNCTYPE(c.c_int)(c.cast(self.functions[function], c.c_void_p).value)
        return entry, tuple(_prepared(x) for x in arguments)

    def fail(self, status):
        name = STATUSES[status] if status < len(STATUSES) else str(status)
        raise Error(self.functions["last_error"]().decode(errors="replace"), name)  # it may be cut, or name a path in bytes
