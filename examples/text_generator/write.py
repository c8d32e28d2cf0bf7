#!/usr/bin/env python3
"""Goes on writing a text with a GPT-2 (GPT2LMHeadModel) as Hugging Face saves it, token by token as they come.

    python examples/text_generator/write.py path/to/gpt2 "The ship left the harbour"
    python examples/text_generator/write.py path/to/gpt2 "The ship" --sample --temperature 0.8 --top-p 0.95 --seed 7

The folder is compiled the first time, to --library. Tokens are made by the package tokenizers, from the folder's tokenizer.json; cache and
sampling are the library's own."""

import argparse
import sys
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import compiled  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    compiled.add_options(parser)
    parser.add_argument("prompt")
    parser.add_argument("--steps", type=int, default=60, help="at most so many tokens")
    parser.add_argument("--sample", action="store_true", help="choose at random instead of the likeliest")
    parser.add_argument("--temperature", type=float, default=1)
    parser.add_argument("--top-k", type=int, default=0)
    parser.add_argument("--top-p", type=float, default=1)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    model = compiled.load(options)
    tokenizer = Tokenizer.from_file(str(options.folder / "tokenizer.json"))
    prompt = tokenizer.encode(options.prompt, add_special_tokens=False).ids
    ends = set(model.tokens.get("eos_token_id", []))
    written, shown = list(prompt), ""

    def show():
        nonlocal shown
        text = tokenizer.decode(written)
        if not text.endswith("\ufffd"):  # a character of which some bytes are still to come
            print(text[len(shown) :], end="", flush=True)
            shown = text

    def take(_step, new):
        if new[0] not in ends:
            written.append(int(new[0]))
            show()

    show()
    how = {"sample": True, "temperature": options.temperature, "top_k": options.top_k, "top_p": options.top_p, "seed": options.seed}
    model.session().generate({"input_ids": np.int32([prompt])}, options.steps, listener=take, **(how if options.sample else {}))
    print()


if __name__ == "__main__":
    main()
