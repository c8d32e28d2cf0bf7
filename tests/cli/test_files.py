#!/usr/bin/env python3
"""The `heddle` command where files misbehave: full disks, limits, folders and weights that vanish meanwhile, FIFOs and
devices, signals, two compilations into one folder. Always one message, nothing left behind, older output untouched."""

import os
import resource
import shutil
import signal
import subprocess
import time
import unittest
from pathlib import Path

import numpy as np
from safetensors import numpy as safetensors
from test_cli import HEDDLE, MODEL, Scratch

WIDE = """config N = 4096
model Wide {
  param w: real[1024, N]
  entry apply(x: real[N]) -> y: real[1024] { y[o] = sum[i](w[o, i] * x[i]) return y }
}
"""
WHOLE = ["heddle.h", "libnet.so", "net.h", "net.json", "net.pc", "net.weights", "net_model.py"]
GONE = "a part of it is gone: another program has shortened it, or its disk is full or has failed"


def content(folder):
    """Everything in it: names, and the bytes of files."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else stat_kind(path)
        for path in sorted(folder.rglob("*"))
    }


def stat_kind(path):
    return "folder" if path.is_dir() else "other"


class FileScratch(Scratch):
    """What commands write to TMPDIR is looked at, too."""

    def setUp(self):
        super().setUp()
        self.temporary = self.folder / "tmp"
        self.temporary.mkdir()
        self.environment = {**os.environ, "TMPDIR": str(self.temporary), "HEDDLE_CACHE": "none"}  # it takes long enough to be disturbed

    def start(self, *words, **options):
        return subprocess.Popen([HEDDLE, *map(str, words)], cwd=self.folder, text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, env=self.environment, **options)  # fmt: skip

    def finish(self, process):
        try:
            out, err = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            self.fail(f"{process.args} hangs")
        return process.returncode, out, err

    def heddle(self, *words, **options):
        return self.finish(self.start(*words, **options))

    def fails(self, message, *words, **options):
        """One message that matches, and all files as they were."""
        before = content(self.folder)
        status, out, err = self.heddle(*words, **options)
        self.assertEqual((status, out), (1, ""), err)
        self.assertRegex(err, rf"\A(error: )?{message}\n\Z")
        self.assertEqual(err.count("error"), 1, err)
        self.assertEqual(content(self.folder), before)
        return err

    def start_and_wait_for_output(self, *words, output="out", **options):
        """A compilation whose unfinished folder is there already."""
        process = self.start("compile", *words, "-o", output, **options)
        place = self.folder / output
        while process.poll() is None and not any(place.parent.glob(place.name + ".heddle-part-*")):
            time.sleep(0.002)
        return process

    def wide(self):
        (self.folder / "wide.heddle").write_text(WIDE)
        self.save("wide.safetensors", {"w": np.ones((1024, 4096), np.float32)})
        return "wide.heddle", "--weights", "wide.safetensors"


class Memory(FileScratch):
    def test_where_memory_runs_out_one_message_says_so_and_nothing_stays(self):
        seen = set()
        for megabytes in range(400, 1300, 60):
            size = megabytes << 20
            status, out, err = self.heddle("compile", "net.heddle", "--weights", "w.safetensors", "-o", "out",
                                           preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (size, size)))  # fmt: skip
            seen.add(status)
            if status == 127:  # not even the command's own libraries fit
                continue
            if status:
                self.assertEqual(status, 1, err)
                self.assertRegex(err, r"\Aerror: (there is not enough memory for this[^\n]*|LLVM cannot go on: [^\n]*)\n\Z")
                self.assertFalse((self.folder / "out").exists())
            self.assertEqual(list(self.temporary.iterdir()), [])
            shutil.rmtree(self.folder / "out", ignore_errors=True)
        self.assertLessEqual({0, 1}, seen)


class Limits(FileScratch):
    """Others that a shell sets."""

    def test_where_descriptors_run_out_one_message_says_so_and_nothing_stays(self):
        seen = set()
        for most in range(4, 20):
            with self.subTest(most):
                status, out, err = self.heddle("compile", "net.heddle", "--weights", "w.safetensors", "-o", "out",
                                               preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (most, most)))  # fmt: skip
                seen.add(status)
                if status == 127:  # not even the command's own libraries can be opened
                    continue
                if status:
                    self.assertEqual(status, 1, err)
                    self.assertRegex(err, r"\Aerror: [^\n]*Too many open files[^\n]*\n\Z")
                    self.assertEqual(list(self.folder.glob("out*")), [])
                self.assertEqual(list(self.temporary.iterdir()), [])
                shutil.rmtree(self.folder / "out", ignore_errors=True)
        self.assertLessEqual({0, 1}, seen)

    def test_a_small_stack_is_enough(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_STACK, (64 << 10, 64 << 10))

        status, _, err = self.heddle("compile", "net.heddle", "--weights", "w.safetensors", "-o", "out", preexec_fn=limit)
        self.assertEqual((status, err), (0, ""))


class Space(FileScratch):
    """As many bytes as there are, none more: a full disk and the limit of a file's size look the same."""

    compile_words = ("compile", "net.heddle", "--weights", "w.safetensors", "-o", "out")

    def test_a_limit_of_the_file_size_is_an_error_of_the_file_that_meets_it(self):
        def limited(size):
            return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

        self.compile()
        (self.folder / "out" / "net.h").write_text("older")
        done = False
        for size in [0, 1, 1000, 4096, 20_000, 60_000, 100_000, 1_000_000]:
            with self.subTest(size):
                before = content(self.folder)
                status, out, err = self.heddle(*self.compile_words, preexec_fn=limited(size))
                if status == 0:
                    done = True
                    continue
                self.assertRegex(err, r"\Aerror: [^\n]*: cannot write: File too large[^\n]*\n\Z")
                self.assertEqual((status, out), (1, ""))
                self.assertEqual(content(self.folder), before)
        self.assertTrue(done)
        (self.folder / "net.heddle").write_text(MODEL.replace("  param", "     param"))
        for words in [["fmt", "net.heddle"], ["run", "out", "--in", "x.safetensors", "--out", "y.safetensors"],
                      ["show", "net.heddle", "--html", "page.html"]]:  # fmt: skip
            self.fails(r"[^\n]*: cannot write: File too large", *words, preexec_fn=limited(10))
        (self.folder / "net.heddle").write_text(MODEL)
        for stage in ("halide", "llvm", "asm"):  # no file is written
            words = ("show", "net.heddle", "--stage", stage)
            self.assertEqual(self.heddle(*words, preexec_fn=limited(10)), self.heddle(*words))

    def tmpfs(self, size):
        place = self.folder / "small"
        place.mkdir(exist_ok=True)
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}k", "none", place], capture_output=True)
        if mounted.returncode:
            self.skipTest("no file system can be mounted here")
        self.addCleanup(subprocess.run, ["umount", place], capture_output=True)
        return place

    def test_a_full_disk(self):
        place = self.tmpfs(100)
        full = r"[^\n]*: cannot write: No space left on device"
        for output in [place / "out", place]:
            words = ("compile", "net.heddle", "--weights", "w.safetensors", "-o", output)
            self.fails(full, *words)
        subprocess.run(["umount", place])
        place = self.tmpfs(20)
        self.compile()
        (place / "rest").write_bytes(b"x" * 4096 * 5)
        self.fails(full, "run", "out", "--in", "x.safetensors", "--out", place / "y")
        self.environment["TMPDIR"] = str(place)
        self.fails(full + r" \(temporary files go to \$TMPDIR\)", *self.compile_words)

    def test_the_root_of_a_file_system_can_be_compiled_into(self):
        place = self.tmpfs(2000)
        self.done("compile", "net.heddle", "--weights", "w.safetensors", "-o", place)
        self.assertEqual(sorted(path.name for path in place.iterdir()),
                         WHOLE)
        self.assertIn("intact", self.done("check", place))

    def test_standard_output_that_is_full_or_closed(self):
        full = "standard output cannot be written: "
        with open("/dev/full", "w") as device:
            done = subprocess.run([HEDDLE, "--version"], stdout=device, stderr=subprocess.PIPE)
            self.assertIn(done.returncode, (0, 1))
            done = subprocess.run([HEDDLE, "explain", "E021"], stdout=device, stderr=subprocess.PIPE, text=True)
            self.assertEqual((done.returncode, done.stderr), (1, f"error: {full}No space left on device\n"))
        done = subprocess.run([HEDDLE, "explain", "E021"], preexec_fn=lambda: os.close(1), stderr=subprocess.PIPE, text=True)
        self.assertEqual((done.returncode, done.stderr), (1, f"error: {full}Bad file descriptor\n"))

    def test_a_closed_standard_output_is_not_written_into_files(self):
        process = self.start(*self.compile_words)
        self.finish(process)
        subprocess.run([HEDDLE, *self.compile_words], cwd=self.folder, preexec_fn=lambda: os.close(1), stderr=subprocess.PIPE)
        self.assertIn("intact", self.done("check", "out"))
        self.assertTrue((self.folder / "out" / "net.h").read_text().endswith("#endif\n"))

    def test_a_reader_that_wants_no_more_gets_no_message(self):
        process = self.start("show", "net.heddle", "--stage", "halide")
        process.stdout.close()
        err = process.stderr.read()
        process.stderr.close()
        self.assertEqual((process.wait(), err), (128 + signal.SIGPIPE, ""))


