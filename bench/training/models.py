"""The models whose training steps are compared, as PyTorch has them: a module with random weights that is saved for Heddle's
library, a batch, and the loss of both. Nothing is dropped, so that both compute the same."""

import json
from dataclasses import dataclass
from typing import Callable

import numpy as np

RATE, WARM = 1e-4, 10  # Adam's


@dataclass
class Case:
    what: str
    model: Callable  # of transformers and the number of layers, or nothing for all of them
    batch: Callable  # of a random generator and the number of rows
    rows: int
    settings: dict  # of the model file
    betas: tuple = (0.9, 0.999)
    eps: float = 1e-8


def bert(t, layers):
    sizes = {} if layers is None else {"num_hidden_layers": layers}
    return t.BertForPreTraining(t.BertConfig(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, **sizes))


def bert_batch(random, rows, length=128):
    words = random.integers(1, 30522, (rows, length))
    labels = np.where(random.random((rows, length)) < 0.15, words, -100)
    labels[:, 0] = words[:, 0]
    return {"input_ids": words, "attention_mask": np.ones_like(words), "token_type_ids": np.zeros_like(words), "labels": labels,
            "next_sentence_label": random.integers(0, 2, rows)}  # fmt: skip


def gpt2(t, layers):
    sizes = {} if layers is None else {"n_layer": layers}
    return t.GPT2LMHeadModel(t.GPT2Config(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, **sizes))


def gpt2_batch(random, rows, length=256):
    return {"input_ids": random.integers(0, 50257, (rows, length))}


def transformer(t, layers):
    return t.MarianMTModel(t.MarianConfig(
        vocab_size=37000, d_model=512, encoder_layers=layers or 6, decoder_layers=layers or 6, encoder_attention_heads=8, decoder_attention_heads=8,
        encoder_ffn_dim=2048, decoder_ffn_dim=2048, activation_function="relu", scale_embedding=True, pad_token_id=36999, eos_token_id=0,
        decoder_start_token_id=36999, forced_eos_token_id=None, max_position_embeddings=512, dropout=0.0))  # fmt: skip


def transformer_batch(random, rows, length=40):
    words = {name: random.integers(0, 36999, (rows, length)) for name in ("input_ids", "decoder_input_ids", "labels")}
    return words | {"attention_mask": np.ones((rows, length), np.int64)}


def vit(t, layers):
    sizes = {} if layers is None else {"num_hidden_layers": layers}
    return t.ViTForImageClassification(t.ViTConfig(num_labels=1000, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, **sizes))


def vit_batch(random, rows):
    return {"pixel_values": random.standard_normal((rows, 3, 224, 224), np.float32), "labels": random.integers(0, 1000, rows)}


CASES = {
    "bert-base": Case("BERT-base, both losses, {} x 128", bert, bert_batch, 4, {"with_loss": True}),
    "bert-base-32": Case("BERT-base, both losses, {} x 128, logits for 32 words of a text", bert, bert_batch, 4,
                         {"with_loss": True, "max_predictions_per_seq": 32}),
    "gpt2": Case("GPT-2, {} x 256", gpt2, gpt2_batch, 1, {}),
    "transformer-base": Case("Transformer base, {} x 40 to 40", transformer, transformer_batch, 8,
                             {"dropout": 0.0, "label_smoothing": 0.1, "warmup_steps": WARM, "learning_rate": RATE * WARM}, (0.9, 0.98), 1e-9),
    "vit-b16": Case("ViT-B/16, {} images of 224 x 224", vit, vit_batch, 4, {}),
}  # fmt: skip


def loss_of(name, model, batch):
    """As the training entry of the model file has it."""
    import torch.nn.functional as F

    if name == "gpt2":
        logits = model(input_ids=batch["input_ids"], use_cache=False).logits
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), batch["input_ids"][:, 1:].flatten())
    if name == "transformer-base":
        inputs = {key: value for key, value in batch.items() if key != "labels"}
        logits = model(**inputs, use_cache=False).logits
        return F.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten(), label_smoothing=0.1)
    return model(**batch).loss


def rate(step):
    """Of a step, the first is 1: it rises, so that each has one of its own."""
    return RATE * step


def make(name, layers, rows, folder):
    """A folder with the model as PyTorch begins it, its settings for Heddle, and a batch."""
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.manual_seed(1)
    case = CASES[name]
    case.model(transformers, layers).save_pretrained(folder)
    config = folder / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | case.settings | {"training": True}, indent=2))
    np.savez(folder / "batch.npz", **case.batch(np.random.default_rng(1), rows))
