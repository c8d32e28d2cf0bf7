#!/usr/bin/env python3
"""A library that is compiled again into the same folder and loaded again in one process, as in a notebook: the new code
runs, what was loaded before goes on with the old, and files of two compilations are told apart."""

import shutil
import subprocess
import unittest

import numpy as np

import heddle
from test_cli import HEDDLE, Scratch

FORMULAS = ["x[b, d] + w[d]", "x[b, d] * w[d]", "x[b, d] - w[d]", "max(x[b, d], w[d])", "x[b, d] + 2 * w[d]"]
WANTED = [lambda x, w: x + w, lambda x, w: x * w, lambda x, w: x - w, np.maximum, lambda x, w: x + 2 * w]


class Recompiled(Scratch):
    def setUp(self):
        super().setUp()
        self.w = np.array([3, 5, 7, 11], np.float32)
        self.save("w.safetensors", {"w": self.w})
        self.x = np.arange(8, dtype=np.float32).reshape(2, 4)

    def compile_formula(self, formula, output="out"):
        (self.folder / "scaled.heddle").write_text(f"""dim B
model Scaled {{
  param w: real[4]
  entry run(x: real[B, 4]) -> y: real[B, 4] {{
    y[b, d] = {formula}
    return y
  }}
}}
""")
        self.done("compile", "scaled.heddle", "--weights", "w.safetensors", "-o", output)

    def answer(self, session):
        return session.run({"x": self.x})["y"]

    def test_five_compilations_in_one_process_give_five_answers_and_go_on_giving_them(self):
        sessions, builds = [], set()
        for formula in FORMULAS:
            self.compile_formula(formula)
            model = heddle.load(self.folder / "out")
            builds.add(model.build)
            sessions.append(model.session(threads=2))
            for session, wanted in zip(sessions, WANTED):
                np.testing.assert_array_equal(self.answer(session), wanted(self.x, self.w))
        self.assertEqual(len(builds), 5)

    def test_other_sizes_and_values_in_the_same_folder(self):
        """As repro.py of the find: the interface changes, too."""
        (self.folder / "s.heddle").write_text(
            "config D = 4\ndim B\nmodel S {\n  param w: real[D]\n  entry run(x: real[B, D]) -> y: real[B, D] {\n"
            "    y[b, d] = x[b, d] * w[d]\n    return y\n  }\n}\n")
        for n in (4, 6, 3, 6, 4):
            self.save("w.safetensors", {"w": np.full(n, n, np.float32)})
            self.done("compile", "s.heddle", "--set", f"D={n}", "--weights", "w.safetensors", "-o", "s")
            session = heddle.load(self.folder / "s").session()
            self.assertEqual(session.run({"x": np.ones((1, n), np.float32)})["y"].tolist(), [[n] * n])

    def test_a_library_that_is_closed_makes_room_for_the_next(self):
        for formula, wanted in zip(FORMULAS, WANTED):
            self.compile_formula(formula)
            with heddle.load(self.folder / "out") as model, model.session() as session:
                np.testing.assert_array_equal(self.answer(session), wanted(self.x, self.w))

    def test_weights_of_another_compilation_are_refused(self):
        self.compile_formula(FORMULAS[0])
        self.compile_formula(FORMULAS[1], "other")
        shutil.copy(self.folder / "other" / "scaled.weights", self.folder / "out" / "scaled.weights")
        here, there = heddle.load(self.folder / "other").build, self.build("out")
        with self.assertRaises(heddle.Error) as caught:
            heddle.load(self.folder / "out")
        self.assertEqual(str(caught.exception),
                         f"{self.folder}/out/scaled.weights comes from another compilation of 'scaled' than the library (build {here}, the "
                         f"library is build {there}); use the weights file that was written with it, or compile the model again")

    def build(self, name):
        import json
        return json.loads((self.folder / name / "scaled.json").read_text())["build"]

    def test_the_same_model_with_other_values_takes_the_weights_of_either(self):
        self.compile_formula(FORMULAS[1])
        self.save("w.safetensors", {"w": self.w + 1})
        self.compile_formula(FORMULAS[1], "tuned")
        model = heddle.load(self.folder / "out", weights=self.folder / "tuned" / "scaled.weights")
        np.testing.assert_array_equal(self.answer(model.session()), self.x * (self.w + 1))

    def test_a_c_program_sees_every_new_version(self):
        for formula in FORMULAS:
            self.compile_formula(formula, "v" + str(FORMULAS.index(formula)))
        (self.folder / "main.c").write_text("""#include "heddle.h"
#include <stdlib.h>
int main(int count, char **words) {
  heddle_session *sessions[8];
  for (int i = 1; i < count; i++) {
    char move[400];
    heddle_model *model;
    snprintf(move, sizeof move, "for f in %s/*; do mv $f out/; done", words[i]);
    if (system(move) || heddle_open("out", NULL, &model) || heddle_session_create(model, NULL, &sessions[i])) {
      puts(heddle_last_error());
      return 1;
    }
    for (int j = 1; j <= i; j++) {
      float x[4] = {1, 2, 3, 4}, y[4];
      int64_t shape[] = {1, 4};
      heddle_tensor in = heddle_dense("x", HEDDLE_F32, x, 2, shape), out = heddle_dense("y", HEDDLE_F32, y, 2, shape);
      if (heddle_run(sessions[j], 0, &in, 1, &out, 1))
        return 2;
      printf("%g ", y[3]);
    }
    puts("");
  }
  return 0;
}
""")
        (self.folder / "out").mkdir()
        subprocess.run(["clang-22", "-std=c11", "-Wall", "-Wextra", "-Werror", "main.c", "-I", "v0", "-o", "main"], cwd=self.folder, check=True)
        done = subprocess.run(["./main"] + [f"v{i}" for i in range(5)], cwd=self.folder, capture_output=True, text=True)
        answers = [f"{wanted(np.float32(4), np.float32(11)):g} " for wanted in WANTED]
        self.assertEqual(done.stdout, "".join("".join(answers[:i + 1]) + "\n" for i in range(5)), done.stderr)


if __name__ == "__main__":
    unittest.main()
