"""Arrays as the library sees them: a Tensor filled in from a NumPy array, or from any tensor that speaks DLPack."""

import ctypes as c

import numpy as np

from heddle import _c

# NumPy has no bf16: such results are ml_dtypes.bfloat16 where that package is installed, else their raw 16 bits as uint16.
# Both are taken as inputs, with or without the package.
NUMPY = {"f32": "f4", "bf16": "u2", "f16": "f2", "i8": "i1", "i32": "i4", "bool": "?", "i64": "i8", "u8": "u1"}
NAMES = {np.dtype(NUMPY[name]): name for name in _c.DTYPES}


def result_type(name):
    if name == "bf16":
        try:
            from ml_dtypes import bfloat16
        except ImportError:
            pass
        else:
            return np.dtype(bfloat16)
    return np.dtype(NUMPY[name])


def _bf16_bits(array):
    """The bits of the nearest bf16, ties to even."""
    reals = array.astype(np.float32)
    bits = reals.view(np.uint32).astype(np.uint64)
    return np.where(np.isnan(reals), np.uint64(0x7FC0), bits + 0x7FFF + (bits >> 16 & 1) >> 16).astype(np.uint16)


def whole_numbers_as(name, dtype, array):
    """An array of whole numbers as one of a state's type, which must hold them; any other array as it is."""
    wanted = result_type(dtype)
    if array.dtype in (wanted, NUMPY[dtype]) or array.dtype.kind not in "iub":
        return array
    if dtype == "bf16" and wanted.kind == "u":
        return _bf16_bits(array)
    out = array.astype(wanted)
    if wanted.kind in "iu" and not np.array_equal(out, array):
        raise _c.Error(f"'{name}': {dtype} does not hold all of these numbers", "OUT_OF_RANGE")
    return out


def dtype_code(name, array):
    dtype = "bf16" if array.dtype.name == "bfloat16" else NAMES.get(array.dtype)
    if dtype is None:
        raise _c.Error(
            f"'{name}': arrays of {array.dtype} cannot be given; convert to one of "
            + ", ".join(np.dtype(NUMPY[name]).name for name in _c.DTYPES if name != "bf16"),
            "BAD_TENSOR",
        )
    return _c.DTYPES.index(dtype)


# What every call uses, found once.
_first_byte, _addressof, _empty, _ndarray, _byte = c.c_char.from_buffer, c.addressof, np.empty, np.ndarray, np.dtype(np.uint8)


def address(array):
    try:
        return _addressof(_first_byte(array))  # a fifth of the time
    except (BufferError, TypeError, ValueError):  # read-only, with gaps, empty, bf16, on a device
        return array.__array_interface__["data"][0]


def room_address(array):
    """The same of an array to write into; None where it can't be written."""
    try:
        return _addressof(_first_byte(array))
    except (BufferError, TypeError, ValueError):
        data, locked = array.__array_interface__["data"]
        return None if locked else data


def describe(tensor, name, array, wanted=None):
    """Fills a Tensor that looks into `array`."""
    if array.ndim > _c.RANK:
        raise _c.Error(f"'{name}' has {array.ndim} dimensions; at most {_c.RANK} are supported", "BAD_TENSOR")
    tensor.name = _c.text(name)
    tensor.data = address(array)
    raw_bf16 = wanted == "bf16" and array.dtype == np.uint16
    tensor.dtype = _c.DTYPES.index("bf16") if raw_bf16 else dtype_code(name, array)
    tensor.rank = array.ndim
    tensor.memory = _c.DEVICE_MEMORY if type(array) is OnDevice else _c.MAIN_MEMORY
    for i in range(array.ndim):
        tensor.shape[i] = array.shape[i]
        tensor.strides[i] = array.strides[i]


def block_of(count):
    """Memory that kernels can write without a copy (64-byte aligned): the block, the address, and where in the block it is."""
    block = _empty(count + 64, _byte)
    at = _addressof(_first_byte(block))
    start = -at & 63
    return block, at + start, start


