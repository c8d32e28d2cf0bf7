#!/usr/bin/env python3
"""The `heddle` command as a user meets it: each subcommand once on a small model, every user error with its whole
message, exit statuses, and that nothing is left behind. The command is $HEDDLE or build/bin/heddle."""

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

import numpy as np
from safetensors import numpy as safetensors

ROOT = Path(__file__).resolve().parents[2]
HEDDLE = os.environ.get("HEDDLE", str(ROOT / "build" / "bin" / "heddle"))

MODEL = """# Two layers over rows of I numbers.
config I "input_size" = 5, O "output_size" = 3
dim B <= 16, S <= 40

model Net {
  param table: real[7, I]
  sub fc = Linear(I, O)
  entry apply(x: real[B, S, I], kind: index(7)[B, S] = 2) -> y: real[B, S, O] {
    z[b, s, i] = x[b, s, i] + table[kind[b, s], i]
    return relu(fc(z))
  }
}
"""


def run(*words, cwd=None):
    done = subprocess.run([HEDDLE, *map(str, words)], capture_output=True, text=True, cwd=cwd, timeout=300)
    return done.returncode, done.stdout, done.stderr


class Scratch(unittest.TestCase):
    """A folder with the model, its weights and one input."""

    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.folder = Path(self.scratch.name)
        self.addCleanup(self.scratch.cleanup)
        (self.folder / "net.heddle").write_text(MODEL)
        random = np.random.default_rng(1)
        self.weights = {
            "table": random.standard_normal((7, 5), dtype=np.float32),
            "fc.weight": random.standard_normal((3, 5), dtype=np.float32),
            "fc.bias": random.standard_normal(3, dtype=np.float32),
        }
        self.save("w.safetensors", self.weights)
        self.x = random.standard_normal((2, 4, 5), dtype=np.float32)
        self.save("x.safetensors", {"x": self.x})

    def save(self, name, tensors):
        safetensors.save_file(tensors, self.folder / name)

    def load(self, name):
        return safetensors.load_file(self.folder / name)

    def heddle(self, *words):
        return run(*words, cwd=self.folder)

    def done(self, *words):
        status, out, err = self.heddle(*words)
        self.assertEqual((status, err), (0, ""), f"heddle {' '.join(map(str, words))}")
        return out

    def refused(self, message, *words):
        """One message, status 1, and no new file."""
        before = sorted(self.folder.rglob("*"))
        status, out, err = self.heddle(*words)
        self.assertEqual(err, message)
        self.assertEqual((status, out), (1, ""))
        self.assertEqual(sorted(self.folder.rglob("*")), before)

    def expected(self, x, kind=2):
        w = self.weights
        return np.maximum((x + w["table"][kind]) @ w["fc.weight"].T + w["fc.bias"], 0)

    def compile(self):
        return self.done("compile", "net.heddle", "--weights", "w.safetensors", "-o", "out")


class Usage(unittest.TestCase):
    def test_help_is_there_for_every_command(self):
        status, out, err = run("--help")
        self.assertEqual((status, err), (0, ""))
        for word in "check fmt explain compile run generate bench show".split():
            self.assertIn(f"  {word} ", out)
            status, text, err = run(word, "--help")
            self.assertEqual((status, err), (0, ""), word)
            self.assertIn("--help", text)

    def test_the_version_names_its_parts(self):
        status, out, err = run("--version")
        self.assertRegex(out, r"^heddle 0\.1\.0 \((commit [0-9a-f]{12}(-dirty)?, )?LLVM 22\.\d+\.\d+, Halide 21\.\d+\.\d+\)\n$")

    def test_wrong_usage_ends_with_status_2(self):
        for words in [["compile"], ["check", "--fast", "x"], ["run", "x"], ["show", "x", "--stage", "soup"]]:
            status, out, err = run(*words)
            self.assertEqual((status, out), (2, ""), words)
            self.assertRegex(err, r"(?s)^error: .*\n`heddle.* --help` says what there is\n$")
        self.assertEqual(run("compile", "x", "--precision", "int4"), (2, "", "error: there is no precision `int4`; there are f32, tf32, bf16 and int8\n"))

    def test_an_unknown_command_is_named_and_no_command_shows_the_help(self):
        self.assertEqual(run("fly"), (2, "", "error: there is no command `fly`\n`heddle --help` lists the commands\n"))
        self.assertEqual(run("--fast", "check"), (2, "", "error: `--fast` stands where the command must be\n`heddle --help` lists the commands\n"))
        status, out, err = run()
        self.assertEqual((status, out), (2, ""))
        self.assertEqual(err, run("--help")[1])

    def test_explain_prints_the_page_of_a_code(self):
        status, out, err = run("explain", "E021")
        self.assertEqual((status, err), (0, ""))
        self.assertGreater(len(out), 200)
        self.assertEqual(run("explain", "e021"), (0, out, ""))
        self.assertEqual(run("explain", "E9"), (1, "", "error: there is no message with the code E9; codes look like E021\n"))


