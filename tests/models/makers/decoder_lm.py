#!/usr/bin/env python3
"""Goldens of models/decoder_lm from the gpt2 models of transformers; see folder.py. One of them has learned to predict the
bytes of this repository's licence, and its perplexity.json says how well."""

import json
import math
from pathlib import Path

import torch
import transformers
from folder import Folder, randomise, rounded
from transformers import GPT2Config, GPT2LMHeadModel

SIZES = dict(vocab_size=61, n_positions=40, n_embd=24, n_layer=2, n_head=3, bos_token_id=0, eos_token_id=0,
             attn_implementation="eager")


def padding(batch, length, left):
    """1 at the tokens of each text, shorter from text to text, padded on one side."""
    lengths = [length - b * length // (2 * batch) for b in range(batch)]
    return torch.tensor([[int(t >= length - n if left else t < n) for t in range(length)] for n in lengths])


def learn(model, text, generator):
    torch.manual_seed(0)
    optimiser = torch.optim.Adam(model.parameters(), 4e-3)
    for _ in range(300):
        first = torch.randint(0, len(text) - 40, (24,), generator=generator)
        ids = torch.stack([text[i : i + 40] for i in first])
        optimiser.zero_grad()
        model(ids, labels=ids).loss.backward()
        optimiser.step()
    for parameter in model.parameters():
        parameter.data = rounded(parameter.data)


def perplexity(model, text, window, stride):
    """Each byte from those before it in windows that are `stride` apart and count with their last `stride` bytes."""
    total, done = 0.0, 1
    while done < len(text):
        end = min(max(done + stride, window if done == 1 else 0), len(text))
        part = text[max(0, end - window) : end]
        logs = model(part[None]).logits[0].double().log_softmax(1)
        total -= float(logs[:-1].gather(1, part[1:, None])[-(end - done) :].sum())
        done = end
    count = len(text) - 1
    return {"perplexity": math.exp(total / count), "bits per character": total / math.log(2) / len(text)}


def make(name, seed, learns=False, **settings):
    generator = torch.Generator().manual_seed(seed)
    model = GPT2LMHeadModel(GPT2Config(**{**SIZES, **settings})).eval()
    randomise(model, generator)
    model.transformer.wpe.weight.data *= 0.5
    model.tie_weights()
    folder = Folder(name)
    if learns:
        licence = Path(__file__).resolve().parents[3] / "LICENSE"
        text = torch.frombuffer(bytearray(licence.read_bytes()), dtype=torch.uint8).long()
        learn(model, text, generator)
        with torch.no_grad():
            values = perplexity(model, text, 40, 20)
        (folder.path / "perplexity.json").write_text(json.dumps({"text": "LICENSE", "window": 40, "stride": 20, **values}, indent=2) + "\n")
    model.save_pretrained(folder.path)
    (folder.path / "generation_config.json").unlink(missing_ok=True)
    for batch, length in ((1, 1), (2, 9), (3, 33)):
        ids = torch.randint(0, 61, (batch, length), generator=generator)
        inputs = {"input_ids": ids} | ({"attention_mask": padding(batch, length, left=False)} if batch == 3 else {})
        with torch.no_grad():
            folder.call(f"{batch}x{length}", inputs, {"logits": model(**inputs).logits})

    def text(batch, length):
        ids = torch.randint(0, 61, (batch, length), generator=generator)
        mask = padding(batch, length, left=False)
        logs = model(input_ids=ids, attention_mask=mask).logits.log_softmax(-1)
        given = torch.zeros(batch, length)
        given[:, 1:] = logs[:, :-1].gather(2, ids[:, 1:, None])[..., 0]
        return "log_probabilities", {"input_ids": ids, "attention_mask": mask}, {"log_probabilities": given * mask}

    def steps(batch, lengths, parents):
        """A prompt padded on the left, then new tokens; parents: of the rows before the last call."""
        mask, past = padding(batch, lengths[0], left=True), None
        for number, length in enumerate(lengths):
            ids = torch.randint(0, 61, (batch, length), generator=generator)
            inputs = {"input_ids": ids}
            if number == 0:
                inputs["attention_mask"] = mask
            else:
                mask = torch.cat([mask, torch.ones(batch, length, dtype=mask.dtype)], 1)
            if number == len(lengths) - 1 and parents is not None:
                yield "reorder", {"from": parents}, {}
                past.reorder_cache(parents)
                mask = mask[parents]
            places = (mask.cumsum(1) - 1).clamp(min=0)[:, -length:]
            done = model(input_ids=ids, attention_mask=mask, position_ids=places, past_key_values=past, use_cache=True)
            past = done.past_key_values
            yield "step", inputs, {"logits": done.logits[:, -1]}

    with torch.no_grad():
        folder.session("text", [text(2, 11)])
        folder.session("steps", list(steps(1, (5, 1, 3), None)))
        folder.session("beams", list(steps(3, (7, 1, 1, 1), torch.tensor([2, 0, 0]))))
    folder.report()


if __name__ == "__main__":
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    make("gpt2", 500)
    make("gpt2_untied", 501, learns=True, vocab_size=256, tie_word_embeddings=False, n_inner=31, activation_function="relu",
         scale_attn_by_inverse_layer_idx=True)
