#!/usr/bin/env python3
"""Draws the pictures of the pages here: the kernels of a model's main entry in the order in which they run, from the page
that `heddle show --html` writes. What repeats (layers) is drawn once.

    python docs/models/draw.py [MODEL...]          writes docs/models/pictures/MODEL.svg; run it when kernels change
    python docs/models/draw.py --check [MODEL...]  fails where a picture is not what would be drawn (a test runs it)"""

import os
import re
import subprocess
import sys
import tempfile
from html import escape, unescape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HEDDLE = os.environ.get("HEDDLE", str(ROOT / "build" / "bin" / "heddle"))
PICTURES = {  # model: its entry, and the settings to draw it with
    "bert": ("encode", ["--config", "base"]),
    "decoder_lm": ("step", ["--config", "small"]),
    "detr": ("detect", ["--config", "r50"]),
    "multihead_attention": ("forward", ["--config", "base", "--set", "need_weights=false"]),
    "restricted_attention": ("forward", []),
    "seq2seq": ("forward", ["--config", "sutskever2014"]),
    "seq2seq_attention": ("decode_step", ["--config", "luong2015"]),
    "setr": ("segment_pixels", ["--config", "pup-large"]),
    "torch_transformer": ("forward", ["--config", "base"]),
    "transformer": ("forward", ["--config", "base"]),
    "transformer_xl": ("forward", []),
    "vanilla_lm": ("forward", []),
    "vit": ("classify", ["--config", "b16"]),
}
LINE, LEFT, INDENT, WIDTH = 24, 14, 16, 760


def short_shape(shape):
    """With (Y + 3) // 4, the size of a picture's quarter, written Y/4, and (T + 1023) // 1024, one token of up to
    1024 if there is any, written min(T, 1): pictures are cut into less than 256 parts."""

    def rounded_up(at):
        if int(at[2]) + 1 != int(at[3]):
            return at[0]
        return f"{at[1]}/{at[3]}" if int(at[3]) < 256 else f"min({at[1]}, 1)"

    shape = re.sub(r"\((\w+) \+ (\d+)\) // (\d+)", rounded_up, shape)
    return shape if len(shape) < 46 else shape[:44] + "…"


class Line:
    """A kernel's call, or the head of a loop whose lines follow, indented."""

    def __init__(self, row):
        self.depth = sum(map(int, re.findall(r'<td style="padding-left:(\d+)px">', row))) // 16
        loop = re.search(r'<tr class="loop"><td></td><td[^>]*>([^<]*)', row)
        if loop:
            self.kind, self.colour, self.more, self.formula, self.shape = "loop", "#111", 0, "", ""
            self.definition = re.sub(r" \(.*", "", unescape(loop[1]))
            self.same = self.kind, self.definition
            return
        self.colour, self.kind = re.search(r'class="chip" style="background:(#\w+)" href="#k\d+" title="([^"]+)"', row).groups()
        self.definition = unescape(re.search(r"<b title[^>]*>([^<]*)</b>", row)[1])
        more = re.search(r"</b> <span[^>]*>\+ (\d+)</span>", row)
        self.more = int(more[1]) if more else 0
        self.formula = unescape(re.search(r'<br><code class="soft">([^<]*)</code>', row)[1])
        self.shape = short_shape(unescape(re.findall(r"<code>([^<]*)</code>", re.split(r"<td[^>]*>", row)[5])[0]))
        self.same = self.kind, re.sub(r"\d+", "#", self.definition), self.formula, self.shape  # of every layer


def kernels(model, entry, settings):
    with tempfile.TemporaryDirectory() as scratch:
        page = Path(scratch) / "page.html"
        done = subprocess.run([HEDDLE, "show", f"models/{model}/{model}.heddle", *settings, "--target", "x86-64-v4", "--html", page],
                              cwd=ROOT, capture_output=True, text=True)  # fmt: skip
        if done.returncode:
            sys.exit(done.stderr)
        text = page.read_text()
    section = re.search(rf">entry {entry}</h2>(.*?)(<h2|</body>)", text, re.S)[1]
    for row in re.findall(r'<tr><td class="n soft">\d+</td>.*?</tr>|<tr class="loop">.*?</tr>', section, re.S):
        yield Line(row)


