#!/usr/bin/env python3
"""Restricted self-attention against the length of the text: time and memory per position, which must stay the same, of
one encoder layer with a neighbourhood of 129 positions (models/restricted_attention, width 512, 8 heads). Beside Heddle,
PyTorch in the two forms it has: a mask of n x n, and windows unfolded to n x 129 x 512. Every row is measured in a
process of its own, on one thread, and all results are compared before times count."""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
WIDTH, HEADS, FORWARD, REACH = 512, 8, 2048, 64
GIB = 1 << 30


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


def measure(side, n, folder):
    x = text(n)
    if side == "heddle":
        import heddle

        session = heddle.load(folder / "library").session(threads=1)
        call = lambda: session.run({"src": x})["output"]
    else:
        import torch

        layer = torch_layer(folder)
        run = (masked if side == "mask" else unfolded)(layer, n)
        given = torch.from_numpy(x)

        def call():
            with torch.inference_mode():
                return run(given).numpy()

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = call()
    times = []
    while len(times) < 2 or (len(times) < 20 and sum(times) < 2):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    np.save(folder / f"{side}.npy", result)
    print(json.dumps({"seconds": min(times), "bytes": peak * 1024}))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--heddle", default="heddle", help="the compiler")
    parser.add_argument("--python", default=sys.executable, help="one that has PyTorch")
    parser.add_argument("--lengths", type=int, nargs="+", default=[1024, 4096, 16384, 65536])
    parser.add_argument("--memory", type=float, default=8, help="GiB that a side may take; where it would need more it is left out")
    parser.add_argument("--side", choices=["heddle", "mask", "unfold"], help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.side:
        return measure(args.side, args.lengths[0], args.folder)
    needs = {"heddle": lambda n: 0, "mask": lambda n: 6 * n * n, "unfold": lambda n: 4 * 2 * n * (2 * REACH + 1) * WIDTH}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        subprocess.run([args.python, "-c", f"import sys, pathlib; sys.path.insert(0, {str(Path(__file__).parent)!r}); import run; "
                        f"run.torch_layer(pathlib.Path({scratch!r}))"], check=True)
        subprocess.run([args.heddle, "compile", ROOT / "models" / "restricted_attention" / "restricted_attention.heddle",
                        "--set", "num_encoder_layers=1", "--set", "final_norm=false", "--weights", folder / "model.safetensors",
                        "-o", folder / "library"], check=True, stdout=subprocess.DEVNULL)
        print("| positions | side | us per position | MB beyond the start | bytes per position |\n|--:|---|--:|--:|--:|")
        for n in args.lengths:
            for side in ("heddle", "mask", "unfold"):
                if needs[side](n) > args.memory * GIB:
                    continue
                done = subprocess.run([args.python, __file__, "--side", side, "--lengths", str(n), "--folder", folder], check=True,
                                      capture_output=True, text=True)
                row = json.loads(done.stdout)
                if side != "heddle":
                    want, got = np.load(folder / f"{side}.npy"), np.load(folder / "heddle.npy")
                    worst = np.abs(want - got).max() / np.abs(want).max()
                    if not worst < 2e-5:
                        sys.exit(f"{side} at {n}: results differ by {worst:.1e} of the largest")
                print(f"| {n} | {side} | {row['seconds'] / n * 1e6:.1f} | {row['bytes'] / 1e6:.0f} | {row['bytes'] / n:.0f} |", flush=True)


if __name__ == "__main__":
    main()
