"""Tensors in the memory of a GPU: what a session gives and takes there, and shares by DLPack."""

import ctypes as c
import sys
import weakref

import numpy as np

from heddle import _c
from heddle._tensors import _CUDA, _DLPACK, NAMES, OnDevice, _DLTensor, aligned, describe

_DELETE = c.CFUNCTYPE(None, c.c_void_p)
_NAME = b"dltensor"
_LEGACY = 1  # CU_STREAM_LEGACY


class _DLManagedTensor(c.Structure):
    _fields_ = [("tensor", _DLTensor), ("context", c.c_void_p), ("delete", _DELETE)]


_new_capsule = c.PYFUNCTYPE(c.py_object, c.c_void_p, c.c_char_p, c.c_void_p)(("PyCapsule_New", c.pythonapi))
_is_valid = c.PYFUNCTYPE(c.c_int, c.py_object, c.c_char_p)(("PyCapsule_IsValid", c.pythonapi))
_shared = {}  # by address: what was given to others, with its capsule, until they give it back


@_DELETE
def _delete(address):
    _shared.pop(address, None)


def _sweep():
    """Takes back what nobody has taken out of its capsule. (A capsule's own destructor can't be written in Python: it may be
    called while an exception is on its way.)"""
    for address in list(_shared):
        capsule = _shared[address][0]
        if _is_valid(capsule, _NAME) and sys.getrefcount(capsule) == 3:  # ours, in the entry, here and in the call
            del _shared[address]


def share(keeps, data, shape, strides, dtype, number=0, offset=0):
    """A capsule of DLPack's for memory on the device, which `keeps` holds. strides: in elements, or None; dtype: our name."""
    _sweep()
    extents = (c.c_int64 * max(1, len(shape)))(*shape)
    steps = None if strides is None else (c.c_int64 * max(1, len(shape)))(*strides)
    code, bits = next(key for key, name in _DLPACK.items() if name == dtype)
    tensor = _DLTensor(data=data, device_type=_CUDA, device_id=number, ndim=len(shape), code=code, bits=bits, lanes=1, shape=extents,
                       strides=steps, byte_offset=offset)  # fmt: skip
    managed = _DLManagedTensor(tensor, None, _delete)
    capsule = _new_capsule(c.addressof(managed), _NAME, None)
    _shared[c.addressof(managed)] = capsule, managed, extents, steps, keeps
    return capsule


def handle_of(stream):
    """Of a CUDA stream: a number, or an object of torch, CuPy or cuda.core."""
    if hasattr(stream, "__cuda_stream__"):
        method = stream.__cuda_stream__
        stream = (method() if callable(method) else method)[1]
    for name in ("cuda_stream", "ptr"):
        stream = getattr(stream, name, stream)
    try:
        return int(stream) or _LEGACY
    except (TypeError, ValueError):
        raise _c.Error(
            f"a stream is a number or an object of torch, CuPy or cuda.core, not {type(stream).__name__}", "INVALID_ARGUMENT"
        ) from None


def _give(model, address):
    model._addresses.discard(address)
    if model._pointer:
        model._call("device_give", c.c_void_p(address))
    if model._closed and not model._addresses:
        model.close()


def release(model):
    """Gives back the memory of a model's tensors, which are of no use any more, but for those that others have."""
    _sweep()
    held = {id(entry[-1]) for entry in _shared.values()}
    for tensor in list(model._tensors):
        if id(tensor) not in held:
            tensor._finalizer()


class DeviceTensor:
    """A dense tensor on the device that a session's model computes on; `shape`, and `dtype` as of NumPy. Other libraries
    take it by DLPack. Memory goes back with the last reference, or when the model is closed and nobody else has it."""

    def __init__(self, session, shape, dtype):
        self.shape, self.dtype, self._session = tuple(shape), np.dtype(dtype), session
        self.nbytes = int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize
        _sweep()
        address = c.c_void_p()
        session.model._call("device_get", self.nbytes, c.byref(address))
        self.address = address.value
        self._finalizer = weakref.finalize(self, _give, session.model, self.address)
        session.model._tensors.add(self)
        session.model._addresses.add(self.address)

    def _view(self, stream):
        """For work in that stream."""
        self._order(stream)
        strides, step = [], self.dtype.itemsize
        for extent in reversed(self.shape):
            strides.insert(0, step)
            step *= extent
        return OnDevice(self, self.address, self.shape, strides, self.dtype)

    def _order(self, stream):
        if self._session._pointer and stream != self._session.cuda_stream:
            self._session.wait()

    def _described(self):
        tensor = _c.Tensor()
        describe(tensor, "", self._view(self._session.cuda_stream))
        return tensor

    def _here(self, array):
        tensor = _c.Tensor()
        describe(tensor, "", array)
        return tensor

    def numpy(self):
        """A copy in main memory."""
        array = aligned(self.shape, self.dtype)
        self._session._call("session_copy", c.byref(self._here(array)), c.byref(self._described()))
        return array

    def fill_from(self, array):
        """Copies an array of this shape and dtype to the device."""
        array = np.require(array, self.dtype, "C")
        self._session._call("session_copy", c.byref(self._described()), c.byref(self._here(array)))
        return self

    def __dlpack_device__(self):
        return _CUDA, 0

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        """`stream`: of the consumer (None: the default one; -1: it sees to the order itself). Work in another stream than the
        session's is waited for."""
        if (dl_device is not None and tuple(dl_device) != (_CUDA, 0)) or copy:
            raise BufferError("the tensor is shared where it lies, without a copy")
        if stream != -1:
            self._order(handle_of(stream or 0))
        return share(self, self.address, self.shape, None, "bf16" if self.dtype.name == "bfloat16" else NAMES[self.dtype])

    def __repr__(self):
        return f"DeviceTensor(shape={self.shape}, dtype={self.dtype})"