class Colours(Scratch):
    """On a terminal messages have colours; everywhere else, and where someone asks for none, the same words without."""

    def on_a_terminal(self, *words, **environment):
        """What a terminal gets to see on stderr."""
        master, slave = pty.openpty()
        variables = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "TERM")}
        done = subprocess.Popen([HEDDLE, *words], cwd=self.folder, stdout=subprocess.DEVNULL, stderr=slave,
                                env={**variables, "TERM": "xterm", **environment})
        os.close(slave)
        seen = b""
        try:
            while part := os.read(master, 4096):
                seen += part
        except OSError:  # the other side is closed
            pass
        os.close(master)
        self.assertEqual(done.wait(), 1)
        return seen.decode().replace("\r\n", "\n")

    def setUp(self):
        super().setUp()
        (self.folder / "bad.heddle").write_text("config N = 2\nmodel M { param N: real[3] entry run(x: real[3]) -> y: real[3] { return z } }\n")
        self.plain = self.heddle("check", "bad.heddle")[2]
        self.assertNotIn("\033", self.plain)

    def test_a_terminal_gets_colours_and_the_same_words(self):
        seen = self.on_a_terminal("check", "bad.heddle")
        self.assertIn("\033[1mbad.heddle:2:73:\033[0m \033[1;31merror[E020]:\033[0m \033[1m`z` is not known here\033[0m\n", seen)
        self.assertIn("\033[36mhelp:\033[0m define it before this line", seen)
        self.assertEqual(re.sub(r"\033\[[0-9;]*m", "", seen), self.plain)

    def test_a_message_without_a_place_has_a_coloured_first_word(self):
        self.assertEqual(self.on_a_terminal("check", "nothing.heddle"),
                         "\033[1;31merror:\033[0m nothing.heddle: there is no such file or folder\n")

    def test_no_color_and_dumb_terminals_get_none(self):
        for environment in ({"NO_COLOR": "1"}, {"TERM": "dumb"}, {"TERM": ""}):
            self.assertEqual(self.on_a_terminal("check", "bad.heddle", **environment), self.plain, environment)
        self.assertIn("\033", self.on_a_terminal("check", "bad.heddle", NO_COLOR=""))  # as no-color.org asks for


