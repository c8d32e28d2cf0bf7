#!/usr/bin/env python3
"""Dense layers in f32, bf16 and int8, Heddle's kernels beside oneDNN's (as PyTorch calls them), and beside the peak of the instruction that
multiplies, all measured in turns: on a CPU with AMX its tiles, else AVX-512's dot products.

    ./dev bench products                                  all shapes, some 5 minutes
    ./dev bench products --rows 128 --precision bf16      some of them
    ./dev bench products --of detr                        DETR-R50's alone

Layers are BERT-base's and ViT-B/16's: 768 to 768 and 3072 to 768 with a bias, 768 to 3072 with bias and GELU; in int8 this once more, with
a result that is only rounded for the next layer, as in those models, and so with fewer digits of its erf. Weights are packed and rows
narrow before the clock runs. Results are compared before times count. Then each product and filter of a call of DETR-R50, with the roof that
memory makes beside the instruction's peak."""

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import detr  # noqa: E402
from measure import Worker, add_options, check_options, cpu_in_file_names, cpu_name, environment_python, say, versions  # noqa: E402

LAYERS = {"768 to 768": (768, 768, "plain"), "768 to 3072, GELU": (768, 3072, "gelu_of"),
          "768 to 3072, GELU, for int8": (768, 3072, "between"), "3072 to 768": (3072, 768, "plain")}  # fmt: skip
PRECISIONS = {"f32": [], "bf16": ["--set", "real=bf16"], "int8": ["--precision", "int8"]}
TOLERANCES = {"f32": 1e-5, "bf16": 0.02, "int8": 0.08}  # of the largest value; weights are coarser without dot products of bytes
SIDES = ("heddle", "onednn")


def make(options, python):
    """The weights, and a library for each layer and precision."""
    for terms, columns, _ in LAYERS.values():
        weights = options.cache / f"{terms}x{columns}.safetensors"
        if not weights.exists():
            code = ("import sys, numpy as np; from safetensors.numpy import save_file; r = np.random.default_rng(1)\n"
                    "k, n = int(sys.argv[2]), int(sys.argv[3])\n"
                    "save_file({'weight': (r.standard_normal((n, k)) / k**0.5).astype(np.float32), 'bias': r.standard_normal(n).astype(np.float32),\n"
                    "           'next': (r.standard_normal((16, n)) / n**0.5).astype(np.float32)}, sys.argv[1])")
            subprocess.run([python, "-c", code, weights, str(terms), str(columns)], check=True)
        for precision in options.precision:
            subprocess.run([options.heddle, "compile", HERE / "layer.heddle", "--set", f"K={terms}", "--set", f"N={columns}", "--weights", weights,
                            *PRECISIONS[precision], "-o", options.cache / f"{precision}-{terms}x{columns}"],
                           check=True, stdout=subprocess.DEVNULL)  # fmt: skip


def measure_peaks(options, precision, threads, known):
    """GFLOP/s of the instruction that a library's products are made of, or better if known already, and its name."""
    file = options.cache / "bench.json"
    subprocess.run([options.heddle, "bench", options.cache / f"{precision}-768x768", "--entry", "plain", "--dim", "M=512", "--threads",
                    str(threads), "--json", file], check=True, stdout=subprocess.DEVNULL)  # fmt: skip
    (product,) = [kernel for kernel in json.loads(file.read_text())["kernels"] if kernel["kind"] == "contraction"]
    return product["micro_kernel"], max(known, product["gflops"] / product["of_peak"])


def difference(python, got, want):
    code = ("import sys, numpy as np; a, b = np.load(sys.argv[1]), np.load(sys.argv[2])\n"
            "print(float(np.abs(a - b).max() / np.abs(b).max()))")
    return float(subprocess.run([python, "-c", code, got, want], check=True, capture_output=True, text=True).stdout)


