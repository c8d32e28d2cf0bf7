"""What every comparison in this folder needs: the peers' Python environment, worker processes that are stopped except
while they answer, the machine's roofs, and the difference of two files of results. A worker is a program that calls
`serve` of worker.py."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
TOLERANCE = 2e-4  # of the largest value


def add_options(parser, name):
    """What every comparison is told: the command, the peers' environment, where it keeps things and writes its table."""
    parser.add_argument("--heddle", type=Path, default=ROOT / "build" / "bin" / "heddle", help="the command to compile with")
    parser.add_argument("--venv", type=Path, default=ROOT / ".cache" / "peers-venv",
                        help="Python environment of the peers; made and filled when missing (default .cache/peers-venv)")
    parser.add_argument("--cache", type=Path, default=ROOT / ".cache" / name, help=f"what is made once (default .cache/{name})")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--results", type=Path, default=ROOT / "bench" / "results", help="folder for the table")


def check_options(options, compiles=True):
    """Ends the program where these cannot be measured; makes the cache."""
    usable = len(os.sched_getaffinity(0))
    if max(options.threads) > usable:
        sys.exit(f"--threads {max(options.threads)}: only {usable} CPUs may be used")
    if compiles and not options.heddle.exists():
        sys.exit(f"there is no {options.heddle}: build it with ./dev build, or name another with --heddle")
    options.cache.mkdir(parents=True, exist_ok=True)


def say(text):
    print(f"==> {text}", flush=True)


def environment_python(venv, needed="torch, transformers, onnxruntime, openvino"):
    """The Python of the peers' environment, which is made and filled when it isn't there; somebody else's will do, if it has what is needed."""
    python = venv / "bin" / "python"
    requirements = (HERE / "peers" / "requirements.txt").read_text()
    stamp = venv / "installed-requirements.txt"
    if not python.exists():
        say(f"making the peers' Python environment {venv}")
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    elif not stamp.exists() and subprocess.run([python, "-c", f"import {needed}"],
                                               stderr=subprocess.DEVNULL).returncode == 0:
        return python
    if not stamp.exists() or stamp.read_text() != requirements:
        names = [line for line in requirements.splitlines() if line and not line.startswith("#")]
        say(f"installing {', '.join(names)} (some gigabytes)")
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r",
                        HERE / "peers" / "requirements.txt"], check=True)
        stamp.write_text(requirements)
    return python


def make_roofs(cache):
    compiler = next((name for name in ("clang-22", "clang", "gcc", "cc") if shutil.which(name)), None)
    if not compiler:
        sys.exit("no C compiler: install clang-22 or gcc to measure the machine's roofs")
    program = cache / "roofs"
    subprocess.run([compiler, "-O3", "-march=native", "-ffp-contract=fast", "-pthread", HERE / "roofs.c", "-o", program],
                   check=True)
    return program


def measure_roofs(program, threads):
    """GFLOP/s of multiply-adds and GB/s read."""
    flops, width = subprocess.run([program, str(threads)], capture_output=True, text=True, check=True).stdout.split()
    return float(flops), float(width)


class Worker:
    """A program in a process of its own, stopped except while it answers a line with a line of JSON."""

    def __init__(self, python, program, arguments, log, threads):
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "python"), str(HERE)]),
               "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": str(threads), "PYTHONWARNINGS": "ignore"}
        self.log = open(log, "w+")
        self.process = subprocess.Popen([python, program, *map(str, arguments), str(threads)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.log, text=True, env=env)
        self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            self.log.seek(0)
            lines = self.log.read().strip().splitlines() or ["it ended without a word"]
            raise RuntimeError(next((line for line in lines if "error:" in line), lines[-1])[:300])
        self.process.send_signal(signal.SIGSTOP)
        return json.loads(line)

    def ask(self, *words):
        self.process.send_signal(signal.SIGCONT)
        print(*words, file=self.process.stdin, flush=True)
        return self.answer()

    def close(self):
        self.process.kill()
        self.process.wait()
        self.log.close()


def difference(python, got, want):
    """Largest difference of two safetensors files, as a share of the largest value."""
    code = ("import sys, numpy as np; from safetensors.numpy import load_file\n"
            "got, want = load_file(sys.argv[1]), load_file(sys.argv[2])\n"
            "assert set(want) <= set(got), f'results {sorted(got)}'\n"
            "assert all(got[k].shape == want[k].shape and np.isfinite(got[k]).all() for k in want), 'shape or NaN'\n"
            "print(max(float(np.abs(got[k] - want[k]).max() / np.abs(want[k]).max()) for k in want))")
    done = subprocess.run([python, "-c", code, got, want], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return float(done.stdout)


def cpu():
    """Its name, which virtual machines often have for several kinds, and its family and model, which tell these apart."""
    first = Path("/proc/cpuinfo").read_text().split("\n\n")[0]
    fields = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in first.splitlines())}
    return fields.get("model name", "unknown CPU"), f"family {fields.get('cpu family', '?')} model {fields.get('model', '?')}"


def cpu_name():
    return ", ".join(cpu())


def cpu_in_file_names():
    name, kind = cpu()
    return "-".join([*name.replace("(R)", "").replace("@", "").split()[:4], *kind.split()]).lower()


def versions(python, packages):
    code = ("import importlib.metadata as m, sys, json\n"
            "print(json.dumps({p: m.version(p) for p in sys.argv[1:]}))")
    done = subprocess.run([python, "-c", code, *packages], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)
