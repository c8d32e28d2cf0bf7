#!/usr/bin/env python3
"""The evaluation experiment of Transformer-XL (Dai et al. 2019, table 9): time per predicted token of the recurrent model, and
of a model of fixed segments, which reads its whole window again for each token. Heddle and PyTorch, the same weights, in turn.

    ./dev bench transformer-xl                                  everything: about 15 minutes
    ./dev bench transformer-xl --lengths 3800 --threads 1       one row of the table
    ./dev bench transformer-xl --seconds 80                     goes on for that long; the next call resumes
    ./dev bench transformer-xl --prepare                        only compiles, fills the memories and compares results

A round of a row visits every side once, beginning with another one each round, and measures the machine's roofs; all
processes but the one being timed are stopped. Results are compared before anything is timed. Finished rounds are kept in
CACHE/samples.jsonl and count as long as neither the compiled libraries nor this folder change, so Ctrl-C loses one round.
Writes bench/results/DATE-CPU-transformer-xl.md and .csv."""

import argparse
import csv
import datetime
import hashlib
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
import model  # noqa: E402
from measure import (TOLERANCE, Worker, add_options, check_options, cpu_in_file_names, cpu_name, difference,  # noqa: E402
                     environment_python, make_roofs, measure_roofs, say, versions)

# attention length: how many times slower the vanilla model was in the paper, on one GPU
PAPER = {800: 363, 1800: 773, 2800: 1409, 3800: 1874}
SIDES = {  # what it is, its head in the table, its runtime, tokens of a call, calls of a round
    "heddle-xl": ("Transformer-XL, Heddle", "XL, Heddle", "heddle", model.SEGMENT, 3),
    "pytorch-xl-published": ("Transformer-XL, PyTorch as published", "PyTorch as published", "pytorch", model.SEGMENT, 2),
    "pytorch-xl-fused": ("Transformer-XL, PyTorch with fused attention", "PyTorch, fused", "pytorch", model.SEGMENT, 2),
    "pytorch-xl-keys": ("Transformer-XL, PyTorch fused, keys and values kept", "PyTorch, fused, keys kept", "pytorch", model.SEGMENT, 2),
    "heddle-vanilla": ("vanilla, Heddle", "vanilla, Heddle", "heddle", 1, 1),
    "pytorch-vanilla": ("vanilla, PyTorch, fused attention", "vanilla, PyTorch, fused", "pytorch", 1, 1),
}
PYTORCH_XL = [side for side in SIDES if side.startswith("pytorch-xl")]


def flops(side, length):
    return model.xl_flops(length) if "-xl" in side else model.vanilla_flops(length)


def digest(*paths):
    out = hashlib.sha256()
    for path in paths:
        out.update(path.read_bytes())
    return out.hexdigest()[:16]


def prepare(python, heddle, length, cache):
    """Weights and compiled libraries of one length."""
    folder = cache / str(length)
    stamp = f"{digest(HERE / 'model.py')} {model.SEGMENT}"
    if not (folder / "complete").exists() or (folder / "complete").read_text() != stamp:
        say(f"making the models of attention length {length} with random weights in {folder}")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        subprocess.run([python, HERE / "model.py", str(length), folder], check=True)
        (folder / "complete").write_text(stamp)
    sources = sorted(ROOT.glob("models/*/*.heddle"))
    for name in ("xl", "vanilla"):
        out, made = folder / f"{name}-heddle", digest(heddle, *sources)
        if (out / "made-by").exists() and (out / "made-by").read_text() == made:
            continue
        fresh = folder / f"{name}-fresh"
        shutil.rmtree(fresh, ignore_errors=True)
        done = subprocess.run([heddle, "compile", folder / name, "-o", fresh], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"heddle compile {folder / name} failed:\n{done.stderr}")
        if out.exists() and digest(*out.glob("lib*.so"), *out.glob("*.weights")) == digest(*fresh.glob("lib*.so"), *fresh.glob("*.weights")):
            shutil.rmtree(fresh)  # the same library: its memory and its samples stay
        else:
            shutil.rmtree(out, ignore_errors=True)
            fresh.rename(out)
        (out / "made-by").write_text(made)


def key_of(length, cache):
    """Changes when what is measured changes."""
    folder = cache / str(length)
    return digest(HERE / "model.py", HERE / "sides.py", *folder.glob("*-heddle/lib*.so"))


class Samples:
    """Finished rounds, one line each: the row, its key, the round's times by side, the roofs."""

    def __init__(self, path):
        self.path, self.rounds = path, []
        if path.exists():
            for line in path.read_text().splitlines():
                try:
                    self.rounds.append(json.loads(line))
                except ValueError:  # a round that was cut off
                    continue

    def of(self, length, threads, key):
        return [r for r in self.rounds if (r["length"], r["threads"], r["key"]) == (length, threads, key)]

    def add(self, row):
        self.rounds.append(row)
        with open(self.path, "a") as file:
            file.write(json.dumps(row) + "\n")


