#!/usr/bin/env python3
"""Where a compilation's numbers come from: settings (a folder's or a file's config.json, --set, defaults, none at all), weights
(tensors that nothing reads), token ids, and a model file of one's own for a Hugging Face folder."""

import json
import re
import shutil
import unittest
from pathlib import Path

import numpy as np
from test_cli import ROOT, Scratch

GOLDENS = ROOT / "tests" / "models" / "goldens"
# the program of the find `config_key_alternatives`, with a weight
ROPE = """config D "hidden_size" = 8, H "num_heads" = 2, E "head_dim" = D // H, BASE "rope_parameters.rope_theta|rope_theta" = 10000.0
dim S <= 4
model A {
  param w as "scale": real[E]
  entry run(x: real[S, E]) -> y: real[S, E] {
    y[s, e] = x[s, e] * w[e] * BASE
    return y
  }
}
"""


class Case(Scratch):
    def setUp(self):
        super().setUp()
        (self.folder / "a.heddle").write_text(ROPE)

    def config(self, values, path="c.json"):
        (self.folder / path).parent.mkdir(exist_ok=True)
        (self.folder / path).write_text(json.dumps(values))

    def compiled(self, *words):
        """What follows the first line of the summary, and the manifest."""
        out = self.done("compile", *words, "-o", "out").splitlines()
        manifest = next((self.folder / "out").glob("*.json"))
        return out[1:], json.loads(manifest.read_text())


class Settings(Case):
    def of_size(self, n=4):
        self.save("e.safetensors", {"scale": np.ones(n, np.float32)})
        return "--weights", "e.safetensors"

    def test_the_summary_counts_where_they_came_from_and_the_manifest_says_each(self):
        self.config({"hidden_size": 16, "num_heads": 4, "head_dim": 3, "rope_parameters": {"rope_theta": 7}})
        lines, manifest = self.compiled("a.heddle", "--config", "c.json", *self.of_size(3))
        self.assertEqual(lines, ["settings: 4 from c.json"])
        self.assertEqual(manifest["settings"]["BASE"], {"value": 7.0, "from": "c.json"})
        lines, manifest = self.compiled("a.heddle", "--config", "c.json", "--set", "head_dim=4", *self.of_size())
        self.assertEqual(lines, ["settings: 3 from c.json, 1 from --set"])
        self.assertEqual(manifest["settings"]["E"], {"value": 4, "from": "--set"})
        lines, manifest = self.compiled("a.heddle", "--set", "D=12", "--set", "real=bf16", *self.of_size(6))
        self.assertEqual(lines, ["settings: 2 from --set, 3 defaults (H, E, BASE)", "weights: 1 rounded from F32 to bf16"])
        self.assertEqual(manifest["settings"]["E"], {"value": 6, "from": "default"})
        lines, _ = self.compiled("a.heddle", *self.of_size())
        self.assertEqual(lines, ["settings: 4 defaults (D, H, E, BASE)"])

    def test_alternatives_are_tried_in_their_order_and_null_counts_as_absent(self):
        for given, wanted in [({"rope_theta": 5}, 5), ({"rope_parameters": {"rope_theta": 6}, "rope_theta": 5}, 6),
                              ({"rope_parameters": {"rope_theta": None}, "rope_theta": 5}, 5),
                              ({"rope_parameters": None, "rope_theta": None}, 10000)]:
            self.config(given)
            _, manifest = self.compiled("a.heddle", "--config", "c.json", *self.of_size())
            self.assertEqual(manifest["settings"]["BASE"]["value"], wanted)
        _, manifest = self.compiled("a.heddle", "--config", "c.json", "--set", "rope_theta=3", *self.of_size())
        self.assertEqual(manifest["settings"]["BASE"], {"value": 3.0, "from": "--set"})

    def test_one_without_a_default_must_be_given(self):
        (self.folder / "b.heddle").write_text(ROPE.replace('"hidden_size" = 8', '"hidden_size|n_embd"'))
        message = ("b.heddle:1:8: error[E080]: setting `D` has no default, and nothing gives it a value\n"
                   '  1 | config D "hidden_size|n_embd", H "num_heads" = 2, E "head_dim" = D // H, BASE "rope_parameters.rope_theta|rope_theta" = 10000.0\n'
                   "    |        ^\n"
                   "  help: give `hidden_size` or `n_embd` in a config.json, or `--set D=VALUE`  heddle explain E080\n")
        self.config({"hidden_size": None})
        self.save("e.safetensors", {"scale": np.ones(4, np.float32)})
        for words in ([], ["--config", "c.json"]):
            self.refused(message, "check", "b.heddle", *words)
            self.refused(message, "compile", "b.heddle", *words, "--weights", "e.safetensors", "-o", "out")
        for words in (["--set", "D=8"], ["--set", "n_embd=8"], ["--config", "c.json", "--set", "hidden_size=8"]):
            self.done("check", "b.heddle", *words)
        self.config({"n_embd": 8})
        lines, _ = self.compiled("b.heddle", "--config", "c.json", *self.of_size())
        self.assertEqual(lines, ["settings: 1 from c.json, 3 defaults (H, E, BASE)"])

    def test_what_no_setting_takes_is_no_default(self):
        self.config({"hidden_size": [[8]], "num_heads": {}, "rope_theta": [None]})
        status, out, err = self.heddle("check", "a.heddle", "--config", "c.json")
        self.assertEqual((status, out), (1, ""))
        other = "a list of other things than numbers, bools and strings"
        self.assertEqual(re.findall(r"error\[E039\]: (.*)", err),
                         [f"setting `D` is a whole number, but is given {other}", "setting `H` is a whole number, but is given an object",
                          f"setting `BASE` is a real number, but is given {other}"])  # fmt: skip

    def test_one_that_is_set_twice_or_without_a_value(self):
        self.refused("error[E048]: `--set D=…` is given twice\n"
                     "  help: leave one of them out                                         heddle explain E048\n",
                     "check", "a.heddle", "--set", "D=8", "--set", "D=16")  # fmt: skip
        for words, message in [(["--set", "D"], "`--set D`: write `--set NAME=VALUE`"),
                               (["--set=D="], "`--set D=`: the value is a number, true, false, a string, or a list such as [3, 4]")]:
            self.assertEqual(self.heddle("check", "a.heddle", *words), (2, "", f"error: {message}\n"))

    def test_control_characters_of_a_config_do_not_reach_the_terminal(self):
        self.config({"model_type": "be\x1b[31mrt\0x"}, "hf/config.json")
        status, out, err = self.heddle("check", "hf")
        self.assertEqual((status, out), (1, ""))
        self.assertIn("no model file for the model_type `be?[31mrt?x` (known are bert", err)
        (self.folder / "k.heddle").write_text('config K "k" = "a"\nmodel M {\n  param w as "{K}": real\n'
                                              "  entry run(x: real) -> y: real {\n    return x * w\n  }\n}\n")  # fmt: skip
        self.config({"k": "b\x1b[31m\0c"})
        self.assertIn('as "b?[31m?c" stored', self.done("show", "k.heddle", "--config", "c.json", "--stage", "tree"))

    def test_a_model_without_settings_says_nothing_about_them(self):
        (self.folder / "n.heddle").write_text("dim N\nmodel M {\n  entry run(x: real[N]) -> y: real[N] {\n    return x + 1\n  }\n}\n")
        lines, manifest = self.compiled("n.heddle")
        self.assertEqual(lines, [])
        self.assertNotIn("settings", manifest)


