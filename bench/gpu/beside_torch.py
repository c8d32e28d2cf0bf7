"""What PyTorch takes on the same machine: products, attention, and encoders of the sizes of BERT-base and ViT-B/16. Seconds by
CUDA's events. Encoders as they are (at batch 1 the host takes longer to launch kernels than the device to run them), in a CUDA
graph, and by torch.compile, which leaves the layers' fast path as it is and so is given them without it.

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

    def graph(self, work):
        """The same work in a CUDA graph, on the processor as it is."""
        if self.device != "cuda":
            return work
        aside, out = torch.cuda.Stream(), torch.cuda.CUDAGraph()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(3):
                work()
        torch.cuda.current_stream().wait_stream(aside)
        with torch.cuda.graph(out):
            work()
        return out.replay

    def time(self, what, work, graph_of=0):
        """A row, unless this PyTorch lacks what the call needs, such as a compiler. `graph_of`: so many calls are a CUDA graph."""
        try:
            call = self.graph(lambda: [work() for _ in range(graph_of)]) if graph_of else work
            for _ in range(3):
                call()
            times = [self.clock(lambda: [call() for _ in range(self.count)]) / self.count / max(1, graph_of) for _ in range(self.batches)]
        except Exception as error:
            print(f"  PyTorch, {what}: {error}")
            return
        self.rows.append((what, statistics.median(times)))

    def compiled(self, what, model, x):
        torch._dynamo.reset()
        torch.backends.mha.set_fastpath_enabled(False)
        faster = torch.compile(model, mode="reduce-overhead", dynamic=False)
        self.time(f"{what}, torch.compile", lambda: faster(x))
        torch.backends.mha.set_fastpath_enabled(True)

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
            self.time(f"product {rows} x {width} x {inner}, {name}", lambda x=x, w=w: F.linear(x, w), graph_of=10)
        q = self.draw(dtype, 1, heads, keys, width // heads)
        self.time(f"attention, {heads} heads of {width // heads}, {keys} keys, {name}", lambda: F.scaled_dot_product_attention(q, q, q), graph_of=10)
        for what, tokens, first in (("BERT-base, 128 tokens", 128, False), ("ViT-B/16, 197 tokens", 197, True)):
            model = self.encoder(first, dtype)
            for batch in batches:
                x, row = self.draw(dtype, batch, tokens, width), f"encoder of {what}, batch {batch}, {name}"
                self.time(f"{row}, eager", lambda x=x, model=model: model(x))
                self.time(f"{row}, CUDA graph", lambda x=x, model=model: model(x), graph_of=1)
                self.compiled(row, model, x)


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
