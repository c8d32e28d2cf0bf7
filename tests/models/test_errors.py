#!/usr/bin/env python3
"""Wrong files, settings and inputs: the whole message of each, exit status 1 (2 for wrong usage), nothing left behind."""

import functools
import json
import os
import re
import shutil
import struct
import tempfile
import unittest
from pathlib import Path

import numpy as np
from heddle_command import GOLDENS, ROOT, heddle, must, save, tensors


BERT = ROOT / "models" / "bert"
KNOWN = ("bert, decoder-lm, deit, detr, gpt2, marian, multihead-attention, restricted-attention, seq2seq, seq2seq-attention, setr, "
         "torch-transformer, torch.nn.MultiheadAttention, torch.nn.Transformer, transfo-xl, transformer, transformer-xl, "
         "vanilla-lm, vit")


def in_model_file(file, what, within, code, message, help):
    """A message about the characters `what` of the line of models/bert/FILE that holds `within`."""
    lines = (BERT / file).read_text().splitlines()
    number, line = next((number, line) for number, line in enumerate(lines, 1) if within in line)
    column = line.index(within) + within.index(what)
    margin = " " * (2 + len(str(number)))
    return (f"models/bert/{file}:{number}:{column + 1}: error[{code}]: {message}\n  {number} | {line}\n"
            f"{margin} | {' ' * column}{'^' * len(what)}\n  help: {help:<60}  heddle explain {code}")


@functools.cache
def compiled():
    """A library of the plain encoder, for all cases that need one."""
    scratch = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(scratch.cleanup)
    must("compile", GOLDENS / "bert_model", "-o", Path(scratch.name) / "library")
    return Path(scratch.name) / "library"


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = Path(scratch.name)

    def listing(self):
        return sorted(str(path.relative_to(self.scratch)) for path in self.scratch.rglob("*"))

    def assert_fails(self, message, *arguments, status=1):
        """The command fails with exactly this on stderr, and the folder of the case is as it was before."""
        before = self.listing()
        got = heddle(*arguments, cwd=self.scratch)
        self.assertEqual((status, message.strip() + "\n"), (got[0], got[1]))
        self.assertEqual(before, self.listing(), "files were left behind")


