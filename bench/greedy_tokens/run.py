#!/usr/bin/env python3
"""How long greedy texts stay the same in bf16 and int8 as in f32: Heddle's precisions against its f32, PyTorch's bf16 against its own,
on GPT-2 and the Transformer base (marian) of their true sizes with random weights. In such weights the best words are close to each
other, so that little is needed to choose another one; from the first other word on texts have nothing in common.

    ./dev bench greedy-tokens                       both models, five seeds; some 10 minutes
    ./dev bench greedy-tokens --models gpt2 --seeds 1 2

Weights and prompts follow from the seed. Needs torch and transformers in the environment (--venv, else the peers')."""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from safetensors.numpy import load_file

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "peers")]

MODELS = {"gpt2": "gpt2-greedy", "transformer": "transformer-greedy"}  # maker in ../peers/modules.py
PRECISIONS = ("f32", "bf16", "int8")


def texts_of_pytorch(name, seed, steps, folder):
    """Makes the folder; the greedy words of f32 and bf16, without the prompt's."""
    import torch
    import transformers
    from modules import MAKERS
    from safetensors.torch import save_file

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.manual_seed(seed)
    model, inputs, _ = MAKERS[MODELS[name]](1)
    model = model.eval()
    model.save_pretrained(folder)
    save_file(inputs, folder / "inputs.safetensors")
    out = {}
    for precision, type in (("f32", torch.float32), ("bf16", torch.bfloat16)):
        with torch.inference_mode():
            words = model.to(type).generate(**inputs, max_new_tokens=steps, min_new_tokens=steps, do_sample=False, num_beams=1)
        out[precision] = words[0, -steps:].tolist()
    return out


def text_of_heddle(heddle, folder, precision, steps, scratch):
    library, result = scratch / "library", scratch / "text.safetensors"
    subprocess.run([heddle, "compile", folder, "--precision", precision, "-o", library], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([heddle, "generate", library, "--in", folder / "inputs.safetensors", "--out", result, "--steps", str(steps),
                    "--min-steps", str(steps)], check=True)  # fmt: skip
    return load_file(result)["sequences"][0, -steps:].tolist()


def equal_steps(words, exact):
    """The words before the first that differs."""
    return next((i for i, (a, b) in enumerate(zip(words, exact)) if a != b), len(exact))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--heddle", type=Path, required=True, help="the command")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3, 4, 5])
    parser.add_argument("--steps", type=int, default=32, help="words of a text")
    parser.add_argument("--venv", type=Path, default=HERE.parents[1] / ".cache" / "peers-venv", help="an environment with torch and transformers")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.inside:
        from measure import environment_python

        os.execv(python := str(environment_python(options.venv)), [python, str(HERE / "run.py"), *sys.argv[1:], "--inside"])
    print("| model | seed | different words | PyTorch bf16 | Heddle f32 as PyTorch's | Heddle bf16 | Heddle int8 |\n|---|---|---|---|---|---|---|",
          flush=True)
    for name in options.models:
        for seed in options.seeds:
            with tempfile.TemporaryDirectory() as scratch:
                folder = Path(scratch) / "model"
                folder.mkdir()
                peer = texts_of_pytorch(name, seed, options.steps, folder)
                ours = {p: text_of_heddle(options.heddle, folder, p, options.steps, Path(scratch)) for p in PRECISIONS}
            print(f"| {name} | {seed} | {len(set(ours['f32']))} | {equal_steps(peer['bf16'], peer['f32'])} | "
                  f"{equal_steps(ours['f32'], peer['f32'])} | " + " | ".join(str(equal_steps(ours[p], ours["f32"])) for p in PRECISIONS[1:])
                  + " |", flush=True)


if __name__ == "__main__":
    main()
