#!/usr/bin/env python3
"""What `heddle compile` leaves besides a shared library: static libraries and objects that link into one program, weights
inside of a library, names, the rule for make, the file for pkg-config. The command is $HEDDLE or build/bin/heddle."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np
from safetensors import numpy as safetensors

import heddle

ROOT = Path(__file__).resolve().parents[2]
HEDDLE = os.environ.get("HEDDLE", str(ROOT / "build" / "bin" / "heddle"))
GOLDENS = ROOT / "tests" / "models" / "goldens"
CXX = next(name for name in ("clang++-22", "g++") if shutil.which(name))

# Runs three models on files of raw numbers, and a library that it opens before (argv[1]) or after them (argv[2]); says how
# many threads the process has after the first and at the end.
PROGRAM = r"""
#include "small.h"
#include "large.h"
#include "picture.h"
#include <cstdio>
#include <cstdlib>
#include <dirent.h>
#include <vector>

template <class T> static std::vector<T> read(const char *path) {
  FILE *file = fopen(path, "rb");
  fseek(file, 0, SEEK_END);
  std::vector<T> out(ftell(file) / sizeof(T));
  rewind(file);
  if (fread(out.data(), sizeof(T), out.size(), file) != out.size())
    abort();
  fclose(file);
  return out;
}
static void write(const char *path, const std::vector<float> &data) {
  FILE *file = fopen(path, "wb");
  fwrite(data.data(), sizeof(float), data.size(), file);
  fclose(file);
}
static int threads() {
  int out = 0;
  DIR *tasks = opendir("/proc/self/task");
  while (dirent *task = readdir(tasks))
    out += task->d_name[0] != '.';
  closedir(tasks);
  return out;
}
static void check(heddle_status status) {
  if (status != HEDDLE_OK) {
    puts(heddle_last_error());
    exit(1);
  }
}
static heddle_session *session_of(heddle_model *model) {
  heddle_session_options options = HEDDLE_INIT(heddle_session_options);
  options.threads = 2;
  heddle_session *out;
  check(heddle_session_create(model, &options, &out));
  return out;
}

static void run_opened(const char *folder) {
  heddle_model *model;
  check(heddle_open(folder, nullptr, &model));
  auto ids = read<int32_t>("ids");
  int64_t shape[] = {int64_t(ids.size()) / 9, 9}, hidden[] = {shape[0], 9, 60};
  std::vector<float> numbers(ids.size() * 60);
  heddle_tensor in = heddle_dense("input_ids", HEDDLE_I32, ids.data(), 2, shape);
  heddle_tensor out = heddle_dense("last_hidden_state", HEDDLE_F32, numbers.data(), 3, hidden);
  check(heddle_run(session_of(model), 0, &in, 1, &out, 1));
}

