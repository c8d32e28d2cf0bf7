#!/usr/bin/env python3
"""Goldens of what models/bert and models/vit compute beside the heads that transformers saves: BERT's loss and its mean over
the words, ViT on images of another size, and DeiT; see folder.py."""

import json

import torch
import transformers as t
from folder import Folder, randomise, rounded

BERT = dict(vocab_size=53, hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=31,
            max_position_embeddings=40, attn_implementation="eager")
VIT = dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=31, image_size=30, patch_size=6,
           attn_implementation="eager")


def saved(name, seed, model, **settings):
    """A folder that transformers saved, with settings of our own."""
    generator = torch.Generator().manual_seed(seed)
    randomise(model.eval(), generator)
    model.tie_weights()
    folder = Folder(name)
    model.save_pretrained(folder.path)
    config = folder.path / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), **settings}, indent=2) + "\n")
    return folder, generator


def words(generator, batch, length):
    lengths = torch.tensor([length - b * length // (2 * batch) for b in range(batch)])
    return {"input_ids": torch.randint(0, 53, (batch, length), generator=generator),
            "attention_mask": (torch.arange(length)[None] < lengths[:, None]).long()}


def loss():
    model = t.BertForPreTraining(t.BertConfig(**BERT))
    folder, generator = saved("bert_loss", 900, model, with_loss=True)
    for batch, length in ((1, 7), (3, 19)):
        inputs = words(generator, batch, length)
        labels = torch.randint(0, 53, (batch, length), generator=generator)
        labels[torch.rand(batch, length, generator=generator) < 0.6] = -100
        labels[0, 1] = 5
        inputs |= {"labels": labels, "next_sentence_label": torch.randint(0, 2, (batch,), generator=generator)}
        with torch.no_grad():
            folder.call(f"{batch}x{length}", inputs, {"loss": model(**inputs).loss})
    folder.report()


def next_sentence():
    model = t.BertForNextSentencePrediction(t.BertConfig(**BERT, hidden_act="silu"))
    folder, generator = saved("bert_next_sentence", 905, model)
    for batch, length in ((1, 3), (3, 19)):
        inputs = words(generator, batch, length)
        with torch.no_grad():
            folder.call(f"{batch}x{length}", inputs, {"logits": model(**inputs).logits})
    folder.report()


def embedding():
    model = t.BertModel(t.BertConfig(**BERT))
    folder, generator = saved("bert_mean", 901, model, pooling="mean")
    for batch, length in ((1, 1), (3, 19)):
        inputs = words(generator, batch, length)
        with torch.no_grad():
            x = model(**inputs).last_hidden_state
        mask = inputs["attention_mask"][..., None]
        folder.call(f"{batch}x{length}", inputs, {"sentence_embedding": (x * mask).sum(1) / mask.sum(1)})
    folder.report()


def images(folder, generator, model, sizes, results):
    for batch, height, width in sizes:
        pixels = rounded(torch.randn(batch, 3, height, width, generator=generator))
        with torch.no_grad():
            done = model(pixels, interpolate_pos_encoding=(height, width) != (30, 30))
        folder.call(f"{batch}x{height}x{width}", {"pixel_values": pixels}, {name: done[name] for name in results})
    folder.report()


def vision():
    any_size = [(1, 30, 30), (2, 44, 19), (3, 13, 66)]
    model = t.ViTForImageClassification(t.ViTConfig(**VIT, num_labels=7))
    images(*saved("vit_any_size", 902, model, any_size=True), model, any_size, ["logits"])
    model = t.DeiTForImageClassificationWithTeacher(t.DeiTConfig(**VIT, num_labels=7))
    images(*saved("deit_teacher", 903, model), model, [(1, 30, 30), (2, 30, 30)], ["logits", "cls_logits", "distillation_logits"])
    model = t.DeiTModel(t.DeiTConfig(**VIT))
    images(*saved("deit_model", 904, model, any_size=True), model, [(1, 42, 36), (2, 30, 30)], ["last_hidden_state", "pooler_output"])


if __name__ == "__main__":
    torch.set_num_threads(1)
    t.logging.set_verbosity_error()
    t.logging.disable_progress_bar()
    loss()
    embedding()
    next_sentence()
    vision()
