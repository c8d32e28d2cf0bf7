"""What PyTorch takes on the same machine: products, attention, and encoders of the sizes of BERT-base and ViT-B/16, as they
are and compiled. Seconds by CUDA's events.

    python3 beside_torch.py            the table
    python3 beside_torch.py --try      the same calls at small sizes on the processor: whether this PyTorch takes them"""

import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F


def seconds_by_events(work):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    work()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 1e3


def seconds_by_clock(work):
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


class Bench:
    def __init__(self, device):
        self.device, self.rows = device, []
        self.clock, self.count, self.batches = (seconds_by_events, 20, 5) if device == "cuda" else (seconds_by_clock, 1, 1)
        # Rows of products, keys, layers, width, heads, inner width, batches.
        self.sizes = ((128, 4096), 1024, 12, 768, 12, 3072, (1, 32)) if device == "cuda" else ((2, 3), 16, 2, 64, 2, 128, (1, 2))

    def time(self, what, work):
        """A row, unless this PyTorch lacks what the call needs, such as a compiler."""
        try:
            for _ in range(3):
                work()
            times = [self.clock(lambda: [work() for _ in range(self.count)]) / self.count for _ in range(self.batches)]
        except Exception as error:
            print(f"  PyTorch, {what}: {error}")
            return
        self.rows.append((what, statistics.median(times)))

    def draw(self, dtype, *shape):
        return torch.randn(*shape, device=self.device, dtype=dtype)

    def encoder(self, first, dtype):
        _, _, layers, width, heads, inner, _ = self.sizes
        layer = nn.TransformerEncoderLayer(width, heads, inner, 0.0, "gelu", batch_first=True, norm_first=first)
        return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False).to(self.device, dtype).eval()

    def run(self, dtype, name):
        torch.manual_seed(1)
        all_rows, keys, _, width, heads, inner, batches = self.sizes
        for rows in all_rows:
            x, w = self.draw(dtype, rows, width), self.draw(dtype, inner, width)
            self.time(f"product {rows} x {width} x {inner}, {name}", lambda x=x, w=w: F.linear(x, w))
        q = self.draw(dtype, 1, heads, keys, width // heads)
        self.time(f"attention, {heads} heads of {width // heads}, {keys} keys, {name}", lambda: F.scaled_dot_product_attention(q, q, q))
        for what, tokens, first in (("BERT-base, 128 tokens", 128, False), ("ViT-B/16, 197 tokens", 197, True)):
            model = self.encoder(first, dtype)
            faster = torch.compile(model, mode="reduce-overhead")
            for batch in batches:
                x = self.draw(dtype, batch, tokens, width)
                self.time(f"encoder of {what}, batch {batch}, {name}, eager", lambda x=x, model=model: model(x))
                self.time(f"encoder of {what}, batch {batch}, {name}, torch.compile", lambda x=x, faster=faster: faster(x))


@torch.inference_mode()
def times(device="cuda"):
    """(what, seconds) of each; nothing where there is no such device."""
    if device == "cuda" and not torch.cuda.is_available():
        return []
    bench = Bench(device)
    for dtype, name in ((torch.float32, "f32"), (torch.bfloat16, "bf16")):
        bench.run(dtype, name)
    return bench.rows


if __name__ == "__main__":
    tried = sys.argv[1:] == ["--try"]
    rows = times("cpu" if tried else "cuda")
    for what, seconds in rows:
        print(f"{what}: {'taken' if tried else f'{1e3 * seconds:.3f} ms'}")
    if not rows:
        sys.exit("error: this PyTorch has no GPU; --try runs the same calls on the processor")