class Places(FileScratch):
    """What can't be written is said before the work for it is done."""

    def test_a_folder_that_is_not_there(self):
        self.compile()
        before = content(self.folder)
        weights, inputs = ("--weights", "w.safetensors"), ("--in", "x.safetensors")
        for words in [("compile", "net.heddle", *weights, "-o", "other", "--depfile", "no/where"),
                      ("run", "out", *inputs, "--out", "no/where"),
                      ("run", "out", *inputs, "--profile", "no/where"),
                      ("run", "net.heddle", *weights, *inputs, *inputs, "--out", "one", "--out", "no/where"),
                      ("bench", "out", "--dim", "B=2", "--dim", "S=3", "--json", "no/where"),
                      ("show", "net.heddle", *weights, "--html", "no/where", "--measure", "--dim", "B=2", "--dim", "S=3"),
                      ("calibrate", "net.heddle", *weights, *inputs, "-o", "no/where"),
                      ("tune", "net.heddle", *weights, "--dim", "B=2", "--dim", "S=3", "--db", "t.db", "--report", "no/where"),
                      ("average", "w.safetensors", "w.safetensors", "-o", "no/where")]:  # fmt: skip
            self.assertEqual(self.heddle(*words), (1, "", "error: no/where: cannot write: No such file or directory\n"), words)
            self.assertEqual(content(self.folder), before, words)

    def test_what_may_not_be_read_is_there(self):
        if os.geteuid():
            self.skipTest("only root can take other users' rights away")
        (self.folder / "closed").mkdir(mode=0)
        self.folder.chmod(0o755)
        for path in ("closed", "closed/net.heddle"):
            status, _, err = self.heddle("check", path, preexec_fn=lambda: os.setuid(65534))
            self.assertEqual((status, err), (1, f"error: {path}: cannot read: Permission denied\n"))


