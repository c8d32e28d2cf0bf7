"""The two models of the experiment, of the same size: Transformer-XL's character model of 12 layers, and the model of
fixed segments without its recurrence. Their settings and random weights, and what a predicted token has to cost. Also a
program, in the peers' environment: `python model.py LENGTH FOLDER` makes FOLDER/xl and FOLDER/vanilla."""

import json
import sys
from pathlib import Path

VOCABULARY, WIDTH, HEADS, INNER, LAYERS = 204, 512, 8, 2048, 12
CLAMP = 1000    # farther tokens are all as far as this
SEGMENT = 128   # tokens of a call of Transformer-XL

WHAT = (f"{LAYERS} layers of width {WIDTH}, {HEADS} heads of {WIDTH // HEADS}, inner width {INNER}, {VOCABULARY} characters; "
        f"Transformer-XL: segments of {SEGMENT}, each token attends to as many tokens as the memory has (same_length), "
        f"distances up to {CLAMP} (clamp_len), biases shared by the layers")


def dense_flops():
    """Of one token in all products with weights that both models have."""
    return LAYERS * 2 * (4 * WIDTH * WIDTH + 2 * WIDTH * INNER) + 2 * WIDTH * VOCABULARY


def xl_flops(length):
    """Multiplications and additions of a predicted token that no implementation can do without: scores of content and
    of position, and the weighted sum of values. Keys of positions are constant, keys and values of the memory known."""
    return dense_flops() + LAYERS * 6 * length * WIDTH


def vanilla_flops(length):
    """The same where all tokens of the window are computed again, each attending to those before it."""
    return length * dense_flops() + LAYERS * 4 * WIDTH * length * (length + 1) // 2


def xl_weights(normal):
    """`normal(deviation, *shape)` makes a tensor."""
    d, fan = WIDTH, WIDTH ** -0.5
    tensors = {"word_emb.emb_layers.0.weight": normal(fan, VOCABULARY, d), "crit.out_layers.0.bias": normal(0.1, VOCABULARY),
               "r_w_bias": normal(0.3, HEADS, d // HEADS), "r_r_bias": normal(0.3, HEADS, d // HEADS)}
    for layer in range(LAYERS):
        attention, ff = f"layers.{layer}.dec_attn.", f"layers.{layer}.pos_ff."
        tensors |= {attention + "qkv_net.weight": normal(fan, 3 * d, d), attention + "r_net.weight": normal(fan, d, d),
                    attention + "o_net.weight": normal(fan, d, d),
                    ff + "CoreNet.0.weight": normal(fan, INNER, d), ff + "CoreNet.0.bias": normal(0.1, INNER),
                    ff + "CoreNet.3.weight": normal(INNER ** -0.5, d, INNER), ff + "CoreNet.3.bias": normal(0.1, d)}
        for part in (attention, ff):
            tensors |= {part + "layer_norm.weight": 1 + normal(0.1, d), part + "layer_norm.bias": normal(0.1, d)}
    return tensors


def vanilla_weights(normal, length):
    d, fan = WIDTH, WIDTH ** -0.5
    tensors = {"embedding.weight": normal(1, VOCABULARY, d), "positions.weight": normal(0.1, LAYERS * length, d),
               "generator.weight": normal(fan, VOCABULARY, d), "generator.bias": normal(0.1, VOCABULARY)}
    for layer in range(LAYERS):
        name = f"encoder.layers.{layer}."
        tensors |= {name + "self_attn.in_proj_weight": normal(fan, 3 * d, d), name + "self_attn.in_proj_bias": normal(0.1, 3 * d),
                    name + "self_attn.out_proj.weight": normal(fan, d, d), name + "self_attn.out_proj.bias": normal(0.1, d),
                    name + "linear1.weight": normal(fan, INNER, d), name + "linear1.bias": normal(0.1, INNER),
                    name + "linear2.weight": normal(INNER ** -0.5, d, INNER), name + "linear2.bias": normal(0.1, d)}
        for norm in ("norm1.", "norm2."):
            tensors |= {name + norm + "weight": 1 + normal(0.1, d), name + norm + "bias": normal(0.1, d)}
    return tensors


def make(length, folder):
    import torch
    from safetensors.torch import save_file

    generator = torch.Generator().manual_seed(1)

    def normal(deviation, *shape):
        return torch.randn(shape, generator=generator) * deviation

    sizes = {
        "xl": {"model_type": "transfo-xl", "saved_by": "authors", "vocab_size": VOCABULARY, "d_model": WIDTH, "d_embed": WIDTH,
               "n_head": HEADS, "d_head": WIDTH // HEADS, "d_inner": INNER, "n_layer": LAYERS, "cutoffs": [], "div_val": 1,
               "mem_len": length, "clamp_len": CLAMP, "same_length": True, "untie_r": False, "pre_lnorm": False},
        "vanilla": {"model_type": "vanilla-lm", "vocab_size": VOCABULARY, "segment_length": length, "d_model": WIDTH,
                    "nhead": HEADS, "dim_feedforward": INNER, "num_layers": LAYERS},
    }
    weights = {"xl": xl_weights(normal), "vanilla": vanilla_weights(normal, length)}
    for name, settings in sizes.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "config.json").write_text(json.dumps(settings, indent=2) + "\n")
        save_file(weights[name], folder / name / "model.safetensors")
    # What is read: the text that fills the memory, the segments that follow it, and the window of the vanilla model.
    text = torch.randint(0, VOCABULARY, (1, length + 8 * SEGMENT), generator=generator)
    save_file({"text": text}, folder / "text.safetensors")
    (folder / "complete").touch()


if __name__ == "__main__":
    make(int(sys.argv[1]), Path(sys.argv[2]))
