"""find_package(Heddle) in projects of a few lines: a model is compiled when they are built, and again when a file that it is
made from has changed. Model, program and project are those of docs/deploying/cmake.md."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import numpy as np

from installed import CMAKE, prefix, run
from pages import blocks, file, follow, path_with

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from scratch import Scratch  # noqa: E402

GOLDENS = Path(__file__).resolve().parents[1] / "models" / "goldens"

PART = "fn scaled(x: real) -> real = {0} * x\n"
PAGE = "deploying/cmake.md"
MODEL, MAIN = file(PAGE, "net.heddle"), file(PAGE, "main.c")
PROJECT = file(PAGE, "CMakeLists.txt").rstrip().removesuffix(")") + "{0})\n"


class Project(Scratch):
    def setUp(self):
        super().setUp()
        self.write("part.heddle", PART.format(2))
        self.write("net.heddle", MODEL)
        self.write("main.c", MAIN)
        self.weights(1, 2, 3)

    def weights(self, *numbers):
        np.savez(self.folder / "w.npz", w=np.float32(numbers))

    def write(self, name, text):
        (self.folder / name).write_text(text)

    def cmake(self, *words):
        env = {"PATH": os.environ["PATH"]}
        done = subprocess.run([CMAKE, *map(str, words)], cwd=self.folder, capture_output=True, text=True, env=env)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def configure(self, text, generator="Ninja"):
        self.write("CMakeLists.txt", text)
        ninja = [f"-DCMAKE_MAKE_PROGRAM={CMAKE.parent / 'ninja'}"] if generator == "Ninja" else []
        return self.cmake("-G", generator, "-S", ".", "-B", "build", f"-DCMAKE_PREFIX_PATH={prefix()}", *ninja)

    def refused(self, text):
        """What is said of a project that can't be configured, in one line."""
        self.write("CMakeLists.txt", text)
        status, _, errors = run(CMAKE, "-S", ".", "-B", "refused", f"-DCMAKE_PREFIX_PATH={prefix()}", cwd=self.folder,
                                env={"PATH": os.environ["PATH"]})  # fmt: skip
        self.assertNotEqual(status, 0)
        return " ".join(errors.split())

    def answer(self, program="app"):
        status, out, errors = run(self.folder / "build" / program, cwd="/")
        self.assertEqual((status, errors), (0, ""), out)
        return out

    def rebuilt(self):
        """Whether the next build compiles the model."""
        return "Compiling net with Heddle" in self.cmake("--build", "build")

    def test_the_page_as_it_stands(self):
        with tempfile.TemporaryDirectory() as scratch:
            path = path_with(Path(scratch) / "bin", {"cmake": CMAKE, "python3": sys.executable})
            env = {"PATH": f"{path}:{prefix() / 'bin'}"}  # `heddle` there is all that CMake is told
            follow(self, PAGE, Path(scratch), env)

    def test_ten_lines_and_what_makes_the_model_compile_again(self):
        for generator in ("Ninja", "Unix Makefiles"):
            shutil.rmtree(self.folder / "build", ignore_errors=True)
            self.write("part.heddle", PART.format(2))
            self.configure(PROJECT.format(""), generator)
            said = self.cmake("--build", "build")
            self.assertIn("libnet.so", said, "the command's summary is in the log")
            self.assertEqual(self.answer(), "2 4 6\n")
            self.assertFalse(self.rebuilt(), f"{generator}: nothing has changed")
            time.sleep(1.1)  # make compares whole seconds on some file systems
            self.write("part.heddle", PART.format(3))
            self.assertTrue(self.rebuilt(), f"{generator}: a file that the model uses")
            self.assertEqual(self.answer(), "3 6 9\n")
            time.sleep(1.1)
            self.weights(1, 2, 4)
            self.assertTrue(self.rebuilt(), f"{generator}: the weights")
            self.assertEqual(self.answer(), "3 6 12\n")
            self.weights(1, 2, 3)
            time.sleep(1.1)
            os.utime(prefix() / "bin" / "heddle")
            self.assertTrue(self.rebuilt(), f"{generator}: the compiler")
            self.assertFalse(self.rebuilt())

    def test_static_with_weights_beside_the_program_or_inside(self):
        self.configure(PROJECT.format(" STATIC"))
        self.cmake("--build", "build")
        self.assertEqual(self.answer(), "2 4 6\n")
        (self.folder / "build" / "net.weights").unlink()
        self.configure(PROJECT.format(" STATIC EMBED_WEIGHTS"))
        self.cmake("--build", "build")
        (self.folder / "build" / "app").rename(self.folder / "app")
        shutil.rmtree(self.folder / "build")
        self.assertEqual(run(self.folder / "app"), (0, "2 4 6\n", ""))

    def test_a_static_model_within_a_shared_library(self):
        self.write("wrapped.c", MAIN.replace("int main(void)", "int wrapped(void)"))
        self.write("main.c", "int wrapped(void);\nint main(void) { return wrapped(); }\n")
        text = PROJECT.replace("heddle_add_model(app", "add_library(wrap SHARED wrapped.c)\ntarget_link_libraries(app PRIVATE wrap)\nheddle_add_model(wrap")
        self.configure(text.format(" STATIC"))
        self.cmake("--build", "build")
        self.assertEqual(self.answer(), "2 4 6\n")

    def test_static_models_of_one_name_in_one_folder(self):
        np.savez(self.folder / "other.npz", w=np.float32([1, 2, 4]))
        text = PROJECT.format(" STATIC") + "add_executable(two main.c)\n{0}"
        two = "heddle_add_model(two MODEL net.heddle WEIGHTS other.npz STATIC)\n"
        message = "heddle_add_model(two): net.weights of two and of app, which differ, would lie in one folder"
        self.assertIn(message, self.refused(text.format(two)))
        self.configure(text.format(two.replace("other.npz", "w.npz")))  # the same file, twice
        self.configure(text.format(two + "set_target_properties(two PROPERTIES RUNTIME_OUTPUT_DIRECTORY other)\n"))
        self.cmake("--build", "build")
        self.assertEqual((self.answer("app"), self.answer("other/two")), ("2 4 6\n", "2 4 8\n"))

    def test_a_static_library_of_its_own_and_what_to_install(self):
        rest = "".join(text for kind, name, text in blocks(PAGE) if kind == "cmake" and not name)
        rest = rest.replace("../models/bert-folder STATIC EMBED_WEIGHTS", "net.heddle NAME net WEIGHTS w.npz STATIC").replace(" lib)", " bin)")
        self.configure(PROJECT.format("").rsplit("heddle_add_model", 1)[0] + rest + "install(TARGETS app)\n")
        for last in (3, 4):
            self.weights(1, 2, last)
            self.cmake("--build", "build")
            self.assertEqual(self.answer(), f"2 4 {2 * last}\n")
        self.cmake("--install", "build", "--prefix", "there")
        self.assertEqual(sorted(os.listdir(self.folder / "there/bin")), ["app", "net.weights"])
        self.assertEqual(run(self.folder / "there/bin/app"), (0, "2 4 8\n", ""))

    def test_a_library_of_its_own_settings_and_folders(self):
        self.write("main.c", MAIN.replace("net", "bare").replace("x[] = {1, 1, 1}, y[3]", "x[] = {1, 1}, y[3] = {0, 0, 7}"))
        self.weights(5, 6)
        self.configure(f"""cmake_minimum_required(VERSION 3.25)
project(app LANGUAGES C CXX)
find_package(Heddle REQUIRED)
heddle_add_model(bare MODEL net.heddle WEIGHTS w.npz SET n=2 CPU x86-64-v3 OPTIONS --timings)
heddle_add_model(encoder MODEL "{GOLDENS / 'bert_model'}" STATIC EMBED_WEIGHTS)
add_executable(one main.c)
add_executable(two main.c)
target_link_libraries(one PRIVATE bare encoder)
target_link_libraries(two PRIVATE bare)
install(TARGETS one)
get_target_property(files bare HEDDLE_FILES)
get_target_property(nothing encoder HEDDLE_FILES)
install(FILES ${{files}} ${{nothing}} DESTINATION lib)
""")
        self.cmake("--build", "build")
        self.assertEqual(self.answer("one"), "10 12 7\n")
        self.assertEqual(self.answer("two"), "10 12 7\n")
        self.cmake("--install", "build", "--prefix", "there")
        self.assertEqual(run(self.folder / "there/bin/one", env={"LD_LIBRARY_PATH": str(self.folder / "there/lib")}),
                         (0, "10 12 7\n", ""))  # fmt: skip

    def test_a_library_of_its_own_that_no_target_links_with(self):
        self.configure("""cmake_minimum_required(VERSION 3.25)
project(app LANGUAGES C)
find_package(Heddle REQUIRED)
heddle_add_model(net MODEL net.heddle WEIGHTS w.npz)
get_target_property(files net HEDDLE_FILES)
install(FILES ${files} DESTINATION lib)
""")
        self.cmake("--build", "build")
        self.cmake("--install", "build", "--prefix", "there")
        self.assertEqual(sorted(os.listdir(self.folder / "there/lib")), ["libnet.so", "net.weights"])

    def test_a_program_that_opens_a_library_needs_the_header_alone(self):
        self.write("main.c", '#include <heddle.h>\n#include <stdio.h>\nint main(void) {\n  heddle_model *model;\n'
                   '  heddle_open("/nowhere", NULL, &model);\n  return puts(heddle_last_error()) < 0;\n}\n')  # fmt: skip
        self.configure("cmake_minimum_required(VERSION 3.25)\nproject(app LANGUAGES C)\nfind_package(Heddle REQUIRED)\n"
                       "add_executable(app main.c)\ntarget_link_libraries(app PRIVATE Heddle::Heddle)\n")  # fmt: skip
        self.cmake("--build", "build")
        self.assertIn("/nowhere: cannot be loaded", self.answer())

    def test_a_preset_beside_the_model_file_comes_before_a_folder(self):
        for folder, n in (("presets", 2), ("tiny", 1)):
            (self.folder / folder).mkdir()
            self.write(f"{folder}/{'tiny' if folder == 'presets' else 'config'}.json", f'{{"n": {n}}}')
        self.weights(5, 6)
        self.configure(PROJECT.format(" CONFIG tiny"))
        self.cmake("--build", "build")

    def test_names_are_those_of_the_command(self):
        self.write("time.heddle", MODEL)
        self.write("My-net.v2.heddle", MODEL)
        (self.folder / "main.c").write_text("#include <model_time.h>\n#include <bert.h>\n" + MAIN.replace("net", "my_net_v2"))
        self.configure(PROJECT.format("").replace("net.heddle", "My-net.v2.heddle") + f"""
heddle_add_model(app MODEL time.heddle WEIGHTS w.npz)
heddle_add_model(app MODEL "{GOLDENS / 'bert_model'}")
heddle_add_model(String MODEL net.heddle WEIGHTS w.npz)
target_link_libraries(app PRIVATE String)
""")
        self.cmake("--build", "build")
        self.assertEqual(self.answer(), "2 4 6\n")

    def test_what_is_wrong_is_said_when_configuring_or_building(self):
        (self.folder / "inner").mkdir()
        self.write("inner/CMakeLists.txt", "add_executable(inner ../main.c)\n")
        for words, message in [
            ("app", "heddle_add_model(app): say MODEL, a .heddle file or a Hugging Face folder"),
            ("app MODEL net.heddle WEIGHT w", "heddle_add_model(app): unknown words: WEIGHT;w"),
            ("app MODEL inner", "heddle_add_model(app): without NAME, the model says the name: error: "),
            ("app MODEL net.heddle OPTIONS --embed-weights", "heddle_add_model(app): OPTIONS --embed-weights: what is written, and where, is said by"),
            ("app MODEL net.heddle)\nheddle_add_model(app MODEL net.heddle", "heddle_add_model(app): there is a target app_net already: give the"),
            ("own MODEL net.heddle)\nheddle_add_model(own MODEL net.heddle", "heddle_add_model(own): there is a target own already, which is no program"),
            ("inner MODEL net.heddle STATIC", "heddle_add_model(inner): a static model's weights are copied beside a program"),
            ("header MODEL net.heddle", "heddle_add_model(header): there is a target header already, which is no program"),
            ("objects MODEL net.heddle STATIC", "heddle_add_model(objects): a static model's weights are copied beside a program"),
        ]:
            project = PROJECT.format("").rsplit("heddle_add_model", 1)[0] + "add_library(header INTERFACE)\nadd_subdirectory(inner)\n"
            self.assertIn(message, self.refused(f"{project}add_library(objects OBJECT main.c)\nheddle_add_model({words})\n"))
        self.configure(PROJECT.format(""))
        self.write("part.heddle", "fn scaled(x: real) -> real = y\n")
        status, out, _ = run(CMAKE, "--build", "build", cwd=self.folder, env={"PATH": os.environ["PATH"]})
        self.assertNotEqual(status, 0)
        self.assertIn("part.heddle:1:30: error[E0", out)


if __name__ == "__main__":
    unittest.main()
