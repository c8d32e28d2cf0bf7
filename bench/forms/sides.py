"""One side of the comparison of layers: all ways to write them as Heddle compiles them, or PyTorch.

The worker of run.py: `python sides.py SIDE FOLDER THREADS` answers one line of JSON per line of stdin; FOLDER has for each layer its
inputs, its weights and a library for each way.
    check LAYER WAY FILE      computes once and saves the result
    time LAYER WAY SECONDS    the least processor time of a call, of as many as fit"""

import functools
import sys
import time
from pathlib import Path

import numpy as np
from layers import LAYERS
from worker import serve


def tensors(folder, kind):
    return dict(np.load(folder / f"{kind}.npz"))


def heddle_side(folder, threads):
    import heddle

    def call(layer, way):
        session, inputs = heddle.load(folder / layer / way).session(threads=threads), tensors(folder / layer, "inputs")
        (room,) = session.run(inputs).items()
        return lambda: session.run(inputs, out=dict([room]))[room[0]]

    return call


def torch_side(folder, threads):
    import torch

    torch.set_num_threads(threads)

    def call(layer, _way):
        weights, inputs = ({name: torch.from_numpy(value) for name, value in tensors(folder / layer, kind).items()} for kind in ("weights", "inputs"))

        def run():
            with torch.inference_mode():
                return LAYERS[int(layer)].torch(torch, weights, inputs)

        return run

    return call


def start(threads):
    call = {"heddle": heddle_side, "torch": torch_side}[sys.argv[1]](Path(sys.argv[2]), threads)
    made = functools.lru_cache(maxsize=8)(call)

    def answer(what, layer, way, last):
        run = made(layer, way)
        if what == "check":
            np.save(last, np.asarray(run()))
            return "saved"
        least, end = 1e9, time.perf_counter() + float(last)
        run()  # warm
        while time.perf_counter() < end or least == 1e9:
            begin = time.process_time()
            run()
            least = min(least, time.process_time() - begin)
        return least

    return answer


if __name__ == "__main__":
    serve(start)
