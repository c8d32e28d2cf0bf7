#!/usr/bin/env python3
"""Goldens of models/seq2seq and models/seq2seq_attention, from torch.nn's recurrent layers over packed sequences; the
attention is written out here after the papers. See folder.py."""

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


def make(name, seed, cell, bidirectional, **settings):
    generator = torch.Generator().manual_seed(seed)
    model = Model(cell, bidirectional, **settings).eval()
    randomise(model, generator)
    folder = Folder(name)
    folder.config(model_type="seq2seq-attention" if settings else "seq2seq", **SIZES, cell=cell, bidirectional=bidirectional, **settings)
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
            if number == 3 and not settings:  # rows of one source only: the memory stays
                model.reorder(rows)
                calls.append(("reorder", {"from": rows}, {}))
            ids = draw(41, 2)
            calls.append(("decode_step", {"decoder_input_ids": ids}, {"logits": model.step(ids)}))
        folder.session("steps", calls)
    folder.report()


if __name__ == "__main__":
    torch.set_num_threads(1)
    make("seq2seq_rnn", 700, "rnn", False)
    make("seq2seq_gru", 701, "gru", True)
    make("seq2seq_lstm", 702, "lstm", True)
    make("seq2seq_dot", 703, "gru", False, alignment="dot", input_feeding=False)
    make("seq2seq_general", 704, "lstm", True, alignment="general", input_feeding=True)
    make("seq2seq_concat", 705, "rnn", True, alignment="concat", input_feeding=True)
