"""One runtime each: a class that loads a model folder for a number of threads and computes it in one precision; `prepare` imports
it and converts the model once, where it wants that. A runtime gets what its documentation recommends for latency; all of them
see static shapes but Heddle, whose library serves any.

Also the worker process of run.py: `python peers.py NAME FOLDER THREADS` answers one line of JSON per line of stdin.
    output FILE   loads the model, computes once, saves the results, and answers how many seconds the first two took
    time N        computes N times and answers the seconds of each, and its CPU seconds"""

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from models import STEPS, facts_of, model_in, parts_of
from safetensors.numpy import load_file, save_file
from worker import serve, timed


class Heddle:
    @staticmethod
    def prepare(folder, precision):
        import heddle  # noqa: F401

    def __init__(self, folder, threads, precision):
        import heddle

        self.model, self.inputs = model_in(folder), load_file(folder / "inputs.safetensors")
        self.session = heddle.load(folder / f"heddle-{precision}").session(threads=threads)

    def run(self):
        if self.model.entry == "generate":
            return {"sequences": self.session.generate(self.inputs, STEPS, min_steps=STEPS, beams=self.model.beams)[0]}
        return self.session.run(self.inputs, entry=self.model.entry or None)


class PyTorch:
    """The module itself, eager, with PyTorch's fused attention; bf16: all its numbers are."""

    @staticmethod
    def prepare(folder, precision):
        import modules  # noqa: F401  the classes of what is loaded

    def __init__(self, folder, threads, precision):
        import torch

        torch.set_num_threads(threads)

        self.module = torch.load(folder / "module.pt", weights_only=False)
        inputs = load_file(folder / "inputs.safetensors")
        self.inputs = [torch.from_numpy(inputs[name]) for name in facts_of(folder)["inputs"]]
        if precision == "bf16":
            self.module = self.module.to(torch.bfloat16)
            self.inputs = [value.to(torch.bfloat16) if value.is_floating_point() else value for value in self.inputs]
        self.mode, self.results = torch.inference_mode, model_in(folder).results

    def run(self):
        with self.mode():
            return {key: (value.float() if value.is_floating_point() else value).numpy()
                    for key, value in zip(self.results, self.module(*self.inputs))}  # fmt: skip


class CompiledPyTorch(PyTorch):
    """The same by torch.compile, for the sizes that it sees."""

    def __init__(self, folder, threads, precision):
        super().__init__(folder, threads, precision)
        import torch

        self.module = torch.compile(self.module, dynamic=False)


class OnnxRuntime:
    """int8: weights quantized per channel, activations while it runs."""

    @staticmethod
    def file(folder, precision):
        return folder / ("model-int8.onnx" if precision == "int8" else "model.onnx")

    @staticmethod
    def prepare(folder, precision):
        import onnxruntime  # noqa: F401

        file = OnnxRuntime.file(folder, precision)
        if not file.exists():
            from onnxruntime.quantization import quantize_dynamic

            quantize_dynamic(folder / "model.onnx", file, per_channel=True)

    def __init__(self, folder, threads, precision):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        self.session = onnxruntime.InferenceSession(str(OnnxRuntime.file(folder, precision)), options, ["CPUExecutionProvider"])
        wanted = {value.name for value in self.session.get_inputs()}
        self.inputs = {key: value for key, value in load_file(folder / "inputs.safetensors").items() if key in wanted}
        self.names = model_in(folder).results

    def run(self):
        return dict(zip(self.names, self.session.run(None, self.inputs)))


class OpenVino:
    @staticmethod
    def prepare(folder, precision):
        import openvino  # noqa: F401

    def __init__(self, folder, threads, precision):
        import openvino

        core = openvino.Core()
        settings = {"INFERENCE_PRECISION_HINT": precision, "INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY",
                    "NUM_STREAMS": 1}
        model = core.compile_model(core.read_model(folder / "model.onnx"), "CPU", settings)
        self.request = model.create_infer_request()
        self.names = model_in(folder).results
        wanted = {name for value in model.inputs for name in value.names}
        self.inputs = {key: value for key, value in load_file(folder / "inputs.safetensors").items() if key in wanted}

    def run(self):
        results = self.request.infer(self.inputs, share_inputs=True, share_outputs=True)
        return dict(zip(self.names, results.values()))


