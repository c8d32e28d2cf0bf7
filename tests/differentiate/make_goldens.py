#!/usr/bin/env python3
"""Makes the golden files of gradients with PyTorch's autograd: for each layer of goldens/*.heddle its weights and inputs
(random) and the gradients, in goldens/NAME.safetensors under `weight:`, `input:` and `gradient:`; of BERT's two losses, at
the weights and inputs of tests/models/goldens/bert_loss, the gradients of all parameters under their names, and the
losses of fifty steps of Adam. Written again
only when a layer changes; the tests need NumPy alone.

    python make_goldens.py          needs torch, transformers and safetensors"""

from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

HERE = Path(__file__).resolve().parent / "goldens"
BERT = HERE.parents[1] / "models" / "goldens" / "bert_loss"
torch.manual_seed(11)


def golden(name, weights, inputs, loss):
    """`loss` of the tensors is differentiated by all real ones, in f64."""
    given = {k: v.double() if v.is_floating_point() else v for k, v in {**weights, **inputs}.items()}
    for v in given.values():
        v.requires_grad_(v.is_floating_point())
    value = loss(given)
    value.backward()
    out = {f"weight:{k}": v for k, v in weights.items()} | {f"input:{k}": v for k, v in inputs.items()}
    out["loss"] = value.detach()
    out |= {f"gradient:{k}": v.grad for k, v in given.items() if v.grad is not None}
    save_file({k: (v.float() if v.is_floating_point() else v.to(torch.int32)).contiguous() for k, v in out.items()},
              HERE / f"{name}.safetensors")


def parameters(**modules):
    return {f"{name}.{k}": v.detach().clone() for name, m in modules.items() for k, v in m.named_parameters()}


def linear_gelu_norm():
    w = parameters(linear=torch.nn.Linear(7, 10), norm=torch.nn.LayerNorm(10))
    w["norm.weight"] += torch.randn(10) * 0.1

    def loss(t):
        y = F.gelu(F.linear(t["x"], t["linear.weight"], t["linear.bias"]))
        return (F.layer_norm(y, (10,), t["norm.weight"], t["norm.bias"]) * t["c"]).sum()

    golden("linear_gelu_norm", w, {"x": torch.randn(3, 5, 7), "c": torch.randn(3, 5, 10)}, loss)


def attention():
    w = {"qkv": torch.randn(3, 3, 4, 12) / 3, **parameters(out=torch.nn.Linear(12, 12))}

    def loss(t):
        q, k, v = (torch.einsum("bid,hed->bhie", t["x"], t["qkv"][i]) for i in range(3))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True) if hasattr(F, "scaled_dot_product_attention") else \
            torch.softmax((q @ k.transpose(2, 3) / 2).masked_fill(torch.ones(9, 9).triu(1).bool(), -torch.inf), -1) @ v
        return (F.linear(a.transpose(1, 2).flatten(2), t["out.weight"], t["out.bias"]) * t["c"]).sum()

    golden("attention", w, {"x": torch.randn(2, 9, 12), "c": torch.randn(2, 9, 12)}, loss)


def embedding():
    w = {"table": torch.randn(11, 6), "pos": torch.randn(16, 6)}
    ids = torch.randint(0, 11, (3, 8))
    golden("embedding", w, {"ids": ids, "c": torch.randn(3, 8, 6)},
           lambda t: ((F.embedding(t["ids"], t["table"]) * 2 + t["pos"][:8]) ** 2 * t["c"]).sum())


def convolution():
    w = {"conv.weight": torch.randn(6, 3, 3, 3) / 5}

    def loss(t):
        y = F.max_pool2d(F.relu(F.conv2d(t["x"], t["conv.weight"], stride=2, padding=1)), 3, 2, 1)
        return (y * t["c"]).sum()

    golden("convolution", w, {"x": torch.randn(2, 3, 15, 13), "c": torch.randn(2, 6, 4, 4)}, loss)


