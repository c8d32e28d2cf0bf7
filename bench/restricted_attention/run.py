#!/usr/bin/env python3
"""Restricted self-attention against the length of the text: time and memory per position, which must stay the same, of
one encoder layer with a neighbourhood of 129 positions (models/restricted_attention, width 512, 8 heads). Beside Heddle,
PyTorch in the two forms it has: a mask of n x n, and windows unfolded to n x 129 x 512.

    ./dev bench restricted-attention                        about two minutes
    ./dev bench restricted-attention --sides heddle         Heddle alone

Every side of every length is a process of its own, stopped except while it is timed; a round visits all of them and
measures the machine's multiply-adds, so that a slow phase of the machine meets all lengths. Before that, results are held
against PyTorch's for the windows of some positions alone: the first, the last and those around the middle."""

import argparse
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE.parent)]
from measure import Worker, add_options, check_options, environment_python, make_roofs, measure_roofs, say  # noqa: E402
from worker import serve, timed  # noqa: E402

WIDTH, HEADS, FORWARD, REACH = 512, 8, 2048, 64
CHECKED = 150  # positions of each place where results are compared
TOLERANCE = 2e-5  # of the largest value: one layer
GIB = 1 << 30
# Bytes that a side takes at most for n positions.
NEEDS = {"heddle": lambda n: 40_000 * n, "mask": lambda n: 80 * n * n, "unfold": lambda n: 50_000 * n}


def flops(n):
    """Multiplications and additions of n positions."""
    return n * 2 * (4 * WIDTH**2 + 2 * WIDTH * FORWARD) + 4 * WIDTH * sum(
        min(n, i + REACH + 1) - max(0, i - REACH) for i in range(n))


def text(n):
    return np.random.default_rng(n).standard_normal((1, n, WIDTH), dtype=np.float32)


def torch_layer(folder):
    import torch
    from safetensors.torch import load_file, save_file

    torch.set_num_threads(1)
    torch.manual_seed(1)
    layer = torch.nn.TransformerEncoderLayer(WIDTH, HEADS, FORWARD, batch_first=True).eval()
    weights = folder / "model.safetensors"
    if weights.exists():
        layer.load_state_dict({name.removeprefix("layers.0."): value for name, value in load_file(weights).items()})
    else:
        save_file({f"layers.0.{name}": value for name, value in layer.state_dict().items()}, weights)
    return layer


def masked(layer, n):
    import torch

    at = torch.arange(n)
    outside = (at[:, None] - at[None, :]).abs() > REACH
    return lambda x: layer(x, src_mask=outside)


