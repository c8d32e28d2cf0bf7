#!/usr/bin/env python3
"""A library demands of a CPU what its code uses, and its code uses no more than that: what the manifest lists is what the
disassembly can be assembled again with, under exactly these features."""

import json
import re
import subprocess
import sys
import unittest
from pathlib import Path

import numpy as np

sys.path += [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[1] / "models")]
from heddle_command import HEDDLE, must, save, tensors  # noqa: E402
from scratch import SharedScratch  # noqa: E402

# Every kind of kernel, in both types of reals that have instructions of their own.
MODEL = """
dim B <= 64, S <= 64
model M {
  param table: real[50, 32]
  param w: real[48, 32]
  param filter: real[16, 3, 3, 8]
  entry run(ids: index(50)[B, S], image: real[B, S, S, 8])
      -> y: real[B, S, 48], z: real[B, S, 4, 8], p: real[B, S, S, 16], best: i32[B] {
    x[b, i, d] = table[ids[b, i], d]
    y[b, i, o] = gelu(sum[d](x[b, i, d] * w[o, d]))
    h[b, i, n in 4, e in 8] = x[b, i, n * 8 + e]
    s[b, n, i, j] = sum[e](h[b, i, n, e] * h[b, j, n, e]) / sqrt(8)
    z = attend(s, h)
    p[b, i in S, j in S, o] = sum[u, v, c](image[b, i + u - 1, j + v - 1, c | 0] * filter[o, u, v, c])
    best[b] = argmax[i](max[d](x[b, i, d]))
    return y, z, p, best
  }
}
"""

# What the GNU assembler calls the rows of runtime/cpu_features.def. SSE and SSE2 are part of x86-64.
BASE = "generic64+cmov+fxsr+mmx+sse2+syscall"
WORDS = {
    "AVX2": "sse3+ssse3+sse4.1+sse4.2+popcnt+cx16+avx2+fma+f16c+bmi+bmi2+lzcnt+movbe",
    "AVX512": "avx512f+avx512cd+avx512bw+avx512dq+avx512vl",
    "AVX512_VNNI": "avx512_vnni",
    "AVX512_BITS": "avx512ifma+avx512vbmi+avx512_vbmi2+avx512_bitalg+avx512_vpopcntdq",
    "AVX512_BF16": "avx512_bf16",
    "AMX": "amx_tile+amx_bf16+amx_int8",
    "AVX_VNNI": "avx_vnni",
}


def instructions(linked):
    """Each instruction once, as text that an assembler takes, but for functions of the runtime for better CPUs, which it
    calls where the model's target has what they use."""
    listing = subprocess.run(["objdump", "-d", "--no-show-raw-insn", "--no-addresses", linked], capture_output=True,
                             text=True, check=True).stdout
    sections = re.split("^Disassembly of section ", listing, flags=re.MULTILINE)
    listing = "".join(part for part in sections if not re.match(r"\.text\.\w+_avx(2|512):", part))
    lines = (re.sub(r"<[^>]*>", ".", line.split("#")[0]).strip() for line in listing.splitlines() if line.startswith("\t"))
    return sorted({line for line in lines if line and not re.match(".*nop|data16", line)})  # padding: no assembler takes it


def refused(lines, features):
    """What the assembler says of instructions that need more than these features."""
    march = "+".join([BASE, *(WORDS[name] for name in features)])
    done = subprocess.run(["as", "--64", f"-march={march}", "-o", "/dev/null", "-"], input="\n".join(lines) + "\n",
                          capture_output=True, text=True)
    return [line for line in done.stderr.splitlines() if "Error" in line]


