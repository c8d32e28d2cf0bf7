#!/usr/bin/env python3
"""Goldens of models/seq2seq and models/seq2seq_attention, from torch.nn's recurrent layers over packed sequences; the
attention is written out here after the papers. Their generation.json holds what a beam search writes that keeps no states:
it reads source and text anew for every token. See folder.py."""

import json

import torch
from folder import Folder, randomise
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

SIZES = dict(vocab_size=37, decoder_vocab_size=41, embedding_size=9, hidden_size=14, num_layers=2)
CELLS = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}


class Reader(nn.Module):
    def __init__(self, cell, words, inputs, units, layers, bidirectional=False):
        super().__init__()
        if words:
            self.embedding = nn.Embedding(words, 9)
        self.rnn = CELLS[cell](inputs, units, layers, batch_first=True, bidirectional=bidirectional)


class Attention(nn.Module):
    def __init__(self, alignment, units):
        super().__init__()
        self.alignment = alignment
        if alignment == "general":
            self.weight = nn.Parameter(torch.zeros(units, units))
        if alignment == "concat":
            self.query, self.key = (nn.Linear(units, units, bias=False) for _ in range(2))
            self.score = nn.Linear(units, 1, bias=False)
        self.combine = nn.Linear(2 * units, units, bias=False)

    def forward(self, h, memory, lengths):
        if self.alignment == "concat":
            scores = self.score(torch.tanh(self.query(h)[:, None] + self.key(memory)))[..., 0]
        else:
            keys = memory @ self.weight.T if self.alignment == "general" else memory
            scores = (keys @ h[..., None])[..., 0]
        far = torch.arange(memory.shape[1])[None] >= lengths[:, None]
        context = scores.masked_fill(far, float("-inf")).softmax(1)[:, None] @ memory
        return torch.tanh(self.combine(torch.cat([context[:, 0], h], 1)))


class Model(nn.Module):
    def __init__(self, cell, bidirectional, alignment=None, input_feeding=False):
        super().__init__()
        self.cell, self.bidirectional, self.feeds = cell, bidirectional, input_feeding
        units = 14 // 2 if bidirectional else 14
        self.encoder = Reader(cell, 37, 9, units, 2, bidirectional)
        self.decoder = Reader(cell, 41, 9 + 14 * input_feeding, 14, 2)
        if alignment:
            self.attention = Attention(alignment, 14)
        self.generator = nn.Linear(14, 41)

    def encode(self, ids, lengths):
        packed = pack_padded_sequence(self.encoder.embedding(ids), lengths, batch_first=True, enforce_sorted=False)
        outputs, state = self.encoder.rnn(packed)
        memory = pad_packed_sequence(outputs, batch_first=True, total_length=ids.shape[1])[0]
        if self.bidirectional:  # [layers * 2, batch, half] to [layers, batch, both halves]
            join = lambda x: torch.cat([x[0::2], x[1::2]], 2).contiguous()  # noqa: E731
            state = tuple(map(join, state)) if self.cell == "lstm" else join(state)
        self.memory, self.lengths, self.state = memory, lengths, state
        self.fed = torch.zeros(len(ids), 14)

    def step(self, ids):
        x = self.decoder.embedding(ids)
        if self.feeds:
            x = torch.cat([x, self.fed], 1)
        y, self.state = self.decoder.rnn(x[:, None], self.state)
        y = y[:, 0]
        if hasattr(self, "attention"):
            y = self.fed = self.attention(y, self.memory, self.lengths)
        return self.generator(y)

    def reorder(self, rows):
        pick = lambda x: x[:, rows].contiguous()  # noqa: E731
        self.state = tuple(map(pick, self.state)) if self.cell == "lstm" else pick(self.state)
        self.fed = self.fed[rows]


START, PAD = 1, 0
CASES = [  # beams, length penalty, texts, length of the longest, new tokens at most, at least
    (1, 1.0, 2, 5, 8, 0), (3, 1.0, 3, 9, 8, 4), (4, 0.5, 1, 6, 9, 3), (2, 2.0, 3, 4, 6, 0),
]  # fmt: skip


def log_probabilities(model, source, length, text):
    """Of the token after `text`, which begins with START."""
    model.encode(source[None], length[None])
    for token in text:
        logits = model.step(torch.tensor([token]))
    return logits[0].log_softmax(0)


