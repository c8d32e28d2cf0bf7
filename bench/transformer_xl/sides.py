"""The sides of the experiment: Heddle's and PyTorch's Transformer-XL and vanilla model. PyTorch's are written here: Transformer-XL
as its authors published it, and twice with the operations that PyTorch's documentation recommends. Also the worker process
of run.py: `python sides.py RUNTIME CACHE THREADS` answers
    output SIDE LENGTH FILE   computes once from the start and saves the results
    time SIDE LENGTH N        computes N times, and answers the seconds and CPU seconds of each

A side of Transformer-XL starts with the memory full: it has read the text before, and its state was kept in a file."""

import sys
from pathlib import Path

import numpy as np
from model import CLAMP, HEADS, LAYERS, SEGMENT, WIDTH
from safetensors.numpy import load_file, save_file
from worker import serve, timed

HEAD = WIDTH // HEADS


class Segments:
    """Of the text: those that fill the memory, then the ones that are measured, again and again."""

    def __init__(self, folder, length):
        text = load_file(folder / "text.safetensors")["text"]
        self.before = [text[:, i : min(i + SEGMENT, length)] for i in range(0, length, SEGMENT)]
        self.after = [text[:, i : i + SEGMENT] for i in range(length, text.shape[1], SEGMENT)]
        self.at = 0

    def next(self):
        self.at += 1
        return self.after[(self.at - 1) % len(self.after)]


class HeddleXL:
    runtime = "heddle"

    def __init__(self, folder, length, threads):
        import heddle

        self.segments = Segments(folder, length)
        self.session = heddle.load(folder / "xl-heddle").session(threads=threads)
        memory = folder / "xl-heddle" / "full-memory"
        if memory.exists():
            self.session.restore(memory.read_bytes())
        else:
            for ids in self.segments.before:
                self.session.run({"input_ids": ids}, entry="forward")
            memory.write_bytes(self.session.save())

    def run(self):
        return self.session.run({"input_ids": self.segments.next()}, entry="forward")


class HeddleVanilla:
    runtime = "heddle"

    def __init__(self, folder, length, threads):
        import heddle

        self.ids = load_file(folder / "text.safetensors")["text"][:, :length]
        self.session = heddle.load(folder / "vanilla-heddle").session(threads=threads)

    def run(self):
        return self.session.run({"input_ids": self.ids}, entry="forward")


def weights_of(folder):
    import torch

    return {name: torch.from_numpy(value) for name, value in load_file(folder / "model.safetensors").items()}