class Iree:
    """The ONNX file, compiled for this CPU."""

    @staticmethod
    def prepare(folder, precision):
        from iree import compiler, runtime  # noqa: F401

        program = folder / "model.vmfb"
        if not program.exists():
            imported = folder / "model.mlir"
            subprocess.run([sys.executable, "-m", "iree.compiler.tools.import_onnx", folder / "model.onnx", "-o", imported], check=True, capture_output=True)
            compiler.compile_file(str(imported), output_file=str(program), target_backends=["llvm-cpu"], input_type="onnx",
                                  extra_args=["--iree-llvmcpu-target-cpu=host", "--iree-opt-level=O3",
                                              "--iree-llvmcpu-stack-allocation-limit=131072"])  # fmt: skip

    def __init__(self, folder, threads, precision):
        from iree import runtime

        runtime.flags.parse_flags(f"--task_topology_max_group_count={threads}")
        module = runtime.load_vm_flatbuffer_file(str(folder / "model.vmfb"), driver="local-task" if threads > 1 else "local-sync")
        names = [name for name in module.vm_module.function_names if not name.startswith("__") and not name.endswith("$async")]
        self.call = getattr(module, names[0])
        inputs = load_file(folder / "inputs.safetensors")
        self.inputs, self.names = [inputs[name] for name in facts_of(folder)["inputs"]], model_in(folder).results

    def run(self):
        results = self.call(*self.inputs)
        results = results if isinstance(results, (tuple, list)) else [results]
        return {name: value.to_host() for name, value in zip(self.names, results)}


class _Words:
    """Stands for the tokenizer that a model with random weights doesn't have: token i is "i"."""

    def __init__(self, config):
        self.unk_token, self.pad_token = "1", str(config.pad_token_id)
        self.bos_token = self.eos_token = str(config.eos_token_id)
        self.unk_token_id, self.pad_token_id, self.eos_token_id = 1, config.pad_token_id, config.eos_token_id
        self.size = config.vocab_size

    def get_vocab(self):
        return {str(i) if str(i) != self.pad_token else "<pad>": i for i in range(self.size)}


class CTranslate2:
    """Searches only; int8: weights quantized per channel, activations per row."""

    TYPES = {"f32": "float32", "int8": "int8"}

    @staticmethod
    def prepare(folder, precision):
        import ctranslate2
        import transformers

        converted = folder / f"ctranslate2-{precision}"
        if converted.exists():
            return
        config = transformers.AutoConfig.from_pretrained(folder)

        class Converter(ctranslate2.converters.TransformersConverter):
            def load_tokenizer(self, *_, **__):
                return _Words(config)

        Converter(str(folder)).convert(str(converted), quantization=CTranslate2.TYPES[precision])

    def __init__(self, folder, threads, precision):
        import ctranslate2

        self.model, inputs = model_in(folder), load_file(folder / "inputs.safetensors")
        config = json.loads((folder / "config.json").read_text())
        how = {"inter_threads": 1, "intra_threads": threads, "compute_type": CTranslate2.TYPES[precision]}
        converted = str(folder / f"ctranslate2-{precision}")
        self.words = [[str(word) for word in row] for row in inputs["input_ids"]]
        self.translates = config.get("is_encoder_decoder", False)
        if self.translates:
            self.start = np.full((len(self.words), 1), config["decoder_start_token_id"])
            self.translator = ctranslate2.Translator(converted, "cpu", **how)
        else:
            self.generator = ctranslate2.Generator(converted, "cpu", **how)

    def run(self):
        length = {"beam_size": self.model.beams, "return_end_token": True}
        if self.translates:
            done = self.translator.translate_batch(self.words, min_decoding_length=STEPS, max_decoding_length=STEPS, **length)
            texts = np.array([[int(word) for word in one.hypotheses[0]] for one in done])
            return {"sequences": np.concatenate([self.start, texts], 1)}
        whole = len(self.words[0]) - 1 + STEPS  # its start token is the first of the prompt, which isn't counted
        done = self.generator.generate_batch(self.words, min_length=whole, max_length=whole, **length)
        return {"sequences": np.array([one.sequences_ids[0] for one in done])}


RUNTIMES = {"heddle": Heddle, "pytorch": PyTorch, "torch.compile": CompiledPyTorch, "onnxruntime": OnnxRuntime, "openvino": OpenVino,
            "iree": Iree, "ctranslate2": CTranslate2}  # fmt: skip


def start(threads):
    (name, precision), folder = parts_of(sys.argv[1]), Path(sys.argv[2])
    RUNTIMES[name].prepare(folder, precision)
    loaded = []

    def answer(what, argument):
        if what == "time":
            return timed(loaded[0].run, argument)
        begun = time.perf_counter()
        loaded[:] = [RUNTIMES[name](folder, threads, precision)]
        results = loaded[0].run()
        first = time.perf_counter() - begun
        save_file({key: np.ascontiguousarray(value) for key, value in results.items()}, argument)
        return first

    return answer


if __name__ == "__main__":
    serve(start)
