"""One runtime each: a class that loads a model folder for a number of threads and computes it in float32. A runtime
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
    def __init__(self, folder, threads):
        import heddle

        self.model, self.inputs = MODELS[folder.name], load_file(folder / "inputs.safetensors")
        self.session = heddle.load(folder / "heddle").session(threads=threads)

    def run(self):
        if self.model.entry == "generate":
            return {"sequences": self.session.generate(self.inputs, STEPS, min_steps=STEPS)[0]}
        return self.session.run(self.inputs, entry=self.model.entry or None)


class PyTorch:
    """The module itself, eager, with PyTorch's fused attention."""

    def __init__(self, folder, threads):
        import torch

        torch.set_num_threads(threads)
        import modules  # noqa: F401  the classes of what is loaded

        self.module = torch.load(folder / "module.pt", weights_only=False)
        inputs = load_file(folder / "inputs.safetensors")
        self.inputs = [torch.from_numpy(inputs[name]) for name in json.loads((folder / "facts.json").read_text())["inputs"]]
        self.mode, self.results = torch.inference_mode, MODELS[folder.name].results

    def run(self):
        with self.mode():
            return {key: value.numpy() for key, value in zip(self.results, self.module(*self.inputs))}


class OnnxRuntime:
    def __init__(self, folder, threads):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        self.session = onnxruntime.InferenceSession(str(folder / "model.onnx"), options, ["CPUExecutionProvider"])
        wanted = {value.name for value in self.session.get_inputs()}
        self.inputs = {key: value for key, value in load_file(folder / "inputs.safetensors").items() if key in wanted}
        self.names = MODELS[folder.name].results

    def run(self):
        return dict(zip(self.names, self.session.run(None, self.inputs)))


class OpenVino:
    def __init__(self, folder, threads):
        import openvino

        core = openvino.Core()
        settings = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY",
                    "NUM_STREAMS": 1}
        model = core.compile_model(core.read_model(folder / "model.onnx"), "CPU", settings)
        self.request = model.create_infer_request()
        self.names = MODELS[folder.name].results
        wanted = {name for value in model.inputs for name in value.names}
        self.inputs = {key: value for key, value in load_file(folder / "inputs.safetensors").items() if key in wanted}

    def run(self):
        results = self.request.infer(self.inputs, share_inputs=True, share_outputs=True)
        return dict(zip(self.names, results.values()))


PEERS = {
    # name in the table: class, Python package whose version is reported
    "heddle": (Heddle, None),
    "pytorch": (PyTorch, "torch"),
    "onnxruntime": (OnnxRuntime, "onnxruntime"),
    "openvino": (OpenVino, "openvino"),
}


def start(threads):
    name, folder = sys.argv[1], Path(sys.argv[2])
    peer = PEERS[name][0](folder, threads)

    def answer(what, argument):
        if what == "time":
            return timed(peer.run, argument)
        save_file({key: np.ascontiguousarray(value) for key, value in peer.run().items()}, argument)
        return "saved"

    return answer


if __name__ == "__main__":
    serve(start)
