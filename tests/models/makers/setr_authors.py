#!/usr/bin/env python3
"""Goldens of models/setr from the authors' own code, https://github.com/fudan-zvg/SETR; see folder.py.

    python setr_authors.py FOLDER        its root, which holds `mmseg`

Encoders and decoders are the authors'; of mmcv and mmsegmentation, which they are written for, only the few names below are
needed and stand in here. Weights are drawn (drawn_weights.py), since the decoders are 256 channels wide, and get the names of
mmsegmentation; a convolution's bias goes into the mean of the norm behind it."""

import collections.abc
import json
import sys
import types
from pathlib import Path

import torch
from folder import Folder, rounded
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from drawn_weights import draw  # noqa: E402

SIZES = dict(img_size=48, embed_dim=40, depth=4, num_heads=4, num_classes=5)


class Registry:
    @staticmethod
    def register_module():
        return lambda kind: kind


class Head(nn.Module):
    def __init__(self, num_classes, in_index=-1, align_corners=False):
        super().__init__()
        self.num_classes, self.in_index, self.align_corners = num_classes, in_index, align_corners

    def _transform_inputs(self, inputs):
        return inputs[self.in_index]


def stand_in(name, folder=None, **members):
    module = sys.modules[name] = types.ModuleType(name)
    module.__dict__.update(members)
    if folder:
        module.__path__ = [str(folder)]


def authors(root):
    models = Path(root) / "mmseg" / "models"
    stand_in("torch._six", container_abcs=collections.abc)
    stand_in("mmcv", models)
    stand_in("mmcv.cnn", build_norm_layer=lambda _, channels: ("bn", nn.BatchNorm2d(channels)))
    stand_in("mmseg", models.parent)
    stand_in("mmseg.models", models)
    stand_in("mmseg.models.builder", HEADS=Registry, BACKBONES=Registry)
    stand_in("mmseg.models.backbones", models / "backbones")
    stand_in("mmseg.models.backbones.helpers", load_pretrained=None)
    stand_in("mmseg.models.decode_heads", models / "decode_heads")
    stand_in("mmseg.models.decode_heads.decode_head", BaseDecodeHead=Head)
    from mmseg.models.backbones.vit import VisionTransformer
    from mmseg.models.backbones.vit_mla import VIT_MLA
    from mmseg.models.decode_heads.vit_mla_head import VIT_MLAHead
    from mmseg.models.decode_heads.vit_up_head import VisionTransformerUpHead

    return VisionTransformer, VIT_MLA, VIT_MLAHead, VisionTransformerUpHead


def encoder_names():
    pairs = {"cls_token": "cls_token", "pos_embed": "pos_embed", "patch_embed.proj": "patch_embed.projection"}
    for layer in range(SIZES["depth"]):
        for old, new in (("norm1", "ln1"), ("attn.qkv", "attn.attn.in_proj_"), ("attn.proj", "attn.attn.out_proj"), ("norm2", "ln2"),
                         ("mlp.fc1", "ffn.layers.0.0"), ("mlp.fc2", "ffn.layers.1")):
            pairs[f"blocks.{layer}.{old}"] = f"layers.{layer}.{new}"
    return {f"backbone.{old}": f"backbone.{new}" for old, new in pairs.items()}


def up_names(convolutions):
    pairs = {"head.norm": "decode_head.norm", f"head.conv_{convolutions}": "decode_head.conv_seg"}
    for i in range(convolutions):
        pairs |= {f"head.conv_{i}": f"decode_head.up_convs.{i}.0.conv", f"head.syncbn_fc_{i}": f"decode_head.up_convs.{i}.0.bn"}
    return pairs


def mla_names():
    """The last layer's tokens, the authors' p5, come first in what mmsegmentation counts behind the projections."""
    pairs = {"head.cls": "decode_head.conv_seg"}
    for i in range(4):
        pairs[f"backbone.norm_{i}"] = f"neck.norm.{i}"
        for place, step in ((0, "conv"), (1, "bn")):
            pairs |= {f"backbone.mla.mla_p{2 + i}_1x1.{place}": f"neck.mla.channel_proj.{i}.{step}",
                      f"backbone.mla.mla_p{2 + i}.{place}": f"neck.mla.feat_extract.{3 - i}.{step}"}
        for place, step in ((0, "0.conv"), (1, "0.bn"), (3, "1.conv"), (4, "1.bn")):
            pairs[f"head.mlahead.head{2 + i}.{place}"] = f"decode_head.up_convs.{3 - i}.{step}"
    return pairs


