#!/usr/bin/env python3
"""Training with dropout by Heddle and by PyTorch: what is dropped is not the same, so the losses at the end are compared in the mean over
seeds. The same first weights, batches and Adam, small sizes, float32.

    ./dev bench dropout                          all models, some five minutes
    ./dev bench dropout --only bert vit --seeds 20

A run learns four batches by heart. Without dropout both sides lose the same, within rounding; how much more they lose with it shows that it
is at work. Writes bench/results/DATE-CPU-dropout.md."""

import argparse
import datetime
import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(HERE.parent), str(ROOT / "examples")]
from measure import add_options, check_options, cpu_in_file_names, cpu_name, environment_python, say, versions  # noqa: E402

NAMES = {"bert": "BERT", "gpt2": "GPT-2", "transformer_xl": "Transformer-XL", "vit": "ViT", "seq2seq_attention": "LSTM seq2seq with attention"}
LAST = 20  # steps of a run whose losses count
TOLERANCE = 0.02
WARM, PEAK = 10, 2e-3


def rate(step):
    return PEAK * min(1, (step + 1) / WARM)


def by_heddle(case, session, first, batches, seed):
    import numpy as np

    session.reset()
    session.parameters.load(first)
    losses = []
    for step in range(case.steps):
        batch = batches[step % len(batches)] | {"rate": np.float32(rate(step)), "key": np.int32([seed, 0])}
        losses.append(float(session.run(batch, "train")["loss"]))
    return sum(losses[-LAST:]) / LAST


def by_pytorch(case, settings, first, batches, seed):
    import torch

    model = case.module(settings, first).train()
    optimiser = torch.optim.Adam(model.parameters(), eps=1e-8)
    torch.manual_seed(seed)
    losses = []
    for step in range(case.steps):
        for group in optimiser.param_groups:
            group["lr"] = rate(step)
        optimiser.zero_grad()
        batch = {name: torch.from_numpy(value) for name, value in batches[step % len(batches)].items()}
        loss = case.loss(model, {name: value if value.is_floating_point() else value.long() for name, value in batch.items()})
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return sum(losses[-LAST:]) / LAST


def compare(options, name):
    """One model, in the peers' environment: the losses of both sides, without dropout, and of each seed with it."""
    import heddle
    import numpy as np
    import torch
    import trainer
    from modules import CASES

    torch.set_num_threads(1)
    case, folder = CASES[name], options.cache / name
    random = np.random.default_rng(1)
    batches = [case.batch(random) for _ in range(4)]
    found = {}
    for what, share in (("without", 0.0), ("with", options.rate)):
        settings = {**case.settings, **{key: share for key in case.rates}, "training": True}
        here = folder / what
        here.mkdir(parents=True, exist_ok=True)
        (here / "config.json").write_text(json.dumps(settings))
        trainer.run_heddle(options, "compile", here, "--blank", "--db", "none", "-o", here / "library")
        session = heddle.load(here / "library").session(threads=1)
        trainer.begin(session, 1)
        first = here / "first.safetensors"
        session.parameters.save(first)
        seeds = range(1, options.seeds + 1) if share else (1,)
        found[what] = {"heddle": [by_heddle(case, session, first, batches, seed) for seed in seeds],
                       "pytorch": [by_pytorch(case, settings, first, batches, seed) for seed in seeds]}  # fmt: skip
    print(json.dumps(found))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, "dropout")
    parser.set_defaults(threads=[1])
    parser.add_argument("--only", nargs="+", choices=NAMES, default=list(NAMES))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rate", type=float, default=0.1, help="of dropout, everywhere")
    parser.add_argument("--inside", choices=NAMES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        return compare(options, options.inside)
    check_options(options)
    python = environment_python(options.venv, "torch, transformers, safetensors")
    installed = versions(python, ["torch", "transformers"])
    lines = [f"# Training with dropout beside PyTorch, {datetime.date.today().isoformat()}", "",
             f"{cpu_name()}, torch {installed['torch']}, transformers {installed['transformers']}; the same first weights and batches, Adam, float32. The mean of the "
             f"last {LAST} of 60 losses, of the LSTMs 240; with dropout of {options.rate} the mean and the range of {options.seeds} seeds. Written by `./dev bench dropout`.", "",
             "| model | without dropout: Heddle | PyTorch | with: Heddle | PyTorch | Heddle / PyTorch |", "|---|--:|--:|--:|--:|--:|"]  # fmt: skip
    far = []
    for name in options.only:
        say(NAMES[name])
        words = ["--inside", name, "--heddle", options.heddle, "--cache", options.cache, "--seeds", options.seeds, "--rate", options.rate]
        done = subprocess.run([python, HERE / "run.py", *map(str, words)], stdout=subprocess.PIPE, text=True,
                              env={**os.environ, "PYTHONPATH": str(ROOT / "python")})  # fmt: skip
        if done.returncode:
            sys.exit(f"{NAMES[name]} failed")
        found = json.loads(done.stdout.splitlines()[-1])
        mean = {side: sum(losses) / len(losses) for side, losses in found["with"].items()}
        ratio = mean["heddle"] / mean["pytorch"]
        cells = [f"{found['without'][side][0]:.4f}" for side in ("heddle", "pytorch")]
        cells += [f"{mean[side]:.4f} ({min(found['with'][side]):.3f} to {max(found['with'][side]):.3f})" for side in ("heddle", "pytorch")]
        lines.append(f"| {NAMES[name]} | {' | '.join(cells)} | {ratio:.4f} |")
        print(lines[-1], flush=True)
        if abs(ratio - 1) > TOLERANCE:
            far.append(NAMES[name])
    options.results.mkdir(parents=True, exist_ok=True)
    file = options.results / f"{datetime.date.today().isoformat()}-{cpu_in_file_names()}-dropout.md"
    file.write_text("\n".join(lines) + "\n")
    say(f"written to {file}")
    if far:
        sys.exit(f"more than {100 * TOLERANCE:.0f} % apart: {', '.join(far)}")


if __name__ == "__main__":
    main()
