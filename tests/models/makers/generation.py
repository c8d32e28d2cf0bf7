#!/usr/bin/env python3
"""What transformers generates with the marian and gpt2 models under goldens/, in the generation.json of their folders: texts
and scores for several widths, penalties and lengths, phrases that must not come up, and sampling, for which
transformers is given the random numbers of docs/generation.md. Run it after the makers of these folders."""

import json
import sys
from pathlib import Path
from unittest import mock

import torch
import transformers
from safetensors.torch import load_file
from transformer import interleaved
from transformers import GPT2LMHeadModel, MarianMTModel

GOLDENS = Path(__file__).resolve().parent.parent / "goldens"
CASES = [  # beams, length penalty, early stopping, sampling
    (1, 1.0, False, None), (1, 1.0, False, None), (4, 1.0, False, None), (4, 0.5, False, None), (4, 2.0, False, None),
    (3, 0.0, True, None), (5, -0.5, "never", None), (4, 1.0, False, None), (1, 1.0, False, dict(temperature=0.7, seed=3)),
    (1, 1.0, False, dict(top_k=5, seed=2**40 + 1)), (1, 1.0, False, dict(top_p=0.8, temperature=1.3, top_k=20, seed=11)),
]  # fmt: skip


def sources(generator, batch, length, padded, left):
    ids = torch.randint(1, 44, (batch, length), generator=generator)
    mask = torch.ones_like(ids)
    if padded:
        for b in range(1, batch):
            missing = b * length // batch
            mask[b, slice(missing) if left else slice(length - missing, None)] = 0
        ids[mask == 0] = 45
    return ids, mask


def philox(key, counter):
    """Philox4x32-10, from its definition: the first word."""
    x, k0, k1 = list(counter), key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        a, b = 0xD2511F53 * x[0], 0xCD9E8D57 * x[2]
        x = [b >> 32 ^ x[1] ^ k0, b & 0xFFFFFFFF, a >> 32 ^ x[3] ^ k1, a & 0xFFFFFFFF]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return x[0]


class Drawing:
    """In place of torch.multinomial: the token at which the sum of the probabilities passes the random number."""

    def __init__(self, seed):
        self.seed, self.step = seed, 0

    def __call__(self, probabilities, num_samples):
        numbers = torch.tensor([philox(self.seed, (self.step, row, 0, 0)) / 2**32 for row in range(len(probabilities))])
        sums = probabilities.double().cumsum(1)
        self.step += 1
        return (sums <= numbers[:, None] * sums[:, -1:]).sum(1, keepdim=True)


def marian(name):
    model = MarianMTModel.from_pretrained(GOLDENS / name).eval()
    saved = load_file(GOLDENS / name / "model.safetensors")
    positions = json.loads((GOLDENS / name / "config.json").read_text()).get("position_embedding_type")
    for side in ("encoder", "decoder"):  # positions of other kinds than transformers' own
        codes = getattr(model.model, side).embed_positions
        if positions == "interleaved":
            codes.weight.data = interleaved(codes.weight.shape)
        elif positions == "learned":
            codes.weight.data = saved[f"model.{side}.embed_positions.weight"]
    return model


def make(name, seed, model, numbers=range(len(CASES))):
    generator = torch.Generator().manual_seed(seed)
    encodes = isinstance(model, MarianMTModel)
    cases = []
    for number in numbers:
        beams, penalty, stop, sampling = CASES[number]
        ids, mask = sources(generator, 1 + number % 3, 3 + 2 * number, number % 2 == 1, left=not encodes)
        settings = dict(max_new_tokens=6 + number, num_beams=beams, do_sample=False, pad_token_id=45)
        if encodes:
            settings.update(decoder_start_token_id=45)
        if beams > 1:
            settings.update(length_penalty=penalty, early_stopping=stop)
        if number % 3 == 2:
            settings.update(min_new_tokens=4)
        with torch.no_grad():  # an end token that comes up half-way, so that texts end at different lengths
            free = model.generate(ids, attention_mask=mask, eos_token_id=None, **{k: v for k, v in settings.items() if k != "min_new_tokens"})
            new = free[:, 1 if encodes else ids.shape[1] :]
            settings.update(eos_token_id=int(new[0, new.shape[1] // 2]))
            tokens = {} if encodes else {"pad_token_id": 45}  # config.json tells it to marian models
            if number % 2:  # a word, and two phrases that would come up
                phrases = [new[-1, 1:3].tolist(), new[0, :3].tolist()]
                settings.update(bad_words_ids=[[45], *phrases])
                tokens |= {"bad_words_ids": 45} | {f"bad_words_ids.{i}": phrase for i, phrase in enumerate(phrases)}
            if number >= 4:
                settings.update(forced_eos_token_id=settings["eos_token_id"])
            if sampling:
                settings.update(do_sample=True, **{"top_k": 0} | {key: value for key, value in sampling.items() if key != "seed"})
            with mock.patch("torch.multinomial", Drawing(sampling["seed"] if sampling else 0)):
                out = model.generate(ids, attention_mask=mask, return_dict_in_generate=True, output_scores=True, **settings)
        cases.append({
            "input_ids": ids.tolist(), "attention_mask": mask.tolist(), "steps": settings["max_new_tokens"],
            "options": {
                "beams": beams, "length_penalty": penalty, "early_stopping": stop, "min_steps": settings.get("min_new_tokens", 0),
                "tokens": {key: settings[key] for key in ("eos_token_id", "forced_eos_token_id") if key in settings} | tokens,
            } | ({"sample": True, **sampling} if sampling else {}),
            "sequences": out.sequences.tolist(),
            "scores": [round(float(x), 5) for x in out.sequences_scores] if beams > 1 else None,
        })  # fmt: skip
    (GOLDENS / name / "generation.json").write_text("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    for seed, name in enumerate(("marian", "marian_two_vocabularies", "marian_untied", "gpt2"), 7):
        if name in (sys.argv[1:] or [name]):
            make(name, seed, GPT2LMHeadModel.from_pretrained(GOLDENS / name).eval() if name == "gpt2" else marian(name))
