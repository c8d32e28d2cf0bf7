"""How the makers of golden folders write them: a folder in the Hugging Face layout (config.json, model.safetensors), and
per call NAME.in.safetensors with its inputs and NAME.out.safetensors with what PyTorch computes for them. Calls that
go to one session, one after the other, stand in a folder `session_NAME` as NUMBER.ENTRY.in.safetensors.

Weights are random, wide enough that attention is far from uniform, and rounded to bfloat16's values (stored as float32),
so that the files compress. Sizes are odd on purpose."""

import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

GOLDENS = Path(__file__).resolve().parents[1] / "goldens"


def rounded(value):
    return value.to(torch.bfloat16).float()


def randomise(model, generator):
    """Norms near 1, biases near 0, tables of vectors near 1 per element, matrices that keep the size of what they multiply."""
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        if "norm" in name.lower() and name.endswith("weight") or ".ln_" in name and name.endswith("weight"):
            value = 1 + 0.2 * noise
        elif name.endswith("bias") or parameter.dim() == 1:
            value = 0.1 * noise
        elif "emb" in name:
            value = noise
        else:
            value = noise * 1.3 / parameter[0].numel() ** 0.5
        parameter.data = rounded(value)


def spread_transformer_xl(model):
    """Biases of attention that tell places apart, and tables of words that do not drown them."""
    for key, value in model.named_parameters():
        if key.endswith(("r_w_bias", "r_r_bias")):
            value.data *= 3
        if "emb_layers" in key or "out_layers" in key and key.endswith("weight"):
            value.data *= 0.4


class Folder:
    """One golden folder, made anew."""

    def __init__(self, name):
        self.path = GOLDENS / name
        shutil.rmtree(self.path, ignore_errors=True)
        self.path.mkdir(parents=True)

    def config(self, **settings):
        (self.path / "config.json").write_text(json.dumps(settings, indent=2) + "\n")

    def weights(self, tensors):
        save_file({name: value.detach().contiguous() for name, value in tensors.items()}, self.path / "model.safetensors")

    def call(self, name, inputs, outputs):
        self._write(self.path / name, inputs, outputs)

    def session(self, name, calls):
        """calls: (entry, inputs, outputs), in order."""
        folder = self.path / f"session_{name}"
        folder.mkdir()
        for number, (entry, inputs, outputs) in enumerate(calls, 1):
            self._write(folder / f"{number:02}.{entry}", inputs, outputs)

    @staticmethod
    def _write(path, inputs, outputs):
        for kind, tensors in (("in", inputs), ("out", outputs)):
            save_file({name: value.detach().clone().contiguous() for name, value in tensors.items()},
                      path.with_name(f"{path.name}.{kind}.safetensors"))

    def report(self):
        for path in self.path.rglob("*.*"):
            path.chmod(0o644)
        size = sum(path.stat().st_size for path in self.path.rglob("*.*"))
        print(f"{self.path.name:28} {size / 1e3:7.0f} kB")