def search(model, source, length, beams, penalty, steps, least, end):
    """The best text of one source and its score: docs/generation.md, beam search (one beam: greedy, with the sum as score)."""
    valued = lambda text, total: total / (len(text) - 1) ** penalty  # noqa: E731
    open_ones, done = [([START], torch.tensor(0.0))], []
    for step in range(steps):
        following = []
        for text, total in open_ones:
            logs = log_probabilities(model, source, length, text)
            if step < least:
                logs[end] = -torch.inf
            following += [(text + [token], total + value) for token, value in enumerate(logs)]
        following.sort(key=lambda one: -one[1])
        open_ones = []
        for rank, (text, total) in enumerate(following[: 2 * beams]):
            if text[-1] != end:
                open_ones.append((text, total))
            elif rank < beams:
                done.append((valued(text, total), text, total))
        open_ones = open_ones[:beams]
        done = sorted(done, key=lambda one: -one[0])[:beams]
        if len(done) == beams and (beams == 1 or done[-1][0] >= valued(*open_ones[0])):
            break
    else:
        done += [(valued(*one), *one) for one in open_ones]
    value, text, total = max(done, key=lambda one: one[0])
    return text, float(total if beams == 1 else value)


def texts(model, generator, path):
    cases = []
    for beams, penalty, batch, longest, steps, least in CASES:
        source = torch.randint(2, 37, (batch, longest), generator=generator)
        lengths = torch.tensor([longest - b * longest // (batch + 1) for b in range(batch)])
        free, _ = search(model, source[0], lengths[0], beams, penalty, steps, steps, PAD)
        end = free[1 + steps // 2]  # so that texts end at different lengths
        best = [search(model, one, length, beams, penalty, steps, least, end) for one, length in zip(source, lengths)]
        long = max(len(text) for text, _ in best)
        cases.append({
            "input_ids": source.tolist(), "lengths": lengths.tolist(), "steps": steps,
            "options": {"beams": beams, "length_penalty": penalty, "min_steps": least, "tokens": {"eos_token_id": end}},
            "sequences": [text + [PAD] * (long - len(text)) for text, _ in best],
            "scores": [round(score, 5) for _, score in best],
        })  # fmt: skip
    (path / "generation.json").write_text("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")


def beams(model, generator):
    """Three hypotheses of one source, the fourth token after a change of order; each text is read anew."""
    source, lengths, order = torch.randint(0, 37, (1, 7), generator=generator), torch.tensor([5]), torch.tensor([2, 0, 0])
    yield "encode", {"input_ids": source.expand(3, -1), "lengths": lengths.expand(3)}, {}
    read = torch.zeros(3, 0, dtype=torch.long)
    for number in range(5):
        if number == 3:
            yield "reorder", {"from": order}, {}
            read = read[order]
        ids = torch.randint(0, 41, (3,), generator=generator)
        read = torch.cat([read, ids[:, None]], 1)
        model.encode(source.expand(3, -1), lengths.expand(3))
        for i in range(number + 1):
            logits = model.step(read[:, i])
        yield "decode_step", {"decoder_input_ids": ids}, {"logits": logits}


def make(name, seed, cell, bidirectional, **settings):
    generator = torch.Generator().manual_seed(seed)
    model = Model(cell, bidirectional, **settings).eval()
    randomise(model, generator)
    folder = Folder(name)
    folder.config(model_type="seq2seq-attention" if settings else "seq2seq", **SIZES, cell=cell, bidirectional=bidirectional, **settings,
                  decoder_start_token_id=START, pad_token_id=PAD, eos_token_id=2)
    folder.weights(model.state_dict())
    draw = lambda words, *shape: torch.randint(0, words, shape, generator=generator)  # noqa: E731
    with torch.no_grad():
        for batch, s, t in ((1, 1, 1), (3, 11, 7)):
            source, target = draw(37, batch, s), draw(41, batch, t)
            lengths = torch.tensor([s - b * s // (batch + 1) for b in range(batch)]).flip(0)
            model.encode(source, lengths)
            logits = torch.stack([model.step(target[:, i]) for i in range(t)], 1)
            folder.call(f"{batch}x{s}x{t}", {"input_ids": source, "lengths": lengths, "decoder_input_ids": target}, {"logits": logits})
        source, lengths, rows = draw(37, 2, 6), torch.tensor([4, 6]), torch.tensor([1, 1])
        model.encode(source, lengths.long())
        calls = [("encode", {"input_ids": source, "lengths": lengths}, {})]
        for number in range(4):
            if number == 3 and not settings:  # with attention, rows of one source only: the memory stays
                model.reorder(rows)
                calls.append(("reorder", {"from": rows}, {}))
            ids = draw(41, 2)
            calls.append(("decode_step", {"decoder_input_ids": ids}, {"logits": model.step(ids)}))
        folder.session("steps", calls)
        folder.session("beams", list(beams(model, generator)))
        texts(model, generator, folder.path)
    folder.report()


if __name__ == "__main__":
    torch.set_num_threads(1)
    make("seq2seq_rnn", 700, "rnn", False)
    make("seq2seq_gru", 701, "gru", True)
    make("seq2seq_lstm", 702, "lstm", True)
    make("seq2seq_dot", 703, "gru", False, alignment="dot", input_feeding=False)
    make("seq2seq_general", 704, "lstm", True, alignment="general", input_feeding=True)
    make("seq2seq_concat", 705, "rnn", True, alignment="concat", input_feeding=True)
