#!/usr/bin/env python3
"""Trains a model from nothing on the text of this machine, its licences and manuals, or on yours, and says how well it does on text that
it has not seen.

    python examples/text/train.py --model transformer_xl       bits per character, with a memory of the segments before
    python examples/text/train.py --model vanilla_lm           bits per character of a model of the same size without
    python examples/text/train.py --model bert                 masked words, and whether one piece of text follows another

Some minutes each on one core. The folder text-MODEL keeps text, settings, libraries and checkpoints; when the run is stopped, the same
command goes on from the last of them, and comes to the same bits. With more --steps a run that is done goes on, too."""

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1])]
import corpus  # noqa: E402
import trainer  # noqa: E402

WARM = 100  # steps until the rate is at its peak
ROWS = 16  # places of the held-out text that are read side by side
MEMORY = 2  # segments that Transformer-XL remembers; where the held-out text is read, twice as many
HEAD = 32  # the width of an attention head


def rate(step, peak):
    """Of the step behind so many: it rises, then falls as the inverse square root."""
    return np.float32(peak * min((step + 1) / WARM, (WARM / (step + 1)) ** 0.5))


def log_softmax(x):
    x = x.astype(np.float64) - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


class Characters:
    """A language model's run: the rows of a batch read the text from places of their own, a segment a step."""

    rate = 2e-3
    unit = "bits per character"

    def __init__(self, options, text, held_out):
        self.options, self.text, self.held_out = options, corpus.characters(text), corpus.characters(held_out)

    def batch(self, step):
        """The next segment of each row; behind the end comes the beginning."""
        length = self.options.segment
        first = np.arange(self.options.batch)[:, None] * (len(self.text) // self.options.batch) + step * length
        part = self.text[(first + np.arange(length + 1)) % len(self.text)]
        return {"input_ids": part[:, :-1], "labels": part[:, 1:], "rate": rate(step, self.options.rate)}

    def held_out_rows(self):
        """Rows [ROWS, segment + count]: the first segment of each is only read, then all characters count."""
        apart, length = len(self.held_out) // ROWS, self.options.segment
        count = min(1024, apart - length)
        return self.held_out[np.arange(ROWS)[:, None] * apart + np.arange(length + count)]

    def report(self, score):
        """`score(rows)` gives the log-probability of each character behind the first segment."""
        return {self.unit: -score(self.held_out_rows()).mean() / np.log(2)}


class TransformerXL(Characters):
    def settings(self):
        return {"model_type": "transfo-xl", "saved_by": "authors", "vocab_size": 256, "d_model": self.options.width,
                "d_embed": self.options.width, "n_head": self.options.width // HEAD, "d_head": HEAD, "d_inner": 4 * self.options.width,
                "n_layer": self.options.layers, "cutoffs": [], "div_val": 1, "clamp_len": 0, "mem_len": MEMORY * self.options.segment,
                "same_length": False, "untie_r": True, "pre_lnorm": True}  # fmt: skip

    def score_by(self, forward):
        """By `forward(ids)`, whose memory goes on from call to call."""
        length = self.options.segment

        def score(rows):
            out = []
            for first in range(0, rows.shape[1] - 1, length):
                ids, following = rows[:, first : first + length], rows[:, first + 1 : first + length + 1]
                given = log_softmax(forward(ids)[:, : following.shape[1]])
                out.append(np.take_along_axis(given, following[..., None], -1)[..., 0])
            return np.concatenate(out, 1)[:, length - 1 :]

        return score

    def judge(self, weights):
        reader = trainer.reading_session(self.options, "reader", weights, "--set", f"mem_len={2 * MEMORY * self.options.segment}")
        return self.report(self.score_by(lambda ids: reader.run({"input_ids": ids}, "forward")["logits"]))


class VanillaLM(Characters):
    def settings(self):
        return {"model_type": "vanilla-lm", "vocab_size": 256, "segment_length": self.options.segment, "d_model": self.options.width,
                "nhead": self.options.width // HEAD, "dim_feedforward": 4 * self.options.width, "num_layers": self.options.layers,
                "norm_first": True}  # fmt: skip

    def score_by(self, last):
        """By `last(ids)`, the logits behind a segment that slides by one character, so that each is predicted from a whole segment."""
        length = self.options.segment

        def score(rows):
            out = []
            for at in range(length, rows.shape[1]):
                given = log_softmax(last(np.ascontiguousarray(rows[:, at - length : at])))
                out.append(np.take_along_axis(given, rows[:, at, None], -1))
            return np.concatenate(out, 1)

        return score

    def judge(self, weights):
        reader = trainer.reading_session(self.options, "reader", weights)
        return self.report(self.score_by(lambda ids: reader.run({"input_ids": ids}, "last")["logits"]))


class Bert:
    """BERT's pre-training: of two pieces of text the second follows the first or, as often, does not; words are masked as the prelude
    does it, by the library's entry `mask`."""

    rate = 1e-3
    vocabulary = 4096

    def __init__(self, options, text, held_out):
        self.options, self.words = options, corpus.Words(text, self.vocabulary)
        self.text, self.held_out = self.words.of(text), self.words.of(held_out)
        if min(len(self.text), len(self.held_out)) <= 2 * options.segment:
            sys.exit(f"error: {len(self.held_out)} words are held out, {2 * options.segment + 1} are needed; name more text with --text")

    def settings(self):
        return {"model_type": "bert", "architectures": ["BertForPreTraining"], "vocab_size": self.vocabulary,
                "hidden_size": self.options.width, "num_hidden_layers": self.options.layers,
                "num_attention_heads": self.options.width // HEAD, "intermediate_size": 4 * self.options.width,
                "max_position_embeddings": self.options.segment, "hidden_act": "gelu", "tie_word_embeddings": True}  # fmt: skip

    def pairs(self, words, rng, count):
        """[CLS] a piece [SEP] another [SEP], both as long as the segment allows."""
        one = (self.options.segment - 3) // 2
        other = self.options.segment - 3 - one
        first = rng.integers(0, len(words) - one - other, count)
        follows = rng.random(count) < 0.5
        second = np.where(follows, first + one, rng.integers(0, len(words) - other, count))
        column = lambda word: np.full((count, 1), word, np.int32)  # noqa: E731
        ids = np.hstack([column(corpus.START), words[first[:, None] + np.arange(one)], column(corpus.BETWEEN),
                         words[second[:, None] + np.arange(other)], column(corpus.BETWEEN)])  # fmt: skip
        kinds = np.zeros_like(ids)
        kinds[:, one + 2 :] = 1
        return {"input_ids": ids, "token_type_ids": kinds, "next_sentence_label": np.where(follows, 0, 1).astype(np.int32)}

    def masked(self, session, pairs, key):
        """Pairs of which words are masked, and the labels. `session`: of the library that trains."""
        special = np.isin(pairs["input_ids"], (corpus.START, corpus.BETWEEN))
        given = {"input_ids": pairs["input_ids"], "special": special, "mask_token": np.int32(corpus.MASK), "key": np.int32(key)}
        made = session.run(given, "mask")
        return pairs | {"input_ids": made["input_ids"], "labels": made["labels"]}

    def batch(self, step):
        pairs = self.pairs(self.text, np.random.default_rng([1, step]), self.options.batch)
        return self.masked(self.session, pairs, [1, step]) | {"rate": rate(step, self.options.rate)}

    def held_out_batches(self):
        for number in range(32):
            pairs = self.pairs(self.held_out, np.random.default_rng([2, number]), ROWS)
            yield self.masked(self.session, pairs, [2, number])

    def report(self, predict):
        """`predict(batch)` gives the logits of words and of the next sentence."""
        losses, words, sentences = [], [], []
        for batch in self.held_out_batches():
            labels, follows = batch.pop("labels"), batch.pop("next_sentence_label")
            of_words, of_next = predict(batch)
            asked = labels >= 0
            losses.append(-np.take_along_axis(log_softmax(of_words[asked]), labels[asked][:, None], -1)[:, 0])
            words.append(of_words[asked].argmax(-1) == labels[asked])
            sentences.append(of_next.argmax(-1) == follows)
        losses, words, sentences = map(np.concatenate, (losses, words, sentences))
        return {"loss of masked words": losses.mean(), "masked words found, %": 100 * words.mean(), "next sentences, %": 100 * sentences.mean()}

    def judge(self, weights):
        reader = trainer.reading_session(self.options, "reader", weights)

        def predict(batch):
            results = reader.run(batch, "pretrain")
            return results["prediction_logits"], results["seq_relationship_logits"]

        return self.report(predict)


RUNS = {"transformer_xl": TransformerXL, "vanilla_lm": VanillaLM, "bert": Bert}


def prepare(words=None):
    """The options of a command line, and its run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    trainer.add_options(parser, None, steps=1000, batch=16)
    parser.add_argument("--model", choices=RUNS, required=True)
    parser.add_argument("--text", type=Path, nargs="+", default=[], metavar="FILE", help="what to learn instead of the texts of this machine")
    parser.add_argument("--layers", type=trainer.positive, default=4)
    parser.add_argument("--width", type=trainer.positive, default=128, help=f"a multiple of {HEAD}, the width of a head")
    parser.add_argument("--segment", type=trainer.positive, default=64, help="characters, or words, of a row of a step")
    parser.add_argument("--rate", type=float, help="Adam's at its peak")
    options = parser.parse_args(words)
    if options.segment < 8:
        parser.error("--segment must be 8 or more")
    if options.width % HEAD:
        parser.error(f"--width must be a multiple of {HEAD}")
    options.folder = options.folder or Path(f"text-{options.model}")
    options.rate = options.rate or RUNS[options.model].rate
    kept = options.folder / "text.txt"  # a run that goes on has the text that it began with, whatever is installed or edited meanwhile
    text = corpus.gather(kept, options.text, 20 * 2 * ROWS * options.segment)
    run = RUNS[options.model](options, *corpus.split(text))
    trainer.settle(options, run.settings() | {"training": True}, segment=options.segment, rate=options.rate)
    kept.write_bytes(text)
    return options, run


def main():
    options, run = prepare()
    run.session = trainer.training_session(options)
    last = trainer.train(options, run.session, run.batch)
    for what, value in run.judge(last[0]).items():
        print(f"held-out text, {what}: {value:.4f}")


if __name__ == "__main__":
    try:
        main()
    except trainer.heddle.Error as error:
        sys.exit(f"error: {error}")
