"""Sessions: what runs a model."""

import asyncio
import ctypes as c
import os
import signal
import sys
import threading
import typing
from sys import getrefcount

import numpy as np
import numpy.typing
from numpy import ndarray

from heddle import _c
from heddle._tensors import OnDevice, address, aligned, array_of, block_of, describe, is_torch, named, result_type
from heddle._tensors import room_address, room_for, torch_address, traits, whole_numbers_as
from heddle.device import DeviceTensor, handle_of
from heddle.parameters import Parameters


class SupportsDLPack(typing.Protocol):
    """A tensor that shares its memory by DLPack, as those of torch and JAX do."""

    def __dlpack__(self) -> typing.Any: ...


ArrayLike = numpy.typing.ArrayLike | SupportsDLPack
Inputs = typing.Mapping[str, ArrayLike | None]
Rooms = typing.Mapping[str, ArrayLike] | None
Results = dict[str, typing.Any]
SMALL = 1024  # bytes
COUNTED = getattr(sys, "_is_gil_enabled", lambda: True)()  # else the number of an object's users is no such thing


class _Interrupts:
    """Ctrl-C while the library calls back. Python would raise it at the very begin of a callback, where nothing there catches it,
    and ctypes print and forget it: so it is raised when the library has returned."""

    def __init__(self):
        self.came = False
        self.taken = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.default_int_handler

    def __enter__(self):
        if self.taken:
            signal.signal(signal.SIGINT, self.note)

    def note(self, *_):
        self.came = True

    def __exit__(self, *_):
        if self.taken:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if self.came:
            raise KeyboardInterrupt


class _Loop:
    """A parallel loop that workers may join while it is open: what `data` points to is gone when the caller goes on."""

    def __init__(self, task, data):
        self.task, self.data = task, data
        self.changed = threading.Condition(threading.Lock())
        self.open, self.inside = True, 0

    def join(self, number):
        with self.changed:
            if not self.open:
                return
            self.inside += 1
        try:
            self.task(self.data, number)
        finally:
            with self.changed:
                self.inside -= 1
                self.changed.notify_all()

    def close(self):
        with self.changed:
            self.open = False
            self.changed.wait_for(lambda: not self.inside)


class _Threads:
    """heddle_threads over an executor. The caller does the work that no worker takes: a worker may never begin, as all of them
    may wait for this very call."""

    def __init__(self, pool):
        def run(_, count, task, data):
            loop, interrupted = _Loop(task, data), None
            try:
                for number in range(1, count):
                    pool.submit(loop.join, number)
            except RuntimeError:  # it has been shut down, or there are no more threads
                pass
            except BaseException as error:
                interrupted = error
            while loop.open or loop.inside:  # Ctrl-C ends none of this early
                try:
                    if loop.open:
                        task(data, 0)
                    loop.close()
                except BaseException as error:
                    interrupted = error
            if interrupted:
                raise interrupted

        self.callbacks = _c.Threads(
            concurrency=_c.Concurrency(lambda _: pool._max_workers + 1), run=_c.RunTasks(run), release=_c.Release()
        )


