#!/usr/bin/env python3
"""Writes tests/io/weights: the same three tensors in every format that is read."""

import zipfile
from pathlib import Path

import numpy as np
import torch_files
from safetensors import numpy as safetensors

FOLDER = Path(__file__).parent / "weights"
TENSORS = {
    "a": np.arange(6, dtype=np.float32).reshape(2, 3),
    "b.c": np.array([-1, 1 << 40], np.int64),
    "d": np.float16(0.5) * np.ones((1, 2, 2), np.float16),
}

safetensors.save_file(TENSORS, FOLDER / "w.safetensors")
np.savez(FOLDER / "w.npz", **TENSORS)
np.savez_compressed(FOLDER / "compressed.npz", **{name: np.asfortranarray(array) for name, array in TENSORS.items()})
torch_files.save(torch_files.state_dict(TENSORS), FOLDER / "w.pt")
torch_files.save({"model": torch_files.state_dict(TENSORS), "step": 7}, FOLDER / "checkpoint.pt", protocol=4, compression=zipfile.ZIP_DEFLATED)
torch_files.save_stream(torch_files.state_dict(TENSORS), FOLDER / "old.bin")
