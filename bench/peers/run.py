#!/usr/bin/env python3
"""Heddle beside the runtimes that one could use instead: same weights, same inputs, same CPUs, in turn, in float32, bf16 and int8.

    ./dev bench peers                                 everything with batch 1 and 8, some hours the first time
    ./dev bench peers --models vit-b16 --threads 1    one row of the table; others of the same day stay
    ./dev bench peers --missing                       goes on where it was interrupted

Each runtime lives in a process of its own, pinned to the same CPUs; all but the one being timed are stopped. A round
times every runtime a few times, beginning with another one each round, and measures the machine's roofs, so that a
slow phase of the machine meets all of them. A runtime whose results differ from PyTorch's in float32 is not timed.
Writes bench/results/DATE-CPU.md, .csv and .svg after each model."""

import argparse
import csv
import datetime
import json
import math
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
from models import MODELS, PEERS, PRECISIONS, facts_of, folder_of, parts_of, peer_name  # noqa: E402

# Of the largest value; narrow: far enough from it to say that something else was computed. The words of a search may differ
# after a near tie, and then all that follow do.
TOLERANCES = {"f32": TOLERANCE, "bf16": 0.1, "int8": 0.3}


def tolerance(name, peer):
    searches = MODELS[name].entry == "generate" and precision_of(peer) != "f32"
    return math.inf if searches else TOLERANCES[precision_of(peer)]


NOT_COMPILED = {"compile_s": 0.0, "library_mb": 0.0}
PACKAGES = ("torch", "onnxruntime", "openvino", "iree-base-runtime", "ctranslate2")


def make_model(python, name, batch, cache):
    folder = folder_of(cache, name, batch)
    if (folder / "complete").exists():
        return
    say(f"making {MODELS[name].what}, batch {batch}, with random weights in {folder}")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    code = f"import sys, pathlib; sys.path.insert(0, {str(HERE)!r}); import modules; modules.make({name!r}, {batch}, pathlib.Path({str(cache)!r}))"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
    if done.returncode:
        sys.exit(f"making {name} failed:\n{done.stderr}")


def precision_of(peer):
    return parts_of(peer)[1]


def compile_with_heddle(heddle, folder, precisions):
    """Compiles a model afresh, so that the table speaks of this compiler; returns seconds and library bytes of the first precision."""
    facts = NOT_COMPILED
    for precision in precisions:
        out = folder / f"heddle-{precision}"
        shutil.rmtree(out, ignore_errors=True)
        start = time.monotonic()
        done = subprocess.run([heddle, "compile", folder, "--precision", precision, "--cache", "none", "-o", out], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"heddle compile {folder} failed:\n{done.stderr}")
        here = {"compile_s": time.monotonic() - start, "library_mb": sum(path.stat().st_size for path in out.glob("lib*.so")) / 1e6}
        facts = here if facts is NOT_COMPILED else facts
        say(f"heddle compiled it in {precision} in {here['compile_s']:.1f} s; the library has {here['library_mb']:.2f} MB")
    return facts


def measure(python, name, batch, threads, peers, options, roofs, facts):
    folder, workers, refused = folder_of(options.cache, name, batch), [], {}
    for peer in peers:
        worker = None
        try:
            worker = Worker(python, HERE / "peers.py", [peer, folder], folder / f"{peer.replace(' ', '-')}.log", threads)
            worker.peer, worker.times = peer, []
            result = folder / f"{peer.replace(' ', '-')}.safetensors"
            worker.first = worker.ask("output", result)
            error = difference(python, result, folder / "outputs.safetensors")
            if not error <= tolerance(name, peer):
                raise RuntimeError(f"its results differ from PyTorch's by {error:.1e} of the largest value")
            worker.error = error
            worker.ask("time", 1)  # warm
            workers.append(worker)
        except Exception as reason:
            refused[peer] = str(reason)
            say(f"{peer} is left out of {name}: {reason}")
            if worker:
                worker.close()
    peaks, widths, operations = [], [], facts_of(folder)["flops"]
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
        rows.append({"model": name, "batch": batch, "threads": threads, "peer": worker.peer, "min_ms": best * 1e3, "median_ms": middle * 1e3,
                     "first_ms": worker.first * 1e3, "min_cpu_ms": min(busy for _, busy in worker.times) * 1e3, "gflop": operations * 1e-9, "gflops": operations / best * 1e-9, "fma_peak_gflops": max(peaks),
                     "fma_peak_median_gflops": statistics.median(peaks), "read_gbytes": max(widths), "difference": worker.error,
                     "calls": len(worker.times), **facts})
        worker.close()
    return rows, refused


