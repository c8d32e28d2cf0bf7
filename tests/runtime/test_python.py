"""The Python package against a library that plays an artifact: struct layouts, introspection, runs, errors."""

import ctypes
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import heddle
from heddle import _c

BUILD = pathlib.Path(os.environ["HEDDLE"]).parent.parent
LIBRARY = BUILD / "tests" / "runtime" / "libheddle_fake_a.so"
STATEFUL = LIBRARY.with_name("libheddle_fake_stateful.so")


def weights_file(identity=b"fake\x01\x02\x03\x04", payload=struct.pack("<4f", 0.5, 1.5, 2.5, 3.5)):
    """What fits the model of fake_descriptor.cc: a header, and the bias 0.5, 1.5, 2.5, 3.5."""
    identity = identity.ljust(16, b"\0")
    header = struct.pack("<8sIIQQ16sQ8x", b"HEDDLEW1", 1, 64, 4096, len(payload), identity, 0)
    return header.ljust(4096, b"\0") + payload


class PythonTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = pathlib.Path(cls.folder.name)
        shutil.copy(LIBRARY, cls.path / "libfake.so")
        (cls.path / "fake.weights").write_bytes(weights_file())
        cls.model = heddle.load(cls.path)

    @classmethod
    def tearDownClass(cls):
        cls.model.close()
        cls.folder.cleanup()

    def assert_error(self, status, message, function, *arguments, **keywords):
        with self.assertRaises(heddle.Error) as caught:
            function(*arguments, **keywords)
        self.assertEqual((caught.exception.status, str(caught.exception)), (status, message))

    def test_structs_have_the_layout_of_the_header(self):
        library = ctypes.CDLL(str(LIBRARY))
        library.fake_layout.restype = ctypes.c_char_p
        named = {
            "heddle_tensor": _c.Tensor,
            "heddle_model_options": _c.ModelOptions,
            "heddle_session_options": _c.SessionOptions,
            "heddle_model_info": _c.ModelInfo,
            "heddle_dim_info": _c.DimInfo,
            "heddle_entry_info": _c.EntryInfo,
            "heddle_extent": _c.ExtentInfo,
            "heddle_value_info": _c.ValueInfo,
            "heddle_state_info": _c.StateInfo,
            "heddle_state_value": _c.StateValue,
            "heddle_token_info": _c.TokenInfo,
            "heddle_token": _c.Token,
            "heddle_generate_options": _c.GenerateOptions,
            "heddle_memory_info": _c.MemoryInfo,
            "heddle_api": _c.Api,
        }
        expected = []
        for name, struct_type in named.items():
            for field, _ in struct_type._fields_:
                place = getattr(struct_type, field)
                expected.append(f"{name} {field} {place.offset} {place.size}")
            expected.append(f"{name}  {ctypes.sizeof(struct_type)} 0")
        self.assertEqual(sorted(expected), sorted(library.fake_layout().decode().splitlines()))

    def test_a_model_tells_what_is_in_it(self):
        model = self.model
        self.assertEqual((model.name, model.target, model.weights_bytes), ("a", "x86-64-v3", 16))
        self.assertEqual(model.dims, (heddle.Dim("B", 8), heddle.Dim("S", 512), heddle.Dim("N", None)))
        self.assertEqual(list(model.entries), ["encode", "spread", "types", "window", "custom", "floats"])
        encode = model.entries["encode"]
        self.assertEqual(encode.doc, "Rows of numbers.")
        self.assertEqual([str(x) for x in encode.inputs], ["ids: i32[B, S]", "mask: i32[B, S]"])
        self.assertEqual([str(x) for x in encode.results], ["y: f32[B, S, 4]", "total: i32[B]"])
        self.assertEqual((encode.inputs[0].below.value, encode.inputs[0].initial), (100, None))
        self.assertEqual((encode.inputs[1].optional, encode.inputs[1].initial), (True, 1.0))
        self.assertEqual(str(model.entries["window"].results[0]), "last: f32[…]")
        self.assertEqual(model.memory_needed("encode", B=2, S=3), 2 * 3 * 64)
        self.assert_error("NOT_FOUND", "model 'a' has no dim T; it has: B, S, N", model.memory_needed, "encode", T=1)

    def test_arrays_of_any_integer_type_and_layout_go_in(self):
        with self.model.session(threads=1) as session:
            self.assertEqual(session.threads, 1)
            ids = np.arange(12, dtype=np.int64).reshape(3, 4).T[::2]  # strided, not dense
            for given in (ids, ids.tolist(), ids.astype(np.uint8)):
                results = session.run({"ids": given, "mask": np.ones((2, 3), bool)}, "encode")
                np.testing.assert_array_equal(
                    results["y"], ids[..., None].astype(np.float32) + np.float32([0.5, 1.5, 2.5, 3.5])
                )
                np.testing.assert_array_equal(results["total"], ids.sum(1))
                self.assertEqual(results["y"].ctypes.data % 64, 0)

    def test_a_steady_session_allocates_nothing(self):
        with self.model.session() as session:
            x = np.ones(1000, np.float32)
            session.run({"x": x}, "spread")
            before = session.memory["allocations"]
            for _ in range(5):
                self.assertEqual(session.run({"x": x}, "spread")["y"][-1], 1000)
            self.assertEqual(session.memory["allocations"], before)

    def test_results_go_into_given_arrays(self):
        with self.model.session() as session:
            room = np.full((2, 3, 8), -1, np.float32)
            results = session.run({"ids": np.zeros((2, 3), int)}, "encode", out={"y": room[..., ::2]})
            self.assertIs(results["y"].base, room)
            np.testing.assert_array_equal(room[1, 2], [0.5, -1, 1.5, -1, 2.5, -1, 3.5, -1])
            read_only = np.zeros((2, 3, 4), np.float32)
            read_only.flags.writeable = False
            for wrong in (read_only, [1, 2]):
                self.assert_error(
                    "BAD_TENSOR", "result 'y': give a writeable NumPy array or a DLPack tensor",
                    session.run, {"ids": np.zeros((2, 3), int)}, "encode", out={"y": wrong},
                )  # fmt: skip
            self.assert_error(
                "NOT_FOUND", "entry 'encode' has no result 'z'",
                session.run, {"ids": np.zeros((2, 3), int)}, "encode", out={"z": room},
            )  # fmt: skip

    def test_every_dtype_comes_back_as_its_array(self):
        with self.model.session() as session:
            results = session.run({"i32": np.int32([1, -2])}, "types")
            self.assertEqual({name: str(x.dtype) for name, x in results.items()},
                             {"bool": "bool", "i64": "int64", "u8": "uint8", "i8": "int8", "i32": "int32"})
            self.assertEqual(results["i32"].tolist(), [1, -2])
            results = session.run({"x": np.ones((1, 1), np.float32), "bf16": np.uint16([0x3F80] * 4)}, "floats")
            self.assertEqual(results["bf16"].view(np.uint16).tolist(), [0x3F80] * 4)
            self.assertEqual(results["f16"].tolist(), [np.float16(0.1)] * 4)

    def test_states_are_read_saved_restored_and_cloned(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(STATEFUL, pathlib.Path(folder) / "libstateful.so")
            (pathlib.Path(folder) / "stateful.weights").write_bytes(weights_file(b"s\x01", b""))
            model = heddle.load(folder)
            self.assertEqual([str(x) for x in model.states.values()],
                             ["mem: f32[B, S]", "seen: i32[]", "cache: f32[B, P]", "wide: i32[…]", "recent: f32[2, 3, B]"])  # fmt: skip
            self.assertEqual([x.initial for x in model.states.values()], [None, 0.0, 0.5, 0.0, -1.0])
            session = model.session()
            self.assertIsNone(session.state("mem"))
            session.capacity(P=3)
            session.run({"x": np.float32([[1, 2], [3, 4]])}, "set")
            self.assertEqual(session.run({"t": np.float32([10, 20])}, "step")["y"].tolist(), [[11, 12], [23, 24]])
            self.assertEqual(session.state("cache").tolist(), [[10, 0.5, 0.5], [20, 0.5, 0.5]])
            saved, copy = session.save(), session.clone()
            session.run({"t": np.float32([5, 6])}, "step")
            self.assertEqual(copy.state("seen"), 1)
            self.assertEqual(copy.run({}, "peek")["c"].tolist(), [[10, 0.5, 0.5], [20, 0.5, 0.5]])
            session.reset()
            self.assertIsNone(session.state("mem"))
            session.restore(saved)
            self.assertEqual(session.state("seen"), 1)
            self.assertEqual(session.state("mem").tolist(), [[1, 2], [3, 4]])
            self.assertGreater(session.memory["state_bytes"], 0)
            self.assert_error("NOT_FOUND", "model 'stateful' has no state x; it has: mem, seen, cache, wide, recent",
                              session.state, "x")  # fmt: skip
            self.assert_error("NOT_FOUND", "model 'stateful' has no dim Q; it has: B, S, P, N", session.capacity, Q=1)
            self.assert_error("INVALID_ARGUMENT", "the buffer does not hold a saved session, or it is damaged",
                              session.restore, saved[:-1])  # fmt: skip
            copy.close()
            session.close()
            model.close()

    def test_texts_are_generated_and_scored(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(STATEFUL.with_name("libheddle_fake_text_3.so"), pathlib.Path(folder) / "libtext.so")
            (pathlib.Path(folder) / "text.weights").write_bytes(weights_file(b"t\x03", b""))
            with heddle.load(folder) as model, model.session() as session:
                self.assertEqual(model.tokens, {"eos_token_id": [0], "pad_token_id": [10], "decoder_start_token_id": [10]})
                prompts, heard = {"ids": [[1, 2], [3, 4]]}, []
                texts, scores = session.generate(prompts, 6, min_steps=6, listener=lambda *x: heard.append(x))
                self.assertEqual((texts.shape, texts.dtype), ((2, 8), np.int64))
                self.assertEqual([step for step, _ in heard], list(range(6)))
                np.testing.assert_array_equal(np.stack([new for _, new in heard], 1), texts[:, 2:])
                by_token = session.score({"ids": texts})
                np.testing.assert_allclose(by_token[:, 2:].sum(1), scores, rtol=1e-5)
                best, _ = session.generate(prompts, 6, min_steps=6, beams=4)
                self.assertTrue((session.score({"ids": best})[:, 2:].sum(1) >= scores).all())
                heard.clear()
                stopped, _ = session.generate(prompts, 6, beams=4, min_steps=6, listener=lambda step, new: heard.append(new.shape) or step == 2)
                self.assertEqual((heard, stopped.shape), ([(2, 4)] * 3, (2, 5)))
                first, _ = session.generate(prompts, 6, sample=True, seed=1, tokens={"eos_token_id": [0, 1], "pad_token_id": 7})
                again, _ = session.generate(prompts, 6, sample=True, seed=1, tokens={"eos_token_id": [0, 1], "pad_token_id": 7})
                np.testing.assert_array_equal(first, again)
                long = np.arange(1, 31).reshape(1, 30) % 11
                whole = session.score({"ids": long})
                session.reset()
                parts = [session.score({"ids": long[:, at : at + 8]}, keep_state=True)[:, 1:] for at in range(0, 29, 7)]
                np.testing.assert_array_equal(np.concatenate(parts, 1), whole[:, 1:])

                def stop(*_):
                    raise KeyError("stop")

                self.assertRaises(KeyError, session.generate, prompts, 6, listener=stop)
                self.assert_error("INVALID_ARGUMENT", "generation: steps must be at least 1", session.generate, prompts, 0)
                for wrong in ("x", [], None):
                    self.assert_error("INVALID_ARGUMENT", f"early_stopping is {wrong!r}; give False, True or 'never'",
                                      session.generate, prompts, 6, beams=2, early_stopping=wrong)  # fmt: skip
                self.assert_error("BAD_TENSOR", "'ids' is None; give an array, or leave it out where it is optional",
                                  session.generate, {"ids": None}, 6)  # fmt: skip

    def test_empty_batches(self):
        with self.model.session() as session:
            results = session.run({"ids": np.zeros((0, 7), np.int32)}, "encode")
            self.assertEqual((results["y"].shape, results["total"].shape), ((0, 7, 4), (0,)))

    def test_a_program_may_end_or_drop_things_in_any_order(self):
        program = (
            "import heddle, sys; m = heddle.load(sys.argv[1]); s = m.session(); t = m.session(threads=1)\n"
            "t.run({'ids': [[1]]}, 'encode'); del m; s.run({'ids': [[1]]}, 'encode'); del t; print('end')"
        )
        done = subprocess.run([sys.executable, "-c", program, self.path], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "end\n", ""))

    def test_errors_carry_the_librarys_message(self):
        with self.model.session() as session:
            run = session.run
            self.assert_error("OUT_OF_RANGE", "entry 'encode', input 'ids': element [0, 1] is 100, but must be in 0 .. 99",
                              run, {"ids": [[5, 100]]}, "encode")  # fmt: skip
            self.assert_error("BAD_TENSOR", "entry 'spread', input 'x': has dtype i64, but must be f32 [N]",
                              run, {"x": np.arange(3)}, "spread")  # fmt: skip
            self.assert_error("BAD_TENSOR", "'x': arrays of float64 cannot be given; convert to one of float32, float16, int8, "
                              "int32, bool, int64, uint8", run, {"x": np.zeros(3)}, "spread")  # fmt: skip
            self.assert_error("BAD_TENSOR", "'x' has 9 dimensions; at most 8 are supported",
                              run, {"x": np.zeros([1] * 9, np.float32)}, "spread")  # fmt: skip
            self.assert_error("NOT_FOUND", "model 'a' has several entries; name one of: encode, spread, types, window, "
                              "custom, floats", run, {})  # fmt: skip
            self.assert_error("INVALID_ARGUMENT", "model 'a' still has 1 session; free it first", self.model.close)
        self.assert_error("INVALID_ARGUMENT", "the session is closed", run, {"x": np.zeros(3, np.float32)}, "spread")
        self.assert_error("INVALID_ARGUMENT", "threads is -1; give a number of threads, or 0 for all cores",
                          self.model.session, threads=-1)  # fmt: skip

    def test_files_that_cannot_be_opened(self):
        with tempfile.TemporaryDirectory() as empty:
            self.assert_error("FILE_ERROR", f"{empty}: holds no lib*.so; give a folder that `heddle compile` wrote",
                              heddle.load, empty)  # fmt: skip
            path = pathlib.Path(empty) / "libfake.so"
            shutil.copy(LIBRARY, path)
            cut = path.with_name("cut.so")
            for size in (64, 4096, path.stat().st_size - 1):  # the loader would map it, and fault
                cut.write_bytes(path.read_bytes()[:size])
                self.assert_error("FILE_ERROR", f"{cut}: is truncated; copy or compile it again", heddle.load, str(cut))
            weights = str(path.with_name("fake.weights"))
            self.assert_error("FILE_ERROR", f"{weights} cannot be opened: No such file or directory", heddle.load, empty)
            pathlib.Path(weights).write_bytes(weights_file()[:-1])
            self.assert_error("BAD_WEIGHTS", f"{weights} is truncated: it has 4111 bytes instead of 4112; copy or "
                              "compile it again", heddle.load, path)  # fmt: skip
            pathlib.Path(weights).write_bytes(weights_file())
            with heddle.load(path, copy_weights=True) as model:
                self.assert_error("BAD_WEIGHTS", "the weights of model 'a' are damaged: their checksum differs; copy or "
                                  "compile them again", model.verify)  # fmt: skip
        with self.assertRaisesRegex(heddle.Error, "is not a library made by Heddle"):
            heddle.load(_ctypes_file(), weights="unused")


def _ctypes_file():
    import _ctypes

    return _ctypes.__file__


if __name__ == "__main__":
    unittest.main()