class Inputs(FileScratch):
    """What a command reads, its output does not replace."""

    def test_an_output_that_is_an_input(self):
        message = r"[^\n]*: is an input of this command, which its output would replace; name another file to write"
        self.fails(message, "show", "net.heddle", "--html", "net.heddle")
        self.fails(message, "run", "net.heddle", "--weights", "w.safetensors", "--in", "x.safetensors", "--out", "x.safetensors")
        (self.folder / "records.txt").write_text("heddle tuning records, format 1\n")
        self.done("tune", "--db", "q.db", "--import", "records.txt")
        status, out, err = self.heddle("tune", "--db", "q.db", "--export", "q.db")
        self.assertEqual((status, out), (1, ""))
        self.assertRegex(err, message)
        self.assertTrue((self.folder / "q.db").read_bytes().startswith(b"SQLite"))

    def test_an_output_that_is_another_output(self):
        """It is refused before the first of them is written."""
        self.done("compile", "net.heddle", "--weights", "w.safetensors", "-o", "old")
        (self.folder / "y.safetensors").write_text("old")
        compile = ("compile", "net.heddle", "--weights", "w.safetensors", "--depfile")
        run = ("run", "old", "--in", "x.safetensors", "--out", "y.safetensors")
        message = r"[^\n]*: is another output of this command, which this one would replace; name another (file to write|folder to write into)"
        for words in (
            (*run, "--profile", "y.safetensors"),
            (*run, "--profile", "./old/../y.safetensors"),
            (*run, "--in", "x.safetensors", "--out", "y.safetensors"),
            (*run, "--in", "x.safetensors", "--out", "z.safetensors", "--profile", "z.safetensors"),
            (*compile, "new", "-o", "new"),
            (*compile, "old/net.h", "-o", "old"),
            (*compile, "old/net.weights", "-o", "./old/"),
            ("tune", "--db", "q.db", "--export", "y.safetensors", "--report", "y.safetensors", "net.heddle",
             "--weights", "w.safetensors", "--dim", "B=1", "--dim", "S=4"),
        ):
            with self.subTest(words):
                self.fails(message, *words)