int main(int, char **words) {
  heddle_model *small, *large, *picture;
  if (*words[1])
    run_opened(words[1]);
  check(small_load(nullptr, &small));
  check(large_load(nullptr, &large));
  check(picture_load(nullptr, &picture));
  heddle_session *s = session_of(small), *l = session_of(large), *p = session_of(picture);
  auto ids = read<int32_t>("ids");
  auto pixels = read<float>("pixels");
  int64_t batch = pixels.size() / PIXELS, rows = ids.size() / 9;
  std::vector<float> of_small(ids.size() * 60), of_large(ids.size() * 96), of_picture(batch * HIDDEN);
  check(small_encode(s, rows, 9, ids.data(), nullptr, nullptr, of_small.data(), nullptr));
  printf("%d threads, ", threads());
  check(large_encode(l, rows, 9, ids.data(), nullptr, nullptr, of_large.data(), nullptr));
  check(picture_encode(p, batch, pixels.data(), of_picture.data(), nullptr));
  write("small.out", of_small);
  write("large.out", of_large);
  write("picture.out", of_picture);
  if (*words[2])
    run_opened(words[2]);
  printf("%d threads\n", threads());
  check(heddle_model_verify(large));
}
"""


def run(*words, cwd=None, env=None):
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, cwd=cwd, timeout=600, env=env)
    return done.returncode, done.stdout, done.stderr


class Scratch(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)

    def done(self, *words):
        status, out, err = run(*words, cwd=self.folder)
        self.assertEqual((status, err), (0, ""), f"{' '.join(map(str, words))}\n{out}")
        return out

    def compile(self, *words):
        return self.done(HEDDLE, "compile", *words)

    def refused(self, message, *words, status=1):
        before = sorted(self.folder.rglob("*"))
        self.assertEqual(run(HEDDLE, "compile", *words, cwd=self.folder), (status, "", f"error: {message}\n"))
        self.assertEqual(sorted(self.folder.rglob("*")), before)

    def files(self, folder):
        return sorted(path.name for path in (self.folder / folder).iterdir())


def grown(folder, to, hidden=96):
    """A BERT folder like `folder`, of another hidden size, with random weights."""
    to.mkdir()
    config = json.loads((folder / "config.json").read_text())
    old, config["hidden_size"] = config["hidden_size"], hidden
    config["num_attention_heads"] = 4
    (to / "config.json").write_text(json.dumps(config))
    random = np.random.default_rng(3)
    weights = {
        name: random.standard_normal([hidden if n == old else n for n in tensor.shape], np.float32) / 8
        for name, tensor in safetensors.load_file(folder / "model.safetensors").items()
    }
    safetensors.save_file(weights, to / "model.safetensors")


class Forms(Scratch):
    def test_two_berts_and_a_vit_in_one_program(self):
        grown(GOLDENS / "bert_model", self.folder / "grown")
        self.compile(GOLDENS / "bert_model", "--name", "small", "--emit", "a", "--embed-weights")
        self.compile("grown", "--name", "large", "--emit", "o", "--embed-weights")
        self.compile(GOLDENS / "vit_model", "--name", "picture", "--emit", "a,so")
        self.assertEqual(self.files("small"), ["heddle.h", "libsmall.a", "small.h", "small.json", "small.pc"])
        self.assertEqual(self.files("large"), ["heddle.h", "large.h", "large.json", "large.o", "large.pc"])
        shutil.copy(self.folder / "picture" / "picture.weights", self.folder)  # beside the program

        words = safetensors.load_file(GOLDENS / "bert_model" / "2x9.in.safetensors")
        ids = words["input_ids"].astype(np.int32)
        ids.tofile(self.folder / "ids")
        pixels = safetensors.load_file(GOLDENS / "vit_model" / "3.in.safetensors")["pixel_values"]
        pixels.tofile(self.folder / "pixels")
        seen = safetensors.load_file(GOLDENS / "vit_model" / "3.out.safetensors")["last_hidden_state"]
        (self.folder / "main.cc").write_text(PROGRAM)
        self.done(CXX, "-std=c++17", "-Wall", "-Wextra", "-Werror", "-Ismall", "-Ilarge", "-Ipicture", "main.cc",
                  f"-DPIXELS={pixels[0].size}", f"-DHIDDEN={seen[0].size}",
                  "small/libsmall.a", "large/large.o", "picture/libpicture.a", "-lm", "-lpthread", "-ldl", "-o", "all")  # fmt: skip
        self.compile(GOLDENS / "bert_model", "--name", "opened")
        for words in (("opened", ""), ("", "opened"), ("", "")):
            said = self.done("./all", *words)
            self.assertRegex(said, r"^(\d+) threads, \1 threads$", "there is one pool for all, linked or opened")

        safetensors.save_file({"input_ids": ids}, self.folder / "ids.safetensors")
        for name, model in (("small", GOLDENS / "bert_model"), ("large", self.folder / "grown")):
            self.done(HEDDLE, "run", model, "--reference", "--in", "ids.safetensors", "--out", f"{name}.safetensors")
            want = safetensors.load_file(self.folder / f"{name}.safetensors")["last_hidden_state"]
            got = np.fromfile(self.folder / f"{name}.out", np.float32).reshape(want.shape)
            self.assertLess(abs(got - want).max(), 2e-4 * abs(want).max(), name)
        got = np.fromfile(self.folder / "picture.out", np.float32).reshape(seen.shape)
        self.assertLess(abs(got - seen).max(), 2e-4 * abs(seen).max())

    def test_an_object_shows_its_functions_alone(self):
        self.compile(GOLDENS / "bert_model", "--name", "mine", "--emit", "o")
        symbols = [line.split() for line in self.done("nm", "--defined-only", "--extern-only", "mine/mine.o").splitlines()]
        self.assertEqual(sorted(words[-1] for words in symbols), ["mine_encode", "mine_heddle_api"])

    def test_a_command_that_runs_models_says_that_there_is_only_something_to_link(self):
        for form in "a", "o":
            self.compile(GOLDENS / "bert_model", "--name", "mine", "--emit", form, "-o", form)
            for words in (["bench"], ["check"], ["generate", "--steps", "3", "--in", "ids.safetensors"], ["show", "--stage", "kernels"]):
                self.assertEqual(run(HEDDLE, *words[:1], form, *words[1:], cwd=self.folder), (1, "",
                    f"error: {form}: holds no shared library, only what other programs link; compile with --emit so,{form}\n"))  # fmt: skip

    def test_a_name_is_that_of_files_functions_soname_and_guard(self):
        self.compile(GOLDENS / "bert_model", "--name", "my_bert")
        self.assertEqual(self.files("my_bert"),
                         ["heddle.h", "libmy_bert.so", "my_bert.h", "my_bert.json", "my_bert.pc", "my_bert.weights", "my_bert_model.py"])  # fmt: skip
        self.assertIn("soname: [libmy_bert.so]", self.done("readelf", "-d", "my_bert/libmy_bert.so"))
        header = (self.folder / "my_bert" / "my_bert.h").read_text()
        self.assertIn("#ifndef HEDDLE_MODEL_MY_BERT_H", header)
        self.assertIn(" my_bert_encode(", header)
        self.assertEqual(heddle.load(self.folder / "my_bert").name, "my_bert")

    def test_a_name_is_printed_of_what_need_not_be_there(self):
        for words, name in ((["My-net.v2.heddle"], "my_net_v2"), (["time.heddle"], "model_time"), ([GOLDENS / "bert_model"], "bert"),
                            (["nowhere", "--model", "own.heddle"], "own"), (["a.heddle", "--name", "b"], "b")):  # fmt: skip
            self.assertEqual(self.done(HEDDLE, "compile", *words, "--print-name"), name + "\n")
        self.assertEqual(self.files("."), [])
        self.refused("nowhere: is neither a Hugging Face folder (it has no config.json) nor a .heddle file", "nowhere", "--print-name")

    def test_names_and_forms_that_cannot_be(self):
        rule = "a library's name is made of lower-case letters, digits and underscores, begins with no digit, and hides no file of the system, such as <string.h>"
        for name, good in (("My-Bert", "my_bert"), ("string", "model_string"), ("2d", "model_2d")):
            self.refused(f"--name {name}: {rule}; `{good}` would do", GOLDENS / "bert_model", "--name", name, status=2)
        self.refused("--emit so,dll: there is no form `dll`; there are so, a, o and ptx, with commas between",
                     GOLDENS / "bert_model", "--emit", "so,dll", status=2)  # fmt: skip

    def test_a_library_with_its_weights_is_one_file_to_ship(self):
        said = self.compile(GOLDENS / "bert_model", "--embed-weights", "-o", "out")
        self.assertRegex(said, r", weights 0\.3[12] MB in it, ")  # panels are as wide as the vectors of the CPU
        self.compile(GOLDENS / "bert_model", "-o", "plain")
        (self.folder / "ship").mkdir()
        shutil.copy(self.folder / "out" / "libbert.so", self.folder / "ship")
        given = safetensors.load_file(GOLDENS / "bert_model" / "2x9.in.safetensors")
        want = heddle.load(self.folder / "plain").session().run(given)["last_hidden_state"]
        model = heddle.load(self.folder / "ship")
        self.assertEqual(model.session().run(given)["last_hidden_state"].tobytes(), want.tobytes())
        model.verify()
        self.assertEqual(heddle.load(self.folder / "ship", copy_weights=True).session().run(given)["last_hidden_state"].tobytes(),
                         want.tobytes())  # fmt: skip
        self.assertIn("intact", self.done(HEDDLE, "check", "out"))
        (self.folder / "ship" / "bert.weights").write_text("of an older compilation, perhaps")
        heddle.load(self.folder / "ship")
        with self.assertRaisesRegex(heddle.Error, "bert.weights is truncated"):
            heddle.load(self.folder / "ship", weights=self.folder / "ship" / "bert.weights")

    def test_an_observer_is_told_of_every_kernel(self):
        self.compile(GOLDENS / "bert_model", "-o", "out")
        session, told = heddle.load(self.folder / "out").session(), []
        session.observe(lambda *what: told.append(what))
        session.run({"input_ids": [[1, 2]]})
        self.assertGreater(len(told), 20)
        self.assertEqual([begins for _, begins in told], [True, False] * (len(told) // 2))
        before = len(told)
        session.observe(None)
        session.run({"input_ids": [[1, 2]]})
        self.assertEqual(len(told), before)

    def test_the_python_module_has_the_entries_with_types(self):
        (self.folder / "words.heddle").write_text(
            "dim B <= 4\nmodel M {\n  state total: i32[B] = 0\n"
            "  entry score(x: real[B, 3], lambda: index(7)[B] = 2, self: real[B]) -> class: real[B, 3], del: i32[B] {\n"
            "    y[b, i] = x[b, i] + self[b] * real(lambda[b])\n    total[b] <- total[b] + lambda[b]\n    return y, lambda\n  }\n}\n")  # fmt: skip
        self.compile("words.heddle", "-o", "out")
        program = """
