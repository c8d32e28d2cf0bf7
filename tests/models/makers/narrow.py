#!/usr/bin/env python3
"""Goldens of models whose weights are stored as bfloat16 (`dtype` in config.json): a BERT and a GPT-2. Beside what float32
computes from these weights (NAME.out) stands what transformers itself computes in bfloat16 (NAME.bf16, as float32
numbers): how far that is from float32 is what bfloat16 costs; see test_narrow_goldens.py and folder.py."""

import torch
import transformers
from folder import Folder, randomise
from safetensors.torch import save_file
from transformers import BertConfig, BertModel, GPT2Config, GPT2LMHeadModel


def make(name, seed, model, most):
    generator = torch.Generator().manual_seed(seed)
    model = model.eval()
    randomise(model, generator)
    model.tie_weights()
    folder = Folder(name)
    model.to(torch.bfloat16).save_pretrained(folder.path)
    (folder.path / "generation_config.json").unlink(missing_ok=True)
    for batch, length in ((1, 1), (2, 9), (3, most)):
        ids = torch.randint(0, 61, (batch, length), generator=generator)
        lengths = [length - b * length // (2 * batch) for b in range(batch)]
        mask = torch.tensor([[int(t < n) for t in range(length)] for n in lengths])
        inputs = {"input_ids": ids, "attention_mask": mask}
        results = []
        for dtype in (torch.float32, torch.bfloat16):
            with torch.no_grad():
                results.append({key: value.float().contiguous() for key, value in model.to(dtype)(**inputs, **extra(model)).items()})
        folder.call(f"{batch}x{length}", inputs, results[0])
        save_file(results[1], folder.path / f"{batch}x{length}.bf16.safetensors")
    folder.report()


def extra(model):
    return {"use_cache": False} if isinstance(model, GPT2LMHeadModel) else {}


if __name__ == "__main__":
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    make("bert_bfloat16", 700, BertModel(BertConfig(vocab_size=61, hidden_size=60, num_hidden_layers=2, num_attention_heads=5,
                                                     intermediate_size=97, max_position_embeddings=64, attn_implementation="eager")), 37)
    make("gpt2_bfloat16", 701, GPT2LMHeadModel(GPT2Config(vocab_size=61, n_positions=40, n_embd=24, n_layer=2, n_head=3, bos_token_id=0,
                                                           eos_token_id=0, attn_implementation="eager")), 33)