def cross_entropy():
    w = parameters(linear=torch.nn.Linear(8, 13))
    labels = torch.randint(0, 13, (4, 6))
    labels[0, :3] = -100
    golden("cross_entropy", w, {"x": torch.randn(4, 6, 8), "labels": labels},
           lambda t: F.cross_entropy(F.linear(t["x"], t["linear.weight"], t["linear.bias"]).flatten(0, 1),
                                     t["labels"].flatten(), label_smoothing=0.1))


def lstm():
    rnn = torch.nn.LSTM(5, 6, batch_first=True).double()
    w = {f"rnn.{k}": v.detach().float() for k, v in rnn.named_parameters()}
    length = torch.tensor([7, 4, 1])

    def loss(t):
        flat = [t[f"rnn.{k}"] for k, _ in rnn.named_parameters()]
        packed = torch.nn.utils.rnn.pack_padded_sequence(t["x"], length, batch_first=True)
        start = tuple(s.unsqueeze(0) for s in (t["h0"], t["c0"]))
        y, h, c = torch._VF.lstm(packed.data, packed.batch_sizes, start, flat, True, 1, 0.0, False, False)
        y, _ = torch.nn.utils.rnn.pad_packed_sequence(packed._replace(data=y), batch_first=True)
        return (y * t["c"]).sum() + (h[0] * c[0]).sum()

    golden("lstm", w, {"x": torch.randn(3, 7, 5), "h0": torch.randn(3, 6), "c0": torch.randn(3, 6),
                       "c": torch.randn(3, 7, 6), "length": length}, loss)


def pretrained_bert():
    from transformers import BertConfig, BertForPreTraining
    model = BertForPreTraining(BertConfig.from_pretrained(BERT))
    weights = load_file(BERT / "model.safetensors")
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert not unexpected and all("decoder" in k or "position_ids" in k for k in missing), (missing, unexpected)
    model.tie_weights()
    return model.eval(), weights


def bert():
    model, weights = pretrained_bert()
    model = model.double()
    inputs = {k: v.long() for k, v in load_file(BERT / "3x19.in.safetensors").items()}
    out = model(**inputs)
    out.loss.backward()
    names = {id(p): n for n, p in model.named_parameters()}
    gradients = {n: p.grad.float().contiguous() for n, p in model.named_parameters() if id(p) in names and n in weights}
    save_file({"loss": out.loss.detach().float(), **gradients}, HERE / "bert_loss.safetensors")


def bert_steps(steps=50, warm=10, peak=1e-3):
    """The losses of steps of Adam with warm-up, each on another batch; without word 0, whose row transformers leaves alone."""
    model, _ = pretrained_bert()
    optimiser = torch.optim.Adam(model.parameters(), lr=1, betas=(0.9, 0.98), eps=1e-8)
    b, s, words = 4, 12, model.config.vocab_size
    batches = {"input_ids": torch.randint(1, words, (steps, b, s)), "token_type_ids": torch.randint(0, 2, (steps, b, s)),
               "attention_mask": (torch.arange(s) < torch.randint(s // 2, s + 1, (steps, b, 1))).long(),
               "labels": torch.where(torch.rand(steps, b, s) < 0.3, torch.randint(0, words, (steps, b, s)), -100),
               "next_sentence_label": torch.randint(0, 2, (steps, b))}
    batches["labels"][:, 0, 0] = 3  # at least one word is asked for
    losses = []
    for t in range(1, steps + 1):
        for group in optimiser.param_groups:
            group["lr"] = peak * min(t / warm, (warm / t) ** 0.5)
        optimiser.zero_grad()
        loss = model(**{k: v[t - 1] for k, v in batches.items()}).loss
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    save_file({"losses": torch.tensor(losses), **{k: v.to(torch.int32).contiguous() for k, v in batches.items()}},
              HERE / "bert_steps.safetensors")


for make in (linear_gelu_norm, attention, embedding, convolution, cross_entropy, lstm, bert, bert_steps):
    make()