class Unread(Case):
    def test_tensors_that_nothing_reads_are_named(self):
        """The find `conv_bias_silently_dropped`: the prelude's Conv has no bias."""
        (self.folder / "m.heddle").write_text(
            "dim B <= 2, H <= 8, W <= 8\nmodel M {\n  sub conv = Conv(2, 3, 3, 1, 1)\n"
            "  entry run(x: real[B, 2, H, W]) -> y: real[B, 3, H, W] {\n    return conv(x)\n  }\n}\n")
        self.save("m.safetensors", {"conv.weight": np.ones((3, 2, 3, 3), np.float32), "conv.bias": np.ones(3, np.float32)})
        lines, _ = self.compiled("m.heddle", "--weights", "m.safetensors")
        self.assertEqual(lines, ["weights: 1 tensor of the file is not read: conv.bias"])

    def test_many_are_counted_and_check_lists_them_all(self):
        more = {f"other.{i}": np.ones(1, np.float32) for i in range(10, 31)}
        self.save("e.safetensors", {"scale": np.ones(4, np.float32), **more})
        lines, _ = self.compiled("a.heddle", "--weights", "e.safetensors")
        self.assertEqual(lines[1], "weights: 21 tensors of the file are not read: " +
                         ", ".join(f"other.{i}" for i in range(10, 18)) + " and 13 more (`heddle check` lists them)")
        out = self.done("check", "a.heddle", "--weights", "e.safetensors").splitlines()
        self.assertEqual(out[1:], [f"tensor `{name}` of the file is not read" for name in sorted(more)])


