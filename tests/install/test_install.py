"""What `cmake --install` leaves: a command that runs from anywhere without the build tree, completion, a manual page."""

import os
import pty
import re
import select
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

import numpy as np
from safetensors import numpy as safetensors

from installed import BUILD, prefix, run

MODEL = """dim B
model Double {
  param w: real[3]
  entry apply(x: real[B, 3]) -> y: real[B, 3] {
    y[b, i] = 2 * x[b, i] * w[i]
    return y
  }
}
"""
ROOT = Path(__file__).resolve().parents[2]
SYSTEM = {"libc", "libm", "libdl", "librt", "libpthread", "libstdc++", "libgcc_s"}


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.heddle = prefix() / "bin" / "heddle"

    def options(self, command):
        """What `--help` of a command lists."""
        return re.findall(r"(?<![\w-])--?[a-z][a-z-]*", run(self.heddle, command, "--help")[1].split("Options:", 1)[1])

    def commands(self):
        return re.findall(r"^  ([a-z]+) ", run(self.heddle, "--help")[1].split("Subcommands:")[1], re.M)

    def test_the_command_compiles_and_runs_a_model(self):
        with tempfile.TemporaryDirectory() as folder:
            at = Path(folder)
            (at / "double.heddle").write_text(MODEL)
            safetensors.save_file({"w": np.float32([1, 2, 3])}, at / "w.safetensors")
            safetensors.save_file({"x": np.float32([[1, 1, 1]])}, at / "x.safetensors")
            status, _, errors = run(self.heddle, "compile", "double.heddle", "--weights", "w.safetensors", cwd=at)
            self.assertEqual((status, errors), (0, ""))
            status, _, errors = run(self.heddle, "run", "double", "--in", "x.safetensors", "--out", "y.safetensors", cwd=at)
            self.assertEqual((status, errors), (0, ""))
            self.assertEqual(safetensors.load_file(at / "y.safetensors")["y"].tolist(), [[2, 4, 6]])

    def test_all_libraries_are_its_own_or_the_system_s(self):
        for line in run("ldd", self.heddle)[1].splitlines():
            name, _, path = line.strip().partition(" => ")
            if path and name.split(".so")[0] not in SYSTEM:
                self.assertTrue(path.startswith(str(prefix())), line)

    def test_no_file_names_the_build_tree(self):
        for path in (self.heddle, *prefix().rglob("*.cmake"), *(prefix() / "share").rglob("*")):
            if path.is_file():
                self.assertNotIn(str(BUILD).encode(), path.read_bytes(), path)

    def test_licences_of_what_is_carried_are_there(self):
        carried = {path.name.split(".so")[0] for path in (prefix() / "lib" / "heddle" / "lib").iterdir()}
        texts = [path.name for path in (prefix() / "share" / "doc" / "heddle" / "licences").iterdir()]
        for name in carried - {"libicudata", "libicuuc"}:
            stem = {"libtinfo": "libtinfo6", "libz": "zlib1g", "libMLIR": "libmlir-22"}.get(name, name).lower()
            self.assertTrue(any(text.lower().startswith(stem) for text in texts), f"{name}: {texts}")

    def test_version_names_commit_llvm_and_halide(self):
        status, out, errors = run(self.heddle, "--version")
        self.assertEqual((status, errors), (0, ""))
        self.assertRegex(out, r"^heddle \d+\.\d+\.\d+ \((commit [0-9a-f]{12}(-dirty)?, )?LLVM 22\.\d+\.\d+, Halide 21\.\d+\.\d+\)\n$")

    def test_there_is_one_version(self):
        version = run(self.heddle, "--version")[1].split()[1]
        for path, text in (("CMakeLists.txt", f"project(heddle VERSION {version} "), ("python/pyproject.toml", f'version = "{version}"'),
                           ("python/compiler/pyproject.toml", f'version = "{version}"')):  # fmt: skip
            self.assertIn(text, (ROOT / path).read_text(), path)

    def test_manual_page_has_every_option_of_every_command(self):
        page = (prefix() / "share" / "man" / "man1" / "heddle.1").read_text().replace("\\-", "-")
        for command in self.commands():
            section = page.split(f".SS heddle {command}\n", 1)[1].split("\n.S", 1)[0]
            for option in set(self.options(command)) - {"-h", "--help"}:
                self.assertIn(f"\\fB{option}\\fR", section, command)

    def test_completion_has_every_option_of_every_command(self):
        share = prefix() / "share"
        bash = (share / "bash-completion" / "completions" / "heddle").read_text()
        zsh = (share / "zsh" / "site-functions" / "_heddle").read_text()
        fish = (share / "fish" / "vendor_completions.d" / "heddle.fish").read_text()
        for command in self.commands():
            part = bash.split(f"\n  {command})\n", 1)[1].split("\n    fi ;;", 1)[0]
            of_zsh = zsh.split(f"\n    {command})\n", 1)[1]
            of_fish = [line for line in fish.splitlines() if f"from {command}'" in line]
            for option in self.options(command):
                self.assertIn(option, part, command)
                self.assertIn(option, of_zsh, command)
                spelled = f" -l {option[2:]} " if option.startswith("--") else f" -s {option[1:]} "
                self.assertTrue(any(spelled in line for line in of_fish), f"{command} {option}")

    def complete(self, line):
        """What bash offers at the end of a line, of which readline has broken the last word at "=" and ":"."""
        script = prefix() / "share" / "bash-completion" / "completions" / "heddle"
        words = re.findall(r"[=:]|[^\s=:]+", line) + ([""] if line.endswith(" ") else [])
        text = f"""compopt() {{ :; }}; source "{script}"; COMP_WORDS=({' '.join(map(shlex.quote, words))}); COMP_CWORD={len(words) - 1}
                   COMP_LINE={shlex.quote(line)}; COMP_POINT={len(line)}; _heddle; echo "${{COMPREPLY[*]}}" """
        status, out, errors = run("bash", "-c", text, env={"PATH": "/usr/bin:/bin"})
        self.assertEqual((status, errors), (0, ""))
        return out.split()

    def test_bash_completes_commands_options_and_values(self):
        self.assertEqual(self.complete("heddle comp"), ["compile", "compare", "completion"])
        self.assertEqual(self.complete("heddle compile --ta"), ["--target"])
        self.assertEqual(self.complete("heddle compile --target x86-64-v4+b"), ["x86-64-v4+bf16"])
        self.assertEqual(self.complete("heddle compile --target=x86-64-v4+b"), ["x86-64-v4+bf16"])
        self.assertEqual(self.complete("heddle compile --target x86-64-v3,x86-64-v4+b"), ["x86-64-v3,x86-64-v4+bf16"])
        self.assertEqual(self.complete("heddle compile --target x86-64-v3,cuda:sm_8"), ["sm_80"], "what comes before the colon stands there")
        self.assertEqual(self.complete("heddle compile --precision "), ["f32", "tf32", "bf16", "int8"])
        self.assertEqual(self.complete("heddle compile --emit so,"), ["so,so", "so,a", "so,o", "so,ptx"])
        self.assertEqual(self.complete("heddle show --stage h"), ["halide"])
        self.assertEqual(self.complete("heddle show --stage="), ["tree", "graph", "kernels", "schedule", "halide", "launches", "ptx", "llvm", "asm"])
        self.assertEqual(self.complete("heddle completion "), ["bash", "zsh", "fish"])
        self.assertEqual(self.complete("heddle compile ber"), [], "files are bash's own matter")

    def test_fish_completes_commands_options_and_values(self):
        if not shutil.which("fish"):
            print("[SKIP] no fish")
            return
        script = prefix() / "share" / "fish" / "vendor_completions.d" / "heddle.fish"

        def complete(line):
            status, out, errors = run("fish", "--no-config", "-c", f"source '{script}'; complete -C '{line}'", env={"PATH": "/usr/bin:/bin"})
            self.assertEqual((status, errors), (0, ""))
            return [choice.split("\t")[0] for choice in out.splitlines()]

        self.assertEqual(complete("heddle comp"), ["compare", "compile", "completion"])
        self.assertEqual(complete("heddle compile --ta"), ["--target"])
        self.assertEqual(complete("heddle compile --target x86-64-v4+b"), ["x86-64-v4+bf16"])
        self.assertEqual(complete("heddle compile --target cuda:sm_8"), ["cuda:sm_80"])
        self.assertIn("x86-64-v3,x86-64-v4+bf16", complete("heddle compile --target x86-64-v3,"))
        self.assertEqual(sorted(complete("heddle compile --precision ")), ["bf16", "f32", "int8", "tf32"])

    def test_zsh_completes_commands_options_and_values(self):
        if not shutil.which("zsh"):
            print("[SKIP] no zsh")
            return
        share = prefix() / "share" / "zsh" / "site-functions"

        def complete(begin, line, wanted):
            """At a terminal: zsh completes nothing elsewhere."""
            child, terminal = pty.fork()
            if child == 0:
                os.execve(shutil.which("zsh"), ["zsh", "-f"], {"PATH": "/usr/bin:/bin", "TERM": "dumb", "COLUMNS": "200"})
            said = b""
            try:
                for text, until in ((f"autoload -U compinit; compinit -D -u; {begin}; print be''gin\n", "begin\r\n"), (f"{line}\t\t", wanted)):
                    os.write(terminal, text.encode())
                    said, end = b"", time.monotonic() + 20
                    while until.encode() not in said and time.monotonic() < end:
                        if select.select([terminal], [], [], 0.1)[0]:
                            said += os.read(terminal, 4096)
                    self.assertIn(until, said.decode(), line)
                self.assertNotIn("error", said.decode())
            finally:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                os.close(terminal)

        for begin in (f"fpath=('{share}' $fpath); autoload -U _heddle; compdef _heddle heddle", f"source '{share}/_heddle'"):
            complete(begin, "heddle compl", "completion")
            complete(begin, "heddle compile --targ", "--target")
            complete(begin, "heddle compile --target x86-64-v4+b", "x86-64-v4+bf16")
            complete(begin, "heddle compile --target x86-64-v3,cuda:sm_8", "x86-64-v3,cuda:sm_80")
            complete(begin, "heddle compile --precision i", "int8")
            complete(begin, "heddle tune --target cuda:sm_8", "cuda:sm_80")

    def test_shells_accept_their_scripts(self):
        share = prefix() / "share"
        for shell, words, script in (
            ("bash", ["-n"], share / "bash-completion" / "completions" / "heddle"),
            ("zsh", ["-n"], share / "zsh" / "site-functions" / "_heddle"),
            ("fish", ["--no-execute"], share / "fish" / "vendor_completions.d" / "heddle.fish"),
        ):
            if not shutil.which(shell):
                print(f"[SKIP] no {shell}")
                continue
            done = subprocess.run([shell, *words, script], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""), shell)


if __name__ == "__main__":
    unittest.main()