def key_of(row):
    return row["model"], row["batch"], row["threads"], row["peer"]


def read_rows(path):
    """Rows of the table that is there."""
    if not path.exists():
        return []
    with open(path, newline="") as file:
        read = [{key: value if key in ("model", "peer") else int(value) if key in ("batch", "threads", "calls") else float(value)
                 for key, value in row.items()} for row in csv.DictReader(file)]
    return [{"batch": 1, "first_ms": math.nan, **row} for row in read if row["model"] in MODELS]


def groups_of(rows):
    """Rows of one model, batch and number of threads, of one precision, by all of these."""
    out = {}
    for row in rows:
        out.setdefault((row["model"], row["batch"], row["threads"], precision_of(row["peer"])), []).append(row)
    return out


def beside_the_best(group):
    """Time of the fastest peer in units of Heddle's, and its name; nothing where one of them is missing."""
    ours = [row for row in group if parts_of(row["peer"])[0] == "heddle"]
    others = [row for row in group if parts_of(row["peer"])[0] != "heddle"]
    if not ours or not others:
        return None
    best = min(others, key=lambda row: row["min_ms"])
    return best["min_ms"] / ours[0]["min_ms"], best["peer"]


def summary(rows):
    """A line for each precision, batch and number of threads: the fastest peer of each model, its time in units of Heddle's."""
    found = {key: beside_the_best(group) for key, group in groups_of(rows).items()}
    columns = sorted({key[1:] for key, what in found.items() if what}, key=lambda key: (list(TOLERANCES).index(key[2]), *key[:2]))
    lines = ["| precision | batch | threads | models | geometric mean | least | behind |", "|---|--:|--:|--:|--:|--:|---|"]
    for batch, threads, precision in columns:
        here = {key[0]: what for key, what in found.items() if what and key[1:] == (batch, threads, precision)}
        mean = math.exp(statistics.fmean(math.log(ratio) for ratio, _ in here.values()))
        behind = ", ".join(f"{name} {ratio:.2f} ({peer})" for name, (ratio, peer) in here.items() if ratio < 1)
        lines.append(f"| {precision} | {batch} | {threads} | {len(here)} | {mean:.2f} | {min(ratio for ratio, _ in here.values()):.2f} | {behind} |")
    return lines


def table(rows, python):
    lines = [f"# Heddle and its peers, {datetime.date.today().isoformat()}", "",
             f"{cpu_name()}, {os.cpu_count()} CPUs; " +
             ", ".join(f"{name} {version}" for name, version in versions(python, PACKAGES).items()) +
             "; interleaved rounds of a few calls. Peak: float32 multiply-adds on the same CPUs in the "
             "same rounds, best. GFLOP/s: of all products that the model has, for every runtime; one that computes only what is "
             "read, as Heddle does a classifier's last layer, may be above the peak. CPU ms: least CPU time of a call, over its threads; where it is far below the time, something else ran "
             "meanwhile. First ms: loading the model, and the first call. Written by `./dev bench peers`.", "",
             "The fastest peer of the same precision in units of Heddle's time, by minima; below 1 it is faster:", "", *summary(rows), ""]
    for name, batch in ((name, batch) for name in MODELS for batch in sorted({row["batch"] for row in rows})):
        here = [row for row in rows if (row["model"], row["batch"]) == (name, batch)]
        if not here:
            continue
        operations = here[0]["gflop"]
        lines += [f"## {MODELS[name].what}, batch {batch}" + (f" ({operations:.1f} GFLOP)" if operations else ""), "",
                  f"Heddle compiled it in {here[0]['compile_s']:.1f} s; the library has {here[0]['library_mb']:.2f} MB without weights.", "",
                  "| threads | runtime | min ms | median ms | CPU ms | first ms | GFLOP/s | of peak | min (median), Heddle = 1 | calls | differs by |",
                  "|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"]
        for threads in sorted({row["threads"] for row in here}):
            group = [row for row in here if row["threads"] == threads]
            for row in sorted(group, key=lambda row: (list(TOLERANCES).index(precision_of(row["peer"])), row["min_ms"])):
                heddle = peer_name("heddle", precision_of(row["peer"]))
                ours = next((other for other in group if other["peer"] == heddle), None)
                relative = f"{row['min_ms'] / ours['min_ms']:.2f} ({row['median_ms'] / ours['median_ms']:.2f})" if ours else ""
                rate = f"{row['gflops']:.0f} | {100 * row['gflops'] / row['fma_peak_gflops']:.0f} %" if operations else " |"
                first = "" if math.isnan(row["first_ms"]) else f"{row['first_ms']:.0f}"
                lines.append(f"| {threads} | {row['peer']} | {row['min_ms']:.1f} | {row['median_ms']:.1f} | {row['min_cpu_ms']:.1f} | {first} | "
                             f"{rate} | {relative} | {row['calls']} | {row['difference']:.0e} |")
            lines.append(f"| {threads} | *peak* | | | | | {group[0]['fma_peak_gflops']:.0f} | | | | |")
        lines.append("")
    return "\n".join(lines)