def calls(row):
    return sum(line.kind != "loop" for line in row)


def groups(row):
    """(times, kernels) after each other: the longest stretch of equal blocks first, the shortest block of it."""
    done, at = [], 0
    while at < len(row):
        best = (1, 1)
        for size in range(1, (len(row) - at) // 2 + 1):
            block, times = [kernel.same for kernel in row[at : at + size]], 1
            while [kernel.same for kernel in row[at + size * times : at + size * (times + 1)]] == block:
                times += 1
            if times > 1 and size * times > best[0] * best[1]:
                best = (size, times)
        size, times = best
        if times == 1 and done and done[-1][0] == 1:
            done[-1][1].append(row[at])
        else:
            done.append((times, row[at : at + size]))
        at += size * times
    return done


def nested(row):
    """A block's kernels, with the blocks inside it."""
    for times, block in groups(row):
        yield times, (list(nested(block)) if times > 1 and any(t > 1 for t, _ in groups(block)) else block)


def draw(model, entry, row):
    out, y, deepest = [], 52, 0

    def put(kernel, depth):
        nonlocal y
        x = LEFT + (depth + kernel.depth) * INDENT
        short = ".".join(re.sub(r"\.\d+(?=\.)", "", kernel.definition).split(".")[-3:])
        more = f' <tspan fill="#777">+ {kernel.more}</tspan>' if kernel.more else ""
        out.append(f'<rect x="{x}" y="{y - 15}" width="104" height="19" rx="4" fill="{kernel.colour}"/>'
                   f'<text x="{x + 52}" y="{y - 1}" fill="#fff" text-anchor="middle">{escape(kernel.kind)}</text>'
                   f'<text x="{x + 114}" y="{y - 1}">{escape(short)}{more}</text>'
                   f'<text x="{WIDTH - 14}" y="{y - 1}" fill="#777" text-anchor="end">{escape(kernel.shape)}</text>')  # fmt: skip
        y += LINE

    def put_all(blocks, depth):
        nonlocal y, deepest
        deepest = max(deepest, depth)
        for times, block in blocks:
            inner, top = isinstance(block[0], tuple), y - 19
            if times > 1:
                y += 20
            if inner:
                put_all(block, depth + (times > 1))
            else:
                for kernel in block:
                    put(kernel, depth + (times > 1))
            if times > 1:
                x = LEFT + depth * INDENT - 6
                out.insert(0, f'<rect x="{x}" y="{top}" width="{WIDTH - 2 * x - 4}" height="{y - top - 14}" rx="6" fill="#000" fill-opacity="0.04"/>'
                           f'<text x="{x + 10}" y="{top + 15}" font-weight="bold">{times} times</text>')  # fmt: skip
                y += 8

    put_all(list(nested(row)), 0)
    head = (f'<text x="{LEFT}" y="24" font-weight="bold">{model}: {entry}</text><text x="{WIDTH - 14}" y="24" fill="#777" text-anchor="end">'
            f"{calls(row)} kernel calls; kind, last definition + others in it, result</text>")  # fmt: skip
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y}" font-family="sans-serif" font-size="12">'
            f'<rect width="100%" height="100%" fill="#fff"/>{head}\n' + "\n".join(out) + "\n</svg>\n")  # fmt: skip


def main():
    check, old = sys.argv[1:2] == ["--check"], []
    for model in sys.argv[2 if check else 1 :] or PICTURES:
        entry, settings = PICTURES[model]
        row = list(kernels(model, entry, settings))
        path, picture = ROOT / "docs" / "models" / "pictures" / f"{model}.svg", draw(model, entry, row)
        if not check:
            path.write_text(picture)
            print(f"{path.relative_to(ROOT)}: {calls(row)} kernel calls")
        elif path.read_text() != picture:
            old.append(model)
    if old:
        sys.exit(f"these pictures show kernels that are no longer so; draw them anew: python docs/models/draw.py {' '.join(old)}")


if __name__ == "__main__":
    main()