class Folders(Case):
    """Hugging Face folders with something wrong; the messages name the file and what is in it."""

    def setUp(self):
        super().setUp()
        self.folder = self.scratch / "bert"
        self.folder.mkdir()
        for name in ("config.json", "model.safetensors"):
            shutil.copy(GOLDENS / "bert_model" / name, self.folder)
        self.weights = self.folder / "model.safetensors"

    def assert_refused(self, message, *settings):
        self.assert_fails(message, "compile", "bert", *settings, "-o", "out")

    def change_weights(self, change):
        values = tensors(self.weights)
        change(values)
        save(self.weights, values)

    def change_config(self, **values):
        path = self.folder / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **values}))

    def test_a_truncated_weights_file(self):
        content = self.weights.read_bytes()
        length = struct.unpack("<Q", content[:8])[0]
        header = json.loads(content[8 : 8 + length])
        end = len(content) // 2
        self.weights.write_bytes(content[:end])
        data = end - 8 - length
        name, entry = next((name, entry) for name, entry in sorted(header.items())
                           if name != "__metadata__" and entry["data_offsets"][1] > data)
        first, last = entry["data_offsets"]
        self.assert_refused(f"error: bert/model.safetensors: tensor `{name}`: its bytes {first} to {last} lie outside of the "
                            f"file's {data} bytes of data; the file is truncated or damaged")

    def test_a_weights_file_that_ends_in_its_header(self):
        content = self.weights.read_bytes()
        self.weights.write_bytes(content[:100])
        length = struct.unpack("<Q", content[:8])[0]
        self.assert_refused(f"error: bert/model.safetensors: is truncated: its header has {length} bytes, the file only 100")

    def test_an_empty_weights_file(self):
        self.weights.write_bytes(b"")
        self.assert_refused("error: bert/model.safetensors: is no safetensors file: it has only 0 bytes")

    def test_no_weights_file(self):
        self.weights.unlink()
        self.assert_refused("error: bert: has no weights: neither model.safetensors nor pytorch_model.bin")

    def test_a_missing_tensor(self):
        self.change_weights(lambda values: values.pop("encoder.layer.1.output.dense.bias"))
        self.assert_refused("error: bert: there is no tensor `bert.encoder.layer.1.output.dense.bias` (nor "
                            "`encoder.layer.1.output.dense.bias`), which the model reads; do the settings (config.json, --set) belong to these weights?")

    def test_a_tensor_of_another_shape(self):
        self.change_weights(lambda values: values.update({"pooler.dense.weight": np.zeros((60, 61), np.float32)}))
        self.assert_refused("error: bert: tensor `pooler.dense.weight` has shape [60, 61], the model wants [60, 60]; do the "
                            "settings (config.json, --set) belong to these weights?")

    def test_a_tensor_of_integers(self):
        self.change_weights(lambda values: values.update({"pooler.dense.bias": np.zeros(60, np.int32)}))
        self.assert_refused("error: bert: tensor `pooler.dense.bias` is I32, the model wants a floating-point type")

    def test_settings_that_the_weights_do_not_have(self):
        self.assert_refused("error: bert: tensor `encoder.layer.0.intermediate.dense.weight` has shape [97, 60], the model "
                            "wants [96, 60]; do the settings (config.json, --set) belong to these weights?", "--set", "F=96")

    def test_an_unknown_setting(self):
        self.assert_refused("error[E040]: no setting is called `hidden`\n"
                            "  help: the model's settings are V, P, U, D, F, L, H, EPS, ACT, K, HEADS, TIED, RATE, SHARE, LOSS, TRAIN, POOLING, ASKED  heddle explain E040",
                            "--set", "hidden=60")

    def test_a_setting_of_another_kind(self):
        self.assert_refused("\n".join(in_model_file(file, "D", 'config D "hidden_size"', "E039", "setting `D` is a whole number, but is "
                                                    "given a string", "give a whole number") for file in ("bert.heddle", "encoder.heddle")),
                            "--set", "hidden_size=wide")

    def test_a_setting_without_a_value(self):
        self.assert_fails("error: `--set hidden_size`: write `--set NAME=VALUE`", "compile", "bert", "--set", "hidden_size", "-o", "out", status=2)

    def test_an_unknown_model_type(self):
        self.change_config(model_type="bort")
        self.assert_refused("error: bert/config.json: no model file for the model_type `bort` (known are "
                            f"{KNOWN}; or give a model file of your own with --model)")

    def test_no_model_type(self):
        path = self.folder / "config.json"
        config = json.loads(path.read_text())
        del config["model_type"]
        path.write_text(json.dumps(config))
        self.assert_refused("error: bert/config.json: has no `model_type`, which says what model it is (known are "
                            f"{KNOWN}; or give a model file of your own with --model)")

    def test_a_config_that_is_no_json(self):
        (self.folder / "config.json").write_text('{\n  "model_type": "bert",\n  "hidden_size": 60,,\n}\n')
        self.assert_refused("error: bert/config.json:3: is not valid JSON")

    def test_an_architecture_without_an_entry(self):
        self.change_config(architectures=["BertForMultipleChoice"])
        heads = re.findall(r'if (HEAD == "[A-Za-z]+"[^{]*?) \{', (BERT / "bert.heddle").read_text())
        self.assert_refused(in_model_file("bert.heddle", "Bert", "model Bert {", "E045", "model `Bert` has no entry for these settings",
                                          f"one needs {' or '.join(f'`{head}`' for head in heads)}"))

    def test_an_activation_that_the_model_file_does_not_know(self):
        self.change_config(hidden_act="mish")
        condition = 'ACT == "gelu" or ACT == "gelu_new" or ACT == "relu" or ACT == "silu"'
        self.assert_refused(in_model_file("encoder.heddle", condition, f"require {condition}", "E044", "hidden_act is gelu, gelu_new, relu or silu",
                                          "this requirement does not hold for the given settings"))

    def test_a_hidden_size_that_the_heads_do_not_divide(self):
        self.change_config(hidden_size=61)
        self.assert_refused(in_model_file("encoder.heddle", "H > 0 and D % H == 0", "require H > 0 and D % H == 0", "E044",
                                          "hidden_size must be a multiple of num_attention_heads",
                                          "this requirement does not hold for the given settings"))

    def test_no_such_folder(self):
        self.assert_fails("error: nowhere: there is no such file or folder", "compile", "nowhere", "-o", "out")

    def test_a_folder_without_a_config(self):
        (self.folder / "config.json").unlink()
        self.assert_refused("error: bert: is neither a Hugging Face folder (it has no config.json) nor a .heddle file")


