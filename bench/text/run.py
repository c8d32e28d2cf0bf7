#!/usr/bin/env python3
"""Models trained from nothing on text (examples/text), by Heddle and by PyTorch: the same first weights, batches, masks and Adam, in
float32, and how well each does on the held-out text.

    ./dev bench text                                     all three models, some 15 minutes
    ./dev bench text --only transformer_xl --steps 300   one of them, and fewer steps
    ./dev bench text --seconds 240                       goes on for that long; the next call resumes

Writes bench/results/DATE-CPU-text.md when all that was asked for is there."""

import argparse
import datetime
import json
import os
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(HERE.parent), str(ROOT / "examples" / "text"), str(ROOT / "examples")]
from measure import add_options, check_options, cpu_in_file_names, cpu_name, environment_python, say, versions  # noqa: E402

MODELS = {"transformer_xl": "Transformer-XL", "vanilla_lm": "vanilla model", "bert": "BERT"}
TOLERANCE = 0.01  # of bits and losses


def by_heddle(options, run, last_steps):
    """What the example prints, of a run that goes on for as long as it may. None: not done yet."""
    import trainer

    for steps in (*range(options.every, last_steps, options.every), last_steps):
        if (options.folder / f"step-{steps}.safetensors").exists() or steps < newest(options):
            continue
        if time.monotonic() > options.deadline:
            return None
        options.steps = steps
        trainer.train(options, run.session, run.batch)
    return run.judge(options.folder / f"step-{last_steps}.safetensors")


def newest(options):
    import trainer

    return max((int(file.stem.removeprefix("step-")) for file in trainer.checkpoints(options)), default=0)


def once(file, make, *given):
    """What `make` finds, kept in a file from then on."""
    if file.exists():
        return json.loads(file.read_text())
    found = make(*given)
    if found:
        file.write_text(json.dumps({what: float(value) for what, value in found.items()}))
    return found


def by_pytorch(options, name, run, last_steps):
    """The same of PyTorch, which goes on from a file of its own."""
    import torch
    import trainer
    from language_models import MODELS as modules
    from language_models import loss_of

    torch.set_num_threads(options.threads or 1)
    model, saved = modules[name](run.settings()), options.folder / "pytorch.pt"
    fresh = trainer.training_session(options)
    trainer.begin(fresh, options.seed)
    first = {word.removeprefix("transformer."): torch.from_numpy(value) for word, value in fresh.parameters.items()}
    missing, unknown = model.load_state_dict(first, strict=False)
    known = {id(model.get_parameter(word)) for word in first if word not in unknown}
    if unknown or any(id(model.get_parameter(word)) not in known for word in missing if word in dict(model.named_parameters(remove_duplicate=False))):
        sys.exit(f"{name}: PyTorch's model has no {unknown}, Heddle's no {missing}")
    optimiser, done = torch.optim.Adam(model.parameters(), eps=1e-8), 0
    if saved.exists():
        state = torch.load(saved, weights_only=True)
        model.load_state_dict(state["model"])
        optimiser.load_state_dict(state["optimiser"])
        model.memory, done = state["memory"], state["step"]
    model.train()
    for step in range(done, last_steps):
        if step % options.every == 0 and time.monotonic() > options.deadline:
            return None
        batch = run.batch(step)
        for group in optimiser.param_groups:
            group["lr"] = float(batch.pop("rate"))
        optimiser.zero_grad()
        loss = loss_of(name, model, {word: torch.from_numpy(value).long() for word, value in batch.items()})
        loss.backward()
        optimiser.step()
        if (step + 1) % options.every == 0 or step + 1 == last_steps:
            torch.save({"model": model.state_dict(), "optimiser": optimiser.state_dict(), "memory": getattr(model, "memory", None),
                        "step": step + 1}, saved)  # fmt: skip
            say(f"PyTorch: step {step + 1} of {last_steps}, loss {loss.item():.4f}")
    model.eval()
    with torch.inference_mode():
        return run.report(predictor(name, model, run))


