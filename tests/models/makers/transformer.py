#!/usr/bin/env python3
"""Goldens of models/transformer from the marian models of transformers; see folder.py."""

import torch
import transformers
from folder import Folder, randomise
from transformers import MarianConfig, MarianMTModel

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


def make(name, seed, **settings):
    generator = torch.Generator().manual_seed(seed)
    model = MarianMTModel(MarianConfig(**SIZES, **settings)).eval()
    randomise(model, generator)
    for side in (model.model.encoder, model.model.decoder):  # the static codes are no weights: put them back
        side.embed_positions.weight.data = side.embed_positions.create_weight()
    model.tie_weights()
    model.final_logits_bias.copy_(torch.randn(model.final_logits_bias.shape, generator=generator) * 0.5)
    folder = Folder(name)
    model.save_pretrained(folder.path)
    (folder.path / "generation_config.json").unlink(missing_ok=True)
    own = settings.get("decoder_vocab_size", 53)
    for batch, source, target, padded in ((1, 1, 1, False), (2, 9, 5, False), (3, 17, 23, True), (1, 48, 3, True)):
        inputs = words(generator, batch, source, target, padded, own=own)
        with torch.no_grad():
            folder.call(f"{batch}x{source}x{target}", inputs, {"logits": model(**inputs).logits})
    folder.report()


if __name__ == "__main__":
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    make("marian", 100, scale_embedding=True, activation_function="swish")
    make("marian_two_vocabularies", 101, share_encoder_decoder_embeddings=False, decoder_vocab_size=47, activation_function="relu")
    make("marian_untied", 102, tie_word_embeddings=False)