class Model(nn.Module):
    def __init__(self, backbone, head):
        super().__init__()
        self.backbone, self.head = backbone, head

    def forward(self, image):
        return self.head(self.backbone(image))


def make(name, seed, model, names, **settings):
    generator = torch.Generator().manual_seed(seed)
    folder, state, told = Folder(name), model.eval().state_dict(), {}

    def renamed(key):
        old = max((old for old in names if key == old or key.startswith(old + ".")), key=len)
        return (names[old] + key[len(old) :]).replace("in_proj_.", "in_proj_")

    folded = [key for key in state if key.startswith("head.conv_") and key.endswith(".bias") and "up_convs" in renamed(key)]
    for key, value in state.items():
        if value.dim() == 0 or key in folded:
            continue
        norm = value.dim() == 1 and (key.endswith("weight") or "running_var" in key)
        scale = 0.1 if value.dim() == 1 else 1.0 if "cls_token" in key or "pos_embed" in key else 1.3 / value[0].numel() ** 0.5
        told[renamed(key)] = [list(value.shape), 1.0 if norm else 0.0, scale]
    (folder.path / "weights.json").write_text("{\n" + ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in told.items()) + "\n}\n")
    drawn = {key: torch.from_numpy(value) for key, value in draw(folder.path).items()}
    values = {key: drawn[renamed(key)] for key in state if renamed(key) in drawn}
    for key in folded:
        values[key] = 0.3 * torch.randn(state[key].shape, generator=generator)
        values[key.replace("conv_", "syncbn_fc_").replace("bias", "running_mean")] += values[key]
    if "head.cls.weight" in values:  # it reads the branches side by side, from p2 to p5
        values["head.cls.weight"] = values["head.cls.weight"].unflatten(1, (4, -1)).flip(1).flatten(1, 2)
    missing = model.load_state_dict(values, strict=False).missing_keys
    assert all(key.endswith("num_batches_tracked") for key in missing), missing
    folder.config(model_type="setr", image_size=48, patch_size=16, num_channels=3, num_labels=5, hidden_size=40, intermediate_size=160,
                  num_hidden_layers=4, num_attention_heads=4, **settings)
    for batch in (1, 2):
        image = rounded(torch.randn(batch, 3, 48, 48, generator=generator))
        with torch.no_grad():
            logits = model(image).permute(0, 2, 3, 1)
        results = {"classes": logits.argmax(-1).int()} if settings.get("classes") else {"logits": logits}
        folder.call(f"{batch}", {"pixel_values": image}, results)
    folder.report()


if __name__ == "__main__":
    torch.set_num_threads(1)
    encoder, encoder_mla, head_mla, head_up = authors(sys.argv[1])
    shared = dict(num_classes=5, img_size=48, norm_cfg={})
    make("setr_authors_naive", 950, Model(encoder(**SIZES), head_up(**shared, embed_dim=40, num_conv=2, conv3x3_conv1x1=False)),
         encoder_names() | up_names(1), decoder="naive", decoder_channels=256, up_scale=1)
    make("setr_authors_classes", 953, Model(encoder(**SIZES), head_up(**shared, embed_dim=40, num_conv=2, conv3x3_conv1x1=False)),
         encoder_names() | up_names(1), decoder="naive", decoder_channels=256, up_scale=1, classes=True)
    make("setr_authors_pup", 951, Model(encoder(**SIZES), head_up(**shared, embed_dim=40, num_conv=4, num_upsampe_layer=4)),
         encoder_names() | up_names(4), decoder="pup", decoder_channels=256)
    make("setr_authors_mla", 952, Model(encoder_mla(**SIZES, norm_cfg={}, mla_channels=20, mla_index=(0, 1, 2, 3)),
                                        head_mla(**shared, mla_channels=20, mlahead_channels=12)),
         encoder_names() | mla_names(), decoder="mla", decoder_channels=20, mla_channels=12, out_indices=[0, 1, 2, 3],
         mla_align_corners=True, classifier_size=3)