class Meanwhile(FileScratch):
    """What other programs do while a command works."""

    def test_weights_that_are_shortened_while_they_are_read(self):
        words = self.wide()
        before = content(self.folder)
        process = self.start_and_wait_for_output(*words)
        os.truncate(self.folder / "wide.safetensors", 4096)
        status, out, err = self.finish(process)
        self.assertEqual((status, out), (1, ""))
        self.assertEqual(err, f"error: {self.folder / 'wide.safetensors'}: {GONE}\n")
        before["wide.safetensors"] = before["wide.safetensors"][:4096]
        self.assertEqual(content(self.folder), before)

    def test_an_output_folder_that_vanishes(self):
        words = self.wide()
        before = content(self.folder)
        (self.folder / "deep").mkdir()
        process = self.start_and_wait_for_output(*words, output="deep/out")
        while (self.folder / "deep").exists():  # the command may be writing there
            shutil.rmtree(self.folder / "deep", ignore_errors=True)
        status, out, err = self.finish(process)
        self.assertEqual((status, out), (1, ""))
        self.assertRegex(err, r"\Aerror: deep/out[^\n]*: cannot write: No such file or directory\n\Z")
        self.assertEqual(content(self.folder), before)

    def test_temporary_files_that_vanish(self):
        process = self.start_and_wait_for_output(*self.wide())
        while process.poll() is None and not list(self.temporary.iterdir()):
            time.sleep(0.002)
        while self.temporary.exists():  # the compiler may have written another one meanwhile
            shutil.rmtree(self.temporary, ignore_errors=True)
        before = content(self.folder)
        for path in list(before):
            if path.startswith("out.heddle-part-"):
                del before[path]
        status, out, err = self.finish(process)
        self.assertEqual((status, out), (1, ""))
        self.assertRegex(err, r"\Aerror: [^\n]*\n\Z")
        self.assertEqual(content(self.folder), before)

    def test_what_a_killed_command_has_left_goes_with_the_next_one(self):
        words = self.wide()
        self.finish(self.start("compile", *words, "-o", "out"))
        finished = set(content(self.folder))
        living = self.start_and_wait_for_output(*words)
        killed = self.start("compile", *words, "-o", "out")
        while killed.poll() is None and len(list(self.folder.glob("out.heddle-part-*"))) < 2:
            time.sleep(0.002)
        killed.kill()
        self.finish(killed)
        status, out, err = self.heddle("compile", *words, "-o", "out")
        self.assertEqual(status, 0, err)
        status, out, err = self.finish(living)
        self.assertEqual(status, 0, err)
        self.assertEqual(set(content(self.folder)), finished)
        self.assertEqual(list(self.temporary.iterdir()), [])

    def test_two_compilations_into_one_folder(self):
        """Each writes all its files or none between those of another: they belong together in the end."""
        variants = []
        for width in [3, 4, 5]:
            folder = self.folder / f"model{width}"
            folder.mkdir()
            (folder / "net.heddle").write_text(MODEL.replace('"output_size" = 3', f'"output_size" = {width}'))
            weights = {**self.weights, "fc.weight": np.full((width, 5), 1, np.float32), "fc.bias": np.zeros(width, np.float32)}
            safetensors.save_file(weights, folder / "w.safetensors")
            variants.append(folder)
        processes = [self.start("compile", folder / "net.heddle", "--weights", folder / "w.safetensors", "-o", "out")
                     for folder in variants * 2]  # fmt: skip
        for process in processes:
            status, out, err = self.finish(process)
            self.assertEqual((status, err), (0, ""))
        self.assertIn("intact", self.done("check", "out"))
        self.assertEqual(list(self.temporary.iterdir()), [])
        self.assertEqual(sorted(path.name for path in (self.folder / "out").iterdir()),
                         WHOLE)


