#!/usr/bin/env python3
"""Finds objects in a picture with a DETR (DetrForObjectDetection) as Hugging Face saves it, and draws their boxes.

    python examples/detection/detect.py path/to/detr-resnet-50 street.jpg -o found.png

The folder is compiled the first time, to --library. A line per object says what it is, how sure the model is, and where: left, top, right
and bottom in pixels. Pictures are resized and normalised as the folder's preprocessor_config.json says."""

import argparse
import json
import sys
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import compiled  # noqa: E402

COLOURS = ["#d62828", "#1d6fb8", "#2a7f3f", "#a3570a", "#7c3aed", "#0e7f93"]


def resized(picture, size):
    """So that the short edge has size["shortest_edge"] pixels, but the long one no more than size["longest_edge"]."""
    short, long = sorted(picture.size)
    scale = min(size["shortest_edge"] / short, size["longest_edge"] / long)
    return picture.resize([max(1, round(edge * scale)) for edge in picture.size], Image.Resampling.BILINEAR)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    compiled.add_options(parser)
    parser.add_argument("picture", type=Path)
    parser.add_argument("-o", "--output", type=Path, default=Path("found.png"), help="the picture with boxes")
    parser.add_argument("--threshold", type=float, default=0.7, help="least probability of an object")
    options = parser.parse_args()
    model = compiled.load(options)
    try:
        picture = Image.open(options.picture).convert("RGB")
    except OSError as error:
        sys.exit(f"error: {options.picture}: {error.strerror or 'is no picture'}")
    config = json.loads((options.folder / "config.json").read_text())
    settings = options.folder / "preprocessor_config.json"
    settings = json.loads(settings.read_text()) if settings.exists() else {}
    small = resized(picture, settings.get("size", {"shortest_edge": 800, "longest_edge": 1333}))
    pixels = np.asarray(small, np.float32) / 255
    pixels = (pixels - settings.get("image_mean", [0.485, 0.456, 0.406])) / settings.get("image_std", [0.229, 0.224, 0.225])
    results = model.session().run({"pixel_values": pixels.transpose(2, 0, 1)[None].astype(np.float32)})

    shares = np.exp(results["logits"][0] - results["logits"][0].max(-1, keepdims=True))
    shares = (shares / shares.sum(-1, keepdims=True))[:, :-1]  # the last class: no object
    draw = ImageDraw.Draw(picture)
    for query in np.argsort(-shares.max(-1)):
        number, share = int(shares[query].argmax()), float(shares[query].max())
        if share < options.threshold:
            break
        x, y, width, height = results["pred_boxes"][0, query] * np.tile(picture.size, 2)
        box = [float(x - width / 2), float(y - height / 2), float(x + width / 2), float(y + height / 2)]
        name = config.get("id2label", {}).get(str(number), f"LABEL_{number}")
        print(f"{name} {share:.3f} {' '.join(f'{edge:.1f}' for edge in box)}")
        colour = COLOURS[number % len(COLOURS)]
        draw.rectangle(box, outline=colour, width=3)
        draw.text((box[0] + 5, box[1] + 3), f"{name} {share:.0%}", fill=colour)
    picture.save(options.output)


if __name__ == "__main__":
    main()