class OwnModel(Case):
    def folder_of_gpt2(self):
        shutil.copytree(GOLDENS / "gpt2", self.folder / "gpt2", ignore=shutil.ignore_patterns("*golden*"))
        shutil.copy(ROOT / "models" / "decoder_lm" / "layers.heddle", self.folder)
        shutil.copy(ROOT / "models" / "decoder_lm" / "decoder_lm.heddle", self.folder / "my.heddle")

    def test_it_takes_the_folders_config_weights_and_tokens(self):
        self.folder_of_gpt2()
        theirs, known = self.compiled("gpt2")
        shutil.rmtree(self.folder / "out")
        ours, manifest = self.compiled("gpt2", "--model", "my.heddle")
        self.assertEqual(ours, theirs)
        self.assertEqual(manifest["name"], "my")
        for key in ("tokens", "settings", "entries"):
            self.assertEqual(manifest[key], known[key])
        self.assertTrue(manifest["tokens"]["eos_token_id"])

    def test_token_ids_can_be_added_and_replaced(self):
        self.folder_of_gpt2()
        _, manifest = self.compiled("gpt2", "--model", "my.heddle", "--token", "eos_token_id=3", "--token", "eos_token_id=4", "--token", "pad_token_id=1")
        self.assertEqual((manifest["tokens"]["eos_token_id"], manifest["tokens"]["pad_token_id"]), ([3, 4], [1]))
        _, manifest = self.compiled("a.heddle", "--weights", self.scale(4), "--token", "bos_token_id=0")
        self.assertEqual(manifest["tokens"], {"bos_token_id": [0]})
        for word, message in [("eos_token_id", "write NAME=ID, such as eos_token_id=2"), ("eos_token_id=x", "write NAME=ID, such as eos_token_id=2"),
                              ("eos=2", "no token id is called `eos`; there are: decoder_start_token_id, bos_token_id, eos_token_id, pad_token_id, "
                                        "forced_bos_token_id, forced_eos_token_id, bad_words_ids")]:
            self.refused(f"error: --token {word}: {message}\n", "compile", "gpt2", "--token", word, "-o", "gone")

    def scale(self, n):
        self.save("e.safetensors", {"scale": np.ones(n, np.float32)})
        return "e.safetensors"

    def small_folder(self):
        self.config({"model_type": "mine", "hidden_size": 12, "eos_token_id": [1, 2]}, "hf/config.json")
        self.save("hf/model.safetensors", {"scale": np.full(6, 2, np.float32), "position_ids": np.arange(3)})

    def test_a_model_type_that_heddle_does_not_know(self):
        self.small_folder()
        lines, manifest = self.compiled("hf", "--model", "a.heddle")
        self.assertEqual(lines, ["settings: 1 from config.json, 3 defaults (H, E, BASE)", "weights: 1 tensor of the file is not read: position_ids"])
        self.assertEqual(manifest["tokens"], {"eos_token_id": [1, 2]})
        self.save("s.safetensors", {"x": np.ones((2, 6), np.float32)})
        for words in (["out"], ["hf", "--model", "a.heddle"], ["hf", "--model", "a.heddle", "--reference"]):
            self.done("run", *words, "--in", "s.safetensors", "--out", "r.safetensors")
            self.assertEqual(self.load("r.safetensors")["y"].tolist(), [[20000.0] * 6] * 2)
        self.assertIn("no errors", self.done("check", "hf", "--model", "a.heddle"))
        self.assertIn("program A", self.done("show", "hf", "--model", "a.heddle", "--stage", "tree"))
        self.done("compare", "hf", "--model", "a.heddle", "--in", "s.safetensors")

    def test_a_folder_serves_as_config(self):
        self.small_folder()
        lines, manifest = self.compiled("a.heddle", "--config", "hf", "--weights", self.scale(6))
        self.assertEqual(lines, ["settings: 1 from config.json, 3 defaults (H, E, BASE)"])
        self.assertEqual(manifest["tokens"], {"eos_token_id": [1, 2]})
        _, manifest = self.compiled("a.heddle", "--config", "hf/config.json", "--weights", "e.safetensors", "--token", "eos_token_id=5")
        self.assertEqual(manifest["tokens"], {"eos_token_id": [5]})
        self.config({"hidden_size": 8}, "other/c.json")
        lines, manifest = self.compiled("hf", "--model", "a.heddle", "--config", "other/c.json", "--weights", self.scale(4))
        self.assertEqual(manifest["settings"]["D"], {"value": 8, "from": "c.json"})
        self.refused("error: --config other: the folder has no config.json\n", "check", "a.heddle", "--config", "other")

    def test_what_does_not_go_together(self):
        self.small_folder()
        self.refused("error: --model goes with a Hugging Face folder, and net.heddle is none\n", "check", "net.heddle", "--model", "a.heddle")
        self.refused("error: nowhere: there is no such file or folder\n", "check", "nowhere", "--model", "a.heddle")
        self.refused("error: no.heddle: there is no such file or folder\n", "check", "hf", "--model", "no.heddle")
        self.refused("error: w.safetensors: a model is a .heddle file or a Hugging Face folder\n", "check", "hf", "--model", "w.safetensors")
        (self.folder / "empty").mkdir()
        self.refused("error: empty: is no Hugging Face folder: it has no config.json\n", "check", "empty", "--model", "a.heddle")
        self.refused("error: --config goes with a .heddle file; a folder has a config.json of its own (--set changes a setting)\n",
                     "check", "hf", "--config", "hf")
        self.compiled("hf", "--model", "a.heddle")
        status, out, err = self.heddle("run", "out", "--model", "a.heddle", "--in", "x.safetensors")
        self.assertEqual((status, out, err), (2, "", "error: --model says something of a model's source, and out is a compiled library; "
                                              "give the .heddle file or the Hugging Face folder\n"))  # fmt: skip


if __name__ == "__main__":
    unittest.main()
