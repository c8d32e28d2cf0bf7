"""One runtime each: a class that loads a model folder for a number of threads and computes it in one precision. A runtime
gets what its documentation recommends for latency; all of them see static shapes but Heddle, whose library serves any.

Also the worker process of run.py: `python peers.py NAME FOLDER THREADS` answers one line of JSON per line of stdin.
    output FILE   computes once and saves the results
    time N        computes N times and answers the seconds of each, and its CPU seconds"""

import json
import sys
from pathlib import Path

import numpy as np
from models import MODELS, STEPS
from safetensors.numpy import load_file, save_file
from worker import serve, timed


class Heddle:
    def __init__(self, folder, threads, precision):
        import heddle

        self.model, self.inputs = MODELS[folder.name], load_file(folder / "inputs.safetensors")
        self.session = heddle.load(folder / f"heddle-{precision}").session(threads=threads)

    def run(self):
        if self.model.entry == "generate":
            return {"sequences": self.session.generate(self.inputs, STEPS, min_steps=STEPS)[0]}
        return self.session.run(self.inputs, entry=self.model.entry or None)


class PyTorch:
    """The module itself, eager, with PyTorch's fused attention; bf16: all its numbers are."""

    def __init__(self, folder, threads, precision):
        import torch

        torch.set_num_threads(threads)
        import modules  # noqa: F401  the classes of what is loaded

        self.module = torch.load(folder / "module.pt", weights_only=False)
        inputs = load_file(folder / "inputs.safetensors")
        self.inputs = [torch.from_numpy(inputs[name]) for name in json.loads((folder / "facts.json").read_text())["inputs"]]
        if precision == "bf16":
            self.module = self.module.to(torch.bfloat16)
            self.inputs = [value.to(torch.bfloat16) if value.is_floating_point() else value for value in self.inputs]
        self.mode, self.results = torch.inference_mode, MODELS[folder.name].results

    def run(self):
        with self.mode():
            return {key: (value.float() if value.is_floating_point() else value).numpy()
                    for key, value in zip(self.results, self.module(*self.inputs))}  # fmt: skip


class OnnxRuntime:
    """int8: weights quantized per channel, activations while it runs."""

    def __init__(self, folder, threads, precision):
        import onnxruntime

        file = folder / "model.onnx"
        if precision == "int8":
            from onnxruntime.quantization import quantize_dynamic

            whole, file = file, folder / "model-int8.onnx"
            if not file.exists():
                quantize_dynamic(whole, file, per_channel=True)

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        self.session = onnxruntime.InferenceSession(str(file), options, ["CPUExecutionProvider"])
        wanted = {value.name for value in self.session.get_inputs()}
        self.inputs = {key: value for key, value in load_file(folder / "inputs.safetensors").items() if key in wanted}
        self.names = MODELS[folder.name].results

    def run(self):
        return dict(zip(self.names, self.session.run(None, self.inputs)))


class OpenVino:
    def __init__(self, folder, threads, precision):
        import openvino

        core = openvino.Core()
        settings = {"INFERENCE_PRECISION_HINT": precision, "INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY",
                    "NUM_STREAMS": 1}
        model = core.compile_model(core.read_model(folder / "model.onnx"), "CPU", settings)
        self.request = model.create_infer_request()
        self.names = MODELS[folder.name].results
        wanted = {name for value in model.inputs for name in value.names}
        self.inputs = {key: value for key, value in load_file(folder / "inputs.safetensors").items() if key in wanted}

    def run(self):
        results = self.request.infer(self.inputs, share_inputs=True, share_outputs=True)
        return dict(zip(self.names, results.values()))


PEERS = {"heddle": Heddle, "pytorch": PyTorch, "onnxruntime": OnnxRuntime, "openvino": OpenVino}


def start(threads):
    (name, _, precision), folder = sys.argv[1].partition(" "), Path(sys.argv[2])
    peer = PEERS[name](folder, threads, precision or "f32")

    def answer(what, argument):
        if what == "time":
            return timed(peer.run, argument)
        save_file({key: np.ascontiguousarray(value) for key, value in peer.run().items()}, argument)
        return "saved"

    return answer


if __name__ == "__main__":
    serve(start)
