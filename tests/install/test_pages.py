"""The programs of docs/deploying: each block is compiled or run as it stands, and what the page says that it prints is compared."""

import os
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

import numpy as np
from safetensors import numpy as safetensors

from pages import blocks, file, follow, path_with

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from scratch import SharedScratch  # noqa: E402

HEDDLE = os.environ["HEDDLE"]
ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "deploying"
GOLDENS = ROOT / "tests" / "models" / "goldens"
CXX = next(name for name in ("clang++-22", "g++") if shutil.which(name))
OWN = """config D "width" = 8
dim B
model My {
  param w: real[D, D]
  entry forward(x: real[B, D]) -> y: real[B, D] {
    y[b, i] = sum[j](x[b, j] * w[i, j])
    return y
  }
}
"""


def programs(page, language):
    """The page's blocks in that language, each with the block of text after it, or None."""
    found = blocks(f"deploying/{page}")
    follows = [text if kind == "text" else None for kind, _, text in found[1:]] + [None]
    return [(text, after) for (kind, _, text), after in zip(found, follows) if kind == language]


class Pages(SharedScratch):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name in ("net.heddle", "part.heddle"):
            (cls.folder / name).write_text(file("deploying/cmake.md", name))
        np.savez(cls.folder / "w.npz", w=np.float32([1, 2, 3]))
        subprocess.run([HEDDLE, "compile", "net.heddle", "--weights", "w.npz", "--emit", "so,a"], cwd=cls.folder, check=True,
                       stdout=subprocess.DEVNULL)  # fmt: skip
        path = path_with(cls.folder / "bin", {"heddle": HEDDLE, "c++": CXX, "python3": sys.executable})
        cls.env = {"PATH": path, "HEDDLE_DB": "none", "PYTHONPATH": str(ROOT / "python")}

    def run_command(self, command):
        done = subprocess.run(command, shell=True, cwd=self.folder, capture_output=True, text=True, env=self.env)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        return done.stdout

    def test_programs_in_cpp(self):
        follow(self, "deploying/cpp.md", self.folder, self.env)
        follow(self, "deploying/running.md", self.folder, self.env)

    def test_programs_in_cpp_have_no_warnings(self):
        for page in ("cpp.md", "running.md"):
            for text, _ in programs(page, "cpp"):
                (self.folder / "main.cc").write_text(text)
                self.run_command("c++ -std=c++17 -Wall -Wextra -Werror -Inet -fsyntax-only main.cc")

    def test_a_model_on_each_memory_node(self):
        _, (text, _) = programs("running.md", "cpp")
        # What the kernel knows of the blocks, while the session is there.
        text = text.replace("  heddle_session_free", '  std::ifstream maps("/proc/self/numa_maps");\n  for (std::string line; std::getline(maps, line);)\n'
                            '    if (line.find(" bind:") != line.npos) std::printf("%s\\n", line.c_str());\n  heddle_session_free', 1)  # fmt: skip
        (self.folder / "main.cc").write_text(text)
        shutil.copy(self.folder / "net" / "net.weights", self.folder)
        lines = self.run_command("c++ -std=c++17 -Inet main.cc net/libnet.a -o main && ./main").splitlines()
        nodes = [path.name.removeprefix("node") for path in Path("/sys/devices/system/node").glob("node[0-9]*")]
        self.assertEqual(sorted(line for line in lines if line.endswith(": 2 4 6")), sorted(f"node {node}: 2 4 6" for node in nodes))
        for node in nodes:
            self.assertTrue(any(f" bind:{node} " in line and f" N{node}=" in line for line in lines), lines)

    def test_programs_in_python(self):
        found = programs("python.md", "python")
        self.assertGreaterEqual(len(found), 3)
        for text, said in found:
            (self.folder / "program.py").write_text(text)
            self.assertEqual(self.run_command("python3 program.py"), said)

    def test_the_commands_of_readme(self):
        at = self.folder / "readme"
        (at / "path" / "to" / "folder").mkdir(parents=True)
        shutil.copytree(GOLDENS / "bert_model", at / "path" / "to" / "bert-folder")
        (at / "my.heddle").write_text(OWN)
        (at / "path" / "to" / "folder" / "config.json").write_text('{"width": 512}')
        for name, tensor in (("my", {"w": np.ones((512, 512), np.float32)}), ("x", {"x": np.ones((2, 512), np.float32)})):
            safetensors.save_file(tensor, at / f"{name}.safetensors")
        shutil.copy(at / "my.safetensors", at / "path" / "to" / "folder" / "model.safetensors")
        part = (ROOT / "README.md").read_text().split("## Compile a model\n")[1].split("## What there is")[0]
        commands, (snippet,) = re.findall(r"^    (heddle .*|ls .*)$", part, re.M), re.findall(r"```python\n(.*?)```", part, re.S)
        self.assertGreater(len(commands), 8)
        for command in commands:
            done = subprocess.run(command, shell=True, cwd=at, env=self.env, capture_output=True, text=True, stdin=subprocess.DEVNULL)
            if command.split()[1] == "lsp":
                continue  # has ended, as its input has
            self.assertEqual((done.returncode, done.stderr), (0, ""), command)
            if command.startswith("ls"):
                self.assertEqual(sorted(command.split("#")[1].split()), done.stdout.split())
                program = "ids = [[1, 2, 3]]\n" + snippet + "print(result.shape)"
                done = subprocess.run([sys.executable, "-c", program], cwd=at, env=self.env, capture_output=True, text=True)
                self.assertEqual((done.stdout, done.stderr), ("(1, 3, 60)\n", ""))

    def test_the_table_of_models_counts_their_lines(self):
        rows = re.findall(r"\]\((models/\w+)/\w+\.heddle\) \| ([\d +]+) \|", (ROOT / "README.md").read_text())
        self.assertGreater(len(rows), 10)
        for folder, lines in rows:
            files = [len(path.read_text().splitlines()) for path in (ROOT / folder).glob("*.heddle")]
            self.assertEqual(sorted(map(int, lines.split("+"))), sorted(files), folder)

    def test_every_link_leads_to_a_page_and_a_heading(self):
        pages = [*ROOT.glob("*.md"), *(page for folder in ("docs", "editors", "examples", "models") for page in (ROOT / folder).rglob("*.md"))]
        self.assertGreater(len(pages), 40)
        for page in pages:
            for link, heading in re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.S)):
                if link.startswith("http"):
                    continue
                target = page.parent / link if link else page
                self.assertTrue(target.exists(), f"{page.name}: {link}")
                if heading:
                    titles = re.findall(r"^#+ (.*)$", target.read_text(), re.M)
                    anchors = [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles]
                    self.assertIn(heading, anchors, f"{page.name}: {link}")


if __name__ == "__main__":
    unittest.main()
