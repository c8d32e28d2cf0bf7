"""The examples in Python, each run by its one command on a small folder made here: what they print is what the compiled library
and the tokens of the folder give, reached another way."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

import numpy as np

import heddle

ROOT = Path(__file__).resolve().parents[2]
GOLDENS = ROOT / "tests" / "models" / "goldens"
HEDDLE = os.environ["HEDDLE"]
sys.path += [str(ROOT / "tests"), str(ROOT / "tests" / "models")]
from drawn_weights import draw  # noqa: E402
from heddle_command import save  # noqa: E402
from scratch import Scratch  # noqa: E402

TEXT = ["the ship left the harbour in the morning", "the sea was calm and the wind was warm", "a ship in the harbour", "the morning was calm"]


class Examples(Scratch):
    def run_example(self, name, *words, given=None):
        done = subprocess.run([sys.executable, str(ROOT / "examples" / name), *map(str, words), "--heddle", HEDDLE], cwd=self.folder,
                              capture_output=True, text=True, input=given)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout, done.stderr

    def test_what_keeps_a_folder_from_being_compiled_is_said_in_a_line(self):
        program = "text_generator/write.py" if importlib.util.find_spec("tokenizers") else "detection/detect.py"
        words = [sys.executable, str(ROOT / "examples" / program), "nowhere", "the ship", "--heddle"]
        for command, status, said in (
            ("no-such-command", 1, "error: there is no command `no-such-command`; install the wheel heddle-compiler, or say --heddle FILE\n"),
            (HEDDLE, 1, "error: nowhere: "),
        ):
            done = subprocess.run([*words, command], cwd=self.folder, capture_output=True, text=True)
            self.assertEqual(done.returncode, status)
            first, rest = done.stderr.split("\n", 1)
            self.assertEqual(first, "compiling nowhere to nowhere-compiled")
            self.assertTrue(rest.startswith(said) and rest.count("\n") == 1, rest)

    def test_translation(self):
        try:
            import sentencepiece
        except ImportError:
            print("[SKIP] no sentencepiece")
            return
        folder = self.folder / "marian"
        shutil.copytree(GOLDENS / "marian", folder)
        config = json.loads((folder / "config.json").read_text())
        for side in ("source", "target"):
            sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(TEXT), model_prefix=str(folder / side), vocab_size=40,
                                                     minloglevel=2, hard_vocab_limit=False)  # fmt: skip
            (folder / f"{side}.model").rename(folder / f"{side}.spm")
        source = sentencepiece.SentencePieceProcessor(model_file=str(folder / "source.spm"))
        pad, end = config["pad_token_id"], config["eos_token_id"]
        names = ["</s>", "<unk>", *(source.id_to_piece(i) for i in range(3, source.vocab_size()))]
        numbers = [number for number in range(config["vocab_size"]) if number != pad]
        vocabulary = {**dict(zip(names, numbers)), "<pad>": pad}
        vocabulary.update({f"piece{number}": number for number in numbers[len(names) :]})
        (folder / "vocab.json").write_text(json.dumps(vocabulary))
        texts = ["the ship was calm", "a harbour", "xyz"]
        said, log = self.run_example("translation/translate.py", folder, *texts, "--steps", 9)
        self.assertEqual(log, f"compiling {folder} to {folder}-compiled\n")
        self.assertEqual(self.run_example("translation/translate.py", folder, "--steps", 9, given="\n".join(texts) + "\n"), (said, ""))

        session = heddle.load(f"{folder}-compiled").session()
        want = ""
        for text in texts:  # one by one: a batch and its padding change nothing
            ids = [vocabulary.get(piece, 1) for piece in source.encode(text, out_type=str)] + [end]
            sequence = session.generate({"input_ids": np.int32([ids])}, 9, beams=4)[0][0, 1:]
            pieces = [{number: piece for piece, number in vocabulary.items()}[number] for number in sequence if number not in (pad, end)]
            want += "".join(pieces).replace("\u2581", " ").strip() + "\n"
        self.assertEqual(said, want)

    def test_text_generator(self):
        try:
            from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
        except ImportError:
            print("[SKIP] no tokenizers")
            return
        folder = self.folder / "gpt2"
        shutil.copytree(GOLDENS / "gpt2", folder)
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
        tokenizer.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=61, special_tokens=["<end>"], show_progress=False))
        while tokenizer.get_vocab_size() < 61:
            tokenizer.add_tokens([f"word{tokenizer.get_vocab_size()}"])
        tokenizer.save(str(folder / "tokenizer.json"))
        words = [folder, "the ship", "--steps", 12]
        greedy, log = self.run_example("text_generator/write.py", *words)
        self.assertEqual(log, f"compiling {folder} to {folder}-compiled\n")
        sampled = [self.run_example("text_generator/write.py", *words, "--sample", "--seed", seed)[0] for seed in (3, 3, 4)]

        session = heddle.load(f"{folder}-compiled").session()
        prompt = np.int32([tokenizer.encode("the ship").ids])
        for said, how in ((greedy, {}), (sampled[0], {"sample": True, "seed": 3})):
            sequence = session.generate({"input_ids": prompt}, 12, **how)[0][0]
            self.assertEqual(said, tokenizer.decode([*prompt[0], *(i for i in sequence[prompt.shape[1] :] if i != 0)]) + "\n")
        self.assertEqual(sampled[0], sampled[1])
        self.assertNotEqual(sampled[0], sampled[2])

    def test_detection(self):
        try:
            from PIL import Image
        except ImportError:
            print("[SKIP] no Pillow")
            return
        folder = self.folder / "detr"
        folder.mkdir()
        config = json.loads((GOLDENS / "detr_resnet34" / "config.json").read_text())
        config["id2label"] = {str(i): f"thing{i}" for i in range(config.get("num_labels", 91))}
        (folder / "config.json").write_text(json.dumps(config))
        save(folder / "model.safetensors", draw(GOLDENS / "detr_resnet34"))
        (folder / "preprocessor_config.json").write_text(json.dumps({"size": {"shortest_edge": 40, "longest_edge": 70}}))
        y, x = np.mgrid[0:90, 0:120]
        picture = np.stack([127 + 120 * np.sin(a * x + b * y) for a, b in ((0.1, 0.2), (0.03, 0.1), (0.2, 0.05))], -1).astype(np.uint8)
        Image.fromarray(picture).save(self.folder / "picture.png")
        said, _ = self.run_example("detection/detect.py", folder, "picture.png", "--threshold", 0.02, "-o", "out.png")
        lines = [line.split() for line in said.splitlines()]
        self.assertGreater(len(lines), 0)

        small = np.asarray(Image.fromarray(picture).resize((53, 40), Image.Resampling.BILINEAR), np.float64) / 255
        pixels = (small - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
        results = heddle.load(f"{folder}-compiled").session().run({"pixel_values": np.moveaxis(pixels, 2, 0)[None].astype(np.float32)})
        shares = np.exp(results["logits"][0].astype(np.float64))
        shares /= shares.sum(1, keepdims=True)
        found = sorted(((shares[q, c], q, c) for q in range(len(shares)) for c in [shares[q, :-1].argmax()]), reverse=True)
        found = [(share, q, c) for share, q, c in found if share >= 0.02]
        self.assertEqual(len(lines), len(found))
        drawn = np.asarray(Image.open(self.folder / "out.png"))
        self.assertEqual(drawn.shape, picture.shape)
        for (name, share, *box), (wanted, q, c) in zip(lines, found):
            self.assertEqual(name, f"thing{c}")
            self.assertAlmostEqual(float(share), wanted, delta=1e-3)
            cx, cy, w, h = results["pred_boxes"][0, q]
            edges = np.array([(cx - w / 2) * 120, (cy - h / 2) * 90, (cx + w / 2) * 120, (cy + h / 2) * 90])
            np.testing.assert_allclose(np.array(box, float), edges, atol=0.06)
            middle, left = int(np.clip((edges[1] + edges[3]) / 2, 0, 89)), int(round(edges[0]))
            if 2 <= left < 117:
                self.assertFalse((drawn[middle, left : left + 3] == picture[middle, left : left + 3]).all(), "the box's left edge is drawn")

    def test_a_transformer_trained_from_nothing_goes_on_where_it_was_stopped(self):
        few = ("--batch", 8, "--every", 10)
        said, _ = self.run_example("numbers/train.py", "whole", *few, "--steps", 30)
        self.assertEqual(len(re.findall(r"exact, of \d+ unseen numbers, with the .*: \d+\.\d\d %\n", said)), 2, said)
        shutil.copytree(self.folder / "whole" / "training", self.folder / "halves" / "training")
        self.run_example("numbers/train.py", "halves", *few, "--steps", 20)
        self.run_example("numbers/train.py", "halves", *few, "--steps", 30)
        whole, halves = ((self.folder / name / "run.session").read_bytes() for name in ("whole", "halves"))
        self.assertEqual(whole, halves)
        self.assert_refused("numbers/train.py", ["halves", *few, "--steps", 20], "error: halves has a run of 30 steps already, more than 20\n")
        self.assert_refused("numbers/train.py", ["halves", "--batch", 9], "error: halves has a run with batch 8, not 9; name another folder\n")

    def assert_refused(self, name, words, said):
        done = subprocess.run([sys.executable, str(ROOT / "examples" / name), *map(str, words), "--heddle", HEDDLE], cwd=self.folder,
                              capture_output=True, text=True)  # fmt: skip
        self.assertEqual((done.returncode, done.stderr), (1, said))

    def text(self):
        """A file with more words than a model can know, from which the next one follows by a rule."""
        words = [f"{a}{b}" for a in ("ship", "sea", "wind", "harbour", "morning") for b in ("", "s", "like", "-side")]
        at, out = 0, []
        for number in range(9000):
            out.append(words[at] + (".\n" if number % 11 == 10 else ""))
            at = (at * 7 + number % 3 + 1) % len(words)
        (self.folder / "own.txt").write_text(" ".join(out))
        return ("--text", "own.txt")

    def test_models_trained_on_a_text_go_on_where_they_were_stopped(self):
        text, few = self.text(), ("--layers", 1, "--width", 32, "--batch", 4, "--segment", 16, "--every", 10, "--rate", 0.02)
        for model, said in (("transformer_xl", ["bits per character"]), ("vanilla_lm", ["bits per character"]),
                            ("bert", ["loss of masked words", "masked words found, %", "next sentences, %"])):  # fmt: skip
            with self.subTest(model):
                whole, halves = f"{model}-whole", f"{model}-halves"
                printed = self.run_example("text/train.py", whole, "--model", model, *few, *text, "--steps", 24)[0].splitlines()
                self.assertRegex(printed[0], r"^step 24 of 24, loss \d+\.\d{4}, \d+ ms each, 0 s left $")
                found = {what: float(value) for what, value in (line.removeprefix("held-out text, ").split(": ") for line in printed[1:])}
                self.assertEqual(list(found), said)
                self.assertEqual({f"step-{step}.safetensors" for step in (10, 20, 24)}, {file.name for file in (self.folder / whole).glob("step-*")})
                if model != "bert":
                    self.assertLess(found["bits per character"], 8)  # of 256 characters, alike
                if model == "vanilla_lm":
                    continue
                shutil.copytree(self.folder / whole / "training", self.folder / halves / "training")
                self.run_example("text/train.py", halves, "--model", model, *few, *text, "--steps", 14)
                rest = self.run_example("text/train.py", halves, "--model", model, *few, "--steps", 24)[0].splitlines()
                self.assertEqual(rest[1:], printed[1:])
                first, second = ((self.folder / name / "run.session").read_bytes() for name in (whole, halves))
                self.assertEqual(first, second)

    def test_a_text_that_will_not_do_is_refused_in_a_line(self):
        self.text()
        train = lambda said, *words: self.assert_refused("text/train.py", ["--model", "vanilla_lm", *words], f"error: {said}\n")  # noqa: E731
        train("nowhere.txt: No such file or directory", "--text", "nowhere.txt")
        (self.folder / "short.txt").write_text("a text\n" * 9)
        train("short.txt: 63 characters, 40960 are needed; name more text with --text", "--text", "short.txt")
        (self.folder / "long-words.txt").write_text(("x" * 400 + "\n") * 110)
        self.assert_refused("text/train.py", ["--model", "bert", "text-vanilla_lm", "--text", "long-words.txt"],
                            "error: 6 words are held out, 129 are needed; name more text with --text\n")  # fmt: skip
        self.assertFalse((self.folder / "text-vanilla_lm").exists())
        (self.folder / "has").mkdir()
        (self.folder / "has" / "text.txt").write_text("another text\n" * 4000)
        train("has has a run with another text; name another folder", "has", "--text", "own.txt")


if __name__ == "__main__":
    unittest.main()
