#!/usr/bin/env python3
"""Makes the folders goldens/detr_* and goldens/setr_*, in the form of make_goldens.py.

    python tests/models/make_vision_goldens.py [FOLDER...]    (needs torch, transformers, safetensors; made with 2.15.0, 5.23.0, 0.8.0;
                                                              detr_dc5 needs timm as well; made with 1.0.31; detr_resnet18
                                                              needs pillow)

DETR is transformers' DetrForObjectDetection with its own ResNet, or for a dilated last stage with timm's. SETR is the module below, after section 3 of the paper
(https://arxiv.org/abs/2012.15840) with the structure and the names of mmsegmentation. Images are small and of odd sizes,
batches padded; all norms have statistics of their own."""

import json
import re
import shutil
import sys
from pathlib import Path

import torch
import transformers as t
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional

from drawn_weights import draw

HERE = Path(__file__).resolve().parent / "goldens"


def randomise(model, generator):
    for name, value in [*model.named_parameters(), *model.named_buffers()]:
        if value.dim() == 0:
            continue
        noise = torch.randn(value.shape, generator=generator)
        if "running_var" in name:
            noise = 1 + 0.3 * noise.abs()
        elif "running_mean" in name:
            noise = 0.2 * noise
        elif value.dim() == 1 and name.endswith("weight"):
            noise = 1 + 0.2 * noise
        elif name.endswith("bias"):
            noise = 0.1 * noise
        elif "embed" not in name or "convolution" in name or "projection" in name:
            noise = noise * 1.3 / value[0].numel() ** 0.5
        value.data = noise.to(torch.bfloat16).float()


def image(generator, batch, rows, columns):
    return torch.randn(batch, 3, rows, columns, generator=generator).to(torch.bfloat16).float()  # compresses


# --- SETR

class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.attn = nn.MultiheadAttention(config["hidden_size"], config["num_attention_heads"], batch_first=True)

    def forward(self, x):
        return self.attn(x, x, x, need_weights=False)[0]


class Layer(nn.Module):
    def __init__(self, config):
        super().__init__()
        width, inner = config["hidden_size"], config["intermediate_size"]
        self.ln1, self.ln2 = nn.LayerNorm(width, 1e-6), nn.LayerNorm(width, 1e-6)
        self.attn = Attention(config)
        self.ffn = nn.ModuleDict({"layers": nn.Sequential(nn.Sequential(nn.Linear(width, inner), nn.GELU()), nn.Linear(inner, width))})

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.ffn["layers"](self.ln2(x))


class Backbone(nn.Module):
    def __init__(self, config):
        super().__init__()
        width, patch = config["hidden_size"], config["patch_size"]
        tokens = (config["image_size"] // patch) ** 2
        self.patch_embed = nn.ModuleDict({"projection": nn.Conv2d(config["num_channels"], width, patch, patch)})
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        self.pos_embed = nn.Parameter(torch.zeros(1, tokens + 1, width))
        self.layers = nn.ModuleList(Layer(config) for _ in range(config["num_hidden_layers"]))
        self.classless = config["decoder"] == "mla"  # after the positions: the weights are those of the others

    def forward(self, image):
        x = self.patch_embed["projection"](image)
        rows, columns = x.shape[2:]
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), x.flatten(2).transpose(1, 2)], 1) + self.pos_embed
        x = x[:, 1:] if self.classless else x
        maps = []
        for layer in self.layers:
            x = layer(x)
            maps.append((x if self.classless else x[:, 1:]).transpose(1, 2).reshape(len(x), -1, rows, columns))
        return maps


class ConvModule(nn.Module):
    def __init__(self, inputs, outputs, size):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, size, padding=size // 2, bias=False)
        self.bn = nn.BatchNorm2d(outputs)

    def forward(self, x):
        return functional.relu(self.bn(self.conv(x)))


def larger(x, factor):
    return functional.interpolate(x, scale_factor=factor, mode="bilinear", align_corners=False)


