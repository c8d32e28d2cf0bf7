#!/usr/bin/env python3
"""Makes tests/models/goldens: small Hugging Face folders with inputs and what float32 PyTorch computes for them.

    python tests/models/make_goldens.py [FOLDER...]            (needs torch, transformers, safetensors; made with 2.15.0, 5.23.0, 0.8.0)

Each folder is what `save_pretrained` writes (config.json, model.safetensors) plus NAME.in.safetensors and
NAME.out.safetensors per call. Sizes are odd on purpose. Weights are random, from the seed in the list below, wide enough
that attention is far from uniform, and rounded to bfloat16's values (stored as float32) so that the files compress.
Inputs leave out what a caller may leave out; masks have holes, too."""

import json
import shutil
import sys
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file

HERE = Path(__file__).resolve().parent / "goldens"
BERT = dict(vocab_size=211, hidden_size=60, num_hidden_layers=2, num_attention_heads=5, intermediate_size=97,
            max_position_embeddings=64, attn_implementation="eager")
VIT = dict(hidden_size=60, num_hidden_layers=2, num_attention_heads=5, intermediate_size=97, image_size=30, patch_size=6,
           attn_implementation="eager")


def randomise(model, generator):
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        if "LayerNorm.weight" in name or "layernorm" in name and name.endswith("weight"):
            value = 1 + 0.2 * noise
        elif name.endswith("bias"):
            value = 0.1 * noise
        elif "embeddings" in name and "projection" not in name:
            value = noise
        else:
            value = noise * 1.3 / parameter[0].numel() ** 0.5
        parameter.data = value.to(torch.bfloat16).float()


def words(generator, batch, length, mask=None, types=False, dtype=torch.int64):
    inputs = {"input_ids": torch.randint(0, 211, (batch, length), generator=generator, dtype=dtype)}
    if mask == "padding":  # row b is b * length / (2 * batch) shorter than the first
        lengths = [length - b * length // (2 * batch) for b in range(batch)]
        inputs["attention_mask"] = torch.tensor([[int(s < n) for s in range(length)] for n in lengths], dtype=dtype)
    if mask == "holes":
        holes = torch.rand(batch, length, generator=generator) < 0.7
        holes[:, 0] = True
        inputs["attention_mask"] = holes.to(dtype)
    if types:
        inputs["token_type_ids"] = torch.tensor([[int(s > length // 3) for s in range(length)]] * batch, dtype=dtype)
    return inputs


def bert_calls(generator):
    yield "1x1", words(generator, 1, 1)
    yield "2x9", words(generator, 2, 9, types=True, dtype=torch.int32)
    yield "3x37", words(generator, 3, 37, mask="padding", types=True)
    yield "1x64", words(generator, 1, 64, mask="holes")


def vit_calls(generator):
    for batch in (1, 3):
        yield f"{batch}", {"pixel_values": torch.randn(batch, 3, 30, 30, generator=generator)}


def to_old_names(folder):
    """TensorFlow's names for the parameters of a norm, as in the first published checkpoints."""
    path = folder / "model.safetensors"
    tensors = load_file(path)
    for name in list(tensors):
        old = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
        tensors[old] = tensors.pop(name)
    save_file(tensors, path, metadata={"format": "pt"})


def to_bare_config(folder):
    """A config.json that says only what differs from the defaults, as hand-written ones do."""
    path = folder / "config.json"
    keep = {"architectures", "model_type", *BERT, "num_labels", "id2label", "hidden_act"}
    config = {key: value for key, value in json.loads(path.read_text()).items() if key in keep}
    path.write_text(json.dumps(config, indent=2) + "\n")


t = transformers
FOLDERS = [
    (0, "bert_model", t.BertModel, t.BertConfig(**BERT), bert_calls, None),
    (2, "bert_masked_lm", t.BertForMaskedLM, t.BertConfig(**BERT, hidden_act="relu", tie_word_embeddings=False), bert_calls, None),
    (3, "bert_pretraining", t.BertForPreTraining, t.BertConfig(**BERT, type_vocab_size=3), bert_calls, None),
    (4, "bert_classifier", t.BertForSequenceClassification, t.BertConfig(**BERT, num_labels=3, layer_norm_eps=1e-5,
                                                                         hidden_act="gelu_new"), bert_calls, to_old_names),
    (6, "bert_bare_config", t.BertForTokenClassification, t.BertConfig(**BERT, num_labels=7), bert_calls, to_bare_config),
    (7, "bert_answer", t.BertForQuestionAnswering, t.BertConfig(**BERT), bert_calls, None),
    (8, "vit_model", t.ViTModel, t.ViTConfig(**VIT), vit_calls, None),
    (9, "vit_classifier", t.ViTForImageClassification, t.ViTConfig(**VIT, num_labels=11, qkv_bias=False), vit_calls, None),
]


def main():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    for seed, name, architecture, config, calls, finish in FOLDERS:
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        generator = torch.Generator().manual_seed(seed)
        folder = HERE / name
        shutil.rmtree(folder, ignore_errors=True)
        model = architecture(config).eval()
        randomise(model, generator)
        if hasattr(model, "tie_weights"):
            model.tie_weights()
        model.save_pretrained(folder)
        if finish:
            finish(folder)
        for call, inputs in calls(generator):
            with torch.no_grad():
                given = {key: value.long() if not value.is_floating_point() else value for key, value in inputs.items()}
                outputs = {key: value.contiguous() for key, value in model(**given).items()}
            save_file(inputs, folder / f"{call}.in.safetensors")
            save_file(outputs, folder / f"{call}.out.safetensors")
        for path in folder.iterdir():
            path.chmod(0o644)
        size = sum(path.stat().st_size for path in folder.iterdir())
        print(f"{name:20} {size / 1e3:7.0f} kB   {', '.join(outputs)}   spread {max(float(v.std()) for v in outputs.values()):.2f}")


main()
