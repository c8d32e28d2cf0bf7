#!/usr/bin/env python3
"""Goldens of models/restricted_attention from torch.nn.TransformerEncoder with a mask that leaves each position its
neighbours; see folder.py."""

import torch
from folder import Folder, randomise
from torch import nn

SIZES = dict(d_model=20, nhead=4, dim_feedforward=27)


def make(name, seed, left, right, norm_first):
    generator = torch.Generator().manual_seed(seed)
    layer = nn.TransformerEncoderLayer(**SIZES, norm_first=norm_first, dropout=0, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, nn.LayerNorm(20), enable_nested_tensor=False).eval()
    randomise(model, generator)
    folder = Folder(name)
    folder.config(model_type="restricted-attention", num_encoder_layers=2, left=left, right=right, norm_first=norm_first, **SIZES)
    folder.weights(model.state_dict())
    for batch, n in ((1, 1), (2, 8), (3, 67)):
        src = torch.randn(batch, n, 20, generator=generator)
        ignored = torch.rand(batch, n, generator=generator) < (0.6 if batch > 1 else 0)
        ignored[:, ::3] = False  # PyTorch's softmax over nothing is NaN: each position keeps a neighbour
        offset = torch.arange(n)[None, :] - torch.arange(n)[:, None]
        far = (offset < -left) | (offset > right)
        with torch.no_grad():
            output = model(src, mask=far, src_key_padding_mask=ignored)
        assert output.isfinite().all()
        folder.call(f"{batch}x{n}", {"src": src, "src_key_padding_mask": ignored.to(torch.uint8)}, {"output": output})
    folder.report()


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.backends.mha.set_fastpath_enabled(False)
    make("restricted_attention", 400, 5, 7, False)
    make("restricted_attention_causal", 401, 9, 0, True)