def measure(options, python, threads):
    rows = []
    for precision in options.precision:
        name, peak = measure_peaks(options, precision, threads, 0)
        workers = {side: Worker(python, HERE / "sides.py", [side, options.cache], options.cache / f"{side}.log", threads) for side in SIDES}
        for layer, (terms, columns, entry) in LAYERS.items():
            if entry == "between" and precision != "int8":
                continue
            for count in options.rows:
                case = (precision, terms, columns, entry, count)
                results = [options.cache / f"{side}.npy" for side in SIDES]
                for side, result in zip(SIDES, results):
                    workers[side].ask("check", *case, result)
                if not (error := difference(python, *results)) <= TOLERANCES[precision]:
                    sys.exit(f"{layer}, {count} rows, {precision}: the results differ by {error:.1e} of the largest value")
                times = {side: [] for side in SIDES}
                for turn in range(options.rounds):
                    for side in SIDES[:: -1 if turn % 2 else 1]:
                        times[side] += workers[side].ask("time", *case, options.calls)
                rows.append((precision, layer, count, 2e-9 * count * terms * columns, times))
        for worker in workers.values():
            worker.close()
        name, peak = measure_peaks(options, precision, threads, peak)
        rows = [row if row[0] != precision else (*row[:5], name, peak) for row in rows]
    return rows


def table(rows, threads):
    lines = [f"## {threads} thread{'s' if threads > 1 else ''}", "",
             "| precision | instruction, its peak | layer | rows | Heddle us | GFLOP/s | of peak | oneDNN us | GFLOP/s | oneDNN / Heddle: min (median) |",
             "|---|---|---|--:|--:|--:|--:|--:|--:|--:|"]  # fmt: skip
    for precision, layer, count, gflop, times, name, peak in rows:
        ours, theirs = min(times["heddle"]), min(times["onednn"])
        medians = statistics.median(times["onednn"]) / statistics.median(times["heddle"])
        lines.append(f"| {precision} | {name}, {peak:.0f} | {layer} | {count} | {ours * 1e6:.0f} | {gflop / ours:.0f} | {100 * gflop / ours / peak:.0f} % | "
                     f"{theirs * 1e6:.0f} | {gflop / theirs:.0f} | {theirs / ours:.2f} ({medians:.2f}) |")
    return lines + [""]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, "products")
    parser.add_argument("--precision", nargs="+", choices=PRECISIONS, default=list(PRECISIONS))
    parser.add_argument("--rows", nargs="+", type=int, default=[64, 128, 192, 197, 512])
    parser.add_argument("--of", nargs="+", choices=["layers", "detr"], default=["layers", "detr"], help="which shapes")
    parser.add_argument("--runs", type=int, default=2, help="runs of DETR")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--calls", type=int, default=8, help="calls of a side in one round")
    options = parser.parse_args()
    check_options(options)
    python = environment_python(options.venv)
    if "layers" in options.of:
        make(options, python)
    if "detr" in options.of:
        detr.make(options, python)
    lines = [f"# Dense layers beside oneDNN, {datetime.date.today().isoformat()}", "",
             f"{cpu_name()}, {os.cpu_count()} CPUs; " + ", ".join(f"{name} {version}" for name, version in versions(python, ["torch"]).items()) +
             "; rounds of a few calls in turns, least time of each side. Peak: GFLOP/s of the instruction on the same CPUs, best of two measurements, "
             "before and after. Written by `./dev bench products`.", ""]  # fmt: skip
    for threads in options.threads:
        say(f"{threads} thread{'s' if threads > 1 else ''}")
        if "layers" in options.of:
            lines += table(measure(options, python, threads), threads)
        if "detr" in options.of:
            lines += detr.table({precision: detr.measure(options, precision, threads) for precision in options.precision}, threads)
    options.results.mkdir(parents=True, exist_ok=True)
    file = options.results / f"{datetime.date.today().isoformat()}-{cpu_in_file_names()}-products.md"
    file.write_text("\n".join(lines))
    print("\n".join(lines))
    say(f"written to {file}")


if __name__ == "__main__":
    main()