class PyTorchXL:
    """The operations that PyTorch's documentation recommends: attention is fused and takes the position scores as a bias, and
    their shift is a view. The memory is hidden states, from which each call makes keys and values again, and so the keys of
    positions from their codes."""

    runtime = "pytorch"

    def __init__(self, folder, length, threads):
        import torch

        torch.set_num_threads(threads)
        self.torch, self.memory_length, self.weights = torch, length, weights_of(folder / "xl")
        self.segments = Segments(folder, length)
        self.codes, self.hidden_keys = self.codes_of(length + SEGMENT), self.hidden(SEGMENT, length)
        self.memory, self.known = self.empty_memory(), {}
        saved = folder / f"{type(self).__name__}-full-memory.safetensors"
        if not saved.exists():
            for number, ids in enumerate(self.segments.before):
                self.run_on(ids, min(number * SEGMENT, length))
            save_file({str(i): value.numpy() for i, value in enumerate(self.memory)}, saved)
        self.memory = [torch.from_numpy(value) for _, value in sorted(load_file(saved).items(), key=lambda item: int(item[0]))]

    def codes_of(self, keys):
        """Of the distances keys - 1 to 0."""
        angles = self.torch.arange(keys - 1, -1, -1.0).clamp_(max=CLAMP)[:, None] / 10000 ** (self.torch.arange(0, WIDTH, 2.0) / WIDTH)
        return self.torch.cat([angles.sin(), angles.cos()], -1)

    def hidden(self, new, seen):
        """True at the keys that a query doesn't attend to, of a memory of which the last `seen` places are real."""
        i, j = self.torch.arange(new)[:, None], self.torch.arange(self.memory_length + new)[None]
        return (j <= i) | (j > self.memory_length + i) | (j < self.memory_length - seen)

    def empty_memory(self):
        return [self.torch.zeros(self.memory_length, WIDTH) for _ in range(LAYERS)]

    def keys_and_values(self, layer, x, qkv):
        """Of memory and segment, and the queries of the segment; takes the segment into the memory."""
        both = self.torch.cat([self.memory[layer], x])
        self.memory[layer] = both[len(x):]
        q = self.torch.nn.functional.linear(x, qkv[:WIDTH])
        k, v = self.torch.nn.functional.linear(both, qkv[WIDTH:]).chunk(2, -1)
        return q, k, v

    def distances(self, layer, codes, weight):
        return self.torch.nn.functional.linear(codes, weight)

    def places(self, new, seen):
        """The codes of distances and the mask of a segment: known, but while the memory fills."""
        if seen == self.memory_length and new == SEGMENT:
            return self.codes, self.hidden_keys
        return self.codes[SEGMENT - new :], self.hidden(new, seen)

    def attention(self, layer, x, codes, mask):
        w, name, new = self.weights, f"layers.{layer}.dec_attn.", len(x)
        q, k, v = self.keys_and_values(layer, x, w[name + "qkv_net.weight"])
        r = self.distances(layer, codes, w[name + "r_net.weight"])
        q, k, v, r = (t.view(len(t), HEADS, HEAD).transpose(0, 1) for t in (q, k, v, r))
        content = q + w["r_w_bias"][:, None]
        position = (q + w["r_r_bias"][:, None]) @ r.transpose(1, 2)
        # Key j of query i stands in column j + new - 1 - i: the same numbers as rows that are shorter by one.
        keys = k.shape[1]
        position = position.as_strided((HEADS, new, keys), (new * keys, keys - 1, 1), new - 1)
        bias = (position * HEAD ** -0.5).masked_fill_(mask, -self.torch.inf)
        a = self.torch.nn.functional.scaled_dot_product_attention(content[None], k[None], v[None], attn_mask=bias[None])[0]
        return a.transpose(0, 1).reshape(new, WIDTH)

    def run_on(self, ids, seen):
        torch, f, w = self.torch, self.torch.nn.functional, self.weights
        with torch.inference_mode():
            codes, mask = self.places(ids.shape[1], seen)
            x = w["word_emb.emb_layers.0.weight"][torch.from_numpy(ids[0])] * WIDTH ** 0.5
            for layer in range(LAYERS):
                name = f"layers.{layer}.dec_attn."
                a = f.linear(self.attention(layer, x, codes, mask), w[name + "o_net.weight"])
                x = f.layer_norm(x + a, (WIDTH,), w[name + "layer_norm.weight"], w[name + "layer_norm.bias"])
                name = f"layers.{layer}.pos_ff."
                h = f.relu(f.linear(x, w[name + "CoreNet.0.weight"], w[name + "CoreNet.0.bias"]))
                h = f.linear(h, w[name + "CoreNet.3.weight"], w[name + "CoreNet.3.bias"])
                x = f.layer_norm(x + h, (WIDTH,), w[name + "layer_norm.weight"], w[name + "layer_norm.bias"])
            logits = f.linear(x, w["word_emb.emb_layers.0.weight"], w["crit.out_layers.0.bias"])
            return {"logits": logits.log_softmax(-1)[None].numpy()}

    def run(self):
        return self.run_on(self.segments.next(), self.memory_length)


class PyTorchXLPublished(PyTorchXL):
    """The formulation that the authors published, step by step: queries, keys and values of memory and segment from one product
    (of which the memory's queries are dropped), content and position scores as two products over [place, text, head, feature],
    the relative shift as a column of zeros, a view of the whole and a slice, sum, scale, mask, softmax and a second product,
    each in memory; codes and masks made anew for every segment; the memory of each layer joined once for its attention, once for
    the next memory."""

    def empty_memory(self):
        return [self.torch.zeros(0, 1, WIDTH) for _ in range(LAYERS)]

    def places(self, new, seen):
        keys = seen + new
        i, j = self.torch.arange(new)[:, None], self.torch.arange(keys)[None]
        return self.codes_of(keys), (j > seen + i) | (j <= i - (self.memory_length - seen))

    @staticmethod
    def shifted(torch, x):
        """Row i of [query, key, text, head] moved to the left by queries - 1 - i."""
        padded = torch.cat([torch.zeros((x.shape[0], 1, *x.shape[2:])), x], 1)
        return padded.view(x.shape[1] + 1, x.shape[0], *x.shape[2:])[1:].view_as(x)

    def attention(self, layer, x, codes, mask):
        torch, w, name = self.torch, self.weights, f"layers.{layer}.dec_attn."
        f, x = torch.nn.functional, x[:, None]  # one text
        q, k, v = f.linear(torch.cat([self.memory[layer], x]), w[name + "qkv_net.weight"]).chunk(3, -1)
        r = f.linear(codes, w[name + "r_net.weight"]).view(-1, HEADS, HEAD)
        q, k, v = (t.view(len(t), 1, HEADS, HEAD) for t in (q[-len(x):], k, v))
        content = torch.einsum("ibnd,jbnd->ijbn", q + w["r_w_bias"], k)
        position = self.shifted(torch, torch.einsum("ibnd,jnd->ijbn", q + w["r_r_bias"], r))
        scores = (content + position).mul_(HEAD ** -0.5).masked_fill(mask[:, :, None, None], -torch.inf)
        a = torch.einsum("ijbn,jbnd->ibnd", scores.softmax(1), v)
        self.memory[layer] = torch.cat([self.memory[layer], x])[-self.memory_length :]
        return a.contiguous().view(len(x), WIDTH)


