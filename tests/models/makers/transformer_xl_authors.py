#!/usr/bin/env python3
"""Goldens of models/transformer_xl from the authors' own PyTorch code, https://github.com/kimiyoung/transformer-xl; see
folder.py.

    python transformer_xl_authors.py FOLDER        its folder `pytorch`

The code gives the loss of a target, not the log-probabilities: here it is asked for each word in turn. It makes its masks
of bytes, which PyTorch of today (2.15) no longer takes, so `byte` makes booleans here."""

import json
import math
import sys
from pathlib import Path

import torch
from folder import Folder, randomise, spread_transformer_xl

SIZES = dict(n_layer=2, n_head=3, d_model=20, d_head=6, d_inner=27)
WORDS = 43


def log_probabilities(model, ids, memory):
    """Of each word after each of ids [batch, length], and the memory."""
    losses = []
    for word in range(model.n_token):
        loss, *after = model(ids.T.contiguous(), torch.full_like(ids.T, word).contiguous(), *memory)
        losses.append(loss)
    return -torch.stack(losses, -1).transpose(0, 1), after


def perplexity(model, name, segment):
    """Of a text of this repository, each byte from those before it in its segment and in the memory."""
    text = torch.frombuffer(bytearray((Path(__file__).resolve().parents[3] / name).read_bytes()), dtype=torch.uint8).long()
    total, memory = 0.0, []
    for first in range(0, len(text) - 1, segment):
        part = text[first : first + segment + 1, None]
        loss, *memory = model(part[:-1], part[1:], *memory)
        total += float(loss.double().sum())
    return {"text": name, "segment": segment, "perplexity": math.exp(total / (len(text) - 1)),
            "bits per character": total / math.log(2) / len(text)}


def make(name, seed, code, segments, d_embed, cutoffs, div_val, tie_projs, mem_len, words=WORDS, reads=None, **settings):
    generator = torch.Generator().manual_seed(seed)
    model = code.MemTransformerLM(words, **SIZES, dropout=0, dropatt=0, tie_weight=True, d_embed=d_embed, div_val=div_val,
                                  tie_projs=tie_projs, tgt_len=1, ext_len=0, mem_len=mem_len, cutoffs=cutoffs, **settings).eval()
    randomise(model, generator)
    spread_transformer_xl(model)
    saved = {key: value.clone() for key, value in model.state_dict().items() if "inv_freq" not in key}
    folder = Folder(name)
    folder.config(model_type="transfo-xl", vocab_size=words, **SIZES, d_embed=d_embed, cutoffs=cutoffs, div_val=div_val,
                  mem_len=mem_len, untie_r=False, **settings)
    folder.weights(saved)
    draw = lambda *shape: torch.randint(0, words, shape, generator=generator)  # noqa: E731
    with torch.no_grad():
        for batch, length in ((1, 1), (3, 9)):
            ids = draw(batch, length)
            folder.call(f"{batch}x{length}", {"input_ids": ids}, {"logits": log_probabilities(model, ids, [])[0]})
        calls, memory = [], []
        for length in segments:
            ids = draw(2, length)
            logits, memory = log_probabilities(model, ids, memory)
            calls.append(("forward", {"input_ids": ids}, {"logits": logits}))
        folder.session("segments", calls)
        if reads:
            (folder.path / "perplexity.json").write_text(json.dumps(perplexity(model, *reads), indent=2) + "\n")
    folder.report()


if __name__ == "__main__":
    sys.path[:0] = [sys.argv[1], f"{sys.argv[1]}/utils"]
    import mem_transformer

    torch.set_num_threads(1)
    torch.Tensor.byte = torch.Tensor.bool
    make("transfo_xl_authors", 610, mem_transformer, (7, 4, 1, 15, 6), d_embed=20, cutoffs=[9, 17, 30], div_val=2,
         tie_projs=[False, True, True, False], mem_len=11, clamp_len=8, same_length=True, pre_lnorm=False)
    make("transfo_xl_authors_pre_norm", 611, mem_transformer, (5, 5, 13, 2), d_embed=14, cutoffs=[12, 25], div_val=1,
         tie_projs=[False, True, True], mem_len=9, clamp_len=-1, same_length=False, pre_lnorm=True)
    make("transfo_xl_authors_text", 612, mem_transformer, (6, 9), d_embed=20, cutoffs=[], div_val=1, tie_projs=[False], mem_len=40,
         words=256, reads=("LICENSE", 48), clamp_len=50, same_length=True, pre_lnorm=False)
