#!/usr/bin/env python3
"""Installs wheels in a new virtual environment and uses them as a reader of README would: a Hugging Face folder is compiled,
run from Python, and called from a CMake project of a few lines.

    try_wheels.py heddle-….whl heddle_compiler-….whl

It needs Python with venv, the package index, and a C compiler, and nothing of the build: the file runs on a bare system."""

import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

PROJECT = """cmake_minimum_required(VERSION 3.25)
project(app LANGUAGES C CXX)
find_package(Heddle REQUIRED)
add_executable(app main.c)
heddle_add_model(app MODEL bert NAME encoder)
"""
MAIN = """#include <encoder.h>
#include <stdio.h>
int main(void) {
  heddle_model *model;
  heddle_session *session;
  int32_t ids[] = {3, 1, 4, 1, 5};
  float out[5 * 8];
  if (encoder_load(NULL, &model) || heddle_session_create(model, NULL, &session) ||
      encoder_encode(session, 1, 5, ids, NULL, NULL, out, NULL))
    return puts(heddle_last_error()), 1;
  printf("%.9g\\n", out[39]);
  return 0;
}
"""
INSIDE = """
import sys, numpy as np, heddle
session = heddle.load(sys.argv[1]).session()
out = session.run({"input_ids": np.array([[3, 1, 4, 1, 5]])})["last_hidden_state"]
print("%.9g" % out[0, 4, 7])
"""
CONFIG = {
    "model_type": "bert", "architectures": ["BertModel"], "hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 2,
    "intermediate_size": 16, "vocab_size": 11, "max_position_embeddings": 16, "type_vocab_size": 2, "layer_norm_eps": 1e-12,
    "hidden_act": "gelu", "pad_token_id": 0,
}  # fmt: skip
WEIGHTS = """
import sys, numpy as np
from safetensors.numpy import save_file
random = np.random.default_rng(0)
def tensor(*shape): return random.standard_normal(shape, np.float32)
out = {"embeddings.word_embeddings.weight": tensor(11, 8), "embeddings.position_embeddings.weight": tensor(16, 8),
       "embeddings.token_type_embeddings.weight": tensor(2, 8), "embeddings.LayerNorm.weight": tensor(8),
       "embeddings.LayerNorm.bias": tensor(8), "pooler.dense.weight": tensor(8, 8), "pooler.dense.bias": tensor(8)}
for layer in range(2):
    for part, rows, columns in [("attention.self.query", 8, 8), ("attention.self.key", 8, 8), ("attention.self.value", 8, 8),
                                ("attention.output.dense", 8, 8), ("intermediate.dense", 16, 8), ("output.dense", 8, 16)]:
        out[f"encoder.layer.{layer}.{part}.weight"] = tensor(rows, columns)
        out[f"encoder.layer.{layer}.{part}.bias"] = tensor(rows)
    for part in ("attention.output.LayerNorm", "output.LayerNorm"):
        out[f"encoder.layer.{layer}.{part}.weight"], out[f"encoder.layer.{layer}.{part}.bias"] = tensor(8), tensor(8)
save_file(out, sys.argv[1])
"""


def main(wheels):
    with tempfile.TemporaryDirectory() as scratch:
        at = Path(scratch)
        venv.create(at / "venv", with_pip=True)
        bin = at / "venv" / "bin"
        env = {"PATH": f"{bin}:/usr/bin:/bin", **{name: os.environ[name] for name in os.environ if "PROXY" in name.upper() or name.startswith("PIP_")}}

        def run(*words):
            print("$", *(Path(word).name if isinstance(word, Path) else word for word in words if "\n" not in str(word)), flush=True)
            return subprocess.run([str(word) for word in words], cwd=at, env=env, check=True, stdout=subprocess.PIPE, text=True).stdout

        run(bin / "pip", "install", "--quiet", "--disable-pip-version-check", *map(os.path.abspath, wheels))
        print(run("heddle", "--version"), end="")
        (at / "bert").mkdir()
        (at / "bert" / "config.json").write_text(json.dumps(CONFIG))
        run(bin / "pip", "install", "--quiet", "--disable-pip-version-check", "safetensors", "cmake", "ninja")
        run(bin / "python", "-c", WEIGHTS, "bert/model.safetensors")
        print(run("heddle", "compile", "bert", "-o", "out"), end="")
        from_python = run(bin / "python", "-c", INSIDE, "out")
        (at / "CMakeLists.txt").write_text(PROJECT)
        (at / "main.c").write_text(MAIN)
        run("cmake", "-G", "Ninja", "-B", "build")
        run("cmake", "--build", "build")
        from_c = run("./build/app")
        if from_c != from_python:
            sys.exit(f"C says {from_c}, Python {from_python}")
        print("both give", from_c, end="")


main(sys.argv[1:])
