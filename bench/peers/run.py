#!/usr/bin/env python3
"""Heddle beside PyTorch, ONNX Runtime and OpenVINO: same weights, same inputs, same CPUs, in turn, in float32, bf16 and int8.

    ./dev bench peers                                 everything, about 40 minutes the first time
    ./dev bench peers --models vit-b16 --threads 1    one row of the table; others of the same day stay

Each runtime lives in a process of its own, pinned to the same CPUs; all but the one being timed are stopped. A round
times every runtime a few times, beginning with another one each round, and measures the machine's roofs, so that a
slow phase of the machine meets all of them. A runtime whose results differ from PyTorch's in float32 is not timed.
Writes bench/results/DATE-CPU.md and .csv."""

import argparse
import csv
import datetime
import json
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
from models import ALL, MODELS  # noqa: E402

# Of the largest value; narrow: far enough from it to say that something else was computed.
TOLERANCES = {"f32": TOLERANCE, "bf16": 0.1, "int8": 0.3}
NOT_COMPILED = {"compile_s": 0.0, "library_mb": 0.0}
PACKAGES = {"pytorch": "torch", "onnxruntime": "onnxruntime", "openvino": "openvino"}


def make_models(python, names, cache):
    for name in names:
        folder = cache / name
        if not (folder / "complete").exists():
            say(f"making {MODELS[name].what} with random weights in {folder}")
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            code = f"import sys, pathlib; sys.path.insert(0, {str(HERE)!r}); import modules; modules.make({name!r}, pathlib.Path({str(folder)!r}))"
            done = subprocess.run([python, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
            if done.returncode:
                sys.exit(f"making {name} failed:\n{done.stderr}")


def precision_of(peer):
    return peer.partition(" ")[2] or "f32"


def compile_with_heddle(heddle, names, precisions, cache):
    """Compiles each model afresh, so that the table speaks of this compiler; returns seconds and library bytes of the first precision."""
    facts = {}
    for name in names:
        for precision in precisions:
            out = cache / name / f"heddle-{precision}"
            shutil.rmtree(out, ignore_errors=True)
            start = time.monotonic()
            done = subprocess.run([heddle, "compile", cache / name, "--precision", precision, "-o", out], capture_output=True, text=True)
            if done.returncode:
                sys.exit(f"heddle compile {cache / name} failed:\n{done.stderr}")
            here = {"compile_s": time.monotonic() - start, "library_mb": sum(path.stat().st_size for path in out.glob("lib*.so")) / 1e6}
            facts.setdefault(name, here)
            say(f"heddle compiled {name} in {precision} in {here['compile_s']:.1f} s; the library has {here['library_mb']:.2f} MB")
    return facts


def measure(python, name, threads, options, cache, roofs, facts):
    folder, workers, refused = cache / name, [], {}
    for peer in [peer for peer in options.peers if peer in MODELS[name].peers]:
        worker = None
        try:
            worker = Worker(python, HERE / "peers.py", [peer, folder], folder / f"{peer.replace(' ', '-')}.log", threads)
            worker.peer, worker.times = peer, []
            result = folder / f"{peer.replace(' ', '-')}.safetensors"
            worker.ask("output", result)
            error = difference(python, result, folder / "outputs.safetensors")
            if not error <= TOLERANCES[precision_of(peer)]:
                raise RuntimeError(f"its results differ from PyTorch's by {error:.1e} of the largest value")
            worker.error = error
            worker.ask("time", 1)  # warm
            workers.append(worker)
        except Exception as reason:
            refused[peer] = str(reason)
            say(f"{peer} is left out of {name}: {reason}")
            if worker:
                worker.close()
    peaks, widths, operations = [], [], json.loads((folder / "facts.json").read_text())["flops"]
    begun = time.monotonic()
    for turn in range(options.rounds):
        if turn >= 3 and time.monotonic() - begun > options.seconds:
            break
        first = turn % max(1, len(workers))
        for worker in workers[first:] + workers[:first]:
            worker.times += worker.ask("time", options.calls)
        peak, width = measure_roofs(roofs, threads)
        peaks.append(peak)
        widths.append(width)
    rows = []
    for worker in workers:
        walls = [wall for wall, _ in worker.times]
        best, middle = min(walls), statistics.median(walls)
        rows.append({"model": name, "threads": threads, "peer": worker.peer, "min_ms": best * 1e3, "median_ms": middle * 1e3,
                     "min_cpu_ms": min(busy for _, busy in worker.times) * 1e3, "gflop": operations * 1e-9, "gflops": operations / best * 1e-9, "fma_peak_gflops": max(peaks),
                     "fma_peak_median_gflops": statistics.median(peaks), "read_gbytes": max(widths), "difference": worker.error,
                     "calls": len(worker.times), **facts})
        worker.close()
    return rows, refused


def earlier(path, rows):
    """Today's rows of other models and thread counts, so that the table can be made piece by piece."""
    if not path.exists():
        return []
    now = {(row["model"], row["threads"], row["peer"]) for row in rows}
    with open(path, newline="") as file:
        read = [{key: value if key in ("model", "peer") else int(value) if key in ("threads", "calls") else float(value)
                 for key, value in row.items()} for row in csv.DictReader(file)]
    return [row for row in read if row["model"] in MODELS and (row["model"], row["threads"], row["peer"]) not in now]


def table(rows, python):
    lines = [f"# Heddle and its peers, {datetime.date.today().isoformat()}", "",
             f"{cpu_name()}, {os.cpu_count()} CPUs; " +
             ", ".join(f"{name} {version}" for name, version in versions(python, PACKAGES.values()).items()) +
             "; interleaved rounds of a few calls. Peak: float32 multiply-adds on the same CPUs in the "
             "same rounds, best. CPU ms: least CPU time of a call, over its threads; where it is far below the time, something else ran "
             "meanwhile. Written by `./dev bench peers`.", ""]
    for name in MODELS:
        here = [row for row in rows if row["model"] == name]
        if not here:
            continue
        operations = here[0]["gflop"]
        lines += [f"## {MODELS[name].what}" + (f" ({operations:.1f} GFLOP)" if operations else ""), "",
                  f"Heddle compiled it in {here[0]['compile_s']:.1f} s; the library has {here[0]['library_mb']:.2f} MB without weights.", "",
                  "| threads | runtime | min ms | median ms | CPU ms | GFLOP/s | of peak | min (median), Heddle = 1 | calls | differs by |",
                  "|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|"]
        for threads in sorted({row["threads"] for row in here}):
            group = [row for row in here if row["threads"] == threads]
            for row in sorted(group, key=lambda row: (list(TOLERANCES).index(precision_of(row["peer"])), row["min_ms"])):
                heddle = " ".join(["heddle", *row["peer"].split()[1:]])  # of the same precision
                ours = next((other for other in group if other["peer"] == heddle), None)
                relative = f"{row['min_ms'] / ours['min_ms']:.2f} ({row['median_ms'] / ours['median_ms']:.2f})" if ours else ""
                rate = f"{row['gflops']:.0f} | {100 * row['gflops'] / row['fma_peak_gflops']:.0f} %" if operations else " |"
                lines.append(f"| {threads} | {row['peer']} | {row['min_ms']:.1f} | {row['median_ms']:.1f} | {row['min_cpu_ms']:.1f} | "
                             f"{rate} | {relative} | {row['calls']} | {row['difference']:.0e} |")
            lines.append(f"| {threads} | *peak* | | | | {group[0]['fma_peak_gflops']:.0f} | | | | |")
        lines.append("")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, "peers")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--peers", nargs="+", choices=ALL, default=list(ALL))
    parser.add_argument("--precision", nargs="+", choices=TOLERANCES, default=list(TOLERANCES))
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=60, help="after that long, and three rounds, a row is done")
    parser.add_argument("--calls", type=int, default=4, help="calls of a runtime in one round")
    options = parser.parse_args()
    options.peers = [peer for peer in options.peers if precision_of(peer) in options.precision]
    ours = [precision_of(peer) for peer in options.peers if peer.startswith("heddle")]
    check_options(options, bool(ours))

    python = environment_python(options.venv)
    make_models(python, options.models, options.cache)
    facts = compile_with_heddle(options.heddle, options.models, ours, options.cache)
    roofs = make_roofs(options.cache)
    rows, refused = [], {}
    for name in options.models:
        for threads in options.threads:
            say(f"{MODELS[name].what}, {threads} thread{'s' if threads > 1 else ''}")
            more, without = measure(python, name, threads, options, options.cache, roofs, facts.get(name, NOT_COMPILED))
            rows += more
            refused |= {(name, threads, peer): reason for peer, reason in without.items()}
    stem = f"{datetime.date.today().isoformat()}-{cpu_in_file_names()}"
    rows = earlier(options.results / f"{stem}.csv", rows) + rows
    text = table(rows, python)
    text += "".join(f"\n{peer} was left out of {name} at {threads} threads: {reason}\n"
                    for (name, threads, peer), reason in refused.items())
    options.results.mkdir(parents=True, exist_ok=True)
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
