"""DETR-R50's products and filters, each kernel of a whole call, with random weights: beside the peak of the instruction that
multiplies, and beside the machine's roof, which is lower where a kernel's tensors take longer to read than to multiply."""

import json
import re
import subprocess
from pathlib import Path

MODEL = Path(__file__).resolve().parents[2] / "models" / "detr" / "detr.heddle"
PICTURE = {"B": 1, "YI": 480, "XI": 640}
WEIGHT = re.compile(r'heddle\.weight @\S+ : .*? names \["([^"]+)".*? stored \[([0-9, ]*)\]')
PRECISIONS = {"f32": [], "bf16": ["--precision", "bf16"], "int8": ["--precision", "int8"]}


def weights_of(graph):
    """Names and shapes of the weights that a graph declares."""
    return {name: [int(extent) for extent in shape.split(",") if extent.strip()] for name, shape in WEIGHT.findall(graph)}


def make(options, python):
    """Random weights, and a library for each precision."""
    weights = options.cache / "detr.safetensors"
    if not weights.exists():
        graph = subprocess.run([options.heddle, "show", MODEL, "--config", "r50", "--stage", "graph"], check=True, capture_output=True, text=True).stdout
        code = ("import sys, json, numpy as np; from safetensors.numpy import save_file; r = np.random.default_rng(1)\n"
                "shapes = json.load(sys.stdin)\n"
                "save_file({n: (r.standard_normal(s) / np.prod(s[1:]) ** 0.5 if len(s) > 1 else np.ones(s)).astype(np.float32) for n, s in shapes.items()}, sys.argv[1])")
        subprocess.run([python, "-c", code, weights], input=json.dumps(weights_of(graph)), text=True, check=True)
    for precision in options.precision:
        subprocess.run([options.heddle, "compile", MODEL, "--config", "r50", "--weights", weights, *PRECISIONS[precision], "-o",
                        options.cache / f"{precision}-detr"], check=True, stdout=subprocess.DEVNULL)  # fmt: skip


def measure(options, precision, threads):
    """What `heddle bench` says of each kernel with products: of several runs the one in which it took least, beside the best that
    the instruction and memory had in any."""
    best, peaks, width, file = {}, {}, 0, options.cache / "bench.json"
    for _ in range(options.runs):
        dims = [word for name, value in PICTURE.items() for word in ("--dim", f"{name}={value}")]
        subprocess.run([options.heddle, "bench", options.cache / f"{precision}-detr", *dims, "--threads", str(threads), "--json", file],
                       check=True, stdout=subprocess.DEVNULL)  # fmt: skip
        told = json.loads(file.read_text())
        width = max(width, told["read_gigabytes"])
        for kernel in told["kernels"]:
            if "of_peak" not in kernel:
                continue
            instruction = kernel["micro_kernel"]
            peaks[instruction] = max(peaks.get(instruction, 0), kernel["gflops"] / kernel["of_peak"])
            if kernel["ms"] < best.get(kernel["kernel"], {"ms": float("inf")})["ms"]:
                best[kernel["kernel"]] = kernel
    for kernel in best.values():
        kernel["of_peak"] = kernel["gflops"] / peaks[kernel["micro_kernel"]]
        kernel["roof"] = min(1, kernel["of_peak"] / (kernel["gigabytes"] / width))
    return list(best.values())


def table(kernels_of, threads):
    lines = [f"## DETR-R50, {PICTURE['YI']} x {PICTURE['XI']}, {threads} thread{'s' if threads > 1 else ''}", "",
             "Roof: what of the peak a kernel can reach, as its tensors must be read and written once.", "",
             "| precision | first computes | kind, instruction | calls | ms of a call | GFLOP/s | of peak | roof | of roof |",
             "|---|---|---|--:|--:|--:|--:|--:|--:|"]  # fmt: skip
    for precision, kernels in kernels_of.items():
        for kernel in kernels:
            of_peak, roof = kernel["of_peak"], kernel["roof"]
            lines.append(f"| {precision} | {kernel['definition']} | {kernel['kind']}, {kernel['micro_kernel']} | {kernel['calls']} | "
                         f"{kernel['ms'] / kernel['calls']:.3f} | {kernel['gflops']:.0f} | {100 * of_peak:.0f} % | {100 * roof:.0f} % | "
                         f"{100 * of_peak / roof:.0f} % |")
    return lines + [""]
