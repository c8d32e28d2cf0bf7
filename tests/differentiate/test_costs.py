#!/usr/bin/env python3
"""What a way back costs at the papers' sizes, as `heddle show` says it: at most 2.1 times the multiply-adds of the way there."""

import os
import re
import subprocess
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HEDDLE = os.environ.get("HEDDLE", str(ROOT / "build" / "bin" / "heddle"))
FORM = re.compile(r"^cost of entry (\w+): (\S+) multiply-adds forward, (\S+) backward, ratio (\S+), at (.*)$", re.MULTILINE)
MODELS = [
    ("bert", "base", "--set", 'architectures=["BertForPreTraining"]', "--dim", "S=128"),
    ("decoder_lm", "small", "--dim", "T=256"),
    ("transformer", "base"),
    ("torch_transformer", "base"),
    ("vit", "b16"),
    ("transformer_xl", "enwik8-12", "--dim", "S=512"),
    ("transformer_xl", "wt103-base", "--dim", "S=150"),
    ("vanilla_lm", "t12", "--dim", "T=512"),
    ("seq2seq", "sutskever2014"),
    ("seq2seq_attention", "bahdanau2014"),
    ("seq2seq_attention", "luong2015"),
    ("setr", "naive-base"),
    ("setr", "pup-base"),
    ("setr", "mla-base"),
    ("detr", "r50"),
    ("detr", "dc5"),
]


def costs(model, preset, *words, training="true"):
    """Of each entry that has gradients: its name, multiply-adds there and back, their ratio, sizes."""
    words = ("show", f"models/{model}/{model}.heddle", "--config", preset, "--set", f"training={training}", "--stage", "tree", *words)
    done = subprocess.run([HEDDLE, *words], cwd=ROOT, capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise AssertionError(done.stderr)
    return [(name, float(there), float(back), float(ratio), at) for name, there, back, ratio, at in FORM.findall(done.stdout)]


class Costs(unittest.TestCase):
    def test_every_model_that_is_trained_is_looked_at(self):
        trained = {path.parent.name for path in (ROOT / "models").glob("*/*.heddle") if 'TRAIN "training"' in path.read_text()}
        self.assertEqual({model for model, *_ in MODELS}, trained)

    def test_a_way_back_takes_twice_the_way_there(self):
        for model, preset, *words in MODELS:
            with self.subTest(f"{model} {preset}"):
                ((name, there, back, ratio, _),) = costs(model, preset, *words)
                self.assertEqual(name, "train")
                self.assertAlmostEqual(back / there, ratio, delta=2e-3)
                self.assertGreater(ratio, 1)  # a part of the products only would not do
                self.assertLessEqual(ratio, 2.1)

    def test_the_sizes_are_those_asked_for(self):
        ((_, one, _, _, at),) = costs("vanilla_lm", "t12", "--dim", "B=1", "--dim", "T=32")
        ((_, two, _, _, _),) = costs("vanilla_lm", "t12", "--dim", "B=2", "--dim", "T=32")
        self.assertEqual(at, "B=1 T=32")
        self.assertAlmostEqual(two / one, 2, delta=2e-3)

    def test_without_gradients_nothing_is_said(self):
        self.assertEqual(costs("vanilla_lm", "t12", training="false"), [])


if __name__ == "__main__":
    unittest.main()
