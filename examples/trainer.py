"""What the training examples have in common: a folder that keeps the settings, the library, and checkpoints from which a run that
was stopped goes on. The model's training entry counts its steps in the state `step`."""

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
import heddle  # noqa: E402

KEPT = 5  # checkpoints of weights


def add_options(parser, folder, steps, batch):
    parser.add_argument("folder", nargs="?", type=Path, default=folder)
    parser.add_argument("--steps", type=positive, default=steps)
    parser.add_argument("--batch", type=positive, default=batch, help="rows of a step")
    parser.add_argument("--every", type=positive, default=100, help=f"steps between checkpoints, of which the last {KEPT} are kept")
    parser.add_argument("--seed", type=int, default=1, help="of the first weights")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--heddle", default="heddle", help="the command that compiles")


def positive(word):
    number = int(word)
    if number < 1:
        raise ValueError
    return number


def settle(options, settings, **more):
    """Writes the model's settings into the folder. A run there that has others, or other options in `more`, ends this one."""
    file, want = options.folder / "run.json", {**settings, "batch": options.batch, "seed": options.seed, **more}
    if file.exists():
        there = json.loads(file.read_text())
        for name in sorted({*want, *there}):
            if want.get(name) != there.get(name):
                sys.exit(f"error: {options.folder} has a run with {name} {there.get(name)}, not {want.get(name)}; name another folder")
    options.folder.mkdir(parents=True, exist_ok=True)
    (options.folder / "config.json").write_text(json.dumps(settings, indent=2))
    file.write_text(json.dumps(want, indent=2))


def run_heddle(options, *words):
    try:
        subprocess.run([options.heddle, *words], check=True, stdout=subprocess.DEVNULL)
    except FileNotFoundError:
        sys.exit(f"error: there is no command `{options.heddle}`; install the wheel heddle-compiler, or say --heddle FILE")
    except subprocess.CalledProcessError as failed:  # it has said why
        sys.exit(failed.returncode)


def training_session(options):
    """A session of the library that trains, which is compiled the first time."""
    library = options.folder / "training"
    if not library.exists():
        run_heddle(options, "compile", options.folder, "--blank", "-o", library)
    return heddle.load(library).session(threads=options.threads)


def reading_session(options, name, weights, *words):
    """A session of the model with these weights and without its training entry."""
    library = options.folder / name
    run_heddle(options, "compile", options.folder, "--weights", weights, "--set", "training=false", *words, "-o", library)
    return heddle.load(library).session(threads=options.threads)


def begin(session, seed):
    """Glorot & Bengio 2010 for matrices and filters, a row of words about as long as a position's code; norms begin as no change."""
    rng = np.random.default_rng(seed)
    for name, parameter in session.model.parameters.items():
        rows, columns = parameter.shape[0], int(np.prod(parameter.shape[1:]))
        if re.search(r"(norm\w*|ln_\w+)\.weight$", name, re.IGNORECASE):
            session.parameters[name] = np.ones(parameter.shape, np.float32)
        elif len(parameter.shape) > 1 and rows > 1 and not name.endswith("bias"):
            spread = columns**-0.5 if "emb" in name or "shared" in name else (2 / (rows + columns)) ** 0.5
            session.parameters[name] = (spread * rng.standard_normal(parameter.shape)).astype(np.float32)


def checkpoints(options):
    """The files of weights, the newest first."""
    return sorted(options.folder.glob("step-*.safetensors"), key=lambda file: -int(file.stem.removeprefix("step-")))


def train(options, session, batch):
    """Goes on from the last checkpoint, or begins; `batch(step)` is the same whenever it is asked for. Returns the last files of weights."""
    saved = options.folder / "run.session"
    if saved.exists():
        session.restore(saved)
    done = int(session.state("step") if session.state("step") is not None else 0)
    if done > options.steps:
        sys.exit(f"error: {options.folder} has a run of {done} steps already, more than {options.steps}")
    if done == 0:
        begin(session, options.seed)
    began, mean = time.monotonic(), None
    for step in range(done, options.steps):
        loss = float(session.run(batch(step), "train")["loss"])
        mean = loss if mean is None else 0.98 * mean + 0.02 * loss
        left = options.steps - step - 1
        if sys.stdout.isatty() or (step + 1) % 500 == 0 or left == 0:
            each = (time.monotonic() - began) / (step + 1 - done)
            print(f"step {step + 1} of {options.steps}, loss {mean:.4f}, {each * 1e3:.0f} ms each, {each * left:.0f} s left ",
                  end="\r" if sys.stdout.isatty() and left else "\n", flush=True)  # fmt: skip
        if (step + 1) % options.every == 0 or left == 0:
            session.parameters.save(options.folder / f"step-{step + 1}.safetensors")
            session.save(saved)
            for old in checkpoints(options)[KEPT:]:
                old.unlink()
    return checkpoints(options)