class Signals(FileScratch):
    def test_nothing_stays_behind_whatever_ends_a_compilation(self):
        words = self.wide()
        before = content(self.folder)
        bug = r"error: heddle has crashed \({}\); this is a bug of Heddle, please report it with what you ran\n"
        for number, ended, message in [
            (signal.SIGINT, 130, ""),
            (signal.SIGTERM, 143, ""),
            (signal.SIGHUP, 129, ""),
            (signal.SIGQUIT, -signal.SIGQUIT, ""),
            (signal.SIGSEGV, -signal.SIGSEGV, bug.format("SIGSEGV")),
            (signal.SIGABRT, -signal.SIGABRT, bug.format("SIGABRT")),
        ]:
            for delay in [0, 0.1]:
                with self.subTest(number, delay=delay):
                    process = self.start_and_wait_for_output(
                        *words, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
                    )
                    time.sleep(delay)
                    process.send_signal(number)
                    status, out, err = self.finish(process)
                    if (self.folder / "out").exists():  # it was done already, perhaps not yet at its end: the folder is whole
                        self.assertEqual(sorted(file.name for file in (self.folder / "out").iterdir()),
                                         [name.replace("net", "wide") for name in WHOLE])  # fmt: skip
                        shutil.rmtree(self.folder / "out")
                        continue
                    self.assertEqual((status, out), (ended, ""), err)
                    self.assertRegex(err, rf"\A{message}\Z")
                    self.assertEqual(content(self.folder), before)

    def test_a_results_file_that_is_interrupted_leaves_nothing(self):
        (self.folder / "large.heddle").write_text(
            "dim N\nmodel Large { entry apply(x: real[N]) -> y: real[N, N] { y[i, j] = x[i] + x[j] return y } }\n"
        )
        self.done("compile", "large.heddle", "-o", "large")
        self.save("n.safetensors", {"x": np.zeros(9000, np.float32)})
        before = content(self.folder)
        process = self.start("run", "large", "--in", "n.safetensors", "--out", "y.safetensors")
        while process.poll() is None and not list(self.folder.glob("y.safetensors*")):
            time.sleep(0.001)
        process.send_signal(signal.SIGTERM)
        status, out, err = self.finish(process)
        if status:
            self.assertEqual((status, out, err), (143, "", ""))
            self.assertEqual(content(self.folder), before)

    def test_what_the_caller_ignores_stays_ignored(self):
        process = self.start_and_wait_for_output(*self.wide(), preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        process.send_signal(signal.SIGHUP)
        self.assertEqual(self.finish(process)[0], 0)


class NoRegularFiles(FileScratch):
    """A FIFO has no writer here: whoever opened it to read would wait for ever."""

    def kinds(self, name):
        """The path, as each of the things that are no file."""
        path = self.folder / name
        if path.exists():
            path.unlink()
        os.mkfifo(path)
        yield path, "a FIFO"
        path.unlink()
        path.symlink_to("/dev/zero")
        yield path, "a device"
        path.unlink()

    def test_models(self):
        (self.folder / "user.heddle").write_text("use used: f\n" + MODEL)
        for path, kind in self.kinds("pipe.heddle"):
            no_file = rf"pipe\.heddle: is {kind}, not a regular file"
            self.fails(no_file, "check", "pipe.heddle")
            self.fails(no_file, "compile", "pipe.heddle")
            self.fails(no_file, "fmt", "pipe.heddle")
            self.fails(no_file, "show", "pipe.heddle")
        for path, kind in self.kinds("used.heddle"):
            status, out, err = self.heddle("check", "user.heddle")
            self.assertEqual((status, out), (1, ""))
            self.assertTrue(err.startswith("user.heddle:1:5: error[E055]: `used.heddle` beside this file cannot be read"), err)

    def test_weights_inputs_and_settings(self):
        for path, kind in self.kinds("pipe.safetensors"):
            no_file = rf"pipe\.safetensors: is {kind}, not a regular file"
            self.fails(no_file, "compile", "net.heddle", "--weights", "pipe.safetensors")
            self.fails(no_file, "check", "net.heddle", "--weights", "pipe.safetensors")
            self.fails(no_file, "run", "net.heddle", "--weights", "w.safetensors", "--in", "pipe.safetensors")
        for path, kind in self.kinds("pipe.npy"):
            self.fails(rf"pipe\.npy: is {kind}, not a regular file", "run", "net.heddle", "--in", "x=pipe.npy")
        for path, kind in self.kinds("pipe.json"):
            self.fails(rf"pipe\.json: is {kind}, not a regular file", "check", "net.heddle", "--config", "pipe.json")
        hugging = self.folder / "hugging"
        hugging.mkdir()
        for path, kind in self.kinds("hugging/config.json"):
            self.fails(rf"hugging/config\.json: is {kind}, not a regular file", "check", "hugging")

    def test_parts_of_a_library(self):
        self.compile()
        commands = [["run", "out", "--in", "x.safetensors"], ["bench", "out", "--dim", "B=1"], ["check", "out"],
                    ["generate", "out", "--in", "x.safetensors", "--steps", "1"]]  # fmt: skip
        whole = {name: (self.folder / "out" / name).read_bytes() for name in ["libnet.so", "net.json", "net.weights"]}
        for name, bytes in whole.items():
            for path, kind in self.kinds(f"out/{name}"):
                for words in commands + [["show", "out"]]:
                    if name == "net.json" and words[0] in ("run", "generate") or words[0] == "show" and name != "net.json":
                        continue
                    with self.subTest(name, kind=kind, command=words[0]):
                        self.fails(rf"out/{name}:? is (not a|no|{kind}, not a) regular file[^\n]*", *words)
            path.write_bytes(bytes)
        self.assertIn("intact", self.done("check", "out"))

    def test_results(self):
        self.compile()
        for path, kind in self.kinds("pipe"):
            self.fails("pipe: is not a regular file; name a file to write", "run", "out", "--in", "x.safetensors", "--out", "pipe")
            self.fails("pipe: is a file; name a folder to write into", "compile", "net.heddle", "--weights", "w.safetensors",
                       "-o", "pipe")  # fmt: skip


if __name__ == "__main__":
    unittest.main()