class Workers:
    """One process per runtime, for a number of threads; started when it is needed."""

    def __init__(self, python, cache, threads):
        self.python, self.cache, self.threads, self.running = python, cache, threads, {}

    def ask(self, what, side, length, argument):
        runtime = SIDES[side][2]
        if runtime not in self.running:
            self.running[runtime] = Worker(self.python, HERE / "sides.py", [runtime, self.cache], self.cache / f"{runtime}.log",
                                           self.threads)
        return self.running[runtime].ask(what, side, length, argument)

    def close(self):
        for worker in self.running.values():
            worker.close()
        self.running = {}


def compare(workers, python, length, key, cache):
    """Results of all sides, once for each thing that is measured; largest difference by model."""
    folder = cache / str(length)
    done = folder / f"agree-{key}.json"
    if done.exists():
        return json.loads(done.read_text())
    differences = {}
    for name, reference in (("xl", "pytorch-xl-published"), ("vanilla", "pytorch-vanilla")):
        for side in [reference, *(s for s in SIDES if f"-{name}" in s and s != reference)]:
            say(f"attention length {length}: {SIDES[side][0]} computes" +
                (", after filling the memory where no file has it" if name == "xl" else ""))
            workers.ask("output", side, length, folder / f"{side}.safetensors")
            if side != reference:
                found = difference(python, folder / f"{side}.safetensors", folder / f"{reference}.safetensors")
                if not found <= TOLERANCE:
                    sys.exit(f"{SIDES[side][0]}: its results differ from PyTorch's by {found:.1e} of the largest value")
                differences[side] = found
    done.write_text(json.dumps(differences))
    return differences


def measure(workers, roofs, length, threads, key, rounds, samples, deadline):
    """Rounds of one row until it has enough; false where time ran out before."""
    have = samples.of(length, threads, key)
    if len(have) >= rounds:
        return True
    for side in SIDES:
        if SIDES[side][3] > 1:
            workers.ask("time", side, length, 1)  # warm; the vanilla models' calls are long enough
    while len(have) < rounds:
        if time.monotonic() > deadline:
            return False
        names = list(SIDES)
        first = len(have) % len(names)
        row = {"length": length, "threads": threads, "key": key, "date": datetime.date.today().isoformat(), "times": {}}
        for side in names[first:] + names[:first]:
            row["times"][side] = workers.ask("time", side, length, SIDES[side][4])
        row["fma"], row["read"] = measure_roofs(roofs, threads)
        samples.add(row)
        have = samples.of(length, threads, key)
        say(f"length {length}, {threads} thread{'s' if threads > 1 else ''}, round {len(have)} of {rounds}: " + ", ".join(
            f"{side} {min(t for t, _ in times) / SIDES[side][3] * 1e3:.4g} ms" for side, times in sorted(row["times"].items())))
    return True


def results_of(length, threads, rounds, differences):
    peak = max(r["fma"] for r in rounds)
    rows = []
    for side, (_, _, _, tokens, _) in SIDES.items():
        walls = [wall / tokens for r in rounds for wall, _ in r["times"][side]]
        busy = [cpu / tokens for r in rounds for _, cpu in r["times"][side]]
        best = min(walls)
        rows.append({"length": length, "threads": threads, "side": side, "ms_per_token": best * 1e3,
                     "median_ms_per_token": statistics.median(walls) * 1e3, "min_cpu_ms_per_token": min(busy) * 1e3,
                     "gflop_per_token": flops(side, length) * 1e-9, "share_of_fma_peak": flops(side, length) / best * 1e-9 / peak,
                     "fma_peak_gflops": peak, "read_gbytes": max(r["read"] for r in rounds),
                     "difference": differences.get(side, 0.0), "rounds": len(rounds), "calls": len(walls)})
    return rows


