#!/usr/bin/env python3
"""Names of a model in C: whatever an author calls files, entries, inputs, results, dims and states, the header compiles
as C11 and as C++17 without a warning, beside the system's headers, and a program that is linked with the library calls
it. The command is $HEDDLE or build/bin/heddle."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HEDDLE = os.environ.get("HEDDLE", str(ROOT / "build" / "bin" / "heddle"))

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
COMPILERS = [words for words in (["clang-22", "-std=c11"], ["clang++-22", "-std=c++17"], ["gcc", "-std=c11"],
                                 ["g++", "-std=c++17"], ["gcc", "-std=gnu17", "-O2"], ["g++", "-std=gnu++20", "-O2"])
             if shutil.which(words[0])]  # fmt: skip
SYSTEM = """assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdarg stddef stdint stdio
stdlib string time wchar wctype unistd fcntl pthread semaphore termios sys/types sys/stat sys/socket""".split()

# Words that a model may use and C may not, or that mean something else there.
WORDS = """int long short char double float void signed unsigned struct union enum typedef static extern register volatile
goto break continue switch case default while do sizeof inline restrict auto class new delete template typename this throw
try catch namespace using virtual public private friend operator mutable explicit export constexpr decltype noexcept nullptr
bitand bitor compl xor asm typeof
printf malloc free memcpy strlen exit abort read write time index y0 j1 gamma heddle_run_dense heddle_open heddle_session
NULL EOF BUFSIZ INT_MAX errno stdin stdout I B0 ECHO linux unix isnan signbit assert offsetof va_start
session model heddle_dims heddle_inputs heddle_results int64_t uint8_t heddle_status HEDDLE_H heddle_h""".split()


def run(*words, cwd=None):
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, cwd=cwd, timeout=300)
    return done.returncode, done.stdout, done.stderr


class Names(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)

    def compile(self, stem, text):
        """The library's name, and its folder."""
        (self.folder / f"{stem}.heddle").write_text(text)
        out = self.folder / f"out {len(list(self.folder.iterdir()))}"
        status, said, err = run(HEDDLE, "compile", self.folder / f"{stem}.heddle", "-o", out, "--target", "x86-64-v3")
        self.assertEqual(status, 0, err)  # names that hide others are warned of
        (library,) = out.glob("lib*.so")
        name = library.name.removeprefix("lib").removesuffix(".so")
        self.assertIn(f"lib{name}.so", said)
        self.assertEqual(sorted(path.name for path in out.iterdir()),
                         sorted(["heddle.h", library.name, f"{name}.h", f"{name}.json", f"{name}.pc", f"{name}.weights", f"{name}_model.py"]))  # fmt: skip
        return name, out

    def compiles_and_runs(self, name, out, body, compilers=COMPILERS):
        """`body` is that of main; it returns 0."""
        headers = "".join(f"#include <{header}.h>\n" for header in SYSTEM)
        for compiler in compilers:
            cpp = "++" in compiler[0]
            system = headers.replace("#include <complex.h>\n", "") if cpp else headers
            for before, after in [(system, ""), ("", system)]:
                source = self.folder / ("main.cc" if cpp else "main.c")
                source.write_text(f"{before}#include <{name}.h>\n#include <{name}.h>\n{after}\n"
                                  f"int main(int count, char **words) {{\n  (void)count;\n{body}\n}}\n")  # fmt: skip
                words = [*compiler, *WARNINGS, f"-I{out}", source, f"-L{out}", f"-l{name}", f"-Wl,-rpath,{out}",
                         "-o", self.folder / "main"]  # fmt: skip
                self.assertEqual(run(*words), (0, "", ""), " ".join(map(str, compiler)))
                status, said, err = run(self.folder / "main", out / f"{name}.weights")
                self.assertEqual((status, err), (0, ""), said)

    def call(self, name, function, arguments):
        return f"""  heddle_model *model;
  heddle_session *session;
  float x[3] = {{1, 2, 3}}, y[3] = {{0, 0, 0}};
  if ({name}_load(words[1], &model) || heddle_session_create(model, NULL, &session) || {function}({arguments})) {{
    puts(heddle_last_error());
    return 1;
  }}
  heddle_session_free(session);
  heddle_close(model);
  return y[0] == 2 * x[0] && y[1] == 2 * x[1] && y[2] == 2 * x[2] ? 0 : 2;"""

    def test_inputs_results_and_dims(self):
        """Each word is the name of an entry, of an input, of a dim and of a result."""
        ours = re.search(r"keywords\[\] = \{(.*?)\}", (ROOT / "dsl" / "syntax" / "lexer.cc").read_text(), re.S)[1]
        words = [word for word in WORDS if f'"{word}"' not in ours]
        self.assertGreater(len(words), 90)
        entries = "".join(
            f"  entry {entry}({given}: real[{dim}]) -> {made}: real[{dim}] {{ {made}[i] = {given}[i] * 2 return {made} }}\n"
            for entry, given, dim, made in zip(words, words[1:] + words, words[2:] + words, words[3:] + words)
        )
        name, out = self.compile("net", f"dim {', '.join(words)}\nmodel Net {{\n{entries}}}\n")
        self.compiles_and_runs(name, out, self.call(name, f"net_{words[0]}", "session, 3, x, y"))

    def test_files_of_models(self):
        for stem, entry, name, function in [
            ("heddle", "run", "model_heddle", "model_heddle_run"),
            ("heddle_session", "create", "model_heddle_session", "model_heddle_session_create"),
            ("rt", "fail", "model_rt", "model_rt_fail"),
            ("halide", "malloc", "model_halide", "model_halide_malloc"),
            ("string", "f", "model_string", "model_string_f"),
            ("config", "f", "model_config", "model_config_f"),
            ("c", "f", "model_c", "model_c_f"),
            ("7b", "f", "model_7b", "model_7b_f"),
            ("_x", "f", "_x", "_x_f"),
            ("Große Modelle", "f", "gro__e_modelle", "gro__e_modelle_f"),
            ("pthread_mutex", "lock", "pthread_mutex", "pthread_mutex_lock_"),
            ("clock", "gettime", "clock", "clock_gettime_"),
            ("static", "assert", "static", "static_assert_"),
            ("int64", "t", "int64", "int64_t_"),
            ("va", "start", "va", "va_start_"),
            ("state", "extents", "state", "state_extents"),
        ]:
            with self.subTest(stem, entry=entry):
                entries = "".join(
                    f"  entry {one}(x: real[3]) -> y: real[3] {{ y[i] = x[i] * 2 return y }}\n"
                    for one in (entry, "load", "heddle_api")
                )
                made, out = self.compile(stem, f"model M {{\n{entries}}}\n")
                self.assertEqual(made, name)
                calls = f"{function}(session, x, y) || {name}_load_(session, x, x) || {name}_heddle_api_(session, y, x) || {function}"
                self.compiles_and_runs(name, out, self.call(name, calls, "session, x, y"), COMPILERS[:2])

    def test_states_and_what_authors_say(self):
        name, out = self.compile("net", r"""dim N
model Net {
  state a: real[N] = 0
  state state_a: real[N] = 0
  entry state_a(x: real[N]) -> y: real[N] {
    require N < 5 else "at most four \\"
    require N > 0 else "what??/"
    let before = a
    a <- x
    state_a <- x
    y[i] = before[i] + 2 * x[i]
    return y
  }
}
""")
        self.compiles_and_runs(name, out, self.call(name, "net_state_a", "session, 3, x, y"))

    def test_a_header_of_another_model_is_refused(self):
        def model(entry):
            return f"model Net {{\n  entry {entry}\n  entry g(x: real[3]) -> y: real[3] {{ y[i] = x[i] * 2 return y }}\n}}\n"

        double = "f(x: real[3]) -> y: real[3] { y[i] = x[i] * 2 return y }"
        name, ours = self.compile("net", model(double))
        for entry in (
            "f(x: real[40000000]) -> y: real[40000000] { y[i] = x[i] * 2 return y }",
            "f(x: real[3], z: real[3]) -> y: real[3] { y[i] = x[i] * z[i] return y }",
            "f(x: real[3]) -> y: real[3], z: real[3] { y[i] = x[i] z[i] = x[i] return y, z }",
            "f(z: real[3]) -> y: real[3] { y[i] = z[i] return y }",
            "f(x: bf16[3]) -> y: real[3] { y[i] = x[i] return y }",
        ):
            _, other = self.compile("net", model(entry))
            # By the header, and by the function that the library exports for other languages.
            self.compiles_and_runs(name, ours, f'''  heddle_model *model, *own;
  heddle_session *session, *own_session;
  float x[3] = {{1, 2, 3}}, y[3] = {{0, 0, 0}};
  union {{ void *data; heddle_status (*call)(heddle_session *, const float *, float *); }} exported;
  (void)words;
  if (heddle_open("{other}", NULL, &model) || heddle_session_create(model, NULL, &session) ||
      heddle_open("{ours}", NULL, &own) || heddle_session_create(own, NULL, &own_session))
    return 1;
  exported.data = dlsym(((heddle_head *)own)->library, "net_f");
  if (net_f(own_session, x, y) || exported.call(own_session, x, y) || y[2] != 6)
    return 2;
  if (exported.call(session, x, y) != HEDDLE_INVALID_ARGUMENT || net_f(session, x, y) != HEDDLE_INVALID_ARGUMENT)
    return 3;
  if (strcmp(heddle_last_error(), "model 'net' has other entries than the header that the program was compiled with; "
                                  "compile the program with the header beside this library"))
    return 4;
  if (net_g(session, x, y) || net_f(NULL, x, y) != HEDDLE_INVALID_ARGUMENT)
    return 5;
  heddle_session_free(session);
  heddle_session_free(own_session);
  heddle_close(model);
  heddle_close(own);
  return 0;''', COMPILERS[:2])  # fmt: skip


if __name__ == "__main__":
    unittest.main()
