"""What PyTorch takes on the same machine: products, attention, and encoders of the sizes of BERT-base and ViT-B/16, as they
are and compiled. Seconds by CUDA's events."""

import statistics

import torch
from torch import nn
from torch.nn import functional as F


def seconds(work, count=20, batches=5):
    for _ in range(3):
        work()
    times = []
    for _ in range(batches):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(count):
            work()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 1e3 / count)
    return statistics.median(times)


def encoder(layers, width, heads, inner, first, dtype):
    layer = nn.TransformerEncoderLayer(width, heads, inner, 0.0, "gelu", batch_first=True, norm_first=first)
    return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False).cuda().to(dtype).eval()


@torch.inference_mode()
def times():
    if not torch.cuda.is_available():
        return []
    out = []
    for dtype, name in ((torch.float32, "f32"), (torch.bfloat16, "bf16")):
        torch.manual_seed(1)
        for rows in (128, 4096):
            x, w = torch.randn(rows, 768, device="cuda", dtype=dtype), torch.randn(3072, 768, device="cuda", dtype=dtype)
            out.append((f"product {rows} x 768 x 3072, {name}", seconds(lambda: F.linear(x, w))))
        q = torch.randn(1, 12, 1024, 64, device="cuda", dtype=dtype)
        out.append((f"attention, 12 heads of 64, 1024 keys, {name}", seconds(lambda: F.scaled_dot_product_attention(q, q, q))))
        for what, tokens, first in (("BERT-base, 128 tokens", 128, False), ("ViT-B/16, 197 tokens", 197, True)):
            model = encoder(12, 768, 12, 3072, first, dtype)
            faster = torch.compile(model, mode="reduce-overhead")
            for batch in (1, 32):
                x = torch.randn(batch, tokens, 768, device="cuda", dtype=dtype)
                out.append((f"encoder of {what}, batch {batch}, {name}, eager", seconds(lambda: model(x))))
                out.append((f"encoder of {what}, batch {batch}, {name}, torch.compile", seconds(lambda: faster(x))))
    return out
