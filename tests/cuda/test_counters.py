#!/usr/bin/env python3
"""What the emulated device counts of models at their true sizes, with few layers. Of each launch some blocks are
executed, as far apart as they can be, and the rest is left out: numbers are meaningless, costs are not."""

import collections
import json
import re
import subprocess
import sys
import unittest
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
from emulator import HEDDLE, ROOT, OnEmulatedGpu, blocks, counted  # noqa: E402

import heddle  # noqa: E402

loader = SourceFileLoader("bench_gpu_run", str(ROOT / "bench" / "gpu" / "run"))
bench = module_from_spec(spec_from_loader("bench_gpu_run", loader))
loader.exec_module(bench)

SAMPLED = 3  # blocks of a launch
GLOBAL, SHARED = ("load_global", "store_global", "async_copy"), ("load_shared", "store_shared", "async_store")


class Counters(OnEmulatedGpu):
    def tearDown(self):
        self.emulator.heddle_emulator_set(b"blocks", 0)
        self.emulator.heddle_emulator_set(b"checks", 1)
        super().tearDown()

    def compiled(self, name, precision, words):
        source, folder = ROOT / "models" / name / f"{name}.heddle", self.folder / f"{name}-{precision}"
        settings = [part for pair in zip(words, words[1:]) if pair[0] == "--set" for part in pair]
        graph = subprocess.run([HEDDLE, "show", source, *settings, "--stage", "graph"], capture_output=True, text=True)
        self.assertEqual(graph.returncode, 0, graph.stderr)
        bench.empty_weights(graph.stdout, self.folder / f"{name}.safetensors")
        done = subprocess.run([HEDDLE, "compile", source, *words, "--target", "cuda:sm_80", "--precision", precision,
                               "--weights", self.folder / f"{name}.safetensors", "-o", folder], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return folder

    def kernels_of(self, folder, calls):
        """Runs the calls, of which the last one counts; gives what was launched: kernel, its row, and its launches' names."""
        self.emulator.heddle_emulator_set(b"checks", 0)
        self.emulator.heddle_emulator_set(b"blocks", SAMPLED)
        with heddle.load(folder) as model, model.session() as session:
            for entry, inputs in calls:
                self.emulator.heddle_emulator_clear_counters()
                session.run(inputs, entry=entry)
            described = json.loads(next(folder.glob("*.json")).read_text())
            for kernel in described["kernels"]:
                for row in kernel["schedule"]:
                    launches = []
                    while blocks(self.emulator, f"{row['symbol']}_{len(launches)}")[0]:
                        launches.append(f"{row['symbol']}_{len(launches)}")
                    if launches:
                        yield kernel, row, launches

    def each_call(self, what, launch, field="cost"):
        """Of all blocks of a launch."""
        launched, executed = blocks(self.emulator, launch)
        times = self.emulator.heddle_emulator_launches(launch.encode())
        return getattr(counted(self.emulator, what, launch), field) * launched / executed / times

    def check_attention(self, row, launch, what, rows, keys):
        """Of 12 heads with 64 features; a block reads its rows once, and keys and values of its head."""
        width, params = 64, row["params"]
        if row["variant"] == "tensor_keys":
            side, block, element, brings = params["rows"], 64, 2, "async_copy"
            needed = 12 * 2 * -(-rows // side) * side * -(-keys // block) * block * width // (16 * 8 * 16)
            self.assertAlmostEqual(self.each_call("matrix", launch, "warps") / needed, 1, delta=0.05, msg=what)
        else:
            self.assertEqual(row["variant"], "staged_keys", what)
            side, element, brings = 16 * params["per_thread"], 4, "load_global"
        least = 12 * (rows * params["splits"] + 2 * keys * -(-rows // side)) * width * element
        self.assertLessEqual(self.each_call(brings, launch) * 32, 1.3 * least, what)
        self.assertGreater(self.each_call(brings, launch) * 32, 0.5 * least, what)

    def check(self, folder, calls, products, attention, narrow):
        """`products`: of each contraction or convolution, in the order of kernels, rows, columns, and terms; `attention`: rows
        and keys of the one that there is. Returns how many launches there are of kernels of each kind."""
        products, found, element, kinds = iter(products), 0, 2 if narrow else 4, collections.Counter()
        for kernel, row, launches in self.kernels_of(folder, calls):
            what = f"{kernel['name']}, {row['variant']} {row['params']}"
            kinds[kernel["kind"]] += len(launches)
            for launch in launches:
                for names, most in ((GLOBAL, 1.25), (SHARED, 1.1)):
                    for name in names:
                        counter = counted(self.emulator, name, launch)
                        self.assertLessEqual(counter.cost, most * counter.ideal, f"{what}: {name}")
            if kernel["kind"] == "attention":
                self.check_attention(row, launches[0], what, *attention)
                attention = None
            if kernel["kind"] not in ("contraction", "convolution"):
                continue
            rows, columns, terms = next(products)
            found += 1
            if row["variant"] == "few_rows":
                tile = row["params"]["rows"]
                of_warp = 4 if tile <= 4 else 2  # columns; of whose rows the terms come again
                least = -(-rows // tile) * columns * terms * element + rows * terms * element * columns / of_warp
                self.assertLessEqual(self.each_call("load_global", launches[0]) * 32, 1.3 * least, what)
                continue
            self.assertIn(row["variant"], ("staged_tiles", "tensor_tiles"), what)
            side = row["params"].get("side") or 16 * row["params"]["per_thread"]
            down, across = -(-rows // side), -(-columns // side)
            least = (across * rows + down * columns) * terms * element
            self.assertLessEqual(self.each_call("async_copy", launches[0]) * 32, 1.3 * least, what)
            self.assertGreater(self.each_call("async_copy", launches[0]) * 32, 0.5 * least, what)
            if narrow:
                needed = down * across * (side // 16) * (side // 8) * terms // 16
                self.assertAlmostEqual(self.each_call("matrix", launches[0], "warps") / needed, 1, delta=0.05, msg=what)
        self.assertGreater(found, 3)
        self.assertIsNone(next(products, None), "a product is missing")
        self.assertIsNone(attention, "attention is missing")
        return kinds

    def test_bert_base(self):
        words = ["--set", "num_hidden_layers=1", "--set", "vocab_size=99", "--dim", "B=1", "--dim", "S=128"]
        products = [(128, 3 * 768, 768), (128, 768, 768), (128, 3072, 768), (128, 768, 3072), (1, 768, 768)]
        for precision in ("f32", "bf16"):
            folder = self.compiled("bert", precision, words)
            self.check(folder, [("encode", {"input_ids": np.zeros((1, 128), np.int32)})], products, (128, 128), precision == "bf16")

    def test_vit_base(self):
        words = ["--set", "num_hidden_layers=1", "--dim", "B=1"]
        products = [(196, 768, 768), (197, 3 * 768, 768), (197, 768, 768), (197, 3072, 768), (197, 768, 3072), (1, 768, 768)]
        for precision in ("f32", "bf16"):
            folder = self.compiled("vit", precision, words)
            picture = np.zeros((1, 3, 224, 224), np.float32)
            self.check(folder, [("encode", {"pixel_values": picture})], products, (197, 197), precision == "bf16")

    def test_gpt2_decodes(self):
        """A token behind 950."""
        words = ["--set", "n_layer=1", "--dim", "B=1", "--dim", "T=1", "--dim", "P=950"]
        projected, others, attended = (1, 3 * 768, 768), [(1, 3072, 768), (1, 768, 3072), (1, 50257, 768)], (1, 768, 768)
        for precision in ("f32", "bf16"):
            folder = self.compiled("decoder_lm", precision, words)
            calls = [("step", {"input_ids": np.zeros((1, count), np.int32)}) for count in (950, 1)]
            # The step's last product of attention is its own, as it is of the last token alone. In bf16 queries, keys and
            # values leave the forward pass's kernel rounded, and the step has one of its own for them, too.
            order = [projected, *others, attended] if precision == "f32" else [*others, projected, attended]
            kinds = self.check(folder, calls, order, (1, 951), precision == "bf16")
            self.assertEqual(kinds["pointwise"], 3, "the last token's queries of one product; keys and values go to their heads")


if __name__ == "__main__":
    unittest.main()
