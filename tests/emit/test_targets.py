#!/usr/bin/env python3
"""One library with code for several CPUs: the best that fits is taken when it is loaded, here and on an emulated Haswell, and
weights that two targets want in the same layout are there once."""

import json
import os
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

import numpy as np

import heddle

sys.path += [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[1] / "models")]
from heddle_command import GOLDENS, HEDDLE, difference, must, tensors  # noqa: E402
from scratch import SharedScratch  # noqa: E402

BERT = GOLDENS / "bert_model"
CC = next(name for name in ("clang-22", "gcc") if shutil.which(name))

# Opens the library of argv[1], for the target argv[2] or the best, says which it took and writes [2, 9, H] numbers.
PROGRAM = r"""
#include "heddle.h"
#include <stdlib.h>
int main(int count, char **words) {
  heddle_model_options options = HEDDLE_INIT(heddle_model_options);
  heddle_model_info info = HEDDLE_INIT(heddle_model_info);
  heddle_session_options one = HEDDLE_INIT(heddle_session_options);
  heddle_model *model;
  heddle_session *session;
  int32_t ids[18];
  int64_t shape[] = {2, 9};
  heddle_tensor in = heddle_dense("input_ids", HEDDLE_I32, ids, 2, shape), out[2];
  one.threads = 1;
  options.target = count > 2 ? words[2] : NULL;
  if (fread(ids, sizeof ids, 1, stdin) != 1 || heddle_open(words[1], &options, &model) ||
      heddle_model_describe(model, &info) || heddle_session_create(model, &one, &session) ||
      heddle_result_shapes(model, 0, &in, 1, out, 2))
    return fputs(heddle_last_error(), stderr), 1;
  size_t bytes = 4 * out[0].shape[0] * out[0].shape[1] * out[0].shape[2];
  out[0].data = malloc(bytes);
  if (heddle_run(session, 0, &in, 1, out, 1))
    return fputs(heddle_last_error(), stderr), 1;
  printf("%s\n", info.target);
  return fwrite(out[0].data, bytes, 1, stdout) != 1;
}
"""


