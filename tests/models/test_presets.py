#!/usr/bin/env python3
"""The sizes of the papers, models/NAME/presets/PRESET.json: each checks without weights and without a warning, and has as many
numbers as its source says. An exact count is that of the published weights (Hugging Face, timm) or of PyTorch's modules;
a rounded one is the paper's, and the tolerance is that of its last digit, or what its table leaves out is named."""

import json
import re
import subprocess
import unittest

from heddle_command import HEDDLE, ROOT


def recurrent(gates, inputs, units):
    """Numbers of a layer of torch.nn.LSTM (4 gates) or GRU (3)."""
    return gates * units * (inputs + units + 2)


def attention_seq2seq(gates, words, width, units, layers, directions, scores):
    """Embeddings, encoder, decoder with input feeding, scores and combination of the attention, words."""
    half = units // directions
    reader = directions * (recurrent(gates, width, half) + (layers - 1) * recurrent(gates, units, half))
    writer = recurrent(gates, width + units, units) + (layers - 1) * recurrent(gates, units, units)
    return 2 * words * width + reader + writer + scores + 2 * units * units + (units + 1) * words


def trained_vanilla(layers):
    """What only training has: heads for the next two characters of every layer, but for the one that is used."""
    return (2 * layers - 1) * 256 * 512


# All tensors of transformers' class over timm's backbone, with the statistics of its norms. That the authors' code trains 41302368
# numbers of DETR-R50, and does not train its first convolution and stage and four numbers per channel of the norms, makes the same.
assert 41_302_368 + (9_408 + 212_992) + 4 * 26_560 == 41_631_008
DETR = "transformers, DetrForObjectDetection(DetrConfig(num_labels=91)) over timm's backbone"

COUNTS = {  # model, preset: numbers, tolerance as a share, source
    ("bert", "base"): (109_482_240, 0, "google-bert/bert-base-uncased, BertModel"),
    ("bert", "tiny"): (4_385_920, 0, "google/bert_uncased_L-2_H-128_A-2, BertModel"),
    ("bert", "mini"): (11_170_560, 0, "google/bert_uncased_L-4_H-256_A-4, BertModel"),
    ("bert", "small"): (28_763_648, 0, "google/bert_uncased_L-4_H-512_A-8, BertModel"),
    ("bert", "medium"): (41_373_184, 0, "google/bert_uncased_L-8_H-512_A-8, BertModel"),
    ("bert", "large"): (335_141_888, 0, "google-bert/bert-large-uncased, BertModel"),
    ("vit", "b16"): (86_567_656, 0, "google/vit-base-patch16-224"),
    ("vit", "b32"): (88_224_232, 0, "timm, vit_base_patch32_224"),
    ("vit", "l16"): (304_326_632, 0, "google/vit-large-patch16-224"),
    ("vit", "l32"): (306_535_400, 0, "timm, vit_large_patch32_224"),
    ("vit", "h14"): (632_045_800, 0, "timm, vit_huge_patch14_224"),
    ("vit", "deit-ti"): (5_910_800, 0, "timm, deit_tiny_distilled_patch16_224"),
    ("vit", "deit-s"): (22_436_432, 0, "timm, deit_small_distilled_patch16_224"),
    ("vit", "deit-b"): (87_338_192, 0, "timm, deit_base_distilled_patch16_224"),
    ("vit", "deit-ti-plain"): (5_717_416, 0, "facebook/deit-tiny-patch16-224"),
    ("vit", "deit-s-plain"): (22_050_664, 0, "facebook/deit-small-patch16-224"),
    ("vit", "deit-b-plain"): (86_567_656, 0, "facebook/deit-base-patch16-224"),
    ("decoder_lm", "small"): (124_439_808, 0, "openai-community/gpt2"),
    ("decoder_lm", "medium"): (354_823_168, 0, "openai-community/gpt2-medium"),
    ("decoder_lm", "large"): (774_030_080, 0, "openai-community/gpt2-large"),
    ("decoder_lm", "xl"): (1_557_611_200, 0, "openai-community/gpt2-xl"),
    ("transformer", "base"): (65e6, 0.03, "Vaswani et al. 2017, table 3; the vocabulary is about 37000"),
    ("transformer", "big"): (213e6, 0.03, "Vaswani et al. 2017, table 3"),
    ("torch_transformer", "base"): (44_140_544, 0, "torch.nn.Transformer()"),
    ("multihead_attention", "base"): (4 * 512 * 513, 0, "torch.nn.MultiheadAttention(512, 8)"),
    ("seq2seq", "sutskever2014"): (384e6, 0.002, "Sutskever et al. 2014, section 3.4"),
    ("seq2seq_attention", "luong2015"): (attention_seq2seq(4, 50_000, 1000, 1000, 4, 1, 1000**2), 0, "torch.nn.LSTM and the rest"),
    ("seq2seq_attention", "bahdanau2014"): (attention_seq2seq(3, 30_000, 620, 1000, 1, 2, 2 * 1000**2 + 1000), 0, "torch.nn.GRU and the rest"),
    ("detr", "r50"): (41_631_008, 0, DETR),
    ("detr", "dc5"): (41_631_008, 0, DETR),
    ("detr", "r101"): (60_675_360, 0, DETR),
    ("detr", "dc5-r101"): (60_675_360, 0, DETR),
    ("transformer_xl", "wt103-base"): (151_107_538, 0, "kimiyoung/transformer-xl, printed by its training on WikiText-103"),
    ("transformer_xl", "wt103-large"): (285_205_322 + 1024 * (256 + 64 + 16), 0, "transformers 4.35, TransfoXLLMHeadModel; projections of rare words, shared by input and output, count twice here"),
    ("transformer_xl", "enwik8-12"): (41e6, 0.0125, "Dai et al. 2019, table 2"),
    ("transformer_xl", "enwik8-24"): (277e6, 0.002, "Dai et al. 2019, table 2"),
    ("transformer_xl", "text8-24"): (277_050_395, 0, "kimiyoung/transformer-xl, MemTransformerLM of run_text8_large.sh"),
    ("transformer_xl", "lm1b-base"): (357_812_082, 0, "kimiyoung/transformer-xl, MemTransformerLM of run_lm1b_base.sh"),
    ("transformer_xl", "lm1b-large"): (841_295_982, 0, "kimiyoung/transformer-xl, MemTransformerLM of run_lm1b_large.sh"),
    ("vanilla_lm", "t12"): (44e6 - trained_vanilla(12), 0.0125, "Al-Rfou et al. 2018, table 2"),
    ("vanilla_lm", "t64"): (235e6 - trained_vanilla(64), 0.0025, "Al-Rfou et al. 2018, table 2"),
    ("restricted_attention", "base"): (18_915_328, 0, "torch.nn.TransformerEncoder with a norm at its end"),
    ("restricted_attention", "big"): (75_579_392, 0, "torch.nn.TransformerEncoder with a norm at its end"),
    ("setr", "naive-large"): (305.67e6, 0.001, "Zheng et al. 2020, table 2"),
    ("setr", "pup-large"): (318.31e6, 0.07, "Zheng et al. 2020, table 2, with what only training has: three auxiliary heads"),
    ("setr", "mla-large"): (310.57e6, 0.001, "Zheng et al. 2020, table 2"),
    ("setr", "naive-base"): (87.69e6, 0.001, "Zheng et al. 2020, table 2"),
    ("setr", "pup-base"): (97.64e6, 0.07, "Zheng et al. 2020, table 2, with what only training has: three auxiliary heads"),
    ("setr", "mla-base"): (92.59e6, 0.003, "Zheng et al. 2020, table 2"),
}