def predictor(name, model, run):
    """What the example's report asks, of PyTorch's model."""
    import torch

    if name == "bert":
        def predict(batch):
            results = model(**{word: torch.from_numpy(value).long() for word, value in batch.items()})
            return results.prediction_logits.numpy(), results.seq_relationship_logits.numpy()

        return predict
    if name == "transformer_xl":
        model.memory, model.memory_length = None, 2 * model.memory_length
        return run.score_by(lambda ids: model(torch.from_numpy(ids).long()).numpy())
    return run.score_by(lambda ids: model(torch.from_numpy(ids).long())[:, -1].numpy())


def inside(options):
    """One model, in the peers' environment."""
    import trainer
    from train import prepare

    words = [str(folder_of(options, options.inside)), "--model", options.inside, "--heddle", str(options.heddle), "--threads", str(options.threads[0])]
    settings, run = prepare(words)
    settings.deadline = time.monotonic() + options.seconds
    run.session = trainer.training_session(settings)
    if once(settings.folder / "heddle.json", by_heddle, settings, run, options.steps):
        once(settings.folder / "pytorch.json", by_pytorch, settings, options.inside, run, options.steps)


def folder_of(options, name):
    return options.cache / f"{name}-{options.steps}"


def table(options, python, found):
    installed = versions(python, ["torch", "transformers"])
    lines = [f"# Trained from nothing on text, beside PyTorch, {datetime.date.today().isoformat()}", "",
             f"{cpu_name()}, one thread, torch {installed['torch']}, transformers {installed['transformers']}; float32, {options.steps} steps of Adam with "
             "the same first weights, batches and masks, no dropout; examples/text says what is trained and asked. Written by `./dev bench text`.", "",
             "| model | of the held-out text | Heddle | PyTorch | Heddle / PyTorch |", "|---|---|--:|--:|--:|"]  # fmt: skip
    for name, (results, theirs) in found.items():
        lines += [f"| {MODELS[name]} | {what} | {ours:.4f} | {theirs[what]:.4f} | {ours / theirs[what]:.4f} |" for what, ours in results.items()]
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, "text")
    parser.set_defaults(threads=[1])
    parser.add_argument("--only", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop at the next checkpoint behind so many")
    parser.add_argument("--inside", choices=MODELS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        return inside(options)
    check_options(options)
    python = environment_python(options.venv, "torch, transformers, safetensors")
    began, found = time.monotonic(), {}
    for name in options.only:
        files = [folder_of(options, name) / f"{side}.json" for side in ("heddle", "pytorch")]
        if not all(file.exists() for file in files):
            left = options.seconds - (time.monotonic() - began)
            say(f"{MODELS[name]}, {options.steps} steps")
            words = ["--inside", name, "--heddle", options.heddle, "--cache", options.cache, "--steps", options.steps, "--seconds", left,
                     "--threads", options.threads[0]]  # fmt: skip
            subprocess.run([python, HERE / "run.py", *map(str, words)], check=True, env={**os.environ, "PYTHONPATH": str(ROOT / "python")})
        if not all(file.exists() for file in files):
            return say("not done yet: the same command goes on")
        found[name] = [json.loads(file.read_text()) for file in files]
    lines = table(options, python, found)
    print("\n".join(lines[4:]))
    options.results.mkdir(parents=True, exist_ok=True)
    file = options.results / f"{datetime.date.today().isoformat()}-{cpu_in_file_names()}-text.md"
    file.write_text("\n".join(lines) + "\n")
    say(f"written to {file}")
    far = [f"{MODELS[name]}, {what}" for name, (ours, theirs) in found.items() for what, value in ours.items()
           if "%" not in what and abs(value / theirs[what] - 1) > TOLERANCE]  # fmt: skip
    if far:
        sys.exit(f"more than {100 * TOLERANCE:.0f} % apart: {'; '.join(far)}")


if __name__ == "__main__":
    main()
