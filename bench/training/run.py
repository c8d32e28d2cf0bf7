#!/usr/bin/env python3
"""A training step (loss, all gradients, Adam) beside PyTorch's, eager and by `torch.compile`: time, and the most memory that each
process ever had. Float32, no dropout, the same weights and the same batch.

    ./dev bench training                                       all of it, some 15 minutes
    ./dev bench training --only gpt2 vit-b16 --threads 1       some of it
    ./dev bench training --only bert-base --layers 2           models with fewer layers

PyTorch's Adam is its fastest one on CPUs (`fused`), its attention is `scaled_dot_product_attention`. The losses of three steps are compared
before times count; the processes take turns, one step each."""

import argparse
import datetime
import json
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
from measure import Worker, add_options, check_options, cpu_in_file_names, cpu_name, environment_python, make_roofs, measure_roofs, say, versions  # noqa: E402, E501
from models import CASES, loss_of, make, rate  # noqa: E402
from worker import serve, timed  # noqa: E402

SIDES = ("heddle", "pytorch", "torch.compile")
TOLERANCE = 1e-3  # of the loss
STEPS = 3  # that are compared


def memory(what):
    """Bytes that this process has in memory (`VmRSS`), or the most that it ever had (`VmHWM`)."""
    return next(int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(what)) * 1024


def heddle_side(name, folder, batch, threads):
    import heddle

    before = memory("VmRSS")
    session = heddle.load(folder / "library").session(threads=threads)
    batch = {key: value.astype(np.int32) if value.dtype == np.int64 else value for key, value in batch.items()}
    made = {"step": 0}

    def step():
        made["step"] += 1
        more = {"key": np.int32([0, 0])} if name == "transformer-base" else {"rate": np.float32(rate(made["step"]))}
        return float(session.run(batch | more, "train")["loss"])

    return step, before


def torch_side(name, folder, batch, threads, compiled):
    import torch
    import transformers

    torch.set_num_threads(threads)
    case = CASES[name]
    before = memory("VmRSS")
    model = getattr(transformers, json.loads((folder / "config.json").read_text())["architectures"][0]).from_pretrained(folder)
    model.train()
    optimiser = torch.optim.Adam(model.parameters(), lr=1, betas=case.betas, eps=case.eps, fused=True)
    batch = {key: torch.from_numpy(value) for key, value in batch.items()}
    loss = torch.compile(loss_of) if compiled else loss_of
    made = {"step": 0}

    def step():
        made["step"] += 1
        for group in optimiser.param_groups:
            group["lr"] = rate(made["step"])
        optimiser.zero_grad()
        value = loss(name, model, batch)
        value.backward()
        optimiser.step()
        return value.item()

    return step, before


def start(threads):
    side, name, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    batch = dict(np.load(folder / "batch.npz"))
    sides = {"heddle": heddle_side, "pytorch": lambda *given: torch_side(*given, False), "torch.compile": lambda *given: torch_side(*given, True)}
    step, before = sides[side](name, folder, batch, threads)

    def answer(what, count):
        if what == "losses":
            return [step() for _ in range(int(count))]
        return timed(step, count) if what == "time" else memory("VmHWM") - before

    return answer


