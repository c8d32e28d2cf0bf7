#!/usr/bin/env python3
"""Goldens of models/multihead_attention from torch.nn.MultiheadAttention; see folder.py."""

import torch
from folder import Folder, randomise
from torch import nn
from torch_transformer import as_input, barred, given

HEADS = 3


def make(name, seed, masks, need_weights=True, average_attn_weights=True, kdim=None, vdim=None, batch_first=True,
         nothing=False, **settings):
    generator = torch.Generator().manual_seed(seed)
    model = nn.MultiheadAttention(15, HEADS, kdim=kdim, vdim=vdim, **settings, batch_first=batch_first).eval()
    randomise(model, generator)
    if settings.get("add_bias_kv"):
        for bias in (model.bias_k, model.bias_v):
            bias.data = torch.randn(bias.shape, generator=generator)
    folder = Folder(name)
    config = settings | {"kdim": kdim, "vdim": vdim, "batch_first": batch_first}
    folder.config(model_type="torch.nn.MultiheadAttention", embed_dim=15, num_heads=HEADS, masks=masks, need_weights=need_weights,
                  average_attn_weights=average_attn_weights, **{key: value for key, value in config.items() if value is not None})
    folder.weights(model.state_dict())
    for batch, t, s in ((1, 1, 1), (2, 7, 9), (3, 5, 34)):
        inputs = {"query": torch.randn(batch, t, 15, generator=generator),
                  "key": torch.randn(batch, s, kdim or 15, generator=generator),
                  "value": torch.randn(batch, s, vdim or 15, generator=generator)}
        if not batch_first:
            inputs = {key: value.transpose(0, 1).contiguous() for key, value in inputs.items()}
        own, keywords = masks.endswith("per head"), {}
        if masks != "none":
            keywords = given({"key_padding_mask": barred(generator, batch, s),
                              "attn_mask": barred(generator, *((batch * HEADS, t, s) if own else (t, s)), nothing=nothing)}, masks.split()[0])
        if batch == 1:
            keywords = {}
        with torch.no_grad():
            output, weights = model(*inputs.values(), **keywords, need_weights=need_weights,
                                    average_attn_weights=average_attn_weights)
        if nothing and keywords:  # where PyTorch has no numbers with weights, there are zeros: the output is its bias
            assert output[:, -1].isnan().all() and output[:, :-1].isfinite().all() and weights[..., -1, :].isnan().all()
            output, weights = output.where(output.isfinite(), model.out_proj.bias), weights.nan_to_num()
        results = {"attn_output": output} | ({"attn_weights": weights} if need_weights else {})
        folder.call(f"{batch}x{t}x{s}", inputs | {key: as_input(mask) for key, mask in keywords.items()}, results)
    folder.report()


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.backends.mha.set_fastpath_enabled(False)
    make("attention_bool", 300, "bool per head", need_weights=False, batch_first=False)
    make("attention_float", 301, "float", bias=False)
    make("attention_per_head", 302, "float per head", average_attn_weights=False, add_zero_attn=True)
    make("attention_other_sizes", 303, "bool", kdim=11, vdim=7, add_bias_kv=True, add_zero_attn=True, average_attn_weights=False)
    make("attention_nothing", 304, "bool", nothing=True)
    make("attention_unmasked", 305, "none", add_bias_kv=True)
