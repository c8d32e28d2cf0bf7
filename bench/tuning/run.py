#!/usr/bin/env python3
"""What tuning gains: `heddle tune` for every model of `models/` at its paper's sizes, batch 1, random weights, in float32 and bfloat16. Each search ends
with the usual and the tuned library in turns; the table has those times, and the records of kernels that were found to be faster are written as text.

    ./dev bench tuning                                      all of it: an hour and more
    ./dev bench tuning --models bert vit --precisions f32   some of it
    ./dev bench tuning --budget 5m --again                  anew, and more thoroughly

Finished rows are kept in the cache, with a database of their own: what is interrupted goes on where it was."""

import argparse
import datetime
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]
from measure import ROOT, add_options, check_options, cpu_in_file_names, cpu_name, say  # noqa: E402

PRECISIONS = ("f32", "bf16")


@dataclass
class Model:
    what: str
    preset: str
    dims: dict


MODELS = {
    "transformer": Model("Transformer base, 40 tokens to 40", "base", {"K": 1, "S": 40, "T": 40, "P": 40}),
    "torch_transformer": Model("torch.nn.Transformer base, 128 to 128", "base", {"S": 128, "T": 128}),
    "multihead_attention": Model("torch.nn.MultiheadAttention(512, 8), 512 positions", "base", {"T": 512, "S": 512}),
    "restricted_attention": Model("Restricted attention base, 512 positions", "base", {"N": 512}),
    "decoder_lm": Model("GPT-2, 128 tokens", "small", {"T": 128, "P": 128}),
    "transformer_xl": Model("Transformer-XL wt103-base, segments of 32", "wt103-base", {"S": 32}),
    "vanilla_lm": Model("Vanilla LM t12, 512 characters", "t12", {"T": 512}),
    "seq2seq": Model("Seq2seq, 4 LSTM layers of 1000, 24 tokens to 24", "sutskever2014", {"S": 24, "T": 24}),
    "seq2seq_attention": Model("Seq2seq with attention (Luong), 24 tokens to 24", "luong2015", {"S": 24, "T": 24}),
    "bert": Model("BERT-base, 128 tokens", "base", {"S": 128}),
    "vit": Model("ViT-B/16, 224 x 224", "b16", {"YI": 224, "XI": 224}),
    "detr": Model("DETR-R50, 480 x 640", "r50", {"YI": 480, "XI": 640}),
    "setr": Model("SETR-PUP base, 768 x 768", "pup-base", {}),
}


def program(name):
    return [ROOT / "models" / name / f"{name}.heddle", "--config", MODELS[name].preset]


def make_weights(options, name):
    """Normal numbers, so that sums of products keep their size; made anew for each model, since all together are gigabytes."""
    tree = subprocess.run([options.heddle, "show", *program(name), "--stage", "tree"], check=True, capture_output=True, text=True).stdout
    random, file = np.random.default_rng(0), options.cache / "model.safetensors"
    weights = {}
    for stored, shape in re.findall(r'^weight \S+: .*? as "([^"]+)".* stored \[([\d, ]*)\]$', tree, re.MULTILINE):
        sizes = [int(size) for size in shape.split(",") if size.strip()]
        weights[stored] = random.standard_normal(sizes, np.float32) / np.float32(sizes[-1] if sizes else 1) ** 0.5
    save_file(weights, file)
    return file


def tune(options, name, weights, precision, threads):
    """What the search says of itself: the row of a table; none where it failed, which others need not wait for."""
    sizes = [option for dim, size in {"B": 1, **MODELS[name].dims}.items() for option in ("--dim", f"{dim}={size}")]
    done = subprocess.run([options.heddle, "tune", *program(name), "--weights", weights, "--precision", precision, *sizes, "--threads", str(threads),
                           "--budget", options.budget, "--db", options.cache / "tuning.db"], capture_output=True, text=True)  # fmt: skip
    if done.returncode:
        return say(f"{name}: heddle tune failed: {done.stderr}")
    measured, candidates = re.search(r": (\d+) of (\d+) candidates of ", done.stdout).groups()
    row = {"measured": int(measured), "candidates": int(candidates)}
    if compared := re.search(r": (\S+ \S+) before, (\S+ \S+) with what was measured \(([\d.]+)\), (not kept|kept)", done.stdout):
        before, after, ratio, kept = compared.groups()
        row |= {"before": before, "after": after, "ratio": float(ratio), "kept": kept == "kept"}
    return row


def cell(row):
    if not row:
        return "–"
    text = "="
    if "ratio" in row:
        text = f"{row['before']} / {row['after']}: {row['ratio']:.2f}"
        text = f"**{text}**" if row["ratio"] <= 0.985 else text
        text += "" if row["kept"] else ", not kept"
    share = row["measured"] / max(1, row["candidates"])
    return text + (f" ({100 * share:.0f} %)" if share < 0.995 else "")


def table(options, rows):
    columns = [(precision, threads) for precision in options.precisions for threads in options.threads]
    lines = ["| model | " + " | ".join(f"{precision}, {threads} thread{'s' if threads > 1 else ''}" for precision, threads in columns) + " |",
             "|---|" + "---|" * len(columns)]  # fmt: skip
    for name in options.models:
        cells = [cell(rows.get(f"{name} {precision} {threads}")) for precision, threads in columns]
        lines.append(f"| {MODELS[name].what} | " + " | ".join(cells) + " |")
    return lines


def write(options, rows):
    options.results.mkdir(parents=True, exist_ok=True)
    stem = f"{datetime.date.today().isoformat()}-{cpu_in_file_names()}-tuning"
    subprocess.run([options.heddle, "tune", "--db", options.cache / "tuning.db", "--export", options.results / f"{stem}.txt"], check=True)
    lines = [f"# What tuning gains, {datetime.date.today().isoformat()}", "",
             f"{cpu_name()}, {os.cpu_count()} CPUs; one call of every entry, batch 1, random weights: usual / tuned library in turns and their ratio; "
             f"behind it the share of the candidates that the search got to in {options.budget}, where that is not all. `=`: no kernel with a schedule "
             "3 % faster was found. Written by `./dev bench tuning`.", "", *table(options, rows), ""]  # fmt: skip
    (options.results / f"{stem}.md").write_text("\n".join(lines))
    return options.results / f"{stem}.md"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, "tuning")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=list(PRECISIONS))
    parser.add_argument("--budget", default="2m", help="of each search (default 2m)")
    parser.add_argument("--again", action="store_true", help="leave finished rows out of account; their records stay")
    options = parser.parse_args()
    check_options(options)
    kept = options.cache / "rows.json"
    rows = {} if options.again or not kept.exists() else json.loads(kept.read_text())
    for name in options.models:
        wanted = [(f"{name} {precision} {threads}", precision, threads) for threads in options.threads for precision in options.precisions]
        if not (missing := [row for row in wanted if row[0] not in rows]):
            continue
        weights = make_weights(options, name)
        for key, precision, threads in missing:
            if not (row := tune(options, name, weights, precision, threads)):
                continue
            rows[key] = row
            say(f"{key}: {cell(row)}")
            kept.write_text(json.dumps(rows, indent=1))
        weights.unlink()
    file = write(options, rows)
    print("\n".join(table(options, rows)))
    say(f"written to {file} and {file.with_suffix('.txt').name}")


if __name__ == "__main__":
    main()