def normed(norm, x):
    return norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Setr(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        width, inner, branch = config["hidden_size"], config["decoder_channels"], config["mla_channels"]
        self.backbone = Backbone(config)
        head = {}
        if config["decoder"] == "mla":
            self.neck = nn.ModuleDict({
                "norm": nn.ModuleList(nn.LayerNorm(width, 1e-6) for _ in range(4)),
                "mla": nn.ModuleDict({
                    "channel_proj": nn.ModuleList(ConvModule(width, inner, 1) for _ in range(4)),
                    "feat_extract": nn.ModuleList(ConvModule(inner, inner, 3) for _ in range(4))})})
            head["up_convs"] = nn.ModuleList(
                nn.Sequential(ConvModule(inner, branch, 3), ConvModule(branch, branch, 3)) for _ in range(4))
            head["conv_seg"] = nn.Conv2d(4 * branch, config["num_labels"], 1)
        else:
            steps, size = (4, 3) if config["decoder"] == "pup" else (1, 1)
            head["norm"] = nn.LayerNorm(width, 1e-6)
            head["up_convs"] = nn.ModuleList(
                nn.Sequential(ConvModule(inner if i else width, inner, size)) for i in range(steps))
            head["conv_seg"] = nn.Conv2d(inner, config["num_labels"], 1)
        self.decode_head = nn.ModuleDict(head)

    def forward(self, pixel_values):
        maps, head = self.backbone(pixel_values), self.decode_head
        if self.config["decoder"] == "mla":
            taps, neck = [maps[i] for i in self.config["out_indices"]], self.neck["mla"]
            projected = [neck["channel_proj"][i](normed(self.neck["norm"][i], x)) for i, x in enumerate(taps)][::-1]
            sums = [projected[0]]
            for x in projected[1:]:
                sums.append(sums[-1] + x)
            branches = [larger(head["up_convs"][i](neck["feat_extract"][i](x)), 4) for i, x in enumerate(sums)]
            y = larger(head["conv_seg"](torch.cat(branches, 1)), self.config["patch_size"] // 4)
        else:
            y = normed(head["norm"], maps[-1])
            for step in head["up_convs"]:
                y = larger(step(y), 2 if self.config["decoder"] == "pup" else 4)
            y = head["conv_seg"](y)
            if self.config["decoder"] == "naive":
                y = larger(y, self.config["patch_size"] // 4)
        return {"logits": y.permute(0, 2, 3, 1).contiguous()}


SETR = dict(model_type="setr", image_size=48, patch_size=16, num_channels=3, num_labels=5, hidden_size=40, intermediate_size=52,
            num_hidden_layers=4, num_attention_heads=4, decoder_channels=20, mla_channels=12, out_indices=[0, 1, 2, 3])


def setr_calls(generator):
    for batch in (1, 2):
        yield f"{batch}", {"pixel_values": image(generator, batch, 48, 48)}


# --- DETR

RESNET = dict(embedding_size=8, hidden_sizes=[16, 24, 32, 40], out_features=["stage4"])
DETR = dict(use_timm_backbone=False, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
            decoder_attention_heads=2, encoder_ffn_dim=40, decoder_ffn_dim=44, num_queries=7, num_labels=5,
            attn_implementation="eager")


def detr_calls(generator):
    yield "1x65x99", {"pixel_values": image(generator, 1, 65, 99)}
    yield "1x33x20", {"pixel_values": image(generator, 1, 33, 20)}
    mask = torch.zeros(3, 70, 61, dtype=torch.int64)
    for number, (rows, columns) in enumerate([(70, 40), (41, 61), (64, 50)]):
        mask[number, :rows, :columns] = 1
    yield "3x70x61", {"pixel_values": image(generator, 3, 70, 61), "pixel_mask": mask}


def detr(**resnet):
    return t.DetrForObjectDetection(t.DetrConfig(backbone_config=t.ResNetConfig(**RESNET, **resnet), **DETR))


class Features(nn.Module):
    """timm's ResNet up to its last stage."""

    def __init__(self, resnet):
        super().__init__()
        self.resnet = resnet

    def forward(self, image):
        return [self.resnet.forward_features(image)]


def detr_dc5():
    """A last stage of stride 1 and dilation 2, of three blocks; the backbone is as small as timm's may be."""
    from timm.models.resnet import Bottleneck, ResNet

    depths = [1, 2, 1, 3]
    config = t.DetrConfig(backbone_config=t.ResNetConfig(**RESNET | {"embedding_size": 64}, depths=depths, layer_type="bottleneck"), **DETR, dilation=True)
    model = t.DetrForObjectDetection(config)
    model.model.backbone.model = Features(ResNet(Bottleneck, depths, num_classes=0, channels=[4, 6, 8, 10], output_stride=16))
    return model


# A backbone of full width, saved under timm's names; its weights are drawn (drawn_weights.py).
BASIC = dict(embedding_size=64, hidden_sizes=[64, 128, 256, 512], layer_type="basic", out_features=["stage4"])
DEPTHS = {"resnet18": [2, 2, 2, 2], "resnet34": [3, 4, 6, 3]}
TIMM = [(r"embedder\.embedder\.convolution", "conv1"), (r"embedder\.embedder\.normalization", "bn1"),
        (r"shortcut\.convolution", "downsample.0"), (r"shortcut\.normalization", "downsample.1"),
        (r"encoder\.stages\.(\d)\.layers", lambda at: f"layer{int(at[1]) + 1}"),
        (r"layer\.(\d)\.convolution", lambda at: f"conv{int(at[1]) + 1}"), (r"layer\.(\d)\.normalization", lambda at: f"bn{int(at[1]) + 1}")]


def timm_name(name):
    """As published folders have it, of a tensor in memory."""
    inside = name.removeprefix("model.backbone.model.").removeprefix("model.backbone.conv_encoder.model.")
    if inside == name:
        return name
    for old, new in TIMM:
        inside = re.sub(old, new, inside)
    return "model.backbone.conv_encoder.model." + inside


def detr_of_full_width(name, boxes, **settings):
    """`boxes`: with what transformers makes of the results, before it drops scores below a threshold."""
    from transformers.models.detr.image_processing_pil_detr import DetrImageProcessorPil

    folder, resnet = new_folder(name), name.removeprefix("detr_")
    config = t.DetrConfig(backbone_config=t.ResNetConfig(**BASIC, depths=DEPTHS[resnet]), **DETR, **settings)
    model = t.DetrForObjectDetection(config).eval()
    state, told = {key: value for key, value in model.state_dict().items() if value.dim()}, {}
    for key, value in state.items():
        scale = 1.3 / value[0].numel() ** 0.5 if value.dim() > 1 and "embed" not in key or "embedder" in key and value.dim() > 1 else 1.0
        scale *= 3 if "class_labels_classifier" in key or "query" in key else 1  # so that queries differ
        norm = value.dim() == 1 and (key.endswith("weight") or "running_var" in key)
        told[timm_name(key)] = [list(value.shape), 1.0 if norm else 0.0, 0.1 if value.dim() == 1 else scale]
    (folder / "weights.json").write_text("{\n" + ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in told.items()) + "\n}\n")
    settings = {**DETR, "model_type": "detr", "backbone": resnet, **settings, **({"with_boxes": True} if boxes else {})}
    del settings["attn_implementation"], settings["use_timm_backbone"]
    (folder / "config.json").write_text(json.dumps(settings, indent=2) + "\n")
    drawn = draw(folder)
    model.load_state_dict({key: torch.from_numpy(drawn[timm_name(key)]) for key in state}, strict=False)
    generator = torch.Generator().manual_seed(77)
    for call, inputs in detr_calls(generator):
        sizes = torch.tensor([[480 + 7 * b, 640 - 31 * b] for b in range(len(inputs["pixel_values"]))])
        with torch.no_grad():
            done = model(**inputs)
        if not boxes:
            save_file(inputs, folder / f"{call}.in.safetensors")
            save_file({key: done[key].contiguous() for key in ("logits", "pred_boxes")}, folder / f"{call}.out.safetensors")
            continue
        found = DetrImageProcessorPil().post_process_object_detection(done, threshold=-1, target_sizes=sizes)
        outputs = {key: torch.stack([one[key] for one in found]) for key in ("scores", "labels", "boxes")}
        outputs["labels"] = outputs["labels"].to(torch.int32)
        save_file({**inputs, "target_sizes": sizes}, folder / f"{call}.in.safetensors")
        save_file(outputs, folder / f"{call}.out.safetensors")
    print(f"{name:20} spread {float(done.logits.std()):.2f}, of the queries {float(done.logits.std(1).mean()):.2f}")


FOLDERS = [
    (0, "detr_bottleneck", lambda: detr(depths=[1, 2, 1, 1], layer_type="bottleneck"), detr_calls),
    (5, "detr_dc5", detr_dc5, detr_calls),
    (6, "detr_early", lambda: detr(depths=[2, 1, 2, 1], layer_type="bottleneck", downsample_in_first_stage=True,
                                   downsample_in_bottleneck=True), detr_calls),
    *[(2 + i, f"setr_{decoder}", lambda decoder=decoder: Setr({**SETR, "decoder": decoder}), setr_calls)
      for i, decoder in enumerate(("naive", "pup", "mla"))],
]
FULL_WIDTH = {"detr_resnet18": lambda name: detr_of_full_width(name, True, position_embedding_type="learned", activation_function="gelu"),
              "detr_resnet34": lambda name: detr_of_full_width(name, False)}


def new_folder(name):
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def main():
    torch.set_num_threads(1)
    t.logging.set_verbosity_error()
    t.logging.disable_progress_bar()
    wanted = sys.argv[1:] or [*(name for _, name, _, _ in FOLDERS), *FULL_WIDTH]
    for name in wanted:
        if name in FULL_WIDTH:
            FULL_WIDTH[name](name)
    for seed, name, make, calls in FOLDERS:
        if name not in wanted:
            continue
        generator = torch.Generator().manual_seed(seed)
        folder = new_folder(name)
        model = make().eval()
        randomise(model, generator)
        if isinstance(model, Setr):
            (folder / "config.json").write_text(json.dumps(model.config, indent=2) + "\n")
            state = {key: value.contiguous() for key, value in model.state_dict().items() if value.dim()}
            save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
        elif name == "detr_dc5":
            (folder / "config.json").write_text(json.dumps(model.config.to_dict(), indent=2, sort_keys=True) + "\n")
            state = {key.replace("backbone.model.resnet.", "backbone.conv_encoder.model."): value.contiguous()
                     for key, value in model.state_dict().items() if value.dim()}
            save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
        else:
            model.save_pretrained(folder)
        for call, inputs in calls(generator):
            with torch.no_grad():
                outputs = {key: value.contiguous() for key, value in model(**inputs).items()
                           if key in ("logits", "pred_boxes")}
            save_file(inputs, folder / f"{call}.in.safetensors")
            save_file(outputs, folder / f"{call}.out.safetensors")
        for path in folder.iterdir():
            path.chmod(0o644)
        size = sum(path.stat().st_size for path in folder.iterdir())
        print(f"{name:20} {size / 1e3:7.0f} kB   spread {min(float(v.std()) for v in outputs.values()):.2f}")


if __name__ == "__main__":
    main()