import inspect, sys, typing, numpy as np
sys.path.insert(0, "out")
import words_model
session = words_model.load().session(threads=1)
method = session.score_
print(list(inspect.signature(method).parameters))
hints = typing.get_type_hints(words_model.ScoreResults, vars(words_model))
print(sorted(hints), typing.get_type_hints(method, vars(words_model))["return"] is words_model.ScoreResults)
print("state total: read and updated" in method.__doc__, "lambda_: i32[B], each from 0 to below 7; if not given" in method.__doc__)
results = method(np.ones((1, 3), np.float32), np.float32([2]))
print(results["class"].tolist(), results["del"].tolist(), method(np.zeros((1, 3), np.float32), np.float32([1]), lambda_=[5])["class"].tolist())
"""
        env = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
        done = subprocess.run([sys.executable, "-c", program], cwd=self.folder, env=env, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.splitlines(), ["['x', 'self_', 'lambda_', 'out']", "['class', 'del'] True", "True True",
                                                    "[[5.0, 5.0, 5.0]] [2] [[5.0, 5.0, 5.0]]"])  # fmt: skip

    def test_weights_are_looked_for_beside_the_library(self):
        self.compile(GOLDENS / "bert_model", "-o", "out")
        (self.folder / "out" / "bert.weights").unlink()
        path = self.folder / "out" / "bert.weights"
        with self.assertRaises(heddle.Error) as caught:
            heddle.load(self.folder / "out")
        self.assertEqual(str(caught.exception), f"{path} cannot be opened: No such file or directory")
        status, _, err = run(HEDDLE, "check", "out", cwd=self.folder)
        self.assertEqual((status, err), (1, "error: out/bert.weights cannot be opened: No such file or directory\n"))

    def test_pkg_config_tells_how_to_build_with_each_form(self):
        if not shutil.which("pkg-config"):
            print("[SKIP] no pkg-config")
            return
        (self.folder / "main.c").write_text('#include "mine.h"\nint main(void) { heddle_model *m; return mine_load(NULL, &m); }\n')
        for form in ("so", "a", "o", "so,a,o"):
            self.compile(GOLDENS / "bert_model", "--name", "mine", "--emit", form, "--embed-weights", "-o", f"in {form}")
            env = {**os.environ, "PKG_CONFIG_PATH": str(self.folder / f"in {form}")}
            flags = subprocess.run(["pkg-config", "--cflags", "--libs", "mine"], env=env, capture_output=True, text=True, check=True)
            self.done("sh", "-c", f"cc main.c {flags.stdout.strip()} -o program")
            env["LD_LIBRARY_PATH"] = str(self.folder / f"in {form}")
            self.assertEqual(run("./program", cwd=self.folder, env=env), (0, "", ""), form)


class Depfile(Scratch):
    def test_it_names_all_files_that_were_read(self):
        (self.folder / "part.heddle").write_text("fn twice(x: real) -> real { return 2 * x }\n")
        (self.folder / "my model.heddle").write_text(
            'use part: twice\nconfig N "n" = 3\ndim B\nmodel M {\n  param w: real[N]\n'
            "  entry apply(x: real[B, N]) -> y: real[B, N] {\n    y[b, i] = twice(x[b, i]) * w[i]\n    return y\n  }\n}\n")  # fmt: skip
        (self.folder / "c$.json").write_text('{"n": 2}')
        safetensors.save_file({"w": np.float32([1, 2])}, self.folder / "w.safetensors")
        self.compile("my model.heddle", "--config", "c$.json", "--weights", "w.safetensors", "--name", "mine", "--depfile", "m.d",
                     "-o", "out")  # fmt: skip
        at = str(self.folder)
        self.assertEqual((self.folder / "m.d").read_text(),
                         " \\\n  ".join([f"{at}/out/libmine.so:", f"{at}/my\\ model.heddle", f"{at}/c$$.json",
                                         f"{at}/w.safetensors", f"{at}/part.heddle"]) + "\n")  # fmt: skip
        (self.folder / "Makefile").write_text("out/libmine.so:\n\techo again\n-include m.d\n")
        if shutil.which("make"):
            text = (self.folder / "m.d").read_text().replace(f"{at}/out", "out")
            (self.folder / "m.d").write_text(text)
            for path in self.folder.iterdir():
                os.utime(path, (1e9, 1e9))
            os.utime(self.folder / "out" / "libmine.so", (1.1e9, 1.1e9))
            self.assertIn("up to date", self.done("make", "out/libmine.so"))
            os.utime(self.folder / "part.heddle", (1.2e9, 1.2e9))
            self.assertIn("again", self.done("make", "out/libmine.so"))


if __name__ == "__main__":
    unittest.main()