class Models(Case):
    """Model files of one's own."""

    def assert_refused(self, text, message):
        (self.scratch / "mine.heddle").write_text(text)
        self.assert_fails(message, "compile", "mine.heddle", "-o", "out")

    def test_shapes_that_do_not_agree(self):
        self.assert_refused("dim B\nmodel M {\n  entry run(x: real[B, 3], w: real[4, 5]) -> y: real[B, 5] {\n"
                            "    y[b, o] = sum[i](x[b, i] * w[i, o])\n    return y\n  }\n}\n",
                            "mine.heddle:4:34: error[E024]: index `i` ranges over 3 and over 4\n"
                            "  4 |     y[b, o] = sum[i](x[b, i] * w[i, o])\n"
                            "    |                                  ^ 4 here, 3 in line 4, column 27\n"
                            "  help: say which, `i in 3` or `i in 4`, and test or shift the other use  heddle explain E024")

    def test_a_read_past_the_end(self):
        self.assert_refused("dim B, N\nmodel M {\n  entry run(x: real[B, N]) -> y: real[B, N] {\n"
                            "    y[b, n in N] = x[b, n + 1]\n    return y\n  }\n}\n",
                            "mine.heddle:4:25: error[E021]: `x` is read at row 1 (when n = 0, N = 1); its rows are 0 to N - 1\n"
                            "  4 |     y[b, n in N] = x[b, n + 1]\n"
                            "    |                         ^^^^^ goes from 1 to N\n"
                            "  help: test the index (`if n + 1 < N`), or say what lies outside (`x[b, n + 1 | 0]`)  heddle explain E021")

    def test_weights_that_were_not_given(self):
        self.assert_refused("dim B\nmodel M {\n  param w: real[3]\n  entry run(x: real[B, 3]) -> y: real[B, 3] {\n"
                            "    y[b, i] = x[b, i] * w[i]\n    return y\n  }\n}\n",
                            "error: the model reads weights, such as `w`; say where they are with --weights FILE.safetensors")


