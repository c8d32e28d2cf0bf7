"""Draws how much longer the fastest peer takes than Heddle: `plot.py FILE.svg`, with [model, batch, threads, precision, ratio]
of each bar as JSON on the standard input. Runs in the peers' environment."""

import json
import sys

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "heddle"  # the same picture for the same numbers
from matplotlib import pyplot  # noqa: E402

COLOURS = {"f32": "#4477aa", "bf16": "#ee9944", "int8": "#228855"}


def draw(bars, path):
    panels = sorted({(batch, threads) for _, batch, threads, _, _ in bars})
    models = list(dict.fromkeys(name for name, *_ in bars))
    figure, axes = pyplot.subplots(1, len(panels), sharey=True, squeeze=False, figsize=(2 + 3.2 * len(panels), 1.2 + 0.5 * len(models)))
    for axis, (batch, threads) in zip(axes[0], panels):
        for row, name in enumerate(models):
            for place, (precision, colour) in enumerate(COLOURS.items()):
                for ratio in [r for n, b, t, p, r in bars if (n, b, t, p) == (name, batch, threads, precision)]:
                    axis.barh(row + 0.27 * (place - 1), ratio, 0.25, color=colour)
                    axis.text(ratio, row + 0.27 * (place - 1), f" {ratio:.2f}", va="center", fontsize=7)
        axis.axvline(1, color="black", linewidth=0.8)
        axis.set_title(f"batch {batch}, {threads} thread{'s' if threads > 1 else ''}", fontsize=9)
        axis.set_xscale("log")
        axis.set_xticks([0.5, 1, 2, 4, 8], ["0.5", "1", "2", "4", "8"])
        axis.minorticks_off()
    axes[0][0].set_yticks(range(len(models)), models)
    axes[0][0].invert_yaxis()
    figure.suptitle("time of the fastest peer in units of Heddle's, same precision", fontsize=10)
    figure.legend(handles=[pyplot.Rectangle((0, 0), 1, 1, color=colour, label=name) for name, colour in COLOURS.items()], loc="lower right", ncols=3)
    figure.tight_layout(rect=(0, 0.06, 1, 1))
    figure.savefig(path, metadata={"Date": None})


draw(json.load(sys.stdin), sys.argv[1])