class Targets(SharedScratch):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.said = cls.compile(BERT, "--target", "x86-64-v3,x86-64-v4+bf16,x86-64-v4", "-o", "several")
        (cls.folder / "main.c").write_text(PROGRAM)
        subprocess.run([CC, "-Iseveral", "main.c", "-ldl", "-o", "main"], cwd=cls.folder, check=True)
        cls.given = tensors(BERT / "2x9.in.safetensors")["input_ids"].astype(np.int32)
        flags = Path("/proc/cpuinfo").read_text()  # a library in f32 needs AVX-512 and no more
        cls.best = "x86-64-v4+bf16" if "avx512vl" in flags else "x86-64-v3"

    @classmethod
    def compile(cls, *words):
        return subprocess.run([HEDDLE, "compile", *map(str, words)], cwd=cls.folder, check=True, capture_output=True, text=True).stdout

    def run_program(self, *words, emulator=()):
        """The target that was taken, and the numbers; or the message."""
        done = subprocess.run([*emulator, "./main", *words], cwd=self.folder, input=self.given.tobytes(), capture_output=True)
        if done.returncode:
            return None, done.stderr.decode().splitlines()[-1]
        target, numbers = done.stdout.split(b"\n", 1)
        return target.decode(), np.frombuffer(numbers, np.float32)

    def manifest(self, folder):
        return json.loads((self.folder / folder / "bert.json").read_text())

    def test_the_best_that_fits_is_taken_here_and_on_a_haswell(self):
        haswell = ["qemu-x86_64", "-cpu", "Haswell"]
        self.assertTrue(shutil.which(haswell[0]), "qemu-user is not installed")
        # `--reference` wants the folder's own file of inputs; the golden's mask is another one.
        must("run", BERT, "--reference", "--in", self.ids(), "--out", self.folder / "want.safetensors")
        want = tensors(self.folder / "want.safetensors")["last_hidden_state"].ravel()
        here, numbers = self.run_program("several")
        self.assertEqual(here, self.best)
        self.assertLess(difference({"y": numbers}, {"y": want}), 2e-4)
        there, numbers = self.run_program("several", emulator=haswell)
        self.assertEqual(there, "x86-64-v3")
        self.assertLess(difference({"y": numbers}, {"y": want}), 2e-4)
        self.compile(BERT, "--target", "x86-64-v4", "-o", "wide")
        self.assertEqual(self.run_program("wide", emulator=haswell), (None,
                         "model 'bert' was compiled for x86-64-v4 and needs AVX-512 (F, CD, BW, DQ, VL), which this machine lacks; compile "
                         "it with --target native on this machine, or for a lower target such as x86-64-v3"))  # fmt: skip

    def ids(self):
        from safetensors import numpy as safetensors

        safetensors.save_file({"input_ids": self.given}, self.folder / "ids.safetensors")
        return self.folder / "ids.safetensors"

    def test_a_target_by_name_gives_the_bits_of_a_library_for_it_alone(self):
        self.compile(BERT, "--target", "x86-64-v3", "-o", "narrow")
        _, alone = self.run_program("narrow")
        target, named = self.run_program("several", "x86-64-v3")
        self.assertEqual(target, "x86-64-v3")
        self.assertEqual(named.tobytes(), alone.tobytes())
        model = heddle.load(self.folder / "several", target="x86-64-v3")
        self.assertEqual(model.target, "x86-64-v3")
        self.assertEqual(model.session().run({"input_ids": self.given})["last_hidden_state"].tobytes(), alone.tobytes())
        must("run", self.folder / "several", "--target", "x86-64-v3", "--in", self.ids(), "--out", self.folder / "out.safetensors")
        self.assertEqual(tensors(self.folder / "out.safetensors")["last_hidden_state"].tobytes(), alone.tobytes())
        self.assertEqual(self.run_program("several", "x86-64-v2"), (None,
                         "model 'bert' was not compiled for target 'x86-64-v2'; it has: x86-64-v4+bf16, x86-64-v4, x86-64-v3"))  # fmt: skip

    def test_avx512_goes_before_the_dot_product_of_256_bits(self):
        self.compile(BERT, "--target", "x86-64-v3+vnni,x86-64-v4,x86-64-v3", "--precision", "int8", "-o", "bytes")
        manifest = self.manifest("bytes")
        self.assertEqual([manifest["target"], *(lower["target"] for lower in manifest["lower_targets"])],
                         ["x86-64-v4", "x86-64-v3+vnni", "x86-64-v3"])  # fmt: skip
        features = [lower["cpu_features"] for lower in manifest["lower_targets"]]
        self.assertEqual(features, [["AVX2", "AVX_VNNI"], ["AVX2"]])
        there, numbers = self.run_program("bytes", "x86-64-v3+vnni")
        if there:  # whose weights are finer than those of x86-64-v3
            self.compile(BERT, "--target", "x86-64-v4+vnni", "--precision", "int8", "-o", "finer")
            self.assertLess(difference({"y": numbers}, {"y": self.run_program("finer")[1]}), 1e-5)
        else:
            self.assertIn("needs AVX-VNNI, which this machine lacks", numbers)
        self.assertEqual(self.run_program("bytes", emulator=["qemu-x86_64", "-cpu", "Haswell"])[0], "x86-64-v3")

    def test_it_is_said_what_the_library_has_and_what_is_used(self):
        manifest = self.manifest("several")
        self.assertEqual([manifest["target"], *(lower["target"] for lower in manifest["lower_targets"])],
                         ["x86-64-v4+bf16", "x86-64-v4", "x86-64-v3"])  # fmt: skip
        self.assertEqual(manifest["lower_targets"][1]["cpu_features"], ["AVX2"])
        self.assertEqual(manifest["lower_targets"][1]["kernels"], self.manifest_of("x86-64-v3")["kernels"])
        self.assertIn("// Compiled for x86-64-v4+bf16, x86-64-v4, x86-64-v3; the first that fits the machine is used.\n",
                      (self.folder / "several" / "bert.h").read_text())  # fmt: skip
        others = ", ".join(name for name in ("x86-64-v4+bf16", "x86-64-v4", "x86-64-v3") if name != self.best)
        checked = subprocess.run([HEDDLE, "check", "several"], cwd=self.folder, capture_output=True, text=True).stdout
        self.assertEqual(checked, "several: the library loads and its weights are intact\n"
                         f"this machine runs its code for {self.best}; the others are for {others}\n")  # fmt: skip
        for words, target in (((), self.best), (("--target", "x86-64-v3"), "x86-64-v3")):
            said = subprocess.run([HEDDLE, "bench", "several", "--dim", "B=2", "--dim", "S=9", *words, "--json", "bench.json"],
                                  cwd=self.folder, capture_output=True, text=True).stdout  # fmt: skip
            self.assertIn(f" GB/s\ncode for {target}\n", said)
            bench = json.loads((self.folder / "bench.json").read_text())
            kernels = {kernel["name"]: kernel["kind"] for kernel in self.manifest_of(target)["kernels"]}
            self.assertEqual(bench["target"], target)
            self.assertEqual({kernel["kernel"]: kernel["kind"] for kernel in bench["kernels"]}, kernels)
            self.assertIn("gflops", bench["kernels"][-1])

    def manifest_of(self, target):
        if not (self.folder / target).exists():
            self.compile(BERT, "--target", target, "-o", target)
        return self.manifest(target)

    def test_a_weight_is_packed_once_per_layout(self):
        lines = self.said.splitlines()
        self.assertIn(", for x86-64-v4+bf16, x86-64-v4, x86-64-v3, ", lines[0])
        bytes_of = {target: self.manifest_of(target)["weights_bytes"] for target in ("x86-64-v3", "x86-64-v4")}
        whole = self.manifest("several")["weights_bytes"]
        self.assertLess(whole, sum(bytes_of.values()), "biases and tables have one layout")
        self.assertGreater(whole, max(bytes_of.values()), "panels of 8 and of 16 lanes are two")
        self.assertEqual((self.folder / "several" / "bert.weights").stat().st_size, whole + 4096)
        parts = [line for line in lines if " kernels, weights " in line and not line.startswith("several")]
        self.assertEqual([line.split(":")[0] for line in parts], ["x86-64-v4+bf16", "x86-64-v4", "x86-64-v3"])
        self.assertRegex(parts[0], r"weights [\d.]+ MB$")
        self.assertRegex(parts[1], r"weights ([\d.]+ MB) \(\1 shared with the above\)$")

    def test_in_one_file_with_the_weights_and_in_a_program(self):
        self.compile(BERT, "--target", "x86-64-v3,x86-64-v4", "--emit", "so,a", "--embed-weights", "-o", "inside")
        (self.folder / "inside.c").write_text("""#include "bert.h"
int main(void) {
  heddle_model_options options = HEDDLE_INIT(heddle_model_options);
  heddle_model_info info = HEDDLE_INIT(heddle_model_info);
  heddle_model *model;
  heddle_session *session;
  static float numbers[18 * 60];
  int32_t ids[18];
  options.target = "x86-64-v3";
  const heddle_api *api = bert_heddle_api();
  if (fread(ids, sizeof ids, 1, stdin) != 1 || heddle_pass_on(api, api->model_load(&options, &model)) ||
      heddle_session_create(model, NULL, &session) || bert_encode(session, 2, 9, ids, NULL, NULL, numbers, NULL))
    return puts(heddle_last_error()), 1;
  return heddle_model_describe(model, &info) || fwrite(numbers, sizeof numbers, 1, stdout) != 1;
}
""")
        subprocess.run([CC, "-Iinside", "inside.c", "inside/libbert.a", "-lm", "-lpthread", "-ldl", "-o", "alone"],
                       cwd=self.folder, check=True)  # fmt: skip
        said = subprocess.run(["./alone"], cwd=self.folder, input=self.given.tobytes(), capture_output=True)
        self.assertEqual(said.returncode, 0, said.stdout)
        self.assertEqual(said.stdout, self.run_program("several", "x86-64-v3")[1].tobytes())
        self.assertEqual(self.run_program("inside", "x86-64-v3")[1].tobytes(), said.stdout)

    def test_a_session_goes_on_with_the_code_of_another_target(self):
        self.compile(GOLDENS / "gpt2", "--target", "x86-64-v3,x86-64-v4", "-o", "gpt2")
        prompt = {"input_ids": np.int32([[5, 9, 2, 11]])}
        sessions = [heddle.load(self.folder / "gpt2", target=target).session() for target in ("x86-64-v3", None)]
        texts = [session.generate(prompt, steps=6)[0].tolist() for session in sessions]
        self.assertEqual(texts[0], texts[1])
        kept = sessions[0].save()
        sessions[1].reset()
        sessions[1].restore(kept)
        self.assertEqual(sessions[1].save(), kept)

    def test_what_cannot_be_asked_for(self):
        for words, status, message in (
            (("compile", BERT, "--target", "x86-64-v3,z80"), 2, "there is no target `z80`; the targets are native, x86-64-v3, "),
            (("compile", BERT, "--target", ","), 2, "there is no target ``; "),
            (("show", BERT, "--target", "x86-64-v3,x86-64-v4"), 1, "--target x86-64-v3,x86-64-v4: this command takes one target; `heddle compile` "),
        ):  # fmt: skip
            done = subprocess.run([HEDDLE, *map(str, words)], capture_output=True, text=True, cwd=self.folder)
            self.assertEqual(done.returncode, status)
            self.assertTrue(done.stderr.startswith(f"error: {message}"), done.stderr)


if __name__ == "__main__":
    unittest.main()
