#!/usr/bin/env python3
"""Layers written in two or three ways (layers.py), each way as Heddle compiles it, beside the fastest way and beside PyTorch, in turns.

    ./dev bench forms                       all layers, some four minutes
    ./dev bench forms --only attention      those with that in their name
    ./dev bench forms --target x86-64-v3    code for another CPU than this one

Results are compared before times count. The table is docs/performance/forms.md's; what is slower than 1.3 times the fastest way, or than PyTorch, is
named at the end."""

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
from layers import LAYERS  # noqa: E402
from measure import Worker, add_options, check_options, cpu_name, environment_python, say, versions  # noqa: E402

WITHIN = 1.3  # of the fastest way


def make(options, number, layer):
    """Inputs, weights, and a library for each way; what is there already is kept as long as text, compiler and target are the same."""
    folder, random = options.cache / str(number), np.random.default_rng(number)
    folder.mkdir(exist_ok=True)
    inputs = {}
    for name, shape in layer.inputs.items():
        numbers = isinstance(shape[-1], tuple)
        inputs[name] = random.integers(0, shape[0], shape[1], np.int32) if numbers else random.standard_normal(shape, np.float32)
    weights = {name: (random.standard_normal(shape) / shape[-1] ** 0.5).astype(np.float32) for name, shape in layer.weights.items()}
    np.savez(folder / "inputs.npz", **inputs)
    np.savez(folder / "weights.npz", **weights)
    for way, written in enumerate(layer.ways):
        text, out, model = layer.text(written), folder / str(way), folder / f"{way}.heddle"
        stamp = hashlib.sha256(f"{text} {options.target} {options.heddle.stat().st_mtime_ns}".encode()).hexdigest()
        if (out / "stamp").exists() and (out / "stamp").read_text() == stamp:
            continue
        shutil.rmtree(out, ignore_errors=True)
        model.write_text(text)
        command = [options.heddle, "compile", model, "--target", options.target, "--db", "none", "-o", out]
        done = subprocess.run([*command, *(["--weights", folder / "weights.npz"] if weights else [])], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{layer.name}, {written}:\n{done.stderr}")
        (out / "stamp").write_text(stamp)


def kinds(folder):
    """The kinds of a library's kernels in the order of their calls, each once."""
    manifest = json.loads(next(folder.glob("*.json")).read_text())
    return ", ".join(dict.fromkeys(kernel["kind"] for kernel in manifest["kernels"]))


def compare(layer, files):
    want = np.load(files[-1])
    for way, file in zip(layer.ways, files):
        got = np.load(file)
        if got.shape != want.shape or not (error := np.abs(got - want).max() / np.abs(want).max()) <= layer.tolerance:
            sys.exit(f"{layer.name}, {way}: {f'shapes {got.shape} and {want.shape}' if got.shape != want.shape else f'off by {error:.1e} of the largest value'}")


def unit(seconds):
    return f"{seconds * 1e6:.0f} us" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, "forms")
    parser.set_defaults(threads=[1])
    parser.add_argument("--only", default="", help="layers with this in their name")
    parser.add_argument("--target", default="native")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=0.15, help="that a way is called for in a round")
    options = parser.parse_args()
    check_options(options)
    python = environment_python(options.venv, "torch, safetensors")
    chosen = [(number, layer) for number, layer in enumerate(LAYERS) if options.only in layer.name]
    say("compiling")
    for number, layer in chosen:
        make(options, number, layer)
    short = []
    for threads in options.threads:
        workers = {side: Worker(python, HERE / "sides.py", [side, options.cache], options.cache / f"{side}.log", threads) for side in ("heddle", "torch")}
        print(f"\n{cpu_name()}, {options.target}, {threads} thread{'s' if threads > 1 else ''}, PyTorch {versions(python, ['torch'])['torch']}\n")
        print("| layer | written | time | of the best | PyTorch | kernels |\n|---|---|--:|--:|--:|---|")
        for number, layer in chosen:
            sides = [("heddle", str(way)) for way in range(len(layer.ways))] + [("torch", "0")]
            files = [options.cache / f"{side}{way}.npy" for side, way in sides]
            for (side, way), file in zip(sides, files):
                workers[side].ask("check", number, way, file)
            compare(layer, files)
            times = [[] for _ in sides]
            for turn in range(options.rounds):
                for i in range(len(sides))[:: -1 if turn % 2 else 1]:
                    times[i].append(workers[sides[i][0]].ask("time", number, sides[i][1], options.seconds))
            *ours, theirs = map(min, times)
            for way, seconds in zip(layer.ways, ours):
                first = way == next(iter(layer.ways))
                print(f"| {layer.name if first else ''} | {way.replace('|', chr(92) + '|')} | {unit(seconds)} | {seconds / min(ours):.2f} | {unit(theirs) + ', ' if first else ''}"
                      f"{theirs / seconds:.2f} | {kinds(options.cache / str(number) / str(list(layer.ways).index(way)))} |", flush=True)  # fmt: skip
                if seconds > WITHIN * min(ours) or seconds > theirs:
                    short.append(f"{layer.name}, {way}: {seconds / min(ours):.2f} of the best way's time, {seconds / theirs:.2f} of PyTorch's")
        for worker in workers.values():
            worker.close()
    print("\n" + "\n".join(short or ["all within"]))


if __name__ == "__main__":
    main()