class _Room:
    """Where the results of a call go. Small ones lie together in one block, since a block costs as much as the array over it and
    any array that is kept keeps its block; it serves again when no array over it is left. Large ones have a block per call."""

    def __init__(self, results):
        small, self.large, used = [], [], 0
        for tensor, name, dtype, shape, _, count in results:
            if count > SMALL:
                self.large.append((tensor, name, dtype, shape, count))
            else:
                small.append((tensor, name, dtype, shape, used))
                used += -(-count // 64) * 64
        self.block, at, start = block_of(used)
        self.places = [(tensor, at + offset) for tensor, *_, offset in small]
        self.arrays = [(name, ndarray(shape, dtype, self.block, start + offset)) for _, name, dtype, shape, offset in small]
        self.users = getrefcount(self.block)  # as long as nobody else has an array over it


class _Plan:
    """What calls of an entry with inputs of the same names, dtypes, shapes and strides have in common."""

    def __init__(self, session, number):
        model = session.model
        self.pointer, self.number = session._pointer, number
        self.description = list(model.entries.values())[number]
        self.values = self.description.results
        self.types = {value.name: value.dtype for value in self.values}
        self.wanted = {value.name: value.dtype for value in self.description.inputs}
        self.fixed = not model.states  # else results may have other shapes in every call
        self.model, self.library = model, model._library
        self.results = (_c.Tensor * max(1, len(self.values)))()
        self.seen = {ndarray}  # types of tensors whose memory is found without an array over it
        self.like = None  # (name, dtype, shape, strides, tensor) of each input of the call before
        self.known = {}  # dtype, shape and strides of torch's tensors that are like our own room for a result, by its name
        self.stream = session.cuda_stream if model.on_device else None

    def run(self, inputs, out, session):
        """session: where results stay on the device, as tensors of that."""
        # Each look at an attribute and each call of a function is a part of what a call costs.
        given, seen = named(inputs, "inputs"), self.seen
        arrays = [array if type(array) in seen else self.take(name, array) for name, array in given]  # alive until the end
        like = self.like
        if like is None or len(arrays) != len(like):
            arrays = self.describe(inputs, arrays)
        else:
            for name, array, (before, dtype, shape, strides, tensor) in zip(inputs, arrays, like):
                if type(array) is not ndarray and type(array) is not OnDevice:
                    at = torch_address(array, dtype, shape, strides)
                elif array.dtype != dtype or array.shape != shape or array.strides != strides:
                    at = None
                else:
                    at = address(array)
                if at is None or name != before:
                    arrays = self.describe(inputs, arrays)
                    break
                tensor.data = at
        results, kept = {}, None
        if out or session:
            kept = self.describe_results(out or {}, results, session)  # noqa: F841  (alive until the end)
        else:
            for room in self.spare:
                if getrefcount(room.block) == room.users:
                    break
            else:
                room = self.another_room()
            if room is not self.room:
                self.room = room
                for tensor, at in room.places:
                    tensor.data, tensor.memory = at, _c.MAIN_MEMORY
            for name, array in room.arrays:
                results[name] = array[...]
            for tensor, name, dtype, shape, count in room.large:
                results[name], tensor.data = room_for(shape, dtype, count)
                tensor.memory = _c.MAIN_MEMORY
        if status := self.enter(*self.arguments):
            self.library.fail(status)
        return results

    def take(self, name, given):
        if not is_torch(given):
            return array_of(name, given, self.wanted, self.stream)
        self.seen.add(type(given))
        return given

    def another_room(self):
        room = _Room(self.rooms)
        if COUNTED:  # two, for many loops have the results of a call until those of the next are there
            self.spare = (room, *self.spare[:1])
        return room

    def describe(self, inputs, given):
        """For inputs that are not like those of the call before; gives the arrays over them."""
        self.like = None
        arrays = [array if type(array) in (ndarray, OnDevice) else array_of(name, array, {}, self.stream) for name, array in zip(inputs, given)]
        self.given = (_c.Tensor * max(1, len(arrays)))()
        like = []
        for tensor, name, array, owner in zip(self.given, inputs, arrays, given):
            describe(tensor, name, array, self.wanted.get(name))
            like.append((name, *traits(owner), tensor))
        self.library.call("session_result_shapes", self.pointer, self.number, self.given, len(arrays), self.results, len(self.values))
        self.rooms = []
        for tensor, value in zip(self.results, self.values):
            shape, dtype = tuple(tensor.shape[: tensor.rank]), result_type(value.dtype)
            strides = tuple(tensor.strides[: tensor.rank])
            self.rooms.append((tensor, value.name, dtype, shape, strides, int(np.prod(shape, dtype=np.int64)) * dtype.itemsize))
        self.spare, self.room, self.known = (), None, {}
        self.enter, self.arguments = self.library.prepared(
            "run", self.pointer, self.number, self.given, len(arrays), self.results, len(self.rooms)
        )
        self.like = like if self.fixed else None
        return arrays

    def describe_results(self, out, results, session):
        """Fills `results` where some of them go into room of the caller's, or of the session on the device; gives the arrays
        over the caller's."""
        named(out, "out")
        kept, found, self.room = [], 0, None
        for room in self.rooms:
            tensor, name, dtype, shape, strides, count = room
            if name not in out:
                if session:
                    results[name] = there = DeviceTensor(session, shape, dtype)
                    tensor.data, tensor.memory = there.address, _c.DEVICE_MEMORY
                else:
                    results[name], tensor.data = room_for(shape, dtype, count)
                continue
            found += 1
            results[name] = given = out[name]
            at, array = None, given
            if type(given) is ndarray:
                if given.shape == shape and given.strides == strides and given.dtype == dtype:
                    at = room_address(given)
            elif name in self.known:
                at = torch_address(given, *self.known[name])
            if at is None:
                if type(given) is not ndarray:
                    kept.append(array := self.array_over(name, given))
                self.describe_result(room, given, array)
            else:
                tensor.data, tensor.memory = at, _c.MAIN_MEMORY
        if found != len(out):
            raise _c.Error(f"entry '{self.description.name}' has no result '{min(set(out) - set(results))}'", "NOT_FOUND")
        return kept

    def array_over(self, name, given):
        if not isinstance(given, ndarray) and not hasattr(given, "__dlpack__"):
            raise _c.Error(f"result '{name}': {NO_ROOM}", "BAD_TENSOR")
        return array_of(name, given, {}, self.stream)

    def describe_result(self, room, given, array):
        """Room of the caller's, perhaps with other strides than ours, or of another type."""
        tensor, name, dtype, shape, strides, _ = room
        at = room_address(array)
        if at is None:
            raise _c.Error(f"result '{name}': {NO_ROOM}", "BAD_TENSOR")
        if array.shape == shape and array.strides == strides and array.dtype == dtype:
            tensor.data, tensor.memory = at, _c.MAIN_MEMORY
            if is_torch(given):
                self.known[name] = traits(given)
            return
        self.like = None  # the next call finds our strides again
        describe(tensor, name, array, self.types[name])


NO_ROOM = "give a writeable NumPy array or a DLPack tensor"


class Session(_c.Owner):
    """Runs entries, one call at a time; other threads take sessions of their own."""

    def __init__(self, model: typing.Any, threads: int = 0, memory_limit: int = 0, pool: typing.Any = None, graphs: int = 0,
                 stream: typing.Any = None) -> None:  # fmt: skip
        options = _c.SessionOptions(threads=threads, memory_limit=memory_limit, graphs=graphs)
        self._kept = _Threads(pool) if pool else None  # what the library calls
        self._callers_stream = stream  # alive until the end
        if stream is not None:
            options.stream = handle_of(stream)
        if pool:
            options.custom = c.addressof(self._kept.callbacks)
        pointer = c.c_void_p()
        model._call("session_create", c.byref(options), c.byref(pointer))
        self._begin(model, pointer)

    def _begin(self, model, pointer):
        self.model = model
        self._running = threading.RLock()
        self._plans = {}
        self._observer = None
        self._stream = None
        self._own(model._library, pointer, "session", keeps=model)

    def _begin_call(self):
        """What one thread at a time may do begins: C's own check would look at a session that another has freed meanwhile."""
        if not self._running.acquire(False):
            self._refuse_call()

    def _refuse_call(self):
        raise _c.Error("the session is running in another thread; give each thread a session of its own", "BUSY")

    def _call(self, function, *arguments):
        self._begin_call()
        try:
            super()._call(function, *arguments)
        finally:
            self._running.release()

    def close(self):
        """Frees it; BUSY while another thread runs it. Deleting the last reference does the same."""
        self._begin_call()
        try:
            super().close()
        finally:
            self._running.release()

    @property
    def threads(self):
        """How many threads a run uses at most."""
        threads = c.c_int32()
        self._call("session_threads", c.byref(threads))
        return threads.value

    @property
    def cuda_stream(self):
        """The CUDA stream, as a number, that a session on a GPU puts its work into."""
        if self._stream is None:
            stream = c.c_void_p()
            self._call("session_stream", c.byref(stream))
            self._stream = stream.value
        return self._stream

    def wait(self):
        """Waits for the session's work on a GPU, where calls have not done so."""
        self._call("session_wait")

    def to_device(self, array):
        """A copy of an array on the device that the model computes on."""
        array = np.asarray(array)
        return DeviceTensor(self, array.shape, array.dtype).fill_from(array)

    @property
    def memory(self):
        """Bytes held and allocations made so far: a dict of arena_bytes, scratch_bytes, state_bytes,
        once_bytes (what entries compute once), allocations."""
        info = _c.MemoryInfo()
        self._call("session_memory", c.byref(info))
        return {name: getattr(info, name) for name in ("arena_bytes", "scratch_bytes", "state_bytes", "once_bytes", "allocations")}

    def run(self, inputs: Inputs, entry: str | None = None, out: Rooms = None, on_device: bool = False) -> Results:
        """Runs an entry on a dict of arrays and returns its results by name, as NumPy arrays.

        NumPy arrays and tensors that speak DLPack (torch, JAX, …) go in without a copy; lists and numbers are converted.
        `out` may hold such arrays for some of the results; they are filled instead of new ones. `entry` names
        one; without it the only one is run, or of several `forward`. A model on a GPU takes tensors there by DLPack, too;
        with `on_device` results stay there, as DeviceTensors."""
        if not self._running.acquire(False):
            self._refuse_call()
        try:
            if not self._pointer:
                raise _c.Error("the session is closed", "INVALID_ARGUMENT")
            # Taken away meanwhile: a call of its observer, which is refused, makes its own.
            key = entry if not on_device else (entry,)
            plan = self._plans.pop(key, None) or _Plan(self, self.model._entry_number(entry))
            try:
                if self._kept is None and self._observer is None:
                    return plan.run(inputs, out, self if on_device else None)
                with _Interrupts():
                    return plan.run(inputs, out, self if on_device else None)
            finally:
                self._plans[key] = plan
        finally:
            self._running.release()

    async def run_async(self, inputs: Inputs, entry: str | None = None, out: Rooms = None, on_device: bool = False) -> Results:
        """`run` on a thread of its own, so that an event loop goes on meanwhile."""
        return await asyncio.to_thread(self.run, inputs, entry, out, on_device)

    def observe(self, observer):
        """From the next run on, observer(kernel, begins) is told when a kernel begins (True) and has ended (False); None
        ends that. It must not use the session, and what it raises is printed and forgotten."""
        callback = _c.Observer(lambda _, kernel, begins: observer(kernel.decode(), bool(begins))) if observer else None
        self._call("session_observe", c.cast(callback, c.c_void_p) if callback else None, None)
        self._observer = callback

    def generate(self, inputs, steps, *, min_steps=0, beams=1, length_penalty=1.0, early_stopping=False, sample=False,
                 temperature=1.0, top_k=0, top_p=1.0, seed=0, tokens=None, keep_state=False, listener=None):  # fmt: skip
        """Writes texts (docs/generation.md): (sequences, scores), the tokens as int64 and what each text's probability is.

        `inputs` are the source, or the prompt of a decoder. `tokens` replaces ids of the model: {"eos_token_id": [2]}.
        `listener(step, tokens)` is told of the new tokens after every step, [texts] or, in a beam search, [texts, beams]:
        those of the texts looked at, the best first. When it returns something true, the generation ends there, with the
        best texts so far. An exception of it is raised when the call returns. Ctrl-C ends a generation after a step, too."""
        options = self._generate_options(tokens, keep_state)
        options.steps, options.min_steps, options.beams = steps, min_steps, beams
        options.length_penalty, options.early_stopping = length_penalty, _c.early_stopping(early_stopping)
        options.flags |= _c.SAMPLE if sample else 0
        options.temperature, options.top_k, options.top_p, options.seed = temperature, top_k, top_p, seed
        failed = []

        def listen(_, step, new, texts):
            try:
                heard = listener and listener(step, np.ctypeslib.as_array(new, (texts,)).reshape(shape).copy())
                return bool(heard) or interrupts.came
            except BaseException as error:
                failed.append(error)
                return True

        interrupts = _Interrupts()
        shape = (-1,) if beams == 1 else (-1, beams)
        if listener or interrupts.taken:
            options.listener = _c.Listener(listen)
        given, count, _arrays = self._given(inputs)
        result, score, length = _c.Tensor(), _c.Tensor(), c.c_int64()
        self._call("generate", c.byref(options), given, count, c.byref(result), c.byref(length), None)
        sequences = np.empty(result.shape[:2], np.int64)
        scores = np.empty(result.shape[0], np.float32)
        describe(result, "sequences", sequences)
        describe(score, "scores", scores)
        with interrupts:
            self._call("generate", c.byref(options), given, count, c.byref(result), c.byref(length), c.byref(score))
        if failed:
            raise failed[0]
        return sequences[:, : length.value], scores

    async def generate_async(self, inputs, steps, **how):
        """`generate` on a thread of its own, so that an event loop goes on meanwhile."""
        return await asyncio.to_thread(self.generate, inputs, steps, **how)

    async def stream(self, inputs, steps, **how):
        """Texts as they are written: `async for tokens in session.stream(…)` gives the new token of each text after every
        step, of each of its beams in a beam search. The options are those of `generate`. Leaving the loop ends the generation."""
        loop, queue, left = asyncio.get_running_loop(), asyncio.Queue(), threading.Event()

        def listen(_, tokens):
            loop.call_soon_threadsafe(queue.put_nowait, tokens)
            return left.is_set()

        def work():
            try:
                self.generate(inputs, steps, listener=listen, **how)
            finally:
                loop.call_soon_threadsafe(queue.put_nowait, None)

        task = asyncio.ensure_future(asyncio.to_thread(work))
        try:
            while (tokens := await queue.get()) is not None:
                yield tokens
            await asyncio.shield(task)  # what has failed is raised here
        finally:
            left.set()
            await asyncio.wait([task])
            task.exception()  # who has left the loop is not told

    def score(self, inputs, labels=None, *, tokens=None, keep_state=False):
        """The log-probability of each token of given texts: of `labels` for an encoder-decoder, whose source `inputs`
        is, else of the texts in `inputs`."""
        options = self._generate_options(tokens, keep_state)
        given, count, _arrays = self._given(inputs)
        result, label = _c.Tensor(), None
        if labels is not None:
            labels, label = array_of("labels", labels), _c.Tensor()
            describe(label, "labels", labels)
        arguments = c.byref(options), given, count, None if label is None else c.byref(label), c.byref(result)
        self._call("score", *arguments)
        out = np.empty(result.shape[:2], np.float32)
        describe(result, "log_probabilities", out)
        self._call("score", *arguments)
        return out

    def _generate_options(self, tokens, keep_state):
        pairs = [(name, value) for name, ids in (tokens or {}).items() for value in np.ravel(ids)]
        array = (_c.Token * (len(pairs) + 1))(*((_c.text(name), _c.number(name, value)) for name, value in pairs))
        return _c.GenerateOptions(
            n_tokens=len(pairs), tokens=array, steps=1, beams=1, length_penalty=1, temperature=1, top_p=1,
            flags=_c.KEEP_STATE if keep_state else 0,
        )  # fmt: skip

    def _given(self, inputs):
        """The tensors of a dict of arrays, their number, and the arrays, which must outlive the call."""
        wanted = {value.name: value.dtype for entry in self.model.entries.values() for value in entry.inputs}
        arrays = {name: array_of(name, array, wanted) for name, array in named(inputs, "inputs")}
        given = (_c.Tensor * (len(arrays) + 1))()
        for tensor, (name, array) in zip(given, arrays.items()):
            describe(tensor, name, array, wanted.get(name))
        return given, len(arrays), arrays

    def reset(self):
        """Forgets all states: they are as in a new session."""
        self._call("session_reset")

    def capacity(self, **dims):
        """Sets how large dims are that no input tells, in states that no one has written yet: capacity(P=64). None
        makes it the declared bound again."""
        for name, size in dims.items():
            number = self.model._number("dim", (dim.name for dim in self.model.dims), name)
            self._call("session_capacity", number, -1 if size is None else _c.number(name, size))

    def state(self, name):
        """A copy of what a state holds, or None where nothing was written yet. A parameter begins as the weights file's."""
        number = self.model._number("state", self.model.states, name)
        value, description = _c.StateValue(), self.model.states[name]
        shape = tuple(extent.value for extent in description.extents)
        if not description.parameter:
            self._call("session_state", number, c.byref(value))
            if not value.is_set:
                return None
            shape = tuple(value.shape[: len(shape)])
        array = aligned(shape, result_type(description.dtype))
        tensor = _c.Tensor()
        describe(tensor, name, array, description.dtype)
        self._call("session_read_state", number, c.byref(tensor))
        return array

    def set_state(self, name, value):
        """Gives a state a value, from which the next call goes on. States whose dims calls tell can't be given one."""
        number = self.model._number("state", self.model.states, name)
        dtype = self.model.states[name].dtype
        array = np.asarray(whole_numbers_as(name, dtype, array_of(name, value, {name: dtype})), order="C")
        tensor = _c.Tensor()
        describe(tensor, name, array, dtype)
        self._call("session_write_state", number, c.byref(tensor))

    @property
    def parameters(self) -> Parameters:
        """The params that entries update, by their names in the weights file."""
        return Parameters(self)

    def save(self, path=None):
        """The states as bytes, for `restore` of any session of the same library; or written to a file, whole or not at
        all, whatever ends the process. Parameters are among them: a run goes on from there bit for bit."""
        if path is not None:
            return self._call("session_save_file", _c.path(path))
        size = c.c_size_t()
        self._call("session_save", None, 0, c.byref(size))
        buffer = c.create_string_buffer(size.value)
        self._call("session_save", buffer, size, c.byref(size))
        return buffer.raw

    def restore(self, saved):
        """Takes over states that `save` gave, as bytes or in the file that is named."""
        if isinstance(saved, (str, os.PathLike)):
            return self._call("session_restore_file", _c.path(saved))
        view = np.frombuffer(saved, np.uint8)
        self._call("session_restore", view.ctypes.data, view.nbytes)

    def clone(self):
        """A second session with the same options and a copy of the states."""
        pointer = c.c_void_p()
        self._call("session_clone", c.byref(pointer))
        copy = Session.__new__(Session)
        copy._kept = None
        copy._callers_stream = self._callers_stream
        copy._begin(self.model, pointer)
        return copy
