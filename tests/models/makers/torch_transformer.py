#!/usr/bin/env python3
"""Goldens of models/torch_transformer from torch.nn.Transformer and its parts; see folder.py.

Off its fast path PyTorch (2.15) gives a query that may attend to nothing zeros, which the folders below with `nothing` hold."""

import torch
from folder import Folder, randomise
from torch import nn

SIZES = dict(d_model=20, nhead=4, dim_feedforward=27)


def barred(generator, *shape, nothing=False):
    """A mask, true where attention is forbidden, that leaves each row something; or nothing to the last row."""
    mask = torch.rand(*shape, generator=generator) < 0.4
    mask[..., 0] = False
    if nothing:
        mask[..., -1, :] = True
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


def transformer(name, seed, masks="causal", batch_first=True, nothing=False, is_causal=(), **settings):
    generator = torch.Generator().manual_seed(seed)
    sizes = dict(num_encoder_layers=2, num_decoder_layers=3)
    model = nn.Transformer(**SIZES, **sizes, **settings, dropout=0, batch_first=batch_first).eval()
    randomise(model, generator)
    folder = folder_of(name, model, "Transformer", masks=masks, batch_first=batch_first, **sizes, **settings,
                       **{f"{side}_is_causal": True for side in is_causal})
    for batch, s, t in ((1, 1, 1), (2, 7, 9), (3, 31, 5)):
        inputs = {"src": torch.randn(batch, s, 20, generator=generator), "tgt": torch.randn(batch, t, 20, generator=generator)}
        if not batch_first:
            inputs = {key: value.transpose(0, 1).contiguous() for key, value in inputs.items()}
        if masks == "causal":
            padding = torch.arange(s)[None, :] >= torch.tensor([s - b * s // (2 * batch) for b in range(batch)])[:, None]
            keywords = {"src_key_padding_mask": padding} if batch > 1 else {}
            asked = {"tgt_mask": nn.Transformer.generate_square_subsequent_mask(t).isinf(), "tgt_is_causal": True}
            for side, shape in (("src", (s, s)), ("memory", (t, s))):
                if side in is_causal:
                    asked[f"{side}_mask"] = torch.ones(shape, dtype=torch.bool).triu(1)
            if batch > 1:
                asked["memory_key_padding_mask"] = padding
        else:
            shapes = {"src_mask": (s, s), "tgt_mask": (t, t), "memory_mask": (t, s), "src_key_padding_mask": (batch, s),
                      "tgt_key_padding_mask": (batch, t), "memory_key_padding_mask": (batch, s)}
            if batch == 2:
                del shapes["src_mask"], shapes["tgt_key_padding_mask"]
            if masks.endswith("per head"):
                shapes = {key: shape if "padding" in key else (batch * SIZES["nhead"], *shape) for key, shape in shapes.items()}
            barring = {key: barred(generator, *shape, nothing=nothing) for key, shape in shapes.items()}
            keywords, asked = given(barring, masks.split()[0]), {}
        with torch.no_grad():
            output = model(inputs["src"], inputs["tgt"], **keywords, **asked)
        assert output.isfinite().all()
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


def masked(masks, batch, shapes, generator):
    """Of each shape of (rows, keys) a mask by pair, of (batch, keys) one of padding."""
    own = masks.endswith("per head")
    shapes = {key: (batch * SIZES["nhead"], *shape) if own and "padding" not in key else shape for key, shape in shapes.items()}
    return given({key: barred(generator, *shape, nothing=True) for key, shape in shapes.items()}, masks.split()[0])


def part(name, seed, layer, masks, alone=False, is_causal=(), batch_first=True, final_norm=None, **settings):
    """A stack of two layers with a norm, or one layer; its masks leave some queries nothing. Those by pair are known with
    `masks` "causal"."""
    generator = torch.Generator().manual_seed(seed)
    decodes = layer is nn.TransformerDecoderLayer
    model = layer(**SIZES, **settings, dropout=0, batch_first=batch_first)
    if not alone:
        stack = nn.TransformerDecoder if decodes else nn.TransformerEncoder
        norm = {"eps": settings.get("layer_norm_eps", 1e-5), "bias": settings.get("bias", True)} | (final_norm or {})
        model = stack(model, 2, nn.LayerNorm(SIZES["d_model"], **norm))
    randomise(model.eval(), generator)
    count = {} if alone else {"num_decoder_layers" if decodes else "num_encoder_layers": 2}
    folder = folder_of(name, model, type(model).__name__, masks=masks, batch_first=batch_first, **count, **settings,
                       **{f"final_norm_{key}": value for key, value in (final_norm or {}).items()},
                       **{f"{side}_is_causal": True for side in is_causal})
    own, cross = ("tgt_mask", "memory_mask") if decodes else ("src_mask" if alone else "mask", None)
    paddings = ("tgt_key_padding_mask", "memory_key_padding_mask") if decodes else ("src_key_padding_mask", None)
    for batch, s, t in ((1, 6, 3), (2, 11, 13), (3, 29, 4)):
        length = t if decodes else s
        inputs = {"tgt" if decodes else "src": torch.randn(batch, length, 20, generator=generator)}
        if decodes:
            inputs["memory"] = torch.randn(batch, s, 20, generator=generator)
        if not batch_first:
            inputs = {key: value.transpose(0, 1).contiguous() for key, value in inputs.items()}
        shapes = {own: (length, length), paddings[0]: (batch, length)} | ({cross: (t, s), paddings[1]: (batch, s)} if decodes else {})
        asked = {}
        if masks == "causal":
            asked = {mask: torch.ones(shapes[mask], dtype=torch.bool).triu(1) for mask, side in
                     ((own, "tgt" if decodes else "src"), (cross, "memory")) if mask and (side in is_causal or side == "tgt")}
            shapes = {paddings[decodes]: shapes[paddings[decodes]]}
        keywords = masked(masks, batch, shapes, generator)
        with torch.no_grad():
            output = model(*inputs.values(), **keywords, **asked)
        assert output.isfinite().all()
        ours = {"mask" if key == "src_mask" else key: as_input(mask) for key, mask in keywords.items()}
        folder.call(f"{batch}x{s}x{t}" if decodes else f"{batch}x{s}", inputs | ours, {"output": output})
    folder.report()


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.backends.mha.set_fastpath_enabled(False)  # it zeroes the rows of padding
    transformer("torch_transformer", 200, bias=False, batch_first=False)
    transformer("torch_transformer_pre_norm", 201, norm_first=True, activation="gelu", masks="bool")
    transformer("torch_transformer_float_masks", 202, masks="float per head", layer_norm_eps=1e-3)
    encoder("torch_encoder", 203)
    decoder("torch_decoder", 204)
    transformer("torch_transformer_shared_float_masks", 205, masks="float", nothing=True)
    transformer("torch_transformer_bool_masks_per_head", 206, masks="bool per head", nothing=True, activation="gelu")
    transformer("torch_transformer_is_causal", 207, is_causal=("src", "memory"), norm_first=True)
    part("torch_encoder_bool_per_head", 208, nn.TransformerEncoderLayer, "bool per head", batch_first=False)
    part("torch_encoder_float", 209, nn.TransformerEncoderLayer, "float", bias=False)
    part("torch_encoder_float_per_head", 210, nn.TransformerEncoderLayer, "float per head", norm_first=True, bias=False,
         final_norm={"bias": True, "eps": 0.1})
    part("torch_encoder_layer", 211, nn.TransformerEncoderLayer, "causal", alone=True, is_causal=("src",))
    part("torch_decoder_bool", 212, nn.TransformerDecoderLayer, "bool", batch_first=False, activation="gelu")
    part("torch_decoder_bool_per_head", 213, nn.TransformerDecoderLayer, "bool per head", norm_first=True)
    part("torch_decoder_float_per_head", 214, nn.TransformerDecoderLayer, "float per head")
    part("torch_decoder_layer", 215, nn.TransformerDecoderLayer, "causal", alone=True)
