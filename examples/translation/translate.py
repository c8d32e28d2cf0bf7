#!/usr/bin/env python3
"""Translates texts with a Marian model (MarianMTModel) as Hugging Face saves it, such as Helsinki-NLP/opus-mt-en-de.

    python examples/translation/translate.py path/to/opus-mt-en-de "The library is one file." "It needs no framework."
    python examples/translation/translate.py path/to/opus-mt-en-de < letters.txt        # a text per line

The folder is compiled the first time, to --library. Tokens are made by sentencepiece, from the folder's source.spm, target.spm and
vocab.json; the beam search is the library's own."""

import argparse
import json
import sys
from pathlib import Path

import numpy as np
import sentencepiece

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import compiled  # noqa: E402


class Tokens:
    """Pieces of the two languages share one list of numbers."""

    def __init__(self, folder):
        self.source = sentencepiece.SentencePieceProcessor(model_file=str(folder / "source.spm"))
        self.target = sentencepiece.SentencePieceProcessor(model_file=str(folder / "target.spm"))
        self.numbers = json.loads((folder / "vocab.json").read_text())
        self.pieces = {number: piece for piece, number in self.numbers.items()}
        self.end, self.pad = self.numbers["</s>"], self.numbers["<pad>"]

    def encode(self, texts):
        """Ids and mask of a batch, padded to its longest text."""
        unknown = self.numbers["<unk>"]
        rows = [[self.numbers.get(piece, unknown) for piece in self.source.encode(text, out_type=str)] + [self.end] for text in texts]
        ids = np.full((len(rows), max(map(len, rows))), self.pad, np.int32)
        for line, row in zip(ids, rows):
            line[: len(row)] = row
        return ids, np.int32([[1] * len(row) + [0] * (ids.shape[1] - len(row)) for row in rows])

    def decode(self, row):
        pieces = [self.pieces[number] for number in row if number not in (self.end, self.pad)]
        return self.target.decode_pieces(pieces)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    compiled.add_options(parser)
    parser.add_argument("texts", nargs="*", help="what to translate; without it, the lines of standard input")
    parser.add_argument("--beams", type=int, default=4)
    parser.add_argument("--steps", type=int, default=200, help="at most so many tokens")
    options = parser.parse_args()
    texts = options.texts or [line.strip() for line in sys.stdin if line.strip()]
    tokens, session = Tokens(options.folder), compiled.load(options).session()
    for first in range(0, len(texts), 8):
        ids, mask = tokens.encode(texts[first : first + 8])
        sequences, _ = session.generate({"input_ids": ids, "attention_mask": mask}, options.steps, beams=options.beams)
        for row in sequences:
            print(tokens.decode(row[1:].tolist()))  # the first token tells the decoder to begin


if __name__ == "__main__":
    main()
