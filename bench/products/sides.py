"""One side of the comparison of dense layers: Heddle's kernels, or oneDNN's primitives as PyTorch has them. Both multiply
weights that were packed before, with bias and GELU in the same kernel; both begin with rows that are narrow already.

The worker of run.py: `python sides.py SIDE FOLDER THREADS` answers one line of JSON per line of stdin.
    check PRECISION TERMS COLUMNS ENTRY ROWS FILE     computes once and saves the result
    time PRECISION TERMS COLUMNS ENTRY ROWS COUNT     seconds of each of so many calls"""

import functools
import json
import sys
import time
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file
from worker import serve


def inputs_of(folder, terms, columns, rows):
    """Weight, bias, the next layer's weight and rows of floats, the same for both sides."""
    tensors = load_file(folder / f"{terms}x{columns}.safetensors")
    return tensors["weight"], tensors["bias"], tensors["next"], np.random.default_rng(2).standard_normal((rows, terms), np.float32)


class Heddle:
    """Of a library's kernels the first product of a call counts: with int8 one before rounds the rows, and another may multiply the result."""

    def __init__(self, folder, threads):
        import heddle

        self.folder, self.open = folder, functools.cache(lambda library: self._open(heddle, library, threads))

    def _open(self, heddle, library, threads):
        manifest = json.loads(next(library.glob("*.json")).read_text())
        products = {kernel["name"] for kernel in manifest["kernels"] if kernel["kind"] == "contraction"}
        session, seconds, begun = heddle.load(library).session(threads=threads), [], [0.0]

        def observer(kernel, begins):
            if kernel.split()[0] in products:
                if begins:
                    begun[0] = time.perf_counter()
                else:
                    seconds.append(time.perf_counter() - begun[0])

        session.observe(observer)
        return session, seconds

    def call(self, precision, terms, columns, entry, rows):
        session, seconds = self.open(self.folder / f"{precision}-{terms}x{columns}")
        x = inputs_of(self.folder, terms, columns, rows)[-1]
        if precision == "bf16":  # whose bits the library takes
            x = heddle_bf16(x)

        def run():
            seconds.clear()
            result = session.run({"x": x}, entry=entry)["y"]
            return result, seconds[0]

        return run


def heddle_bf16(x):
    """Rounded to the nearest bf16, as Heddle takes them from Python: the upper half of the bits."""
    bits = x.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


class OneDnn:
    def __init__(self, folder, threads):
        import torch

        torch.set_num_threads(threads)
        self.torch, self.folder = torch, folder

    def call(self, precision, terms, columns, entry, rows):
        torch = self.torch
        weight, bias, following, x = (torch.from_numpy(value) for value in inputs_of(self.folder, terms, columns, rows))
        post = ("gelu", [], "none") if entry in ("gelu_of", "between") else ("none", [], "")
        if precision != "int8":
            type = torch.bfloat16 if precision == "bf16" else torch.float32
            x, weight, bias = x.to(type), weight.to(type), bias.to(type)
            packed = torch.ops.mkldnn._reorder_linear_weight(weight, rows)
            product = functools.partial(torch.ops.mkldnn._linear_pointwise, x, packed, bias, *post)
        else:
            scales = weight.abs().amax(1) / 127
            scale = float(x.abs().max() / 127)
            rounded = (torch.round(x / scale) + 128).to(torch.uint8)
            numbers = torch.round(weight / scales[:, None]).to(torch.int8)
            packed = torch.ops.onednn.qlinear_prepack(numbers, [rows, terms])
            zeros = torch.zeros(columns, dtype=torch.int64)
            product = functools.partial(torch.ops.onednn.qlinear_pointwise, rounded, scale, 128, packed, scales, zeros, bias, 1.0, 0,
                                        torch.float32, *post)  # fmt: skip

        def run():
            start = time.perf_counter()
            result = product()
            seconds = time.perf_counter() - start
            return result @ following.T if entry == "between" else result, seconds

        return run


SIDES = {"heddle": Heddle, "onednn": OneDnn}


def start(threads):
    side = SIDES[sys.argv[1]](Path(sys.argv[2]), threads)

    @functools.lru_cache(maxsize=1)
    def made(*case):
        precision, terms, columns, entry, rows = case
        run = side.call(precision, int(terms), int(columns), entry, int(rows))
        run()  # warm
        return run

    def answer(what, *words):
        *case, last = words
        run = made(*case)
        if what == "time":
            return [run()[1] for _ in range(int(last))]
        result = run()[0]
        array = result if isinstance(result, np.ndarray) else result.float().numpy()
        if array.dtype == np.uint16:  # bf16 without ml_dtypes
            array = (array.astype(np.uint32) << 16).view(np.float32)
        np.save(last, array.astype(np.float32))
        return "saved"

    return answer


if __name__ == "__main__":
    serve(start)