class AbsurdOptions(Scratch):
    def usage(self, message, *words):
        before = sorted(self.folder.rglob("*"))
        status, out, err = self.heddle(*words)
        self.assertEqual((status, out), (2, ""), err)
        self.assertTrue(err.startswith(f"error: {message}\n"), err)
        self.assertEqual(sorted(self.folder.rglob("*")), before)

    def test_an_empty_value_is_none(self):
        for option in ["--weights", "-o", "--config", "--target", "--set"]:
            name = "--output" if option == "-o" else option
            self.usage(f"{name} is empty: give it a value or leave it out", "compile", "net.heddle", option, "")
        self.usage("MODEL is empty: give it a value or leave it out", "check", "")
        self.usage("--html is empty: give it a value or leave it out", "show", "net.heddle", "--html", "")
        self.usage("--in is empty: give it a value or leave it out", "run", "out", "--in", "")

    def test_an_option_that_there_is_not(self):
        for words in (["check", "-x"], ["check", "net.heddle", "-x"], ["check", "-x=3", "net.heddle"], ["run", "--in", "a", "-x", "b"]):
            self.usage("there is no option `-x` here", *words)
        self.usage("there is no option `--outptu` here", "compile", "net.heddle", "--outptu", "there")
        self.usage("MODEL is required", "check")

    def test_numbers_that_are_none(self):
        for number in ["-1", "x", "nan", "inf", "1e400"]:
            self.usage(f"--threads: wants a number from 0 on, not `{number}`", "run", "out", "--in", "x", "--threads", number)
            self.usage(f"--tolerance: wants a number from 0 on, not `{number}`", "compare", "net.heddle", "--in", "x",
                       "--tolerance", number)  # fmt: skip
            self.usage(f"--percentile: wants a number from 50 to 100, not `{number}`", "calibrate", "net.heddle", "--in", "x", "-o", "s",
                       "--percentile", number)  # fmt: skip

    def test_values_that_lack_are_too_many_or_no_numbers(self):
        self.usage("--threads: wants a value", "run", "out", "--in", "x", "--threads")
        self.usage("--name is empty: give it a value or leave it out", "compile", "net.heddle", "--name=", "-o", "out")
        self.usage("--threads: was given more than once", "run", "out", "--in", "x", "--threads", "1", "--threads", "2")
        self.usage("--seed: wants a number, not `x`", "generate", "out", "--in", "x", "--seed", "x")
        self.usage("--top-p: wants a number, not `0.5x`", "generate", "out", "--in", "x", "--top-p=0.5x")

    def test_dims_of_a_benchmark(self):
        self.compile()
        for word in ["B", "B=", "B=-1", "B=2147483648", "B=99999999999999999999", "B=1x", "B=0x10"]:
            self.usage(f"--dim wants NAME=N, N at most 2147483647, not `{word}`", "bench", "out", "--dim", word)
        self.usage("--threads excludes --cores", "bench", "out", "--cores", "2", "--threads", "2")
        self.refused("error: --dim B=17: the library allows at most 16\n", "bench", "out", "--dim", "B=17")
        self.refused("error: there is no dim `X`; there are: B, S\n", "bench", "out", "--dim", "X=1")
        (self.folder / "free.heddle").write_text("dim A, B\nmodel M { entry f(x: real[A, B]) -> y: real[A] { y[a] = sum[b](x[a, b]) return y } }\n")
        self.done("compile", "free.heddle", "-o", "free")
        self.refused("error: input `x` would be [65536, 65536]; a tensor has at most 2147483647 elements\n",
                     "bench", "free", "--dim", "A=65536", "--dim", "B=65536")  # fmt: skip

    def test_names_that_are_no_utf8(self):
        name = os.fsdecode(b"n\xff")
        shutil.copy(self.folder / "net.heddle", self.folder / f"{name}.heddle")
        words = [HEDDLE, "run", f"{name}.heddle", "--weights", "w.safetensors", "--in", "x.safetensors", "--profile", "p.json"]
        self.assertEqual(subprocess.run(words, cwd=self.folder, capture_output=True).returncode, 0)
        self.done("compile", f"{name}.heddle", "--weights", "w.safetensors", "-o", "out")
        self.assertTrue((self.folder / "out" / "libn__.so").exists() or (self.folder / "out" / "libn_.so").exists())
        (self.folder / "out").rename(self.folder / name)
        self.done("run", name, "--in", "x.safetensors", "--out", "y.safetensors", "--profile", "q.json")
        json.loads((self.folder / "q.json").read_text())

    def test_a_megabyte_of_errors_takes_seconds(self):
        (self.folder / "zeros.heddle").write_bytes(bytes(1 << 20))
        status, out, err = self.heddle("check", "zeros.heddle")
        self.assertEqual((status, out), (1, ""))
        self.assertTrue(err.startswith("zeros.heddle:1:1: error[E001]: a control character has no meaning here\n"))


