#!/usr/bin/env python3
"""Goldens of models/transformer_xl from the transfo-xl models of transformers, which dropped them: this needs
transformers 4.35.2 in an environment of its own; see folder.py.

For what the authors' code does otherwise, the same model is called with an empty memory, which then grows, and the
rows of the clusters are stored the other way round (the authors count the columns of the clusters from the end)."""

import warnings

warnings.filterwarnings("ignore")

import torch
import transformers
from folder import Folder, randomise, spread_transformer_xl
from transformers import TransfoXLConfig, TransfoXLLMHeadModel

SIZES = dict(vocab_size=50, d_model=20, n_head=3, d_head=6, d_inner=27, n_layer=2)


def saved_names(model, authors):
    tensors = {}
    for name, value in model.state_dict().items():
        if name.endswith("inv_freq"):
            continue
        if authors:
            name = name.removeprefix("transformer.")
            value = value.flip(0) if name.startswith("crit.cluster") else value
        if not any(value.data_ptr() == other.data_ptr() and value.shape == other.shape for other in tensors.values()):
            tensors[name] = value
    return tensors


def make(name, seed, segments, authors, **settings):
    generator = torch.Generator().manual_seed(seed)
    config = TransfoXLConfig(**SIZES, **settings)
    model = TransfoXLLMHeadModel(config).eval()
    randomise(model, generator)
    spread_transformer_xl(model)
    model.tie_weights()
    folder = Folder(name)
    folder.config(model_type="transfo-xl", **SIZES, **settings)
    folder.weights(saved_names(model, authors))
    with torch.no_grad():
        for batch, length in ((1, 1), (3, 9)):
            ids = torch.randint(0, 50, (batch, length), generator=generator)
            mems = [torch.zeros(0, batch, 20)] * 2 if authors else None
            folder.call(f"{batch}x{length}", {"input_ids": ids}, {"logits": model(ids, mems=mems).prediction_scores})
        calls = []
        mems = [torch.zeros(0, 2, 20)] * 2 if authors else None
        for length in segments:
            ids = torch.randint(0, 50, (2, length), generator=generator)
            done = model(ids, mems=mems)
            mems = done.mems
            calls.append(("forward", {"input_ids": ids}, {"logits": done.prediction_scores}))
        folder.session("segments", calls)
    folder.report()


if __name__ == "__main__":
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    make("transfo_xl", 600, (7, 5, 1, 16, 7), authors=True, cutoffs=[13, 24, 37], div_val=2, d_embed=20, mem_len=11,
         clamp_len=9, same_length=True)
    make("transfo_xl_transformers", 601, (4, 4, 9), authors=False, cutoffs=[20, 35], div_val=3, d_embed=18, mem_len=6,
         clamp_len=-1, same_length=False, untie_r=False, proj_share_all_but_first=True)
    make("transfo_xl_one_table", 602, (5, 5, 5), authors=True, cutoffs=[13, 24], div_val=1, d_embed=20, mem_len=8,
         clamp_len=-1, same_length=False, pre_lnorm=True)
    make("transfo_xl_characters", 603, (6, 6, 6), authors=True, cutoffs=[], div_val=1, d_embed=14, mem_len=9, clamp_len=12,
         same_length=False, tie_word_embeddings=False)
