#!/usr/bin/env python3
"""The training entries of models against PyTorch (make_training_goldens.py): the gradients of all parameters, within 1e-4 of the
largest value of each, and the losses of fifty steps of Adam. Adam's first mean is a tenth of the gradient after one step."""

import sys
import unittest
from pathlib import Path

import numpy as np
from safetensors import numpy as safetensors

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "models"), str(ROOT / "python")]
import heddle  # noqa: E402
from heddle_command import GOLDENS, must  # noqa: E402
from scratch import Scratch  # noqa: E402

NO_DROPOUT = {  # of the folders whose config.json has some
    "bert": [word for key in ("hidden_dropout_prob", "attention_probs_dropout_prob") for word in ("--set", f"{key}=0")],
    "gpt2": [word for key in ("embd_pdrop", "resid_pdrop", "attn_pdrop") for word in ("--set", f"{key}=0")],
}
TRAINING = Path(__file__).resolve().parent / "goldens" / "training"


class Training(Scratch):
    def follow(self, name, *settings, more=None):
        """`more`: inputs of each step instead of the rate."""
        tensors = safetensors.load_file(TRAINING / f"{name}.safetensors")
        kind = lambda k: {n.removeprefix(k): v for n, v in tensors.items() if n.startswith(k)}  # noqa: E731
        must("compile", GOLDENS / name, "--set", "training=true", *settings, "-o", self.folder / "out")
        session = heddle.load(self.folder / "out").session()
        batches, gradients = kind("input:"), kind("gradient:")
        self.assertEqual(set(session.parameters) - set(gradients), set())
        least = 1e-2 * max(np.abs(g).max() for g in gradients.values())  # a key's bias has none but for rounding
        for t, want in enumerate(tensors["losses"]):
            inputs = {k: np.ascontiguousarray(v[t % len(v)]) for k, v in batches.items()}
            loss = session.run(inputs | (more or {"rate": tensors["rates"][t]}), "train")["loss"]
            self.assertLess(abs(loss - want) / want, 1e-3, f"step {t + 1}")
            if t > 0:
                continue
            for parameter in session.model.parameters.values():
                gradient = gradients[parameter.name]
                got = session.state("m1." + parameter.state).reshape(gradient.shape) / np.float32(1 - 0.9)
                off = np.abs(got - gradient).max() / max(least, np.abs(gradient).max())
                self.assertLess(off, 1e-4, f"the gradient of {parameter.name}")

    def test_bert(self):
        self.follow("bert_loss", *NO_DROPOUT["bert"])

    def test_bert_with_logits_where_labels_are(self):
        self.follow("bert_loss", *NO_DROPOUT["bert"], "--set", "max_predictions_per_seq=19")
        session = heddle.load(self.folder / "out").session()
        words = np.ones((1, 20), np.int32)
        with self.assertRaisesRegex(heddle.Error, "a text has more labels than max_predictions_per_seq"):
            session.run({"input_ids": words, "labels": words, "next_sentence_label": words[0, :1], "rate": np.float32(1e-3)}, "train")

    def test_gpt2(self):
        self.follow("gpt2", *NO_DROPOUT["gpt2"])

    def test_transformer(self):
        """Its rate is the paper's, with the peak and the warm-up of the goldens."""
        self.follow("marian", *(w for s in ("dropout=0", "warmup_steps=10", "learning_rate=0.002") for w in ("--set", s)),
                    more={"key": np.int32([0, 0])})  # fmt: skip

    def drop(self, name, *settings):
        """What is dropped is not what PyTorch drops: the mean of the last losses over the seeds is within 2 %."""
        tensors = safetensors.load_file(TRAINING / f"{name}.safetensors")
        must("compile", GOLDENS / name, *(w for s in ("training=true", *settings) for w in ("--set", s)), "-o", self.folder / "out")
        model = heddle.load(self.folder / "out")
        inputs = {n.removeprefix("input:"): v for n, v in tensors.items() if n.startswith("input:")}
        ends = []
        for seed in range(1, len(tensors["dropped"]) + 1):
            session = model.session()
            rates = lambda t: {} if name == "marian" else {"rate": tensors["rates"][t]}  # noqa: E731
            batches = ({k: np.ascontiguousarray(v[t % 2]) for k, v in inputs.items()} | {"key": np.int32([seed, 0])} | rates(t) for t in range(50))
            ends.append(np.mean([session.run(batch, "train")["loss"] for batch in batches][-20:]))
        want = tensors["dropped"].mean()
        self.assertLess(abs(np.mean(ends) - want) / want, 0.02, f"{np.mean(ends)} ± {np.std(ends)}, not {want} ± {tensors['dropped'].std()}")
        self.assertGreater(np.ptp(ends), 0, "the key chooses what is dropped")

    def test_transformer_with_dropout(self):
        self.drop("marian", "dropout=0.1", "warmup_steps=10", "learning_rate=0.002")

    def test_gpt2_with_dropout(self):
        self.drop("gpt2")  # the folder's is 0.1

    def test_seq2seq_with_attention_with_dropout(self):
        self.drop("seq2seq_general", "dropout=0.1")

    def test_vit(self):
        self.follow("vit_classifier")

    def test_seq2seq_with_attention(self):
        self.follow("seq2seq_general")

    def test_seq2seq(self):
        self.follow("seq2seq_lstm")

    def test_vanilla_lm(self):
        self.follow("vanilla_lm")

    def test_transformer_xl_over_segments(self):
        self.follow("transfo_xl_authors")

    def test_torch_transformer(self):
        self.follow("torch_transformer_is_causal")

    def test_setr(self):
        self.follow("setr_pup")

    def test_detr_with_a_given_assignment(self):
        self.follow("detr_bottleneck")


if __name__ == "__main__":
    unittest.main()