class Road(Scratch):
    def test_a_model_compiles_and_runs_and_agrees_with_numpy(self):
        out = self.compile()
        self.assertRegex(out, r"^out: libnet\.so \d+\.\d\d MB, weights 0\.00 MB, \d+ kernels, for x86-64-v\d\S*, \d+\.\d s\nsettings: 2 defaults \(I, O\)\n$")
        self.assertEqual(sorted(path.name for path in (self.folder / "out").iterdir()),
                         ["heddle.h", "libnet.so", "net.h", "net.json", "net.pc", "net.weights", "net_model.py"])
        self.done("run", "out", "--in", "x.safetensors", "--out", "y.safetensors")
        np.testing.assert_allclose(self.load("y.safetensors")["y"], self.expected(self.x), rtol=1e-5, atol=1e-5)

    def test_the_reference_agrees(self):
        self.done("run", "net.heddle", "--weights", "w.safetensors", "--reference", "--in", "x.safetensors", "--out", "y.safetensors")
        np.testing.assert_allclose(self.load("y.safetensors")["y"], self.expected(self.x), rtol=1e-5, atol=1e-5)

    def test_run_compiles_a_model_on_the_way(self):
        self.done("run", "net.heddle", "--weights", "w.safetensors", "--in", "x.safetensors", "--out", "y.safetensors")
        np.testing.assert_allclose(self.load("y.safetensors")["y"], self.expected(self.x), rtol=1e-5, atol=1e-5)

    def test_several_inputs_are_several_calls_of_any_shape_and_type(self):
        self.compile()
        kind = np.arange(16 * 3).reshape(16, 3) % 7
        wide = np.random.default_rng(2).standard_normal((16, 3, 5), dtype=np.float32)
        self.save("wide.safetensors", {"x": wide, "kind": kind.astype(np.int64)})
        self.done("run", "out", "--in", "x.safetensors", "--in", "wide.safetensors", "--out",
                  "a.safetensors", "--out", "b.safetensors")
        np.testing.assert_allclose(self.load("a.safetensors")["y"], self.expected(self.x), rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(self.load("b.safetensors")["y"], self.expected(wide, kind), rtol=1e-5, atol=1e-5)

    def test_npy_inputs_are_named_and_a_summary_is_printed(self):
        self.compile()
        np.save(self.folder / "x.npy", self.x)
        np.save(self.folder / "kind.npy", np.full((2, 4), 5, np.uint8))
        out = self.done("run", "out", "--in", "x=x.npy", "--in", "kind=kind.npy", "--threads", "1")
        want = self.expected(self.x, 5)
        self.assertRegex(out, r"^y: F32 \[2, 4, 3\], from \S+ to \S+, mean \S+, begins( \S+){4}\n$")
        self.assertAlmostEqual(float(out.split("mean ")[1].split(",")[0]), want.mean(), places=3)

    def test_a_profile_is_a_chrome_trace(self):
        self.compile()
        self.done("run", "out", "--in", "x.safetensors", "--profile", "trace.json")
        events = json.loads((self.folder / "trace.json").read_text())["traceEvents"]
        self.assertTrue(all(event["ph"] == "X" and event["dur"] >= 0 for event in events))
        names = [event["name"] for event in events]
        self.assertIn("call 1", names)
        self.assertRegex("\n".join(names), r"(?m)^k\d+ fc\.y")  # a kernel, with the definition that it computes

    def test_settings_choose_another_size(self):
        self.save("w4.safetensors", {**self.weights, "fc.weight": np.ones((4, 5), np.float32), "fc.bias": np.ones(4, np.float32)})
        self.done("compile", "net.heddle", "--set", "O=4", "--weights", "w4.safetensors", "-o", "out4")
        self.done("run", "out4", "--in", "x.safetensors", "--out", "y.safetensors")
        self.assertEqual(self.load("y.safetensors")["y"].shape, (2, 4, 4))

    def test_the_manifest_says_what_is_in_a_library(self):
        self.compile()
        shown = json.loads(self.done("show", "out"))
        self.assertEqual(shown, json.loads((self.folder / "out" / "net.json").read_text()))
        entry = shown["entries"][0]
        self.assertEqual(entry["name"], "apply")
        self.assertEqual(entry["inputs"], [
            {"name": "x", "dtype": "f32", "shape": ["B", "S", 5]},
            {"name": "kind", "dtype": "i32", "shape": ["B", "S"], "below": "7", "default": 2.0},
        ])
        self.assertEqual(entry["results"], [{"name": "y", "dtype": "f32", "shape": ["B", "S", 3]}])
        self.assertEqual(shown["dims"], [{"name": "B", "most": 16}, {"name": "S", "most": 40}])

    def test_check_says_what_a_model_has_and_that_a_library_is_whole(self):
        self.assertRegex(self.done("check", "net.heddle"), r"^net\.heddle: no errors; 1 entry, \d+ steps, 3 weights of 53 numbers\n$")
        self.compile()
        self.assertEqual(self.done("check", "out"), "out: the library loads and its weights are intact\n")

    def test_a_folder_of_weights_takes_no_model_files_from_where_the_command_runs(self):
        other = self.folder / "models" / "bert"
        other.mkdir(parents=True)
        (other / "encoder.heddle").write_text("this is no model")
        self.assertIn("no errors", self.done("check", ROOT / "tests" / "models" / "goldens" / "bert_model"))

    def test_every_stage_can_be_shown(self):
        for stage, mark in [("tree", "apply"), ("graph", "linalg.generic"), ("kernels", "heddle.kernel"), ("schedule", "heddle.places"),
                            ("halide", "for"), ("llvm", "heddle_model_descriptor"), ("asm", ".globl")]:
            self.assertIn(mark, self.done("show", "net.heddle", "--stage", stage), stage)

    def test_fmt_is_idempotent_and_check_says_which_files_would_change(self):
        self.done("fmt", "net.heddle")
        once = (self.folder / "net.heddle").read_text()
        self.done("fmt", "net.heddle")
        self.assertEqual((self.folder / "net.heddle").read_text(), once)
        self.done("fmt", "--check", "net.heddle")
        (self.folder / "net.heddle").write_text(once.replace("  param", "      param"))
        self.refused("error: not in the canonical form: net.heddle; `heddle fmt` puts it right\n", "fmt", "--check", "net.heddle")
        before = (self.folder / "net.heddle").read_bytes()
        self.refused("error: w.safetensors: is no model file; their names end in .heddle\n", "fmt", "net.heddle", "w.safetensors")
        (self.folder / "wrong.heddle").write_text("model {")
        self.assertEqual(self.heddle("fmt", "net.heddle", "wrong.heddle")[0], 1)
        self.assertEqual((self.folder / "net.heddle").read_bytes(), before, "all or none")

    def test_bench_gives_times_beside_the_machines_limits(self):
        self.compile()
        out = self.done("bench", "out", "--dim", "B=3", "--dim", "S=2", "--threads", "1", "--json", "bench.json")
        self.assertRegex(out, r"^net B=3 S=2, 1 thread: min [1-9.0]\S* [mu]s, median \S+ [mu]s \(\d+ calls\)\nthis machine: \d+ GFLOP/s f32, \S+ GB/s\n")
        numbers = json.loads((self.folder / "bench.json").read_text())
        self.assertEqual(numbers["dims"], {"B": 3, "S": 2})
        self.assertLessEqual(numbers["min_ms"], numbers["median_ms"])
        self.assertEqual(numbers["operations"], 2 * 3 * 2 * 5 * 3)  # of the one product, B x S rows of 5 terms and 3 columns
        kernels = numbers["kernels"]
        self.assertEqual(sum(kernel["calls"] for kernel in kernels), len(re.findall(r"^k\d+ ", out, re.M)))
        self.assertNotRegex(out, r" 0\.0+ [mu]s| 0\.00 GFLOP")
        if any(kernel["of_roof"] > 1.005 for kernel in kernels):
            self.assertIn("more than 100%: ", out)
        for kernel in kernels:
            self.assertRegex(out, rf"\n{kernel['kernel']} +{kernel['kind']} +{kernel['calls']} ")
            self.assertGreater(kernel["ms"], 0)
            self.assertGreater(kernel["of_roof"], 0)

    def write_layer(self, size):
        (self.folder / "wide.heddle").write_text(f"""config N = {size}
dim B
model Wide {{
  param w: real[N, N]
  entry apply(x: real[B, N]) -> y: real[B, N] {{
    y[b, o] = sum[i](x[b, i] * w[o, i])
    return y
  }}
}}
""")
        self.save("wide.safetensors", {"w": np.ones((size, size), np.float32)})

    def test_bench_says_what_many_cores_would_take(self):
        self.write_layer(64)
        self.done("compile", "wide.heddle", "--weights", "wide.safetensors", "-o", "wide")
        tasks = {}
        for cores in 1, 4, 64:
            out = self.done("bench", "wide", "--dim", "B=2000", "--cores", str(cores), "--json", "bench.json")
            self.assertRegex(out, rf"^wide cut for {cores} cores: \S+ [mu]s on one, \S+ [mu]s on {cores}, \S+ times as fast")
            numbers = json.loads((self.folder / "bench.json").read_text())
            for of in [numbers, *numbers["kernels"]]:
                self.assertLessEqual(of["shared_ms"], 1.0001 * of["ms"])
                self.assertGreaterEqual(of["shared_ms"], 0.9999 * of["ms"] / cores)
            (product,) = [kernel for kernel in numbers["kernels"] if kernel["kind"] == "contraction"]
            tasks[cores] = product["tasks"]
        self.assertEqual(tasks[1], tasks[4])
        self.assertGreater(tasks[4], 4)
        self.assertGreater(tasks[64], 64)

    @unittest.skipUnless("avx512_bf16" in Path("/proc/cpuinfo").read_text(), "needs a CPU with AVX-512 BF16")
    def test_bench_holds_products_against_the_limit_of_the_numbers_that_they_multiply(self):
        self.write_layer(512)
        vectors = ("bf16", r"bf16 \(vdpbf16ps\)", "dot_bf16"), ("int8", r"int8 \(vpdpbusd\)", "dot_u8s8")
        tiles = ("bf16", r"bf16 \(tdpbf16ps\)", "tile_bf16"), ("int8", r"int8 \(tdpbusd\)", "tile_u8s8")
        has_tiles = "amx_tile" in Path("/proc/cpuinfo").read_text()
        target = "x86-64-v4+amx" if has_tiles else "x86-64-v4+bf16"
        for precision, type, micro_kernel in tiles if has_tiles else vectors:
            self.done("compile", "wide.heddle", "--weights", "wide.safetensors", "--precision", precision, "--target", target, "-o", "wide")
            out = self.done("bench", "wide", "--dim", "B=256", "--threads", "1", "--json", "bench.json")
            of_type, of_f32 = (float(re.search(rf"(\d+) GFLOP/s {name}, ", out)[1]) for name in (type, "f32"))
            self.assertNotEqual(of_type, of_f32)
            (product,) = [kernel for kernel in json.loads((self.folder / "bench.json").read_text())["kernels"] if kernel["kind"] == "contraction"]
            # Of its own limit: of f32's it would be this much more.
            self.assertEqual(product["micro_kernel"], micro_kernel)
            self.assertAlmostEqual(product["of_peak"], product["gflops"] / of_type, delta=0.01 * product["of_peak"])
            self.assertLessEqual(product["of_roof"], 1.05 * max(1, product["of_peak"]))

    def test_bench_runs_the_entries_that_must_come_before(self):
        (self.folder / "kept.heddle").write_text("""dim B
model Kept {
  state total: f32[B]
  entry begin(x: f32[B]) { total <- x }
  entry add(x: f32[B]) -> y: f32[B] {
    total[b] <- total[b] + x[b]
    return total
  }
}
""")
        self.done("compile", "kept.heddle", "-o", "kept")
        words = ["bench", "kept", "--entry", "add", "--dim", "B=3", "--threads", "1"]
        self.refused("error: entry 'add' reads state 'total', which has no value yet; run entry 'begin' first\n", *words)
        self.assertIn("kept B=3, 1 thread: min ", self.done(*words, "--first", "begin"))
        self.assertIn("kept B=3, 1 thread: min ", self.done(*words, "--first", "begin:B=3"))
        self.refused("error: entry 'add', state 'total': holds B = 4 since entry 'begin', but B = 3 in input 'x'; reset the session, or keep to "
                     "what it holds\n", *words, "--first", "begin:B=4")
        self.refused("error: there is no dim `Q`; there are: B\n", *words, "--first", "begin:Q=4")

    def test_bench_calls_an_entry_from_the_same_state_each_time(self):
        (self.folder / "room.heddle").write_text("""model Room {
  state taken: i32 = 0
  entry take(x: f32[4]) -> y: f32[4] {
    require taken < 3 else "there is room for three"
    taken <- taken + 1
    y[i] = x[i] * 2
    return y
  }
}
""")
        self.done("compile", "room.heddle", "-o", "room")
        words = ["bench", "room", "--threads", "1"]
        self.assertIn("room, 1 thread: min ", self.done(*words, "--first", "take", "--first", "take"))
        self.refused("error: entry 'take': there is room for three\n", *words, *["--first", "take"] * 3)

    def test_timings_name_the_stages(self):
        out = self.done("compile", "net.heddle", "--weights", "w.safetensors", "-o", "out", "--timings")
        for stage in ["reading the model", "import", "compiling kernels", "linking", "packing weights"]:
            self.assertRegex(out, rf"\d+\.\d+ s  {stage}")


class Refusals(Scratch):
    def test_a_missing_model_or_weights(self):
        self.refused("error: absent.heddle: there is no such file or folder\n", "check", "absent.heddle")
        self.refused("error: w.safetensors: a model is a .heddle file or a Hugging Face folder\n", "check", "w.safetensors")
        self.refused("error: the model reads weights, such as `table`; say where they are with --weights FILE.safetensors\n",
                     "compile", "net.heddle", "-o", "out")

    def test_a_truncated_weights_file(self):
        whole = (self.folder / "w.safetensors").read_bytes()
        (self.folder / "cut.safetensors").write_bytes(whole[:-10])
        status, out, err = self.heddle("compile", "net.heddle", "--weights", "cut.safetensors", "-o", "out")
        self.assertEqual((status, out), (1, ""))
        self.assertRegex(err, r"^error: cut\.safetensors: [^\n]+\n$")
        self.assertFalse((self.folder / "out").exists())

    def test_a_kernel_that_no_code_can_be_made_for(self):
        (self.folder / "big.heddle").write_text("dim N\nmodel M {\n  entry run(x: real[N, 3], w: real[50000, 3], v: real[50000, 3]) -> y: real[N] {\n"
                                                "    y[n] = sum[a, b, c](w[a, c] * v[b, c] * x[n, c])\n    return y\n  }\n}\n")
        self.refused("error: there is no code for kernel @k0 of `y` (big.heddle:4) by row 0 of its schedule: Halide says \"Total size for allocation "
                     "rows is constant but exceeds 2^31 - 1.\"; smaller sizes, or a formula in smaller steps, may do\n",
                     "compile", "big.heddle", "-o", "out", "--target", "x86-64-v3")
        self.assertFalse((self.folder / "out").exists())

    def test_a_missing_tensor(self):
        self.save("bad.safetensors", {"table": self.weights["table"], "fc.weights": self.weights["fc.weight"], "fc.bias": self.weights["fc.bias"]})
        self.refused("error: bad.safetensors: there is no tensor `fc.weight`, which the model reads; the nearest name that nothing reads is `fc.weights`\n",
                     "compile", "net.heddle", "--weights", "bad.safetensors", "-o", "out")
        del self.weights["table"]
        self.save("bad.safetensors", self.weights)
        self.refused("error: bad.safetensors: there is no tensor `table`, which net.heddle:6 reads; do the settings (config.json, --set) belong to "
                     "these weights?\n", "compile", "net.heddle", "--weights", "bad.safetensors", "-o", "out")

    def test_a_tensor_of_another_shape(self):
        self.save("bad.safetensors", {**self.weights, "fc.weight": np.ones((5, 3), np.float32)})
        self.refused("error: bad.safetensors: tensor `fc.weight` has shape [5, 3], the model wants [3, 5]; "
                     "do the settings (config.json, --set) belong to these weights?\n",
                     "compile", "net.heddle", "--weights", "bad.safetensors", "-o", "out")

    def test_inputs_may_be_an_archive_of_numpy(self):
        np.savez(self.folder / "x.npz", x=self.x)
        for given in ("x.npz", "x.safetensors"):
            self.done("run", "net.heddle", "--weights", "w.safetensors", "--reference", "--in", given, "--out", f"{given}.y")
        self.assertEqual((self.folder / "x.npz.y").read_bytes(), (self.folder / "x.safetensors.y").read_bytes())

    def test_a_syntax_error_hides_no_other_mistake(self):
        (self.folder / "net.heddle").write_text(MODEL.replace("table[kind[b, s], i]", "table[kind[b, s], i").replace("relu(fc(z))", "rellu(fc(x))"))
        status, out, err = self.heddle("check", "net.heddle")
        self.assertEqual((status, out), (1, ""))
        self.assertEqual(re.findall(r"^net\.heddle:(\d+):\d+: error\[(E\d+)\]", err, re.M), [("9", "E005"), ("10", "E020")])

    def test_an_unknown_setting(self):
        status, out, err = self.heddle("compile", "net.heddle", "--set", "WIDTH=3", "--weights", "w.safetensors", "-o", "out")
        self.assertEqual((status, out), (1, ""))
        self.assertIn("WIDTH", err)
        self.assertEqual(err.count("error"), 1, err)

    def test_a_shape_error_in_the_model_file(self):
        (self.folder / "net.heddle").write_text(MODEL.replace("fc(z)", "fc(kind)"))
        status, out, err = self.heddle("compile", "net.heddle", "--weights", "w.safetensors", "-o", "out")
        self.assertEqual((status, out), (1, ""))
        self.assertRegex(err, r"^net\.heddle:10:\d+: error\[E\d+\]: ")
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["net.heddle", "w.safetensors", "x.safetensors"])

    def test_inputs_of_wrong_type_rank_or_range(self):
        self.compile()
        x = "error: entry 'apply', input 'x': "
        for tensors, message in [
            ({"x": self.x.astype(np.float16)}, x + "has dtype f16, but must be f32 [B, S, 5]\n"),
            ({"x": self.x.astype(np.float64)}, "error: input `x` is F64; no library takes that, save it as F32\n"),
            ({"x": self.x[0]}, x + "has rank 2, but must be f32 [B, S, 5]\n"),
            ({"x": self.x[:, :, :4].copy()}, x + "has shape [2, 4, 4], but must be f32 [B, S, 5]\n"),
            ({"x": np.zeros((17, 1, 5), np.float32)}, x + "has shape [17, 1, 5], so B = 17, but the model allows at most 16\n"),
            ({"x": self.x, "kind": np.full((2, 4), 7)}, "error: entry 'apply', input 'kind': element [0, 0] is 7, but must be in 0 .. 6\n"),
            ({"x": self.x, "z": self.x}, "error: entry 'apply' has no input 'z'; it has: x, kind\n"),
            ({"kind": np.zeros((2, 4), np.int32)}, x + "is missing; give it as f32 [B, S, 5]\n"),
        ]:
            with self.subTest(message):
                self.save("bad.safetensors", tensors)
                self.refused(message, "run", "out", "--in", "bad.safetensors", "--out", "y.safetensors")

    def test_a_changed_weights_file_is_found_by_check(self):
        self.compile()
        path = self.folder / "out" / "net.weights"
        whole = bytearray(path.read_bytes())
        whole[4096 + 8] ^= 1
        path.write_bytes(whole)
        status, out, err = self.heddle("check", "out")
        self.assertEqual((status, out), (1, ""))
        self.assertRegex(err, r"^error: [^\n]*checksum[^\n]*\n$")

    def test_usage_that_only_the_files_can_tell(self):
        self.compile()
        for words in [["run", "out", "--reference", "--in", "x.safetensors"],
                      ["run", "out", "--set", "O=3", "--in", "x.safetensors"],
                      ["run", "out", "--in", "x.safetensors", "--out", "a.safetensors", "--out", "b.safetensors"],
                      ["bench", "out", "--dim", "B"]]:
            status, out, err = self.heddle(*words)
            self.assertEqual((status, out), (2, ""), words)
            self.assertRegex(err, r"^error: [^\n]+\n$")

    def test_what_was_decided_when_a_library_was_compiled(self):
        self.compile()
        rest = "something of a model's source, and out is a compiled library; give the .heddle file or the Hugging Face folder"
        for words, what in [
            (["check", "out", "--weights", "w.safetensors", "--watch"], "--weights and --watch say"),
            (["check", "out", "--set", "O=4"], "--set says"),
            (["run", "out", "--in", "x.safetensors", "--precision", "f32", "--keep", "fc=bf16", "--db", "none"], "--precision, --keep and --db say"),
            (["run", "out", "--in", "x.safetensors", "--config", "x.json"], "--config says"),
            (["run", "out", "--in", "x.safetensors", "--reference"], "--reference says"),
            (["show", "out", "--html", "page.html", "--measure"], "--html and --measure say"),
        ]:
            self.assertEqual(self.heddle(*words), (2, "", f"error: {what} {rest}\n"))
        self.assertEqual(self.heddle("show", "out", "--stage", "asm"), (2, "", "error: --stage asm is a form of a model, and out is a compiled "
                         "library, of which the manifest is shown\n"))  # fmt: skip
        self.assertTrue(self.heddle("show", "net.heddle", "--threads", "2")[2].startswith("error: --threads requires --measure\n"))

    def test_an_interrupt_leaves_nothing(self):
        process = subprocess.Popen([HEDDLE, "compile", "net.heddle", "--weights", "w.safetensors", "-o", "out"], cwd=self.folder,
                                   stderr=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(500):
            if any(path.name.startswith("out.part") for path in self.folder.iterdir()) or process.poll() is not None:
                break
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        if process.returncode != 0:  # it may have been done already
            self.assertEqual(process.returncode, 130)
            self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["net.heddle", "w.safetensors", "x.safetensors"])


if __name__ == "__main__":
    unittest.main()