def unfolded(layer, n):
    import torch
    import torch.nn.functional as F

    def attention(x):
        q, k, v = F.linear(x, layer.self_attn.in_proj_weight, layer.self_attn.in_proj_bias).view(n, 3, HEADS, -1).unbind(1)
        windows = [F.pad(t, (0, 0, 0, 0, REACH, REACH)).unfold(0, 2 * REACH + 1, 1) for t in (k, v)]  # n, heads, features, window
        scores = torch.matmul(q[:, :, None, :], windows[0])[:, :, 0] / (WIDTH // HEADS) ** 0.5
        at = torch.arange(n)[:, None] + torch.arange(-REACH, REACH + 1)
        weights = scores.masked_fill(((at < 0) | (at >= n))[:, None], -torch.inf).softmax(-1)
        return layer.self_attn.out_proj(torch.matmul(windows[1], weights[..., None])[..., 0].reshape(1, n, WIDTH))

    def run(x):
        y = layer.norm1(x + attention(x))
        return layer.norm2(y + layer.linear2(F.relu(layer.linear1(y))))

    return run


class Side:
    """What a worker process times."""

    def __init__(self, name, n, folder):
        self.given = text(n)
        if name == "heddle":
            import heddle

            session = heddle.load(folder / "library").session(threads=1)
            self.run = lambda: session.run({"src": self.given})["output"]
            return
        import torch

        layer = torch_layer(folder)
        inner, given = (masked if name == "mask" else unfolded)(layer, n), torch.from_numpy(self.given)

        def run():
            with torch.inference_mode():
                return inner(given).numpy()

        self.run = run


def differs(side, got, n, folder):
    """From PyTorch with a mask, at some positions, of which it gets the neighbourhood only; as a share of the largest."""
    import torch

    layer, x, worst = torch_layer(folder), side.given, 0.0
    for first in {0, max(0, n // 2 - CHECKED // 2), max(0, n - CHECKED)}:
        last = min(n, first + CHECKED)
        start, end = max(0, first - REACH), min(n, last + REACH)
        with torch.inference_mode():
            want = masked(layer, end - start)(torch.from_numpy(x[:, start:end]))[0, first - start : last - start].numpy()
        worst = float(np.maximum(worst, np.abs(got[0, first:last] - want).max() / np.abs(want).max()))  # keeps NaN
    return worst


def start(threads):
    name, n, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    side = Side(name, n, folder)

    def answer(what, *words):
        if what == "time":
            return timed(side.run, words[0])
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        result = side.run()
        taken = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
        return {"bytes": taken, "differs": differs(side, result, n, folder)}

    return answer


def prepare(python, options):
    """Weights of PyTorch's layer, and the library; a fresh one each time."""
    folder = options.cache
    (folder / "model.safetensors").unlink(missing_ok=True)
    code = f"import sys, pathlib; sys.path.insert(0, {str(HERE)!r}); import run; run.torch_layer(pathlib.Path({str(folder)!r}))"
    subprocess.run([python, "-c", code], check=True, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
    shutil.rmtree(folder / "library", ignore_errors=True)
    done = subprocess.run([options.heddle, "compile", ROOT / "models" / "restricted_attention" / "restricted_attention.heddle",
                           "--set", "num_encoder_layers=1", "--set", "final_norm=false", "--weights", folder / "model.safetensors",
                           "-o", folder / "library"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"heddle compile failed:\n{done.stderr}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, "restricted-attention")
    parser.add_argument("--lengths", type=int, nargs="+", default=[1024, 4096, 16384, 65536])
    parser.add_argument("--sides", nargs="+", choices=NEEDS, default=list(NEEDS))
    parser.add_argument("--memory", type=float, default=8, help="GiB that a side may take; where it would need more it is left out")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    options.threads = [1]
    check_options(options)
    python, rows = environment_python(options.venv), []
    roofs = make_roofs(options.cache)
    prepare(python, options)
    try:
        for n in options.lengths:
            for name in options.sides:
                if NEEDS[name](n) > options.memory * GIB:
                    continue
                worker = Worker(python, __file__, [name, n, options.cache], options.cache / f"{name}.log", 1)
                worker.name, worker.n, worker.times = name, n, []
                rows.append(worker)
                worker.facts = worker.ask("compare")
                if not worker.facts["differs"] < TOLERANCE:
                    sys.exit(f"{name} at {n}: results differ by {worker.facts['differs']:.1e} of the largest")
        peaks = []
        for number in range(options.rounds):
            for worker in rows[number % len(rows) :] + rows[: number % len(rows)]:
                worker.times += worker.ask("time", max(1, 8192 // worker.n))
            peaks.append(measure_roofs(roofs, 1)[0])
    except RuntimeError as reason:
        sys.exit(f"a worker failed: {reason}")
    finally:
        for worker in rows:
            worker.close()
    say(f"multiply-adds on the same CPU in the same rounds: {min(peaks):.0f} to {max(peaks):.0f} GFLOP/s")
    print("| positions | side | us per position | median | of the peak | MB beyond the start | bytes per position | differs by |\n"
          "|--:|---|--:|--:|--:|--:|--:|--:|")
    for worker in rows:
        walls = sorted(wall for wall, _ in worker.times)
        least, middle, taken = walls[0], walls[len(walls) // 2], worker.facts["bytes"]
        print(f"| {worker.n} | {worker.name} | {least / worker.n * 1e6:.1f} | {middle / worker.n * 1e6:.1f} | "
              f"{100 * flops(worker.n) / least * 1e-9 / max(peaks):.0f} % | {taken / 1e6:.0f} | {taken / worker.n:.0f} | "
              f"{worker.facts['differs']:.0e} |")


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in NEEDS:
        serve(start)
    else:
        main()
