#!/usr/bin/env python3
"""Goldens of models/transformer from the marian models of transformers, and from its pegasus models, which differ by
norms in front of the layers; see folder.py."""

import json

import torch
import transformers
from folder import Folder, randomise
from safetensors.torch import load_file
from transformers import MarianConfig, MarianMTModel, PegasusConfig, PegasusForConditionalGeneration

SIZES = dict(vocab_size=53, d_model=24, encoder_layers=2, decoder_layers=2, encoder_attention_heads=3, decoder_attention_heads=4,
             encoder_ffn_dim=29, decoder_ffn_dim=31, max_position_embeddings=48, pad_token_id=45, eos_token_id=0,
             decoder_start_token_id=45, forced_eos_token_id=None, attn_implementation="eager")


def words(generator, batch, source, target, padded, table=53, own=53):
    inputs = {"input_ids": torch.randint(1, table - 1, (batch, source), generator=generator),
              "decoder_input_ids": torch.randint(0, own, (batch, target), generator=generator)}
    if padded:
        lengths = [source - b * source // (2 * batch) for b in range(batch)]
        inputs["attention_mask"] = torch.tensor([[int(s < n) for s in range(source)] for n in lengths])
    return inputs


def hypotheses(model, generator, own):
    """Two texts, three hypotheses of each, token by token; the third call follows a change of order."""
    source = words(generator, 2, 7, 1, True)
    del source["decoder_input_ids"]
    yield "encode", source, {}
    rows = {name: value.repeat_interleave(3, 0) for name, value in source.items()}
    history = torch.zeros(2, 3, 0, dtype=torch.long)
    for number in range(4):
        if number == 2:
            order = torch.tensor([[1, 1, 0], [2, 0, 1]])
            yield "reorder", {"from": order}, {}
            history = history.gather(1, order[..., None].expand_as(history))
        tokens = torch.randint(0, own, (2, 3), generator=generator)
        history = torch.cat([history, tokens[..., None]], 2)
        logits = model(**rows, decoder_input_ids=history.reshape(6, -1)).logits[:, -1]
        yield "decode_step", {"decoder_input_ids": tokens}, {"logits": logits.reshape(2, 3, -1)}


def interleaved(shape):
    n, d = torch.arange(shape[0])[:, None].double(), torch.arange(shape[1])[None].double()
    angle = n / 10000 ** ((d - d % 2) / shape[1])
    return torch.where(d % 2 == 0, angle.sin(), angle.cos()).float()


def make(name, seed, kinds=(MarianMTModel, MarianConfig), positions="half-split", config={}, **settings):
    generator = torch.Generator().manual_seed(seed)
    model = kinds[0](kinds[1](**SIZES, **settings)).eval()
    randomise(model, generator)
    saved = {}
    for side in ("encoder", "decoder"):  # static codes are no weights: put them back
        codes = getattr(model.model, side).embed_positions
        if positions == "learned":
            saved[f"model.{side}.embed_positions.weight"] = codes.weight.data
        else:
            codes.weight.data = interleaved(codes.weight.shape) if positions == "interleaved" else codes.create_weight()
    model.tie_weights()
    model.final_logits_bias.copy_(torch.randn(model.final_logits_bias.shape, generator=generator) * 0.5)
    folder = Folder(name)
    model.save_pretrained(folder.path)
    (folder.path / "generation_config.json").unlink(missing_ok=True)
    if saved:
        folder.weights(load_file(folder.path / "model.safetensors") | saved)
    if config:
        path = folder.path / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **config}, indent=2) + "\n")
    own = settings.get("decoder_vocab_size", 53)
    with torch.no_grad():
        for batch, source, target, padded in ((1, 1, 1, False), (2, 9, 5, False), (3, 17, 23, True), (1, 48, 3, True)):
            inputs = words(generator, batch, source, target, padded, own=own)
            folder.call(f"{batch}x{source}x{target}", inputs, {"logits": model(**inputs).logits})
        folder.session("hypotheses", list(hypotheses(model, generator, own)))
        inputs = words(generator, 2, 11, 8, True, own=own)
        inputs["decoder_attention_mask"] = torch.tensor([[1] * 8, [1] * 5 + [0] * 3])
        folder.call("2x11x8", inputs, {"logits": model(**inputs).logits})
    folder.report()


if __name__ == "__main__":
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    make("marian", 100, scale_embedding=True, activation_function="swish")
    make("marian_two_vocabularies", 101, share_encoder_decoder_embeddings=False, decoder_vocab_size=47, activation_function="relu",
         positions="interleaved", config={"position_embedding_type": "interleaved"})
    make("marian_untied", 102, tie_word_embeddings=False, positions="learned", config={"position_embedding_type": "learned"})
    make("transformer_pre_norm", 103, (PegasusForConditionalGeneration, PegasusConfig), scale_embedding=True,
         activation_function="relu", config={"model_type": "transformer", "normalize_before": True})