def room_for(shape, dtype, count):
    """An array over a block of its own, and its address. count: its bytes."""
    block, at, start = block_of(count)
    return _ndarray(shape, dtype, block, start), at


def aligned(shape, dtype):
    dtype = np.dtype(dtype)
    return room_for(shape, dtype, int(np.prod(shape, dtype=np.int64)) * dtype.itemsize)[0]


# ---- DLPack: the structs of dlpack.h
class _DLTensor(c.Structure):
    _fields_ = [
        ("data", c.c_void_p), ("device_type", c.c_int32), ("device_id", c.c_int32), ("ndim", c.c_int32),
        ("code", c.c_uint8), ("bits", c.c_uint8), ("lanes", c.c_uint16), ("shape", c.POINTER(c.c_int64)),
        ("strides", c.POINTER(c.c_int64)), ("byte_offset", c.c_uint64),
    ]  # fmt: skip


_DLPACK = {(0, 8): "i8", (0, 32): "i32", (0, 64): "i64", (1, 8): "u8", (2, 16): "f16", (2, 32): "f32", (4, 16): "bf16",
           (6, 8): "bool"}  # fmt: skip
_CPU, _CUDA, _CUDA_HOST = 1, 2, 3
_pointer_of = c.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = c.c_void_p, [c.py_object, c.c_char_p]


class OnDevice:
    """What `describe` looks at, of a tensor on the device. Its strides are a list: they equal no NumPy array's, so that a
    plan that was made for these is not taken for it, nor the other way round."""

    def __init__(self, keeps, data, shape, strides, dtype):
        self.keeps, self.shape, self.strides, self.dtype, self.ndim = keeps, shape, list(strides), dtype, len(shape)
        self.__array_interface__ = {"data": (data, False)}
        self.flags = _Writeable


class _Writeable:
    writeable = True


def _from_dlpack(name, tensor, stream):
    """An array over the tensor's memory, which its `base` keeps: torch's, JAX's, … of any of our dtypes, bf16 included. Of a
    session on a GPU, whose stream that is: also what lies there."""
    try:
        there = stream is not None and tensor.__dlpack_device__()[0] == _CUDA
        capsule = tensor.__dlpack__(stream=stream) if there else tensor.__dlpack__()
    except Exception as error:
        raise _c.Error(f"'{name}': {type(tensor).__name__} does not share its memory: {error}", "BAD_TENSOR") from None
    try:
        dl = _DLTensor.from_address(_pointer_of(capsule, b"dltensor"))
    except ValueError:
        raise _c.Error(f"'{name}': what {type(tensor).__name__}.__dlpack__() gives is no tensor, or was taken before", "BAD_TENSOR") from None
    if there and dl.device_id != 0:
        raise _c.Error(f"'{name}' is on device {dl.device_id}, and the model computes on device 0; move it there", "BAD_TENSOR")
    if dl.device_type not in ((_CUDA,) if there else (_CPU, _CUDA_HOST)):
        raise _c.Error(f"'{name}' is not in the memory of the CPU; move it there, as with .cpu()", "BAD_TENSOR")
    dtype = _DLPACK.get((dl.code, dl.bits)) if dl.lanes == 1 else None
    if dtype is None:
        raise _c.Error(
            f"'{name}': elements of {dl.bits} bits and DLPack's type {dl.code} cannot be given; convert to one of "
            + ", ".join(sorted(_DLPACK.values())), "BAD_TENSOR",
        )  # fmt: skip
    if not 0 <= dl.ndim <= _c.RANK or (dl.ndim and not dl.shape) or any(n < 0 for n in dl.shape[: dl.ndim]):
        raise _c.Error(f"'{name}': a tensor of {dl.ndim} axes, or of extents below 0; at most {_c.RANK} axes can be given", "BAD_TENSOR")
    dtype = result_type(dtype)
    shape = tuple(dl.shape[: dl.ndim])
    if dl.strides:
        strides = tuple(stride * dtype.itemsize for stride in dl.strides[: dl.ndim])
    else:
        strides = np.empty(shape, np.bool_).strides
        strides = tuple(stride * dtype.itemsize for stride in strides)
    if there:
        return OnDevice(capsule, (dl.data or 0) + dl.byte_offset, shape, strides, dtype)
    return np.asarray(_Shared(capsule, (dl.data or 0) + dl.byte_offset, shape, strides, dtype)).view(dtype)


