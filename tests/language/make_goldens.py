#!/usr/bin/env python3
"""Makes the golden files of the language's three example programs with PyTorch's own modules and the algorithms of the
papers' code (Transformer-XL's padded and reshaped scores, packed sequences of an LSTM, a strided convolution for patches).
Of each: weights under the names of its checkpoint, settings, and calls of one session in their order. Written again only
when a program changes; the tests need NumPy alone.

    python make_goldens.py          needs torch and safetensors"""

import json
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

HERE = Path(__file__).resolve().parent / "goldens"
torch.manual_seed(11)


def weight(*shape):
    return torch.randn(*shape) / shape[-1] ** 0.5


def write(name, settings, weights, calls):
    """`calls`: (entry, inputs, results)."""
    save_file({k: v.contiguous() for k, v in weights.items()}, HERE / f"{name}.weights.safetensors")
    for i, (_, inputs, results) in enumerate(calls):
        save_file({k: v.contiguous() for k, v in inputs.items()}, HERE / f"{name}.{i}.in.safetensors")
        save_file({k: v.contiguous() for k, v in results.items()}, HERE / f"{name}.{i}.out.safetensors")
    about = {"settings": settings, "entries": [entry for entry, _, _ in calls]}
    (HERE / f"{name}.json").write_text(json.dumps(about) + "\n")


# ---------------------------------------------------------------------------- Transformer-XL
def relative_shift(x):
    """Of the authors' code: scores by distance [.., i, j] become scores by key, through one column of zeros."""
    zeros = x.new_zeros(*x.shape[:-1], 1)
    padded = torch.cat([zeros, x], -1)
    return padded.view(*x.shape[:-2], x.shape[-1] + 1, x.shape[-2])[..., 1:, :].reshape(x.shape)


def transformer_xl():
    V, D, H, E, Fw, L, M = 13, 10, 3, 5, 21, 2, 7
    w = {"word_emb.emb_layers.0.weight": weight(V, D), "crit.out_layers.0.bias": weight(V),
         "r_w_bias": weight(H, E), "r_r_bias": weight(H, E)}
    for i in range(L):
        at = f"layers.{i}."
        w |= {at + "dec_attn.qkv_net.weight": weight(3 * H * E, D), at + "dec_attn.r_net.weight": weight(H * E, D),
              at + "dec_attn.o_net.weight": weight(D, H * E), at + "pos_ff.CoreNet.0.weight": weight(Fw, D),
              at + "pos_ff.CoreNet.0.bias": weight(Fw), at + "pos_ff.CoreNet.3.weight": weight(D, Fw), at + "pos_ff.CoreNet.3.bias": weight(D)}
        for norm in ("dec_attn", "pos_ff"):
            w |= {f"{at}{norm}.layer_norm.weight": 1 + 0.3 * torch.randn(D), f"{at}{norm}.layer_norm.bias": weight(D)}

    def layer(i, x, past):
        at = f"layers.{i}.dec_attn."
        both = torch.cat([past, x], 1)
        batch, keys, queries = x.shape[0], both.shape[1], x.shape[1]
        q, k, v = (both @ w[at + "qkv_net.weight"].T).view(batch, keys, 3, H, E).unbind(2)
        q = q[:, -queries:]
        distance = torch.arange(keys - 1, -1, -1.0)
        angle = distance[:, None] / 10000 ** (torch.arange(0, D, 2.0) / D)
        r = (torch.cat([angle.sin(), angle.cos()], 1) @ w[at + "r_net.weight"].T).view(keys, H, E)
        content = torch.einsum("bihe,bjhe->bhij", q + w["r_w_bias"], k)
        position = relative_shift(torch.einsum("bihe,jhe->bhij", q + w["r_r_bias"], r))
        mask = torch.ones(queries, keys, dtype=torch.bool).triu(1 + keys - queries)
        p = ((content + position) / E ** 0.5).masked_fill(mask, float("-inf")).softmax(-1)
        o = torch.einsum("bhij,bjhe->bihe", p, v).flatten(2) @ w[at + "o_net.weight"].T
        x = F.layer_norm(x + o, (D,), w[at + "layer_norm.weight"], w[at + "layer_norm.bias"], 1e-5)
        at = f"layers.{i}.pos_ff."
        up = F.relu(F.linear(x, w[at + "CoreNet.0.weight"], w[at + "CoreNet.0.bias"]))
        y = x + F.linear(up, w[at + "CoreNet.3.weight"], w[at + "CoreNet.3.bias"])
        return F.layer_norm(y, (D,), w[at + "layer_norm.weight"], w[at + "layer_norm.bias"], 1e-5)

    memory, calls = [torch.zeros(2, 0, D) for _ in range(L)], []
    for length in (3, 2, 9, 1, 5):
        ids = torch.randint(V, (2, length), dtype=torch.int32)
        x = w["word_emb.emb_layers.0.weight"][ids.long()] * D ** 0.5
        for i in range(L):
            before, x = x, layer(i, x, memory[i])
            memory[i] = torch.cat([memory[i], before], 1)[:, -M:]
        calls.append(("step", {"ids": ids}, {"logits": x @ w["word_emb.emb_layers.0.weight"].T + w["crit.out_layers.0.bias"]}))
    write("transformer_xl", {"V": V, "D": D, "H": H, "E": E, "F": Fw, "L": L, "M": M}, w, calls)


