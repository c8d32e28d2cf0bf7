#!/usr/bin/env python3
"""The table of docs/deploying/cuda.md: threads, shared memory, registers and occupancy of products and attention of BERT-base,
ViT-B/16 and a step of GPT-2, with one layer, as `heddle show --stage launches` prints them with NVIDIA's assembler.

    HEDDLE_PTXAS=.../ptxas python3 bench/gpu/resources.py          # in a clone that is built; 40 s of CPU"""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODELS = {
    "BERT": ("bert/bert.heddle", "num_hidden_layers=1", "B=8", "S=128"),
    "ViT": ("vit/vit.heddle", "num_hidden_layers=1", "B=8"),
    "GPT-2": ("decoder_lm/decoder_lm.heddle", "n_layer=1", "B=1", "T=1", "P=950"),
}
PRECISIONS = ("f32", "tf32", "bf16", "int8")
LAUNCH = re.compile(r"    k\w+: \d+ blocks? of (\d+) threads?(?:, (\d+) bytes of shared memory)?, (\d+) registers?"
                    r"(?:, (\d+) bytes spilled)?; (\d+) at once, ([\d.]+) %")  # fmt: skip


def launches(target, model, precision):
    """Of each launch of a product or an attention: what it is, and six numbers."""
    path, layers, *dims = MODELS[model]
    words = [word for dim in dims for word in ("--dim", dim)]
    done = subprocess.run([ROOT / "build/bin/heddle", "show", ROOT / "models" / path, "--set", layers, "--target", f"cuda:{target}",
                           "--precision", precision, "--stage", "launches", *words], capture_output=True, text=True, check=True)  # fmt: skip
    kernel = None
    for line in done.stdout.splitlines():
        if found := re.match(r"  k\d+ (\w+), ([^:]*)", line):
            kernel = f"{found[1]}, {found[2]}" if found[1] in ("contraction", "convolution", "attention") else None
        elif kernel and (found := LAUNCH.match(line)):
            yield kernel, [float(number or 0) for number in found.groups()]


def span(numbers):
    least, most = min(numbers), max(numbers)
    return f"{least:,.0f}" if least == most else f"{least:,.0f} to {most:,.0f}"


def main():
    print("| | | of | threads | bytes of shared memory | registers | bytes spilled | blocks at once | of the warps, % |")
    print("|---|---|---|--:|--:|--:|--:|--:|--:|")
    for target in ("sm_80", "sm_90"):
        rows = {}
        for model in MODELS:
            for precision in PRECISIONS:
                for kernel, numbers in launches(target, model, precision):
                    models, all_numbers = rows.setdefault(kernel, ({}, []))
                    if precision not in models.setdefault(model, []):
                        models[model].append(precision)
                    all_numbers.append(numbers)
        for kernel, (models, numbers) in sorted(rows.items()):
            of = "; ".join(f"{model} {', '.join(precisions)}" for model, precisions in models.items())
            print(f"| `{target}` | {kernel} | {of} | " + " | ".join(map(span, zip(*numbers))) + " |")


if __name__ == "__main__":
    main()