def table(rows, options, python):
    def row_of(length, threads, side):
        return next((r for r in rows if (r["length"], r["threads"], r["side"]) == (length, threads, side)), None)

    lines = [f"# Transformer-XL against the vanilla model, time per predicted token, float32, {datetime.date.today().isoformat()}", "",
             f"{cpu_name()}, {os.cpu_count()} CPUs; torch {versions(python, ['torch'])['torch']}. {model.WHAT}. Batch 1. "
             "ms per predicted token, minimum of all calls (median); in %: the operations that a token needs at least "
             "(causal, positions and memory known) in that time, of the multiply-adds measured in the same rounds. As published: the "
             "authors' formulation; fused: with PyTorch's fused attention, the position scores as its bias (README.md says more). "
             "Written by `./dev bench transformer-xl`.", ""]
    for threads in options.threads:
        lines += [f"## {threads} thread{'s' if threads > 1 else ''}", "",
                  "| attention length | " + " | ".join(head for _, head, *_ in SIDES.values()) + " |", "|--:" * (len(SIDES) + 1) + "|"]
        for length in options.lengths:
            if row_of(length, threads, "heddle-xl"):
                cells = [row_of(length, threads, side) for side in SIDES]
                lines.append(f"| {length} | " + " | ".join(
                    f"{c['ms_per_token']:.4g} ({c['median_ms_per_token']:.4g}), {100 * c['share_of_fma_peak']:.0f} %" for c in cells) + " |")
        heads = [SIDES[side][1] for side in PYTORCH_XL]
        lines += ["", "How many times the time of a token of Transformer-XL one of the vanilla model takes:", "",
                  "| attention length | Heddle | " + " | ".join(heads) + " | operations | paper |", "|--:" * (len(heads) + 4) + "|"]
        rest = ["How many times Heddle's time PyTorch takes:", "",
                "| attention length | " + " | ".join(f"XL, {head}" for head in heads) + " | vanilla | rounds | differs by |",
                "|--:" * (len(heads) + 4) + "|"]
        for length in options.lengths:
            c = {side: row_of(length, threads, side) for side in SIDES}
            if not c["heddle-xl"]:
                continue
            ms = {side: r["ms_per_token"] for side, r in c.items()}
            lines.append(f"| {length} | **{ms['heddle-vanilla'] / ms['heddle-xl']:.0f}** | " +
                         " | ".join(f"{ms['pytorch-vanilla'] / ms[side]:.0f}" for side in PYTORCH_XL) +
                         f" | {model.vanilla_flops(length) / model.xl_flops(length):.0f} | {PAPER.get(length, '')} |")
            rest.append(f"| {length} | " + " | ".join(f"{ms[side] / ms['heddle-xl']:.2f}" for side in PYTORCH_XL) +
                        f" | {ms['pytorch-vanilla'] / ms['heddle-vanilla']:.2f} | {c['heddle-xl']['rounds']} | "
                        f"{max(c['heddle-xl']['difference'], c['heddle-vanilla']['difference']):.0e} |")
        lines += ["", *rest]
        lines.append("")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, "transformer-xl")
    parser.add_argument("--lengths", nargs="+", type=int, default=list(PAPER), help="attention lengths (default those of the paper)")
    parser.add_argument("--rounds", type=int, default=4, help="rounds of each row")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no round after that many seconds")
    parser.add_argument("--prepare", action="store_true", help="compile, fill the memories and compare, but time nothing")
    parser.add_argument("--fresh", action="store_true", help="forget the rounds of earlier calls")
    options = parser.parse_args()
    check_options(options)
    deadline = time.monotonic() + options.seconds
    if options.fresh:
        (options.cache / "samples.jsonl").unlink(missing_ok=True)

    python = environment_python(options.venv)
    roofs, samples, complete, rows = make_roofs(options.cache), Samples(options.cache / "samples.jsonl"), True, []
    for length in options.lengths:
        prepare(python, options.heddle, length, options.cache)
    keys = {length: key_of(length, options.cache) for length in options.lengths}
    workers = Workers(python, options.cache, max(options.threads))
    try:
        differences = {length: compare(workers, python, length, keys[length], options.cache) for length in options.lengths}
        for threads in () if options.prepare else options.threads:
            for length in options.lengths:
                if len(samples.of(length, threads, keys[length])) < options.rounds and time.monotonic() < deadline:
                    if threads != workers.threads:
                        workers.close()
                        workers = Workers(python, options.cache, threads)
                    measure(workers, roofs, length, threads, keys[length], options.rounds, samples, deadline)
                done = samples.of(length, threads, keys[length])
                complete &= len(done) >= options.rounds
                rows += results_of(length, threads, done, differences[length]) if done else []
    except KeyboardInterrupt:
        sys.exit("stopped; finished rounds are kept, the same command goes on")
    except RuntimeError as reason:
        sys.exit(f"a worker failed: {reason}")
    finally:
        workers.close()
    if options.prepare:
        say("all results agree; ready to be timed")
        return
    text = table(rows, options, python)
    print(text)
    if rows:
        options.results.mkdir(parents=True, exist_ok=True)
        stem = f"{datetime.date.today().isoformat()}-{cpu_in_file_names()}-transformer-xl"
        (options.results / f"{stem}.md").write_text(text)
        with open(options.results / f"{stem}.csv", "w", newline="") as file:
            writer = csv.DictWriter(file, rows[0].keys())
            writer.writeheader()
            writer.writerows(rows)
        say(f"written to {options.results / stem}.md and .csv")
    if not complete:
        say("some rows want more rounds: the same command goes on")


if __name__ == "__main__":
    main()
