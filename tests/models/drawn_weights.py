"""Weights of golden folders that would be too large to keep: drawn anew, the same ones on every machine, from what the
folder's weights.json says of each tensor: its shape, its middle and its spread."""

import json

import numpy as np


def draw(folder):
    """The tensors by name. RandomState's stream of normal numbers is frozen: it does not change between versions of NumPy."""
    out = {}
    for seed, (name, (shape, middle, spread)) in enumerate(json.loads((folder / "weights.json").read_text()).items()):
        out[name] = (middle + spread * np.random.RandomState(seed).standard_normal(shape)).astype(np.float32)
    return out
