"""One runtime each: a class that loads a model folder for a number of threads and computes it in float32. A runtime
gets what its documentation recommends for latency; all of them see static shapes but Heddle, whose library serves any.

Also the worker process of run.py: `python peers.py NAME FOLDER THREADS` answers one line of JSON per line of stdin.
    output FILE   computes once and saves the results
    time N        computes N times and answers the seconds of each, and its CPU seconds"""

import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file
from worker import serve, timed


class Heddle:
    def __init__(self, folder, threads):
        import heddle

        self.session = heddle.load(folder / "heddle").session(threads=threads)
        self.inputs = load_file(folder / "inputs.safetensors")

    def run(self):
        return self.session.run(self.inputs)


class PyTorch:
    """transformers' own module, eager, with PyTorch's fused attention."""

    def __init__(self, folder, threads):
        import torch
        import transformers

        torch.set_num_threads(threads)
        transformers.logging.disable_progress_bar()
        config = transformers.AutoConfig.from_pretrained(folder)
        architecture = getattr(transformers, config.architectures[0])
        self.model = architecture.from_pretrained(folder, attn_implementation="sdpa", dtype=torch.float32).eval()
        self.inputs = {key: torch.from_numpy(value) for key, value in load_file(folder / "inputs.safetensors").items()}
        self.mode = torch.inference_mode

    def run(self):
        with self.mode():
            return {key: value.numpy() for key, value in self.model(**self.inputs).items()}


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
        self.names = [value.name for value in self.session.get_outputs()]

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
        self.names = [output.get_any_name() for output in model.outputs]
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
