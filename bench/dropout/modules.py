"""The models that are trained with dropout, as PyTorch has them: of transformers, Transformer-XL of bench/text, the sequence to sequence
model of torch.nn.LSTM; a batch of each, and the loss of its training entry."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

import numpy as np
import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "text"))
import language_models  # noqa: E402

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()


@dataclass
class Case:
    settings: dict
    rates: tuple  # the settings that are rates of dropout
    batch: Callable  # of a random generator
    module: Callable  # of the settings and the file of the first weights
    loss: Callable  # of the module and a batch
    steps: int = 60


def from_transformers(kind):
    def module(settings, first):
        weights = {name: value.contiguous() for name, value in load_file(first).items()}
        folder = first.parent / "transformers"
        folder.mkdir(exist_ok=True)
        save_file(weights, folder / "model.safetensors", {"format": "pt"})
        (folder / "config.json").write_text(json.dumps(settings))
        return kind.from_pretrained(folder, attn_implementation="eager")

    return module


def own(kind):
    def module(settings, first):
        made = kind(settings)
        made.load_state_dict({name.removeprefix("transformer."): value for name, value in load_file(first).items()})
        return made

    return module


def words(random, below, *shape):
    return random.integers(5, below, shape).astype(np.int32)


def some(random, labels, share):
    return np.where(random.random(labels.shape) < share, labels, -100).astype(np.int32)


def asked(logits, labels):
    return F.cross_entropy(logits.flatten(0, -2), labels.flatten())


def bert_batch(random):
    ids = words(random, 200, 8, 24)
    return {"input_ids": ids, "labels": some(random, ids, 0.3), "next_sentence_label": random.integers(0, 2, 8).astype(np.int32)}


def gpt2_loss(model, batch):
    return asked(model(batch["input_ids"]).logits[:, :-1], batch["input_ids"][:, 1:])


class Reader(nn.Module):
    def __init__(self, vocabulary, width, inputs, units, layers, dropout):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.rnn = nn.LSTM(inputs, units, layers, batch_first=True, dropout=dropout)


class Attention(nn.Module):
    """Luong et al. 2015, `general`."""

    def __init__(self, units):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(units, units))
        self.combine = nn.Linear(2 * units, units, bias=False)

    def forward(self, h, memory, lengths):
        scores = ((memory @ self.weight.T) @ h[..., None])[..., 0]
        far = torch.arange(memory.shape[1])[None] >= lengths[:, None]
        context = scores.masked_fill(far, -torch.inf).softmax(1)[:, None] @ memory
        return torch.tanh(self.combine(torch.cat([context[:, 0], h], 1)))


class Seq2SeqAttention(nn.Module):
    """The output of each step is an input of the next."""

    def __init__(self, settings):
        super().__init__()
        width, self.units = settings["embedding_size"], settings["hidden_size"]
        more = (self.units, settings["num_layers"], settings["dropout"])
        self.encoder = Reader(settings["vocab_size"], width, width, *more)
        self.decoder = Reader(settings["decoder_vocab_size"], width, width + self.units, *more)
        self.attention = Attention(self.units)
        self.generator = nn.Linear(self.units, settings["decoder_vocab_size"])

    def forward(self, ids, lengths, target):
        packed = pack_padded_sequence(self.encoder.embedding(ids), lengths, batch_first=True, enforce_sorted=False)
        outputs, state = self.encoder.rnn(packed)
        memory = pad_packed_sequence(outputs, batch_first=True, total_length=ids.shape[1])[0]
        fed, out = torch.zeros(len(ids), self.units), []
        for step in range(target.shape[1]):
            x = torch.cat([self.decoder.embedding(target[:, step]), fed], 1)
            y, state = self.decoder.rnn(x[:, None], state)
            fed = self.attention(y[:, 0], memory, lengths)
            out.append(fed)
        return self.generator(torch.stack(out, 1))


def seq2seq_batch(random):
    target = words(random, 200, 8, 11)
    return {"input_ids": words(random, 200, 8, 12), "lengths": random.integers(6, 13, 8).astype(np.int32),
            "decoder_input_ids": np.ascontiguousarray(target[:, :-1]), "labels": some(random, target[:, 1:], 0.9)}  # fmt: skip


def language_batch(random):
    text = words(random, 200, 8, 25)
    return {"input_ids": np.ascontiguousarray(text[:, :-1]), "labels": np.ascontiguousarray(text[:, 1:])}


CASES = {
    "bert": Case({"model_type": "bert", "architectures": ["BertForPreTraining"], "vocab_size": 200, "hidden_size": 64, "num_hidden_layers": 2,
                  "num_attention_heads": 4, "intermediate_size": 256, "max_position_embeddings": 32},
                 ("hidden_dropout_prob", "attention_probs_dropout_prob"), bert_batch, from_transformers(transformers.BertForPreTraining),
                 lambda model, batch: model(**batch).loss),
    "gpt2": Case({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 200, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 32},
                 ("embd_pdrop", "resid_pdrop", "attn_pdrop"), lambda random: {"input_ids": words(random, 200, 8, 24)},
                 from_transformers(transformers.GPT2LMHeadModel), gpt2_loss),
    "transformer_xl": Case({"model_type": "transfo-xl", "saved_by": "authors", "vocab_size": 200, "d_model": 64, "d_embed": 64, "n_head": 4, "d_head": 16,
                            "d_inner": 256, "n_layer": 2, "cutoffs": [], "div_val": 1, "clamp_len": 0, "mem_len": 24, "same_length": False,
                            "pre_lnorm": True}, ("dropout", "dropatt"), language_batch, own(language_models.TransformerXL),
                           lambda model, batch: asked(model(batch["input_ids"]), batch["labels"])),
    "vit": Case({"model_type": "vit", "architectures": ["ViTForImageClassification"], "image_size": 32, "patch_size": 8, "hidden_size": 64,
                 "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 256,
                 "id2label": {str(i): f"thing {i}" for i in range(10)}, "label2id": {f"thing {i}": i for i in range(10)}},
                ("hidden_dropout_prob", "attention_probs_dropout_prob"),
                lambda random: {"pixel_values": random.standard_normal((16, 3, 32, 32), np.float32), "labels": random.integers(0, 10, 16).astype(np.int32)},
                from_transformers(transformers.ViTForImageClassification), lambda model, batch: asked(model(batch["pixel_values"]).logits, batch["labels"])),
    "seq2seq_attention": Case({"model_type": "seq2seq-attention", "vocab_size": 200, "decoder_vocab_size": 200, "embedding_size": 48, "hidden_size": 64,
                               "num_layers": 2, "alignment": "general", "input_feeding": True}, ("dropout",), seq2seq_batch, own(Seq2SeqAttention),
                              lambda model, batch: asked(model(batch["input_ids"], batch["lengths"], batch["decoder_input_ids"]), batch["labels"]), 240),
}  # fmt: skip