class _Shared:
    """Memory of a capsule, which goes back to its owner with the last array over it."""

    def __init__(self, capsule, data, shape, strides, dtype):
        self.capsule = capsule
        plain = np.dtype(np.uint16) if dtype.kind == "V" else dtype
        self.__array_interface__ = {
            "version": 3, "data": (data, False), "shape": shape, "strides": strides, "typestr": plain.str,
        }  # fmt: skip


def is_torch(given):
    """Whether it is one of torch's tensors; its other classes, such as Size, are none."""
    return type(given).__module__ == "torch" and hasattr(given, "data_ptr")


def traits(given):
    """Dtype, shape and strides as an array or one of torch's tensors says them, by which the next call knows one like it."""
    return given.dtype, given.shape, given.stride() if is_torch(given) else given.strides


def torch_address(tensor, dtype, shape, strides):
    """Where the memory of one of torch's tensors is, or None where it isn't like the one before: a third of what its numpy() takes."""
    try:
        if (tensor.dtype is dtype and tensor.shape == shape and tensor.stride() == strides and tensor.is_cpu
                and not tensor.requires_grad and not tensor.is_neg()):  # fmt: skip
            return tensor.data_ptr()
    except Exception:  # there is none: array_of has words for it
        pass
    return None


def named(arrays, what):
    try:
        return arrays.items()
    except AttributeError:
        raise _c.Error(f"{what}: give a dict of names and arrays, not {type(arrays).__name__}", "INVALID_ARGUMENT") from None


def array_of(name, given, wanted={}, stream=None):
    """A NumPy array over what was given; without a copy where that has memory of its own. wanted: types of inputs by name;
    lists and numbers become reals where these are wanted. stream: of a session on a GPU, which takes what lies there, too."""
    if is_torch(given):
        try:
            return given.numpy()  # a third of what DLPack takes
        except Exception:  # bf16, another device, a gradient: DLPack shares it, or the next lines have words
            pass
    if isinstance(given, np.ndarray):
        return given
    if stream is not None and hasattr(given, "__dlpack_device__") and given.__dlpack_device__()[0] == _CUDA:
        return given._view(stream) if type(given).__module__ == "heddle.device" else _from_dlpack(name, given, stream)
    if hasattr(given, "__dlpack__"):
        try:
            array = np.from_dlpack(given)  # a third of the time
            if array.flags.writeable:  # that of an old exporter is not, whatever its memory is
                return array
        except Exception:  # bf16, or what the next line has words for
            pass
        return _from_dlpack(name, given, stream)
    if given is None:
        raise _c.Error(f"'{name}' is None; give an array, or leave it out where it is optional", "BAD_TENSOR")
    try:
        array = np.asarray(given)
    except ValueError as error:  # lists of different lengths
        raise _c.Error(f"'{name}': {type(given).__name__} makes no array: {error}", "BAD_TENSOR") from None
    dtype = result_type(wanted[name]) if name in wanted and isinstance(given, (list, tuple, int, float)) else array.dtype
    if dtype.kind == "u" and wanted.get(name) == "bf16" and array.dtype.kind in "iuf":
        return _bf16_bits(array)
    return array.astype(dtype) if dtype.kind in "fV" and array.dtype.kind in "iuf" else array