def make_folder(options, python, name):
    """Model, batch and library; what is there already is kept as long as the compiler is the same."""
    rows = max(1, CASES[name].rows // options.share)
    folder = options.cache / f"{name}-{rows}-{options.layers or 'all'}"
    if not (folder / "batch.npz").exists():
        folder.mkdir(exist_ok=True)
        code = "import sys; from pathlib import Path; from models import make; make(sys.argv[1], int(sys.argv[2]) or None, int(sys.argv[3]), Path(sys.argv[4]))"
        subprocess.run([python, "-c", code, name, str(options.layers), str(rows), folder], check=True, env={**os.environ, "PYTHONPATH": str(HERE)})
    stamp, now = folder / "compiler", f"{options.heddle.resolve()} {options.heddle.stat().st_mtime_ns}"
    if not stamp.exists() or stamp.read_text() != now:
        shutil.rmtree(folder / "library", ignore_errors=True)
        command = [options.heddle, "compile", folder, "--db", "none", "-o", folder / "library"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"heddle compile failed:\n{done.stderr}")
        stamp.write_text(now)
    return folder, rows


def measure(options, python, name, folder, threads):
    workers = {side: Worker(python, __file__, [side, name, folder], options.cache / f"{side}.log", threads) for side in options.sides}
    losses = {side: worker.ask("losses", STEPS) for side, worker in workers.items()}
    want = losses[options.sides[-1]]
    for side, got in losses.items():
        if any(abs(a - b) > TOLERANCE * b for a, b in zip(got, want)):
            sys.exit(f"{name}: the losses of {side} are {got}, of {options.sides[-1]} {want}")
    times = {side: [] for side in options.sides}
    for turn in range(options.rounds):
        for side in options.sides[:: -1 if turn % 2 else 1]:
            times[side] += [wall for wall, _ in workers[side].ask("time", 1)]
    grown = {side: worker.ask("memory", 0) for side, worker in workers.items()}
    for worker in workers.values():
        worker.close()
    return times, grown


def line(what, times, grown):
    """A row of the table: seconds of Heddle, how many times as long the others take, memory as a share of the others'."""
    out = [what, f"{min(times['heddle']):.3f}", f"{grown['heddle'] / 2**20:.0f}"]
    for side in SIDES[1:]:
        if side not in times:
            out += ["-"] * 3
            continue
        ratio, middle = min(times[side]) / min(times["heddle"]), statistics.median(times[side]) / statistics.median(times["heddle"])
        out += [f"{min(times[side]):.3f}", f"{ratio:.2f} ({middle:.2f})", f"{grown['heddle'] / grown[side]:.2f}"]
    return f"| {' | '.join(out)} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, "training")
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES))
    parser.add_argument("--layers", type=int, default=0, help="of each stack; 0: as the model has them")
    parser.add_argument("--share", type=int, default=1, help="batches are divided by that")
    parser.add_argument("--rounds", type=int, default=4)
    options = parser.parse_args()
    if "heddle" not in options.sides:
        parser.error("--sides without heddle: there is nothing to compare with")
    check_options(options)
    python = environment_python(options.venv, "torch, transformers, safetensors")
    installed = versions(python, ["torch", "transformers"])
    roofs = make_roofs(options.cache)
    lines = [f"# Training steps beside PyTorch's, {datetime.date.today().isoformat()}", "",
             f"{cpu_name()}, {os.cpu_count()} CPUs, torch {installed['torch']}, transformers {installed['transformers']}; float32, Adam, no dropout"
             f"{f', {options.layers} layers in each stack' if options.layers else ''}. Least (median) of {options.rounds} steps in turns; memory is what the process "
             "grew by since its runtime was loaded. Written by `./dev bench training`.", ""]  # fmt: skip
    for threads in options.threads:
        lines += [f"## {threads} thread{'s' if threads > 1 else ''}", "", f"Multiply-adds in float32: {measure_roofs(roofs, threads)[0]:.0f} GFLOP/s.", "",
                  "| step | Heddle s | MiB | PyTorch s | / Heddle | our memory / its | torch.compile s | / Heddle | our memory / its |",
                  "|---|--:|--:|--:|--:|--:|--:|--:|--:|"]  # fmt: skip
        for name in options.only:
            say(f"{name}, {threads} thread{'s' if threads > 1 else ''}")
            folder, rows = make_folder(options, python, name)
            try:
                lines.append(line(CASES[name].what.format(rows), *measure(options, python, name, folder, threads)))
            except RuntimeError as reason:
                sys.exit(f"a worker failed: {reason}")
            print(lines[-1], flush=True)
        lines.append("")
    options.results.mkdir(parents=True, exist_ok=True)
    file = options.results / f"{datetime.date.today().isoformat()}-{cpu_in_file_names()}-training.md"
    file.write_text("\n".join(lines))
    say(f"written to {file}")


if __name__ == "__main__":
    serve(start) if sys.argv[1:2] and sys.argv[1] in SIDES else main()
