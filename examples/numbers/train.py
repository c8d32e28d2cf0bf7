#!/usr/bin/env python3
"""Trains a Transformer from nothing to read numbers: "four hundred and twelve thousand and seven" becomes 412007.

    python examples/numbers/train.py [FOLDER]          2000 steps: some minutes on two cores

FOLDER keeps settings, libraries and checkpoints; when the run is stopped, the same command goes on from the last of them, and comes
to the same bits. At the end it reads numbers that it has never seen, by greedy search."""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
import heddle  # noqa: E402

ONES = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()
TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
PAD, END, START = range(3)
WORDS = {word: number for number, word in enumerate([*ONES, *TENS, "hundred", "thousand", "and"], 13)}  # 3 to 12 are the digits
SETTINGS = {
    "model_type": "transformer", "vocab_size": 13 + len(WORDS), "d_model": 64, "max_position_embeddings": 24,
    "activation_function": "relu", "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 256, "decoder_ffn_dim": 256, "scale_embedding": True, "normalize_before": True,
    "pad_token_id": PAD, "eos_token_id": END, "decoder_start_token_id": START,
    "training": True, "warmup_steps": 400, "learning_rate": 0.002,
}  # fmt: skip


def below_a_thousand(n):
    out = [ONES[n // 100], "hundred"] if n >= 100 else []
    rest = n % 100
    if rest and out:
        out.append("and")
    if rest >= 20:
        out.append(TENS[rest // 10 - 2])
        rest %= 10
    return out + [ONES[rest]] if rest else out


def in_words(n):
    thousands, rest = divmod(n, 1000)
    out = [*below_a_thousand(thousands), "thousand"] if thousands else []
    if 0 < rest < 100 and thousands:
        out.append("and")
    return out + below_a_thousand(rest) or ["zero"]


def padded(rows, fill):
    out = np.full((len(rows), max(map(len, rows))), fill, np.int32)
    for line, row in zip(out, rows):
        line[: len(row)] = row
    return out


def source(numbers):
    ids = padded([[WORDS[word] for word in in_words(n)] + [END] for n in numbers], PAD)
    return {"input_ids": ids, "attention_mask": (ids != PAD).astype(np.int32)}


def digits(n):
    return [3 + int(digit) for digit in str(n)]


def batch(step, size, unseen):
    """The same one whenever the step is asked for: a run that goes on sees what it would have seen."""
    rng = np.random.default_rng([1, step])
    numbers = [n for n in (int(10 ** rng.uniform(0, 6)) for _ in range(2 * size)) if n not in unseen][:size]
    targets = [digits(n) for n in numbers]
    return source(numbers) | {
        "decoder_input_ids": padded([[START, *t] for t in targets], PAD),
        "labels": padded([[*t, END] for t in targets], -100),
        "key": np.int32([2, 0]),
    }


def begin(session, seed):
    """Glorot & Bengio 2010 for matrices, a row of words about as long as a position's code; norms begin as no change."""
    rng = np.random.default_rng(seed)
    for name, parameter in session.model.parameters.items():
        if len(parameter.shape) == 2 and parameter.shape[0] > 1:
            spread = parameter.shape[1] ** -0.5 if "embed" in name or "shared" in name else (2 / sum(parameter.shape)) ** 0.5
            session.parameters[name] = (spread * rng.standard_normal(parameter.shape)).astype(np.float32)
        elif name.endswith("norm.weight"):
            session.parameters[name] = np.ones(parameter.shape, np.float32)


def compile_model(options, library, *words):
    subprocess.run([options.heddle, "compile", options.folder, *words, "-o", library], check=True, stdout=subprocess.DEVNULL)
    return heddle.load(library)


def exact(session, numbers):
    """The share of them that greedy search reads without a mistake."""
    right = 0
    for first in range(0, len(numbers), 200):
        some = numbers[first : first + 200]
        sequences, _ = session.generate(source(some), 8)
        texts = ["".join(str(token - 3) for token in row[1:] if 3 <= token <= 12) for row in sequences]
        right += sum(text == str(n) for text, n in zip(texts, some))
    return right / len(numbers)


def train(options, session, unseen):
    saved = options.folder / "run.session"
    if saved.exists():
        session.restore(saved)
    done = int(session.state("step") if session.state("step") is not None else 0)
    if done == 0:
        begin(session, options.seed)
    began, mean = time.monotonic(), None
    for step in range(done, options.steps):
        loss = float(session.run(batch(step, options.batch, unseen), "train")["loss"])
        mean = loss if mean is None else 0.98 * mean + 0.02 * loss
        if sys.stdout.isatty() or (step + 1) % 500 == 0:
            each = (time.monotonic() - began) / (step + 1 - done)
            end = "\r" if sys.stdout.isatty() else "\n"
            print(f"step {step + 1} of {options.steps}, loss {mean:.4f}, {each * 1e3:.0f} ms each, {each * (options.steps - step - 1):.0f} s left ",
                  end=end, flush=True)  # fmt: skip
        left = options.steps - step - 1
        if left % options.every == 0:
            session.save(saved)
            if left < 5 * options.every:
                session.parameters.save(options.folder / f"last-{left // options.every}.safetensors")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("numbers"))
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--every", type=int, default=100, help="steps between checkpoints; the last five are averaged")
    parser.add_argument("--smoothing", type=float, default=0.1, help="of labels")
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--heddle", default="heddle", help="the command that compiles")
    options = parser.parse_args()
    options.folder.mkdir(exist_ok=True)
    (options.folder / "config.json").write_text(json.dumps(SETTINGS | {"dropout": options.dropout, "label_smoothing": options.smoothing}, indent=2))
    unseen = {int(n) for n in np.random.default_rng(0).integers(0, 1000000, 2000)}
    library = options.folder / "training"
    model = heddle.load(library) if library.exists() else compile_model(options, library, "--blank")
    session = model.session(threads=options.threads)
    train(options, session, unseen)
    averaged = options.folder / "averaged.safetensors"
    last = sorted(options.folder.glob("last-*.safetensors"))
    subprocess.run([options.heddle, "average", *last, "-o", averaged], check=True)
    for what, weights in (("the last weights", last[0]), ("the mean of the last checkpoints", averaged)):
        reader = compile_model(options, options.folder / f"reader-{weights.stem}", "--weights", weights, "--set", "training=false")
        share = exact(reader.session(threads=options.threads), sorted(unseen))
        print(f"exact, of {len(unseen)} unseen numbers, with {what}: {100 * share:.2f} %")


if __name__ == "__main__":
    main()
