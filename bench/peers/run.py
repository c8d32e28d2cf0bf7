#!/usr/bin/env python3
"""Heddle beside PyTorch, ONNX Runtime and OpenVINO: same weights, same inputs, same CPUs, float32, in turn.

    ./dev bench peers                                 everything, about 15 minutes the first time
    ./dev bench peers --models vit-b16 --threads 1    one row of the table

Each runtime lives in a process of its own, pinned to the same CPUs; all but the one being timed are stopped. A round
times every runtime a few times, beginning with another one each round, and measures the machine's roofs, so that a
slow phase of the machine meets all of them. A runtime whose results differ from PyTorch's is not timed.
Writes bench/results/DATE-CPU.md and .csv."""

import argparse
import csv
import datetime
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(HERE.parent)]
from measure import (TOLERANCE, Worker, add_options, check_options, cpu_in_file_names, cpu_name, difference,  # noqa: E402
                     environment_python, make_roofs, measure_roofs, say, versions)
from models import MODELS  # noqa: E402

PEERS = ["heddle", "pytorch", "onnxruntime", "openvino"]
PACKAGES = {"pytorch": "torch", "onnxruntime": "onnxruntime", "openvino": "openvino"}


def make_models(python, names, cache):
    for name in names:
        folder = cache / name
        if not (folder / "complete").exists():
            say(f"making {MODELS[name][0]} with random weights in {folder}")
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            done = subprocess.run([python, HERE / "models.py", name, folder], capture_output=True, text=True)
            if done.returncode:
                sys.exit(f"making {name} failed:\n{done.stderr}")


def compile_with_heddle(heddle, names, cache):
    """Compiles each model afresh, so that the table speaks of this compiler; returns seconds and library bytes."""
    facts = {}
    for name in names:
        out = cache / name / "heddle"
        shutil.rmtree(out, ignore_errors=True)
        start = time.monotonic()
        done = subprocess.run([heddle, "compile", cache / name, "-o", out], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"heddle compile {cache / name} failed:\n{done.stderr}")
        facts[name] = (time.monotonic() - start, sum(path.stat().st_size for path in out.glob("lib*.so")))
        say(f"heddle compiled {name} in {facts[name][0]:.1f} s; the library has {facts[name][1] / 1e6:.2f} MB")
    return facts


def measure(python, name, threads, options, cache, roofs):
    folder, workers, refused = cache / name, [], {}
    for peer in options.peers:
        worker = None
        try:
            worker = Worker(python, HERE / "peers.py", [peer, folder], folder / f"{peer}.log", threads)
            worker.peer, worker.times = peer, []
            worker.ask("output", folder / f"{peer}.safetensors")
            error = difference(python, folder / f"{peer}.safetensors", folder / "outputs.safetensors")
            if not error <= TOLERANCE:
                raise RuntimeError(f"its results differ from PyTorch's by {error:.1e} of the largest value")
            worker.error = error
            worker.ask("time", 2)  # warm
            workers.append(worker)
        except Exception as reason:
            refused[peer] = str(reason)
            say(f"{peer} is left out of {name}: {reason}")
            if worker:
                worker.close()
    peaks, widths = [], []
    for turn in range(options.rounds):
        first = turn % max(1, len(workers))
        for worker in workers[first:] + workers[:first]:
            worker.times += worker.ask("time", options.calls)
        flops, width = measure_roofs(roofs, threads)
        peaks.append(flops)
        widths.append(width)
    rows = []
    for worker in workers:
        walls = [wall for wall, _ in worker.times]
        best, middle = min(walls), statistics.median(walls)
        rows.append({"model": name, "threads": threads, "peer": worker.peer, "min_ms": best * 1e3, "median_ms": middle * 1e3,
                     "min_cpu_ms": min(busy for _, busy in worker.times) * 1e3, "gflops": MODELS[name][2] / best * 1e-9, "fma_peak_gflops": max(peaks),
                     "fma_peak_median_gflops": statistics.median(peaks), "read_gbytes": max(widths), "difference": worker.error,
                     "calls": len(worker.times)})
        worker.close()
    return rows, refused


def table(rows, facts, options, python):
    lines = [f"# Heddle and its peers, float32, {datetime.date.today().isoformat()}", "",
             f"{cpu_name()}, {os.cpu_count()} CPUs; " +
             ", ".join(f"{name} {version}" for name, version in versions(python, PACKAGES.values()).items()) +
             f"; {options.rounds} interleaved rounds of {options.calls} calls. Peak: float32 multiply-adds on the same CPUs in the "
             "same rounds, best. CPU ms: least CPU time of a call, over its threads; where it is far below the time, something else ran "
             "meanwhile. Written by `./dev bench peers`.", ""]
    for name in options.models:
        lines += [f"## {MODELS[name][0]} ({MODELS[name][2] * 1e-9:.1f} GFLOP)", ""]
        if name in facts:
            lines += [f"Heddle compiled it in {facts[name][0]:.1f} s; the library has {facts[name][1] / 1e6:.2f} MB without weights.", ""]
        lines += ["| threads | runtime | min ms | median ms | CPU ms | GFLOP/s | of peak | min, Heddle = 1 | differs by |",
                  "|--:|---|--:|--:|--:|--:|--:|--:|--:|"]
        for threads in options.threads:
            group = [row for row in rows if row["model"] == name and row["threads"] == threads]
            ours = next((row["min_ms"] for row in group if row["peer"] == "heddle"), None)
            for row in sorted(group, key=lambda row: row["min_ms"]):
                relative = f"{row['min_ms'] / ours:.2f}" if ours else ""
                lines.append(f"| {threads} | {row['peer']} | {row['min_ms']:.1f} | {row['median_ms']:.1f} | {row['min_cpu_ms']:.1f} | {row['gflops']:.0f} | "
                             f"{100 * row['gflops'] / row['fma_peak_gflops']:.0f} % | {relative} | {row['difference']:.0e} |")
            if group:
                lines.append(f"| {threads} | *peak* | | | | {group[0]['fma_peak_gflops']:.0f} | | | |")
        lines.append("")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, "peers")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=PEERS)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--calls", type=int, default=4, help="calls of a runtime in one round")
    options = parser.parse_args()
    check_options(options, "heddle" in options.peers)

    python = environment_python(options.venv)
    make_models(python, options.models, options.cache)
    facts = compile_with_heddle(options.heddle, options.models, options.cache) if "heddle" in options.peers else {}
    roofs = make_roofs(options.cache)
    rows, refused = [], {}
    for name in options.models:
        for threads in options.threads:
            say(f"{MODELS[name][0]}, {threads} thread{'s' if threads > 1 else ''}")
            more, without = measure(python, name, threads, options, options.cache, roofs)
            rows += more
            refused |= {(name, threads, peer): reason for peer, reason in without.items()}
    text = table(rows, facts, options, python)
    text += "".join(f"\n{peer} was left out of {name} at {threads} threads: {reason}\n"
                    for (name, threads, peer), reason in refused.items())
    options.results.mkdir(parents=True, exist_ok=True)
    stem = f"{datetime.date.today().isoformat()}-{cpu_in_file_names()}"
    (options.results / f"{stem}.md").write_text(text)
    if rows:
        with open(options.results / f"{stem}.csv", "w", newline="") as file:
            writer = csv.DictWriter(file, rows[0].keys())
            writer.writeheader()
            writer.writerows(rows)
    print(text)
    say(f"written to {options.results / stem}.md and .csv")
    if refused:
        sys.exit(1)


if __name__ == "__main__":
    main()
