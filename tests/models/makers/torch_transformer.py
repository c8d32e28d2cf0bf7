#!/usr/bin/env python3
"""Goldens of models/torch_transformer from torch.nn.Transformer and its parts; see folder.py."""

import torch
from folder import Folder, randomise
from torch import nn

SIZES = dict(d_model=20, nhead=4, dim_feedforward=27)


def barred(generator, *shape):
    """A mask, true where attention is forbidden, that leaves each row something."""
    mask = torch.rand(*shape, generator=generator) < 0.4
    mask[..., 0] = False
    return mask


def given(masks, kind):
    if kind == "float":
        masks = {name: torch.zeros(m.shape).masked_fill(m, float("-inf")) + 0.5 * (m.roll(1, -1)) for name, m in masks.items()}
    return masks


def as_input(mask):
    return mask.to(torch.uint8) if mask.dtype == torch.bool else mask


def folder_of(name, model, architecture, **settings):
    folder = Folder(name)
    folder.config(model_type="torch.nn.Transformer", architectures=[architecture], **SIZES, **settings)
    folder.weights(model.state_dict())
    return folder


def transformer(name, seed, masks="causal", batch_first=True, **settings):
    generator = torch.Generator().manual_seed(seed)
    sizes = dict(num_encoder_layers=2, num_decoder_layers=3)
    model = nn.Transformer(**SIZES, **sizes, **settings, dropout=0, batch_first=batch_first).eval()
    randomise(model, generator)
    folder = folder_of(name, model, "Transformer", masks=masks, batch_first=batch_first, **sizes, **settings)
    for batch, s, t in ((1, 1, 1), (2, 7, 9), (3, 31, 5)):
        inputs = {"src": torch.randn(batch, s, 20, generator=generator), "tgt": torch.randn(batch, t, 20, generator=generator)}
        if not batch_first:
            inputs = {key: value.transpose(0, 1).contiguous() for key, value in inputs.items()}
        if masks == "causal":
            padding = torch.arange(s)[None, :] >= torch.tensor([s - b * s // (2 * batch) for b in range(batch)])[:, None]
            keywords = {"src_key_padding_mask": padding} if batch > 1 else {}
            asked = {"tgt_mask": nn.Transformer.generate_square_subsequent_mask(t).isinf(), "tgt_is_causal": True}
            if batch > 1:
                asked["memory_key_padding_mask"] = padding
        else:
            shapes = {"src_mask": (s, s), "tgt_mask": (t, t), "memory_mask": (t, s), "src_key_padding_mask": (batch, s),
                      "tgt_key_padding_mask": (batch, t), "memory_key_padding_mask": (batch, s)}
            if batch == 2:
                del shapes["src_mask"], shapes["tgt_key_padding_mask"]
            if masks.endswith("per head"):
                shapes = {key: shape if "padding" in key else (batch * SIZES["nhead"], *shape) for key, shape in shapes.items()}
            keywords, asked = given({key: barred(generator, *shape) for key, shape in shapes.items()}, masks.split()[0]), {}
        with torch.no_grad():
            output = model(inputs["src"], inputs["tgt"], **keywords, **asked)
        folder.call(f"{batch}x{s}x{t}", inputs | {key: as_input(mask) for key, mask in keywords.items()}, {"output": output})
    folder.report()


def encoder(name, seed):
    generator = torch.Generator().manual_seed(seed)
    layer = nn.TransformerEncoderLayer(**SIZES, activation="gelu", norm_first=True, dropout=0, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    randomise(model, generator)
    folder = folder_of(name, model, "TransformerEncoder", num_encoder_layers=2, activation="gelu", norm_first=True,
                       final_norm=False, masks="bool")
    for batch, s in ((1, 5), (3, 33)):
        inputs = {"src": torch.randn(batch, s, 20, generator=generator)}
        masks = {"mask": barred(generator, s, s), "src_key_padding_mask": barred(generator, batch, s)}
        with torch.no_grad():
            output = model(inputs["src"], **masks)
        folder.call(f"{batch}x{s}", inputs | {key: as_input(mask) for key, mask in masks.items()}, {"output": output})
    folder.report()


def decoder(name, seed):
    generator = torch.Generator().manual_seed(seed)
    layer = nn.TransformerDecoderLayer(**SIZES, layer_norm_eps=1e-3, dropout=0, batch_first=True)
    model = nn.TransformerDecoder(layer, 2, nn.LayerNorm(20, eps=1e-3)).eval()
    randomise(model, generator)
    folder = folder_of(name, model, "TransformerDecoder", num_decoder_layers=2, layer_norm_eps=1e-3, masks="float")
    for batch, s, t in ((1, 6, 1), (2, 11, 13)):
        inputs = {"tgt": torch.randn(batch, t, 20, generator=generator), "memory": torch.randn(batch, s, 20, generator=generator)}
        masks = given({"tgt_mask": barred(generator, t, t), "memory_mask": barred(generator, t, s),
                       "memory_key_padding_mask": barred(generator, batch, s)}, "float")
        with torch.no_grad():
            output = model(inputs["tgt"], inputs["memory"], **masks)
        folder.call(f"{batch}x{s}x{t}", inputs | masks, {"output": output})
    folder.report()


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.backends.mha.set_fastpath_enabled(False)  # it zeroes the rows of padding
    transformer("torch_transformer", 200, bias=False, batch_first=False)
    transformer("torch_transformer_pre_norm", 201, norm_first=True, activation="gelu", masks="bool")
    transformer("torch_transformer_float_masks", 202, masks="float per head", layer_norm_eps=1e-3)
    encoder("torch_encoder", 203)
    decoder("torch_decoder", 204)