def heddle(*words):
    done = subprocess.run([HEDDLE, *map(str, words)], capture_output=True, text=True, cwd=ROOT, timeout=120)
    return done.returncode, done.stdout, done.stderr


class Presets(unittest.TestCase):
    def test_every_preset_checks_and_has_as_many_numbers_as_its_source(self):
        files = sorted((ROOT / "models").glob("*/presets/*.json"))
        self.assertEqual(set(COUNTS), {(path.parts[-3], path.stem) for path in files})
        for path in files:
            model, preset = path.parts[-3], path.stem
            with self.subTest(f"{model} {preset}"):
                self.assertIn("model_type", json.loads(path.read_text()))
                status, out, err = heddle("check", f"models/{model}/{model}.heddle", "--config", preset)
                self.assertEqual((status, err), (0, ""))
                numbers = int(re.search(r"weights? of (\d+) numbers", out)[1])
                want, tolerance, source = COUNTS[model, preset]
                self.assertLessEqual(abs(numbers / want - 1), tolerance, f"{numbers}, not {want}: {source}")

    def test_an_unknown_preset_is_refused_with_those_there_are(self):
        message = "error: --config huge: models/bert/bert.heddle has no preset of that name; there are: base, large, medium, mini, small, tiny (a file's name ends in .json)\n"
        self.assertEqual(heddle("check", "models/bert/bert.heddle", "--config", "huge"), (1, "", message))

    def test_settings_of_the_command_line_go_before_those_of_a_preset(self):
        config = "models/bert/presets/large.json"
        out = [heddle("check", "models/bert/bert.heddle", "--config", config, *words)[1] for words in ((), ("--set", "vocab_size=1000"))]
        before, after = (int(re.search(r"of (\d+) numbers", text)[1]) for text in out)
        self.assertEqual(before - after, (30522 - 1000) * 1024)


if __name__ == "__main__":
    unittest.main()