def write(rows, refused, stem, python):
    """Table, numbers and picture. What is there already of other rows stays."""
    new = {key_of(row) for row in rows}
    rows = [row for row in read_rows(stem.with_suffix(".csv")) if key_of(row) not in new] + rows
    text = table(rows, python) + "".join(f"\n{reason}\n" for reason in refused)
    stem.parent.mkdir(parents=True, exist_ok=True)
    stem.with_suffix(".md").write_text(text)
    if rows:
        with open(stem.with_suffix(".csv"), "w", newline="") as file:
            writer = csv.DictWriter(file, rows[0].keys())
            writer.writeheader()
            writer.writerows(rows)
        bars = [[name, batch, threads, precision, beside_the_best(group)[0]]
                for (name, batch, threads, precision), group in groups_of(rows).items() if beside_the_best(group)]
        if bars:
            subprocess.run([python, HERE / "plot.py", stem.with_suffix(".svg")], input=json.dumps(bars), text=True, check=True)
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, "peers")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--batch", nargs="+", type=int, default=[1, 8])
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=PEERS)
    parser.add_argument("--precision", nargs="+", choices=TOLERANCES, default=list(TOLERANCES))
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=60, help="after that long, and three rounds, a row is done")
    parser.add_argument("--calls", type=int, default=4, help="calls of a runtime in one round")
    parser.add_argument("--missing", action="store_true", help="only what today's table has no time of Heddle's for")
    options = parser.parse_args()
    if min(options.batch) < 1:
        parser.error("--batch: give numbers from 1 on")
    check_options(options, any(parts_of(peer)[0] == "heddle" for peer in options.peers))

    python = environment_python(options.venv)
    roofs = make_roofs(options.cache)
    stem = options.results / f"{datetime.date.today().isoformat()}-{cpu_in_file_names()}"
    rows, refused, text = [], [], ""
    for name, batch in ((name, batch) for name in options.models for batch in options.batch):
        there = {key_of(row) for row in read_rows(stem.with_suffix(".csv"))} if options.missing else set()
        threads_left = {threads: peers for threads in options.threads if (peers := [
            peer for peer in options.peers
            if precision_of(peer) in options.precision and parts_of(peer)[0] in MODELS[name].runtimes
            and (name, batch, threads, peer_name("heddle", precision_of(peer))) not in there])}  # fmt: skip
        if not threads_left:
            continue
        make_model(python, name, batch, options.cache)
        ours = [precision for precision in PRECISIONS["heddle"] if any(peer_name("heddle", precision) in peers for peers in threads_left.values())]
        facts = compile_with_heddle(options.heddle, folder_of(options.cache, name, batch), ours)
        for threads, peers in threads_left.items():
            say(f"{MODELS[name].what}, batch {batch}, {threads} thread{'s' if threads > 1 else ''}")
            more, without = measure(python, name, batch, threads, peers, options, roofs, facts)
            rows += more
            refused += [f"{peer} was left out of {name}, batch {batch}, {threads} threads: {reason}" for peer, reason in without.items()]
            text = write(rows, refused, stem, python)
    print(text or "nothing is missing")
    say(f"written to {stem}.md, .csv and .svg")
    if refused:
        sys.exit(1)


if __name__ == "__main__":
    main()
