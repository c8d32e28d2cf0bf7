#!/usr/bin/env python3
"""Weights in every format: the same values give the same packed file; what is damaged, or is more than tensors, is refused
with one message. The command is $HEDDLE or build/bin/heddle."""

import json
import os
import re
import subprocess
import sys
import time
import unittest
import zipfile
from collections import OrderedDict
from pathlib import Path

import numpy as np
from safetensors import numpy as safetensors

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1] / "io")]
import torch_files
from test_cli import HEDDLE, Scratch


class WeightFiles(Scratch):
    def setUp(self):
        super().setUp()
        self.done("compile", "net.heddle", "--weights", "w.safetensors", "-o", "out")
        self.packed = (self.folder / "out" / "net.weights").read_bytes()

    def same(self, path):
        self.done("compile", "net.heddle", "--weights", path, "-o", "out")
        self.assertEqual((self.folder / "out" / "net.weights").read_bytes(), self.packed, path)

    def test_every_format_gives_the_same_packed_weights(self):
        at, given = self.folder, self.weights
        np.savez(at / "w.npz", **given)
        np.savez_compressed(at / "compressed.npz", **given)
        np.savez(at / "fortran.npz", **{name: np.asfortranarray(array) for name, array in given.items()})
        torch_files.save(torch_files.state_dict(given), at / "w.pt")
        torch_files.save(torch_files.state_dict(given), at / "new.pt", protocol=4)
        torch_files.save(torch_files.state_dict(given), at / "deflated.pt", compression=zipfile.ZIP_DEFLATED)
        torch_files.save_stream(torch_files.state_dict(given), at / "old.bin")
        names = ["w.npz", "compressed.npz", "fortran.npz", "w.pt", "new.pt", "deflated.pt", "old.bin"]
        for name in names:
            self.same(name)

    def test_a_folder_with_shards_of_either_kind(self):
        parts = [{"table": self.weights["table"]}, {name: self.weights[name] for name in ("fc.weight", "fc.bias")}]
        for stem, ending, save in (
            ("model", "safetensors", lambda part, path: safetensors.save_file(part, path)),
            ("pytorch_model", "bin", lambda part, path: torch_files.save(torch_files.state_dict(part), path)),
        ):
            folder = self.folder / stem
            folder.mkdir()
            where = {}
            for number, part in enumerate(parts, 1):
                name = f"{stem}-0000{number}-of-00002.{ending}"
                save(part, folder / name)
                where |= dict.fromkeys(part, name)
            (folder / f"{stem}.{ending}.index.json").write_text(json.dumps({"metadata": {}, "weight_map": where}))
            self.same(stem)
            self.same(f"{stem}/{stem}.{ending}.index.json")
        (self.folder / "whole").mkdir()
        torch_files.save(torch_files.state_dict(self.weights), self.folder / "whole" / "pytorch_model.bin")
        self.same("whole")

    def test_tensors_of_pytorch_share_storages_and_lie_in_any_order(self):
        given = self.weights
        both = torch_files.Storage(np.concatenate([given["fc.bias"], given["table"].T.ravel()]))
        value = OrderedDict([
            ("epoch", 3), ("lr", 0.5), ("names", ["a", ("b", None, True)]),
            ("fc.bias", torch_files.Tensor(both, (3,))),
            ("table", torch_files.Tensor(both, (7, 5), strides=(1, 7), offset=3)),
            ("fc.weight", torch_files.tensor(given["fc.weight"], parameter=True)),
        ])  # fmt: skip
        torch_files.save(value, self.folder / "w.pt")
        self.same("w.pt")
        torch_files.save_stream(value, self.folder / "w.bin")
        self.same("w.bin")
        torch_files.save({"epoch": 1, "model": dict(value), "optimizer": {"state": {}}}, self.folder / "checkpoint.pt")
        self.same("checkpoint.pt")
        for dtype, kind in ((np.float64, None), (np.float16, None)):
            cast = {name: array.astype(dtype) for name, array in given.items()}
            torch_files.save(torch_files.state_dict(cast), self.folder / "cast.pt")
            self.save("cast.safetensors", cast)
            self.done("compile", "net.heddle", "--weights", "cast.safetensors", "-o", "want")
            self.done("compile", "net.heddle", "--weights", "cast.pt", "-o", "got")
            self.assertEqual((self.folder / "got/net.weights").read_bytes(), (self.folder / "want/net.weights").read_bytes())

    def own_memory(self, size):
        """The largest anonymous memory of a compilation whose weights are a matrix of size x size: mapped files don't count."""
        header = json.dumps({"w": {"dtype": "F32", "shape": [size, size], "data_offsets": [0, 4 * size * size]}}).encode()
        with open(self.folder / "large.safetensors", "wb") as file:
            file.write(len(header).to_bytes(8, "little") + header)
            file.truncate(file.tell() + 4 * size * size)
        (self.folder / "large.heddle").write_text(f"""dim B
model Large {{
  param w: real[{size}, {size}]
  entry apply(x: real[B, {size}]) -> y: real[B, {size}] {{
    y[b, o] = sum[i](x[b, i] * w[o, i])
    return y
  }}
}}
""")
        compiler = subprocess.Popen([HEDDLE, "compile", "large.heddle", "--weights", "large.safetensors", "-o", "large"], cwd=self.folder,
                                    stdout=subprocess.DEVNULL)  # fmt: skip
        most = 0
        while compiler.poll() is None:
            found = re.search(r"RssAnon:\s*(\d+) kB", Path(f"/proc/{compiler.pid}/status").read_text())
            most = max(most, int(found[1]) if found else 0)
            time.sleep(0.005)
        self.assertEqual(compiler.returncode, 0)
        self.assertGreater((self.folder / "large" / "large.weights").stat().st_size, 4 * size * size)
        return most * 1024

    def test_packing_takes_little_memory_of_its_own(self):
        small, large = self.own_memory(64), self.own_memory(6000)
        self.assertGreater(small, 1 << 20)
        self.assertLess(large - small, 36 << 20, "a quarter of the matrix, which is laid out anew")

    def refuses(self, name, why):
        self.refused(f"error: {name}: {why}\n", "compile", "net.heddle", "--weights", name, "-o", "new")

    def test_a_pickle_is_never_executed(self):
        class Evil:
            def __reduce__(self):
                return os.system, (f"touch {self.path}",)

        evil, mark = Evil(), self.folder / "executed"
        evil.path = mark
        rest = "which no tensor needs; nothing of it was executed. Save the tensors alone: torch.save(model.state_dict(), …)"
        for save in (torch_files.save, torch_files.save_stream):
            save({**torch_files.state_dict(self.weights), "fc.weight": evil}, self.folder / "evil.pt")
            self.refuses("evil.pt", f"its pickle asks for `posix.system`, {rest}")
            self.assertFalse(mark.exists())
        torch_files.save({"args": Scratch}, self.folder / "classes.pt")
        self.refuses("classes.pt", f"its pickle asks for `test_cli.Scratch`, {rest}")

    def test_what_holds_no_tensors_by_name_says_so(self):
        at = self.folder
        tensor = torch_files.tensor(np.float32([1]))
        for value, why in (
            ([tensor], "holds no dictionary of tensors by name; save torch.save(model.state_dict(), …)"),
            ({"a": {"x": tensor}, "b": {"x": tensor}}, "holds several dictionaries of tensors (a, b); save the one that is meant alone"),
            ({"x": torch_files.Tensor(torch_files.Storage(np.float32([1])), (2,))}, "tensor `x`: it lies outside of its storage; the file is damaged"),
            ({"x": torch_files.Tensor(torch_files.Storage(np.float32([1])), (1 << 40,), strides=(0,))},
             "tensor `x`: it has more elements than its storage; the file is damaged"),
            ({"x": torch_files.tensor(np.int16([1]))}, "tensor `x`: its elements are of torch.ShortStorage, which is not supported; "
             "save it as float32, bfloat16, float16, int8, int32, int64, uint8 or bool"),
        ):  # fmt: skip
            torch_files.save(value, at / "odd.pt")
            self.refuses("odd.pt", why)
        with zipfile.ZipFile(at / "texts.zip", "w") as archive:
            archive.writestr("readme", "hello")
        self.refuses("texts.zip", 'is a ZIP archive, no safetensors file; unpack it: unzip "texts.zip"')
        with zipfile.ZipFile(at / "m.keras", "w") as archive:
            archive.writestr("metadata.json", "{}")
        self.refuses("m.keras", "is a Keras file, no safetensors file; load it in Keras, and save its weights by name with "
                     "safetensors.numpy.save_file(…, \"m.safetensors\")")  # fmt: skip
        with zipfile.ZipFile(at / "none.npz", "w"):
            pass
        self.refuses("none.npz", "is a ZIP archive without tensors")
        np.savez(at / "objects.npz", x=np.array([{}], object))
        self.refuses("objects.npz", "`x.npy`: its element type |O is not supported; save it as float32, float16, float64, int8, int32, "
                     "int64, uint8 or bool")  # fmt: skip
        (at / "empty").mkdir()
        self.refuses("empty", "has no weights: neither model.safetensors nor pytorch_model.bin")


if __name__ == "__main__":
    unittest.main()