class PyTorchXLKeys(PyTorchXL):
    """The same with a memory of keys and values instead of the hidden states, and the keys of positions made once."""

    def empty_memory(self):
        return [self.torch.zeros(self.memory_length, 2 * WIDTH) for _ in range(LAYERS)]

    def distances(self, layer, codes, weight):
        if layer not in self.known:
            self.known[layer] = self.torch.nn.functional.linear(self.codes, weight)
        return self.known[layer][len(self.codes) - len(codes) :]

    def keys_and_values(self, layer, x, qkv):
        q, new = self.torch.nn.functional.linear(x, qkv).split([WIDTH, 2 * WIDTH], -1)
        both = self.torch.cat([self.memory[layer], new])
        self.memory[layer] = both[len(x):]
        return q, *both.chunk(2, -1)


class PyTorchVanilla:
    runtime = "pytorch"

    def __init__(self, folder, length, threads):
        import torch

        torch.set_num_threads(threads)
        self.torch, self.length, self.weights = torch, length, weights_of(folder / "vanilla")
        self.ids = torch.from_numpy(load_file(folder / "text.safetensors")["text"][:, :length])

    def run(self):
        torch, f, w = self.torch, self.torch.nn.functional, self.weights
        with torch.inference_mode():
            x = w["embedding.weight"][self.ids]
            for layer in range(LAYERS):
                name = f"encoder.layers.{layer}."
                x = x + w["positions.weight"][layer * self.length : (layer + 1) * self.length]
                qkv = f.linear(x, w[name + "self_attn.in_proj_weight"], w[name + "self_attn.in_proj_bias"])
                q, k, v = (t.view(1, self.length, HEADS, HEAD).transpose(1, 2) for t in qkv.chunk(3, -1))
                a = f.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape)
                a = f.linear(a, w[name + "self_attn.out_proj.weight"], w[name + "self_attn.out_proj.bias"])
                x = f.layer_norm(x + a, (WIDTH,), w[name + "norm1.weight"], w[name + "norm1.bias"])
                h = f.relu(f.linear(x, w[name + "linear1.weight"], w[name + "linear1.bias"]))
                h = f.linear(h, w[name + "linear2.weight"], w[name + "linear2.bias"])
                x = f.layer_norm(x + h, (WIDTH,), w[name + "norm2.weight"], w[name + "norm2.bias"])
            return {"logits": f.linear(x, w["generator.weight"], w["generator.bias"]).numpy()}


SIDES = {"heddle-xl": HeddleXL, "heddle-vanilla": HeddleVanilla, "pytorch-xl-published": PyTorchXLPublished, "pytorch-xl-fused": PyTorchXL,
         "pytorch-xl-keys": PyTorchXLKeys, "pytorch-vanilla": PyTorchVanilla}


def start(threads):
    cache, loaded = Path(sys.argv[2]), {}

    def side(name, length):
        if (name, length) not in loaded:
            for other in [key for key in loaded if key[1] != length]:
                del loaded[other]
            loaded[name, length] = SIDES[name](cache / length, int(length), threads)
        return loaded[name, length]

    def answer(what, name, length, argument):
        if what == "time":
            return timed(side(name, length).run, argument)
        loaded.pop((name, length), None)
        save_file({key: np.ascontiguousarray(value) for key, value in side(name, length).run().items()}, argument)
        return "saved"

    return answer


if __name__ == "__main__":
    serve(start)
