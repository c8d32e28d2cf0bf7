#!/usr/bin/env python3
"""Trains a Transformer from nothing to read numbers: "four hundred and twelve thousand and seven" becomes 412007.

    python examples/numbers/train.py [FOLDER]          2000 steps: some minutes on two cores

FOLDER keeps settings, libraries and checkpoints; when the run is stopped, the same command goes on from the last of them, and comes
to the same bits. At the end it reads numbers that it has never seen, by greedy search."""

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import trainer  # noqa: E402

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


def exact(session, numbers):
    """The share of them that greedy search reads without a mistake."""
    right = 0
    for first in range(0, len(numbers), 200):
        some = numbers[first : first + 200]
        sequences, _ = session.generate(source(some), 8)
        texts = ["".join(str(token - 3) for token in row[1:] if 3 <= token <= 12) for row in sequences]
        right += sum(text == str(n) for text, n in zip(texts, some))
    return right / len(numbers)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    trainer.add_options(parser, Path("numbers"), steps=2000, batch=64)
    parser.add_argument("--smoothing", type=float, default=0.1, help="of labels")
    parser.add_argument("--dropout", type=float, default=0.1)
    options = parser.parse_args()
    trainer.settle(options, SETTINGS | {"dropout": options.dropout, "label_smoothing": options.smoothing})
    unseen = {int(n) for n in np.random.default_rng(0).integers(0, 1000000, 2000)}
    last = trainer.train(options, trainer.training_session(options), lambda step: batch(step, options.batch, unseen))
    averaged = options.folder / "averaged.safetensors"
    trainer.run_heddle(options, "average", *last, "-o", averaged)
    for what, name, weights in (("the last weights", "reader-last", last[0]), ("the mean of the last checkpoints", "reader-averaged", averaged)):
        share = exact(trainer.reading_session(options, name, weights), sorted(unseen))
        print(f"exact, of {len(unseen)} unseen numbers, with {what}: {100 * share:.2f} %")


if __name__ == "__main__":
    main()
