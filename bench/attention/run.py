#!/usr/bin/env python3
"""Attention alone beside PyTorch's fused one (`scaled_dot_product_attention`), by number of positions: all keys, those up to a query
(`causal`), and those at most 64 places from it (`banded`, for which PyTorch has a mask). 12 heads of 64, batch 1, queries, keys and values
where a model's projections leave them. One library of Heddle's serves all sizes.

    ./dev bench attention                                    all of it, some 3 minutes
    ./dev bench attention --forms causal --positions 4096    some of it

Results are compared before times count; the processes take turns, and the machine's multiply-adds are measured between them."""

import argparse
import datetime
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]
from measure import Worker, add_options, check_options, cpu_in_file_names, cpu_name, difference, environment_python, make_roofs, measure_roofs, say, versions  # noqa: E402, E501
from worker import serve, timed  # noqa: E402

HEADS, WIDTH, REACH = 12, 64, 64
FORMS = ("full", "causal", "banded")
SIDES = ("heddle", "pytorch")
TOLERANCE = 2e-5  # of the largest value


def pairs(form, n):
    """Queries with a key that they attend to."""
    return sum({"full": n, "causal": i + 1, "banded": min(n, i + REACH + 1) - max(0, i - REACH)}[form] for i in range(n))


def inputs(n):
    random = np.random.default_rng(n)
    return {name: random.standard_normal((1, n, HEADS, WIDTH), np.float32) for name in "qkv"}


def heddle_side(folder, threads):
    import heddle

    session = heddle.load(folder / "library").session(threads=threads)

    def call(form, n):
        given = inputs(n)
        out = session.run(given, entry=form)
        return lambda: session.run(given, entry=form, out=out)["y"]

    return call


def torch_side(_folder, threads):
    import torch

    torch.set_num_threads(threads)

    def call(form, n):
        q, k, v = (torch.from_numpy(value).transpose(1, 2) for value in inputs(n).values())
        at = torch.arange(n)
        options = {"full": {}, "causal": {"is_causal": True}, "banded": {"attn_mask": (at[:, None] - at[None, :]).abs() <= REACH}}[form]

        def run():
            with torch.inference_mode():
                return torch.nn.functional.scaled_dot_product_attention(q, k, v, **options).transpose(1, 2)

        return run

    return call


def start(threads):
    calls, made = {"heddle": heddle_side, "pytorch": torch_side}[sys.argv[1]](Path(sys.argv[2]), threads), {}

    def answer(what, form, n, last):
        if made.get("case") != (form, n):
            made.update(case=(form, n), run=calls(form, int(n)))
        if what == "check":
            from safetensors.numpy import save_file

            save_file({"y": np.ascontiguousarray(np.asarray(made["run"]()))}, last)
            return "saved"
        return timed(made["run"], last)

    return answer


def make(options):
    shutil.rmtree(options.cache / "library", ignore_errors=True)
    done = subprocess.run([options.heddle, "compile", HERE / "layer.heddle", "--db", "none", "-o", options.cache / "library"],
                          capture_output=True, text=True)  # fmt: skip
    if done.returncode:
        sys.exit(f"heddle compile failed:\n{done.stderr}")


def measure(options, python, roofs, threads):
    rows, peaks = [], []
    workers = {side: Worker(python, __file__, [side, options.cache], options.cache / f"{side}.log", threads) for side in SIDES}
    for form in options.forms:
        for n in options.positions:
            files = [options.cache / f"{side}.safetensors" for side in SIDES]
            for side, file in zip(SIDES, files):
                workers[side].ask("check", form, n, file)
            if not (error := difference(python, *files)) <= TOLERANCE:
                sys.exit(f"{form}, {n} positions: the results differ by {error:.1e} of the largest value")
            flops = 4 * HEADS * WIDTH * pairs(form, n)
            calls, times = max(1, min(40, int(1e9 * threads / flops))), {side: [] for side in SIDES}
            for turn in range(options.rounds):
                for side in SIDES[:: -1 if turn % 2 else 1]:
                    times[side] += [wall for wall, _ in workers[side].ask("time", form, n, calls)]
                peaks.append(measure_roofs(roofs, threads)[0])
            rows.append((form, n, flops, times))
    for worker in workers.values():
        worker.close()
    return rows, max(peaks)


def table(rows, peak, threads):
    lines = [f"## {threads} thread{'s' if threads > 1 else ''}", "", f"Multiply-adds in float32: {peak:.0f} GFLOP/s.", "",
             "| keys | positions | Heddle ms | of the FMA peak | PyTorch ms | PyTorch / Heddle: min (median) |",
             "|---|--:|--:|--:|--:|--:|"]  # fmt: skip
    for form, n, flops, times in rows:
        ours, theirs = (min(times[side]) for side in SIDES)
        medians = statistics.median(times["pytorch"]) / statistics.median(times["heddle"])
        lines.append(f"| {form} | {n} | {ours * 1e3:.3f} | {100e-9 * flops / ours / peak:.0f} % | {theirs * 1e3:.3f} | "
                     f"{theirs / ours:.2f} ({medians:.2f}) |")
    return lines + [""]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, "attention")
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=list(FORMS))
    parser.add_argument("--positions", nargs="+", type=int, default=[64, 128, 197, 384, 512, 1024, 2048, 4096])
    parser.add_argument("--rounds", type=int, default=6)
    options = parser.parse_args()
    check_options(options)
    python = environment_python(options.venv, "torch, safetensors")
    say("compiling")
    make(options)
    roofs = make_roofs(options.cache)
    lines = [f"# Attention beside PyTorch's, {datetime.date.today().isoformat()}", "",
             f"{cpu_name()}, {os.cpu_count()} CPUs, torch {versions(python, ['torch'])['torch']}; {HEADS} heads of {WIDTH}, batch 1, float32; "
             f"banded: keys at most {REACH} places away. Rounds of a few calls in turns. Written by `./dev bench attention`.", ""]  # fmt: skip
    try:
        for threads in options.threads:
            say(f"{threads} thread{'s' if threads > 1 else ''}")
            lines += table(*measure(options, python, roofs, threads), threads)
    except RuntimeError as reason:
        sys.exit(f"a worker failed: {reason}")
    options.results.mkdir(parents=True, exist_ok=True)
    file = options.results / f"{datetime.date.today().isoformat()}-{cpu_in_file_names()}-attention.md"
    file.write_text("\n".join(lines))
    print("\n".join(lines))
    say(f"written to {file}")


if __name__ == "__main__":
    serve(start) if sys.argv[1:2] and sys.argv[1] in SIDES else main()