class Inputs(Case):
    """Calls that the compiled library refuses."""

    @classmethod
    def setUpClass(cls):
        cls.library = compiled()

    def assert_refused(self, message, **inputs):
        save(self.scratch / "in.safetensors", inputs)
        self.assert_fails(f"error: entry 'encode'{message}", "run", self.library, "--in", "in.safetensors", "--out", "out.safetensors")

    def assert_both_refuse(self, message, **inputs):
        """The library, and the evaluator of the same model in the same words."""
        self.assert_refused(message, **inputs)
        self.assert_fails(f"error: entry 'encode'{message}", "run", GOLDENS / "bert_model", "--reference", "--in",
                          "in.safetensors", "--out", "out.safetensors")

    ids = np.ones((2, 9), np.int64)

    def test_a_missing_input(self):
        self.assert_both_refuse(", input 'input_ids': is missing; give it as i32 [B, S]", attention_mask=self.ids)

    def test_an_unknown_input(self):
        self.assert_both_refuse(" has no input 'ids'; it has: input_ids, attention_mask, token_type_ids", ids=self.ids)

    def test_a_wrong_dtype(self):
        self.assert_refused(", input 'input_ids': has dtype f32, but must be i32 [B, S] (any of i8, u8, i32, i64 and bool is "
                            "accepted)", input_ids=self.ids.astype(np.float32))

    def test_a_wrong_rank(self):
        self.assert_both_refuse(", input 'input_ids': has rank 1, but must be i32 [B, S]", input_ids=self.ids[0])

    def test_extents_that_disagree(self):
        self.assert_both_refuse(", input 'attention_mask': has shape [2, 8], so S = 8, but S = 9 in input 'input_ids'",
                                input_ids=self.ids, attention_mask=self.ids[:, :8])

    def test_an_extent_beyond_its_bound(self):
        self.assert_both_refuse(", input 'input_ids': has shape [1, 65], so S = 65, but the model allows at most 64",
                                input_ids=np.ones((1, 65), np.int32))

    def test_an_index_out_of_range(self):
        ids = self.ids.copy()
        ids[1, 4] = 211
        self.assert_both_refuse(", input 'input_ids': element [1, 4] is 211, but must be in 0 .. 210", input_ids=ids)
        ids[1, 4] = -1
        self.assert_both_refuse(", input 'input_ids': element [1, 4] is -1, but must be in 0 .. 210", input_ids=ids)

    def test_a_number_that_no_i32_holds(self):
        mask = self.ids.copy()
        mask[0, 1] = 2**31
        self.assert_refused(", input 'attention_mask': element [0, 1] is 2147483648, but must be in -2147483648 .. 2147483647",
                            input_ids=self.ids, attention_mask=mask)

    def test_a_file_that_is_not_there(self):
        self.assert_fails("error: nowhere.safetensors: cannot read: No such file or directory", "run", self.library, "--in",
                          "nowhere.safetensors", "--out", "out.safetensors")

    def test_an_output_for_each_call(self):
        save(self.scratch / "in.safetensors", {"input_ids": self.ids})
        self.assert_fails("error: --in makes 2 calls, and --out names 1 file; give one per call", "run", self.library,
                          "--in", "in.safetensors", "--in", "in.safetensors", "--out", "out.safetensors", status=2)

    def test_a_call_that_fails_leaves_no_output_of_the_calls_before_it_half_written(self):
        save(self.scratch / "good.safetensors", {"input_ids": self.ids})
        save(self.scratch / "bad.safetensors", {"input_ids": self.ids + 500})
        self.assert_fails("error: entry 'encode', input 'input_ids': element [0, 0] is 501, but must be in 0 .. 210", "run",
                          self.library, "--in", "good.safetensors", "--in", "bad.safetensors", "--out", "1.safetensors", "--out",
                          "2.safetensors")


class Libraries(Case):
    """Artifact folders with something wrong."""

    def setUp(self):
        super().setUp()
        self.library = self.scratch / "library"
        shutil.copytree(compiled(), self.library)
        save(self.scratch / "in.safetensors", {"input_ids": np.ones((1, 3), np.int32)})

    def assert_refused(self, message):
        self.assert_fails(message, "run", "library", "--in", "in.safetensors", "--out", "out.safetensors")

    def weights(self):
        return next(self.library.glob("*.weights"))

    def test_a_truncated_weights_file(self):
        size = self.weights().stat().st_size
        os.truncate(self.weights(), size - 4096)
        self.assert_refused(f"error: library/bert.weights is truncated: it has {size - 4096} bytes instead of {size}; copy or "
                            "compile it again")

    def test_weights_of_another_library(self):
        other = self.scratch / "other"
        must("compile", GOLDENS / "bert_classifier", "-o", other)
        shutil.copy(next(other.glob("*.weights")), self.weights())
        self.assert_refused("error: library/bert.weights was packed for another library than 'bert'; use the weights file from "
                            "the same folder, or compile the model again")

    def test_damaged_weights_are_found_by_check(self):
        content = bytearray(self.weights().read_bytes())
        content[-1000] ^= 1
        self.weights().write_bytes(content)
        self.assert_fails("error: the weights of model 'bert' are damaged: their checksum differs; copy or compile them again",
                          "check", "library")


if __name__ == "__main__":
    unittest.main()
