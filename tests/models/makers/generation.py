#!/usr/bin/env python3
"""What transformers generates with the marian and gpt2 models under goldens/, in the generation.json of their folders: texts
and scores for several widths, penalties and lengths, phrases that must not come up, and sampling. Run it after the makers
of these folders."""

import json
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file
from transformer import interleaved
from transformers import MarianMTModel

GOLDENS = Path(__file__).resolve().parent.parent / "goldens"


def sources(generator, batch, length, padded):
    ids = torch.randint(1, 44, (batch, length), generator=generator)
    mask = torch.ones_like(ids)
    if padded:
        for b in range(1, batch):
            mask[b, length - b * length // batch :] = 0
        ids[mask == 0] = 45
    return ids, mask


def make(name, seed):
    generator = torch.Generator().manual_seed(seed)
    model = MarianMTModel.from_pretrained(GOLDENS / name).eval()
    saved = load_file(GOLDENS / name / "model.safetensors")
    positions = json.loads((GOLDENS / name / "config.json").read_text()).get("position_embedding_type")
    for side in ("encoder", "decoder"):  # positions of other kinds than transformers' own
        codes = getattr(model.model, side).embed_positions
        if positions == "interleaved":
            codes.weight.data = interleaved(codes.weight.shape)
        elif positions == "learned":
            codes.weight.data = saved[f"model.{side}.embed_positions.weight"]
    cases = []
    for number, (beams, penalty, stop) in enumerate(
        [(1, 1.0, False), (1, 1.0, False), (4, 1.0, False), (4, 0.5, False), (4, 2.0, False), (3, 0.0, True), (5, -0.5, "never"), (4, 1.0, False)]
    ):
        ids, mask = sources(generator, 1 + number % 3, 3 + 2 * number, number % 2 == 1)
        settings = dict(max_new_tokens=6 + number, num_beams=beams, do_sample=False, pad_token_id=45, decoder_start_token_id=45)
        if beams > 1:
            settings.update(length_penalty=penalty, early_stopping=stop)
        if number % 2:
            settings.update(bad_words_ids=[[45]])
        if number % 3 == 2:
            settings.update(min_new_tokens=4)
        with torch.no_grad():  # an end token that comes up half-way, so that texts end at different lengths
            free = model.generate(ids, attention_mask=mask, eos_token_id=None, **{k: v for k, v in settings.items() if k != "min_new_tokens"})
            settings.update(eos_token_id=int(free[0, free.shape[1] // 2]))
            if number >= 4:
                settings.update(forced_eos_token_id=settings["eos_token_id"])
            out = model.generate(ids, attention_mask=mask, return_dict_in_generate=True, output_scores=True, **settings)
        cases.append({
            "input_ids": ids.tolist(), "attention_mask": mask.tolist(), "steps": settings["max_new_tokens"],
            "options": {
                "beams": beams, "length_penalty": penalty, "early_stopping": stop, "min_steps": settings.get("min_new_tokens", 0),
                "tokens": {key: settings[key] for key in ("eos_token_id", "forced_eos_token_id") if key in settings}
                          | ({"bad_words_ids": 45} if number % 2 else {}),
            },
            "sequences": out.sequences.tolist(),
            "scores": [round(float(x), 5) for x in out.sequences_scores] if beams > 1 else None,
        })  # fmt: skip
    return cases


if __name__ == "__main__":
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    made = {name: make(name, seed) for seed, name in enumerate(("marian", "marian_two_vocabularies", "marian_untied"), 7)}
    lines = [json.dumps(name) + ": [\n" + ",\n".join(json.dumps(case) for case in cases) + "]" for name, cases in made.items()]
    (GOLDENS / "generation.json").write_text("{\n" + ",\n".join(lines) + "}\n")
