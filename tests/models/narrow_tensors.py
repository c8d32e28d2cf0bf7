"""safetensors files with bf16, for which NumPy has no type: written from floats, read as float32."""

import json
import struct

import numpy as np

PLAIN = {"F16": np.float16, "F32": np.float32, "F64": np.float64, "I8": np.int8, "I32": np.int32, "I64": np.int64, "U8": np.uint8, "BOOL": np.bool_}


def to_bf16(values):
    """The bits of the nearest bfloat16, ties to even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = ((bits.astype(np.uint64) + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded)


def save(path, tensors):
    """tensors: name → (dtype of safetensors, values)."""
    header, payload = {}, b""
    for name, (dtype, values) in tensors.items():
        values = np.asarray(values)
        data = (to_bf16(values) if dtype == "BF16" else values.astype(PLAIN[dtype])).tobytes()
        header[name] = {"dtype": dtype, "shape": list(values.shape), "data_offsets": [len(payload), len(payload) + len(data)]}
        payload += data
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + payload)


def load(path):
    """name → (dtype, values), bf16 as float32."""
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    out = {}
    for name, row in json.loads(data[8 : 8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = row["data_offsets"]
        bits = data[8 + size + begin : 8 + size + end]
        if row["dtype"] == "BF16":
            values = (np.frombuffer(bits, np.uint16).astype(np.uint32) << 16).view(np.float32)
        else:
            values = np.frombuffer(bits, PLAIN[row["dtype"]])
        out[name] = (row["dtype"], values.reshape(row["shape"]))
    return out
