#!/usr/bin/env python3
"""Perplexity and bits per character of a compiled language model over a text.

    heddle compile GPT2_FOLDER -o gpt2
    python examples/perplexity/perplexity.py gpt2 book.txt --tokenizer GPT2_FOLDER/tokenizer.json --window 1024 --stride 512
    python examples/perplexity/perplexity.py transformer_xl book.txt --bytes --segment 128

A model that remembers (Transformer-XL) reads the text in segments on one session: every token is predicted from all that
the memory holds. With --window each prediction stands on the tokens of its window alone: windows are `stride` apart, and
of each only the last `stride` tokens count, so that every one of them has window - stride tokens before it or more."""

import argparse
import math
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
import heddle  # noqa: E402


def tokens_of(text, options):
    if options.bytes:
        return np.frombuffer(text.encode(), np.uint8).astype(np.int64)
    from tokenizers import Tokenizer

    return np.array(Tokenizer.from_file(options.tokenizer).encode(text, add_special_tokens=False).ids)


def by_segments(session, name, tokens, length):
    """Segments share one token: the last of one, which is only predicted, is the first of the next."""
    session.reset()
    for first in range(0, len(tokens) - 1, length):
        part = tokens[None, first : first + length + 1]
        yield session.score({name: part}, keep_state=True)[0, 1:]


def by_windows(session, name, tokens, window, stride):
    done = 1  # the first token has nothing before it
    while done < len(tokens):
        end = min(max(done + stride, window if done == 1 else 0), len(tokens))
        part = tokens[None, max(0, end - window) : end]
        yield session.score({name: part})[0, -(end - done) :]
        done = end


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", help="a folder that `heddle compile` wrote")
    parser.add_argument("text", help="a file in UTF-8")
    kind = parser.add_mutually_exclusive_group(required=True)
    kind.add_argument("--tokenizer", help="a tokenizer.json (needs the package tokenizers)")
    kind.add_argument("--bytes", action="store_true", help="the tokens are the text's bytes")
    parser.add_argument("--input", default="input_ids", help="the name of the input for tokens")
    parser.add_argument("--segment", type=int, default=128, help="tokens per call of a model that remembers")
    parser.add_argument("--window", type=int, help="start afresh for every window of so many tokens")
    parser.add_argument("--stride", type=int, help="tokens between windows; the window's half if not given")
    parser.add_argument("--threads", type=int, default=0)
    options = parser.parse_args()
    stride = options.stride or (options.window or 2) // 2
    if options.window and not 1 <= stride < options.window:
        parser.error("--stride must be in 1 .. window - 1")

    text = Path(options.text).read_text()
    tokens = tokens_of(text, options)
    if len(tokens) < 2:
        parser.error(f"{options.text}: has fewer than two tokens")
    with heddle.load(options.library) as model, model.session(options.threads) as session:
        start = time.perf_counter()
        parts = (by_windows(session, options.input, tokens, options.window, stride) if options.window
                 else by_segments(session, options.input, tokens, options.segment))  # fmt: skip
        total, count = 0.0, 0
        for part in parts:
            total -= float(part.astype(np.float64).sum())
            count += len(part)
            if sys.stderr.isatty():
                print(f"\r{count} of {len(tokens) - 1} tokens, perplexity {math.exp(total / count):.2f} ", end="", file=sys.stderr)
        seconds = time.perf_counter() - start
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    print(f"tokens             {count}")
    print(f"perplexity         {math.exp(total / count):.4f}")
    print(f"bits per character {total / math.log(2) / len(text):.4f}")
    print(f"tokens per second  {count / seconds:.0f}")


if __name__ == "__main__":
    try:
        main()
    except heddle.Error as error:
        sys.exit(f"error: {error}")