class Features(SharedScratch):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        (cls.folder / "model.heddle").write_text(MODEL)
        random = np.random.default_rng(1)
        shapes = {"table": (50, 32), "w": (48, 32), "filter": (16, 3, 3, 8)}
        save(cls.folder / "weights.safetensors",
             {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()})

    def compile(self, target, *options):
        out = self.folder / "-".join([target, *options]).replace("=", "_")
        must("compile", self.folder / "model.heddle", "--weights", self.folder / "weights.safetensors", "--target", target, *options,
             "--emit", "so,o", "-o", out)
        return out, json.loads((out / "model.json").read_text())["cpu_features"]

    def test_each_target_needs_what_its_code_uses(self):
        for target in ("x86-64-v3", "x86-64-v3+vnni", "x86-64-v4", "x86-64-v4+vnni", "x86-64-v4+bf16", "x86-64-v4+amx"):
            for options in ((), ("--set", "real=bf16"), ("--precision", "int8")):
                with self.subTest(target=target, options=options):
                    out, features = self.compile(target, *options)
                    code = instructions(out / "model.o")
                    self.assertGreater(len(code), 1000)
                    self.assertEqual(refused(code, features), [])
                    self.assertNotEqual(refused(code, features[:-1]), [], "one feature less would do")

    def test_bytes_need_the_dot_product_alone(self):
        code = {}
        for target, features in (("x86-64-v3+vnni", ["AVX2", "AVX_VNNI"]), ("x86-64-v4+vnni", ["AVX2", "AVX512", "AVX512_VNNI"])):
            out, needed = self.compile(target, "--precision", "int8")
            self.assertEqual(needed, features)
            code[target] = [line for line in instructions(out / "model.o") if "vpdpbusd" in line]
        self.assertTrue(all("ymm" in line for line in code["x86-64-v3+vnni"]))
        self.assertGreater(len(code["x86-64-v3+vnni"]), 5)
        self.assertGreater(sum("zmm" in line for line in code["x86-64-v4+vnni"]), 5)

    def test_products_of_a_target_with_a_matrix_unit_use_it(self):
        (self.folder / "wide.heddle").write_text("""
dim B <= 512
model M {
  param up: real[512, 256]
  param down: real[256, 512]
  entry run(x: real[B, 256]) -> y: real[B, 256] {
    h[b, o] = gelu(sum[d](x[b, d] * up[o, d]))
    y[b, o] = sum[d](h[b, d] * down[o, d])
    return y
  }
}
""")
        random = np.random.default_rng(3)
        save(self.folder / "wide.safetensors", {"up": random.standard_normal((512, 256)).astype(np.float32),
                                                "down": random.standard_normal((256, 512)).astype(np.float32)})
        save(self.folder / "x.safetensors", {"x": random.standard_normal((40, 256)).astype(np.float32)})
        flags = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.M).group(1).split()
        for precision, product in (("bf16", "tdpbf16ps"), ("int8", "tdpbusd")):
            with self.subTest(precision=precision):
                out = self.folder / f"wide_{precision}"
                must("compile", self.folder / "wide.heddle", "--weights", self.folder / "wide.safetensors", "--target", "x86-64-v4+amx",
                     "--precision", precision, "-o", out)
                code = instructions(out / "libwide.so")
                self.assertTrue(any(line.startswith(product) for line in code))
                self.assertEqual(json.loads((out / "wide.json").read_text())["cpu_features"][-1], "AMX")
                self.assertEqual(refused(code, list(WORDS)[:6]), [])
                words = [HEDDLE, "run", out, "--in", self.folder / "x.safetensors"]
                done = subprocess.run(words, capture_output=True, text=True)
                if "amx_tile" in flags:
                    self.assertEqual(done.returncode, 0, done.stderr)
                else:
                    self.assertEqual(done.returncode, 1)
                    self.assertRegex(done.stderr, r"model 'wide' was compiled for x86-64-v4\+amx and needs .*AMX \(TILE, BF16, INT8\), which this "
                                                  r"machine lacks; compile it with --target native on this machine")

    def test_the_manifest_says_what_multiplies(self):
        (self.folder / "both.heddle").write_text("""
dim B, Y, X
model M {
  param w: real[256, 256]
  param first: real[64, 7, 7, 3]
  param next: real[64, 3, 3, 64]
  entry dense(x: real[B, 256]) -> y: real[B, 256] {
    y[b, o] = sum[d](x[b, d] * w[o, d])
    return y
  }
  entry filters(x: real[B, Y, X, 3]) -> z: real[B, Y, X, 64] {
    y[b, i in Y, j in X, o] = relu(sum[u, v, c](x[b, i + u - 3, j + v - 3, c | 0] * first[o, u, v, c]))
    z[b, i in Y, j in X, o] = sum[u, v, c](y[b, i + u - 1, j + v - 1, c | 0] * next[o, u, v, c])
    return z
  }
}
""")
        shapes = {"w": (256, 256), "first": (64, 7, 7, 3), "next": (64, 3, 3, 64)}
        save(self.folder / "both.safetensors", {name: np.ones(shape, np.float32) for name, shape in shapes.items()})

        def said(target, precision):
            out = self.folder / "both"
            must("compile", self.folder / "both.heddle", "--weights", self.folder / "both.safetensors", "--target", target, "--precision", precision,
                 "-o", out)
            manifest = json.loads((out / "both.json").read_text())
            of_rows = {kernel["name"]: {row.get("micro_kernel", "fma") for row in kernel["schedule"]} for kernel in manifest["kernels"]}
            works = [work for entry in manifest["entries"] for work in entry["work"] if "multiplies" in work]
            for work in works:  # one that rows of the schedule have, too
                self.assertEqual({one["micro_kernel"] for one in work["multiplies"]}, of_rows[work["kernel"]])
            return [work["multiplies"] for work in works]

        always = [[{"micro_kernel": name}] for name in ("fma", "dot_bf16", "dot_u8s8", "madd_u8s8")]
        fma, bf16, int8, pairs = always
        self.assertEqual(said("x86-64-v4+bf16", "f32"), [fma, fma, fma])
        self.assertEqual(said("x86-64-v4+bf16", "bf16"), [bf16, bf16, bf16])
        self.assertEqual(said("x86-64-v4+bf16", "int8"), [int8, bf16, int8])  # three channels are too few for groups of bytes
        self.assertEqual(said("x86-64-v3", "int8"), [pairs, fma, pairs])
        # Few rows are no tiles: which rows, a formula says.
        tiles, few = said("x86-64-v4+amx", "bf16")[0]
        self.assertEqual((tiles["micro_kernel"], few), ("tile_bf16", {"micro_kernel": "dot_bf16"}))
        holds = [[eval(formula, {"B": rows}) >= 0 for formula in tiles["when"]] for rows in (1, 512)]
        self.assertEqual([all(one) for one in holds], [False, True])

    def test_a_target_with_instructions_that_no_kernel_uses_asks_for_none_of_them(self):
        self.assertEqual(self.compile("x86-64-v4+amx")[1], ["AVX2", "AVX512"])

    def test_and_so_runs_where_they_are_missing(self):
        flags = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.M).group(1).split()
        if "avx512vl" not in flags:
            self.skipTest("this CPU has no AVX-512")
        random = np.random.default_rng(2)
        save(self.folder / "in.safetensors", {"ids": random.integers(0, 50, (2, 5)).astype(np.int32),
                                              "image": random.standard_normal((2, 5, 5, 8)).astype(np.float32)})
        results = []
        for target in ("x86-64-v3", "x86-64-v4+amx"):
            must("run", self.compile(target)[0], "--in", self.folder / "in.safetensors", "--out", self.folder / "out.safetensors")
            results.append(tensors(self.folder / "out.safetensors"))
        for name, want in results[0].items():
            np.testing.assert_allclose(results[1][name], want, rtol=1e-4, atol=1e-4)


if __name__ == "__main__":
    unittest.main()
