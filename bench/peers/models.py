"""What is compared, model by model: its words in the table, the entry of Heddle's library (`generate`: a whole greedy
search), its results, and the runtimes that can take it. modules.py makes them, in the peers' environment."""

from dataclasses import dataclass

# A runtime's name, and the precision of its products where that is not f32.
ALL = ("heddle", "pytorch", "onnxruntime", "openvino", "heddle bf16", "pytorch bf16", "openvino bf16", "heddle int8", "onnxruntime int8")
# Search and a loop over attention steps are programs around a network, which an ONNX file doesn't hold.
PROGRAMS = ("heddle", "pytorch", "heddle bf16", "heddle int8")
STEPS = 32  # new tokens of a search


@dataclass
class Model:
    what: str
    results: tuple
    entry: str = ""  # none: the only one
    peers: tuple = ALL
    settings: tuple = ()  # of `heddle compile --set`


MODELS = {
    "vit-b16": Model("ViT-B/16, 224 x 224, batch 1", ("logits",)),
    "bert-base-s128": Model("BERT-base, 128 tokens, batch 1", ("last_hidden_state", "pooler_output")),
    "transformer-base": Model("Transformer base (marian), 40 tokens to 40, batch 1", ("logits",), "forward"),
    "transformer-greedy": Model(f"Transformer base (marian), 40 tokens, greedy search of {STEPS}", ("sequences",), "generate", PROGRAMS),
    "torch-transformer": Model("torch.nn.Transformer base, 128 to 128, batch 1", ("output",)),
    "attention-s512": Model("torch.nn.MultiheadAttention(512, 8), 512 positions, batch 1", ("attn_output",)),
    "gpt2-s128": Model("GPT-2, 128 tokens, batch 1", ("logits",), "forward"),
    "gpt2-greedy": Model(f"GPT-2, prompt of 64, greedy search of {STEPS}", ("sequences",), "generate", PROGRAMS),
    "detr-r50": Model("DETR-R50, 480 x 640, batch 1", ("logits", "pred_boxes")),
    "setr-pup-base": Model("SETR-PUP base, 256 x 256, batch 1", ("logits",)),
    "seq2seq-lstm": Model("Seq2seq, 4 LSTM layers of 1000, 24 tokens to 24, batch 1", ("logits",), "forward"),
    "seq2seq-attention": Model("Seq2seq with attention (Luong), 4 LSTM layers of 1000, 24 tokens to 24, batch 1", ("logits",), "forward", PROGRAMS),
}