# ---------------------------------------------------------------------------- attention LSTM
def seq2seq():
    VS, VT, D, N, B = 11, 9, 5, 7, 3
    encoder, decoder = torch.nn.LSTM(D, N, batch_first=True), torch.nn.LSTMCell(D + N, N)
    w = {"encoder.embedding.weight": weight(VS, D), "decoder.embedding.weight": weight(VT, D), "attention.weight": weight(N, N),
         "combine.weight": weight(N, 2 * N), "generator.weight": weight(VT, N), "generator.bias": weight(VT)}
    w |= {f"encoder.rnn.{k}": v.detach() for k, v in encoder.state_dict().items()}
    w |= {f"decoder.rnn.{k}_l0": v.detach() for k, v in decoder.state_dict().items()}
    ids, lengths = torch.randint(VS, (B, 6), dtype=torch.int32), torch.tensor([4, 6, 1], dtype=torch.int32)
    calls = []
    with torch.no_grad():
        packed = torch.nn.utils.rnn.pack_padded_sequence(w["encoder.embedding.weight"][ids.long()], lengths.long(), batch_first=True, enforce_sorted=False)
        states, (h, c) = encoder(packed)
        states, _ = torch.nn.utils.rnn.pad_packed_sequence(states, batch_first=True)
        h, c, context = h[0], c[0], torch.zeros(B, N)
        calls.append(("encode", {"ids": ids, "n": lengths}, {}))
        masked = torch.arange(6)[None, :] >= lengths[:, None]
        for step in range(4):
            token = torch.randint(VT, (B,), dtype=torch.int32)
            h, c = decoder(torch.cat([w["decoder.embedding.weight"][token.long()], context], 1), (h, c))
            scores = torch.einsum("bn,nm,bsm->bs", h, w["attention.weight"], states).masked_fill(masked, float("-inf"))
            attended = torch.einsum("bs,bsn->bn", scores.softmax(1), states)
            context = torch.tanh(torch.cat([attended, h], 1) @ w["combine.weight"].T)
            calls.append(("decode_step", {"tok": token}, {"logits": F.linear(context, w["generator.weight"], w["generator.bias"])}))
            if step == 1:
                parent = torch.tensor([2, 0, 0], dtype=torch.int32)
                h, c, context = h[parent.long()], c[parent.long()], context[parent.long()]
                calls.append(("reorder", {"parent": parent}, {}))
    write("seq2seq", {"VS": VS, "VT": VT, "D": D, "N": N}, w, calls)


# ---------------------------------------------------------------------------- ViT
def vit():
    S, P, C, D, Fw, L, H, K = 15, 5, 3, 12, 23, 2, 3, 7
    tokens = (S // P) ** 2 + 1
    w = {"patch_embed.proj.weight": weight(D, C, P, P) / 5, "patch_embed.proj.bias": weight(D), "cls_token": weight(1, 1, D),
         "pos_embed": weight(1, tokens, D), "norm.weight": 1 + 0.3 * torch.randn(D), "norm.bias": weight(D), "head.weight": weight(K, D), "head.bias": weight(K)}
    for i in range(L):
        for name, shape in (("attn.qkv", (3 * D, D)), ("attn.proj", (D, D)), ("mlp.fc1", (Fw, D)), ("mlp.fc2", (D, Fw))):
            w |= {f"blocks.{i}.{name}.weight": weight(*shape), f"blocks.{i}.{name}.bias": weight(shape[0])}
        for name in ("norm1", "norm2"):
            w |= {f"blocks.{i}.{name}.weight": 1 + 0.3 * torch.randn(D), f"blocks.{i}.{name}.bias": weight(D)}

    def linear(x, name):
        return F.linear(x, w[name + ".weight"], w[name + ".bias"])

    def norm(x, name):
        return F.layer_norm(x, (D,), w[name + ".weight"], w[name + ".bias"], 1e-6)

    image = torch.randn(2, C, S, S)
    x = F.conv2d(image, w["patch_embed.proj.weight"], w["patch_embed.proj.bias"], stride=P).flatten(2).transpose(1, 2)
    x = torch.cat([w["cls_token"].expand(2, 1, D), x], 1) + w["pos_embed"]
    for i in range(L):
        q, k, v = linear(norm(x, f"blocks.{i}.norm1"), f"blocks.{i}.attn.qkv").view(2, tokens, 3, H, D // H).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = x + linear(a, f"blocks.{i}.attn.proj")
        x = x + linear(F.gelu(linear(norm(x, f"blocks.{i}.norm2"), f"blocks.{i}.mlp.fc1")), f"blocks.{i}.mlp.fc2")
    logits = linear(norm(x, "norm")[:, 0], "head")
    write("vit", {"S": S, "P": P, "C": C, "D": D, "F": Fw, "L": L, "H": H, "K": K}, w, [("classify", {"img": image}, {"logits": logits})])


if __name__ == "__main__":
    HERE.mkdir(exist_ok=True)
    transformer_xl()
    seq2seq()
    vit()
