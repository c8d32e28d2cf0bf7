#!/usr/bin/env python3
"""Goldens of models/vanilla_lm from torch.nn.TransformerEncoder's layers; see folder.py."""

import torch
from folder import Folder, randomise
from torch import nn

SIZES = dict(d_model=20, nhead=4, dim_feedforward=27)


class Model(nn.Module):
    def __init__(self, each, **settings):
        super().__init__()
        self.embedding = nn.Embedding(31, 20)
        self.positions = nn.Embedding(23 * (3 if each else 1), 20)
        layer = nn.TransformerEncoderLayer(**SIZES, **settings, dropout=0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.generator = nn.Linear(20, 31)
        self.each = each

    def forward(self, ids):
        x, length = self.embedding(ids), ids.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        for number, layer in enumerate(self.encoder.layers):
            if self.each or number == 0:
                x = x + self.positions.weight[number * 23 : number * 23 + length]
            x = layer(x, src_mask=mask)
        return self.generator(x)


def make(name, seed, each, **settings):
    generator = torch.Generator().manual_seed(seed)
    model = Model(each, **settings).eval()
    randomise(model, generator)
    model.positions.weight.data = (torch.randn(model.positions.weight.shape, generator=generator) * 0.5).bfloat16().float()
    folder = Folder(name)
    folder.config(model_type="vanilla-lm", vocab_size=31, segment_length=23, num_layers=3, positions_in_each_layer=each, **SIZES, **settings)
    folder.weights(model.state_dict())
    with torch.no_grad():
        for batch, length in ((1, 1), (2, 9), (3, 23)):
            ids = torch.randint(0, 31, (batch, length), generator=generator)
            logits = model(ids)
            folder.call(f"{batch}x{length}", {"input_ids": ids}, {"logits": logits})
            folder.session(f"last_{length}", [("last", {"input_ids": ids}, {"logits": logits[:, -1]})])
    folder.report()


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.backends.mha.set_fastpath_enabled(False)
    make("vanilla_lm", 800, True)
    make("vanilla_lm_pre_norm", 801, False, norm_first=True, activation="gelu")
