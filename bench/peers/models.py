"""What is compared, model by model: its words in the table, the entry of Heddle's library (`generate`: a whole search), its
results, and the runtimes that can take it. modules.py makes them, in the peers' environment, in a folder MODEL/bBATCH."""

import json
from dataclasses import dataclass
from pathlib import Path

# The precisions of a runtime's products.
PRECISIONS = {"heddle": ("f32", "bf16", "int8"), "pytorch": ("f32", "bf16"), "torch.compile": ("f32", "bf16"),
              "onnxruntime": ("f32", "int8"), "openvino": ("f32", "bf16"), "iree": ("f32",), "ctranslate2": ("f32", "int8")}  # fmt: skip
NETWORK = ("heddle", "pytorch", "torch.compile", "onnxruntime", "openvino", "iree")
# Search and a loop over attention steps are programs around a network, which an ONNX file doesn't hold.
SEARCH = ("heddle", "pytorch", "ctranslate2")
LOOP = ("heddle", "pytorch")
STEPS = 32  # new tokens of a search


def peer_name(runtime, precision):
    """As tables and `--peers` have it; f32 goes without saying."""
    return runtime if precision == "f32" else f"{runtime} {precision}"


def parts_of(peer):
    """Runtime and precision of a name."""
    runtime, _, precision = peer.partition(" ")
    return runtime, precision or "f32"


PEERS = [peer_name(runtime, precision) for precision in ("f32", "bf16", "int8") for runtime in PRECISIONS if precision in PRECISIONS[runtime]]


@dataclass
class Model:
    what: str
    results: tuple
    entry: str = ""  # none: the only one
    runtimes: tuple = NETWORK
    beams: int = 1  # of a search


MODELS = {
    "vit-b16": Model("ViT-B/16, 224 x 224", ("logits",)),
    "bert-base-s128": Model("BERT-base, 128 tokens", ("last_hidden_state", "pooler_output")),
    "bert-base-s512": Model("BERT-base, 512 tokens", ("last_hidden_state", "pooler_output")),
    "minilm-s32": Model("MiniLM-L6, 32 tokens", ("last_hidden_state", "pooler_output")),
    "transformer-base": Model("Transformer base (marian), 40 tokens to 40", ("logits",), "forward"),
    "transformer-greedy": Model(f"Transformer base (marian), 40 tokens, greedy search of {STEPS}", ("sequences",), "generate", SEARCH),
    "transformer-beam": Model(f"Transformer base (marian), 40 tokens, search of {STEPS} by 4 beams", ("sequences",), "generate", SEARCH, 4),
    "torch-transformer": Model("torch.nn.Transformer base, 128 to 128", ("output",)),
    "attention-s512": Model("torch.nn.MultiheadAttention(512, 8), 512 positions", ("attn_output",)),
    "gpt2-s128": Model("GPT-2, 128 tokens", ("logits",), "forward"),
    "gpt2-greedy": Model(f"GPT-2, prompt of 64, greedy search of {STEPS}", ("sequences",), "generate", SEARCH),
    "detr-r50": Model("DETR-R50, 480 x 640", ("logits", "pred_boxes")),
    "setr-pup-base": Model("SETR-PUP base, 256 x 256", ("logits",)),
    "seq2seq-lstm": Model("Seq2seq, 4 LSTM layers of 1000, 24 tokens to 24", ("logits",), "forward"),
    "seq2seq-attention": Model("Seq2seq with attention (Luong), 4 LSTM layers of 1000, 24 tokens to 24", ("logits",), "forward", LOOP),
}


def folder_of(cache, name, batch):
    return cache / name / f"b{batch}"


def model_in(folder):
    return MODELS[folder.parent.name]


def facts_of(folder):
    return json.loads((Path(folder) / "facts.json").read_text())
