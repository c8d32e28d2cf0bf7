#!/usr/bin/env python3
"""Measured schedules: how `compile` goes by them, and how records go in and out of a database. The command is $HEDDLE or
build/bin/heddle."""

import os
import re
import shutil
import signal
import sqlite3
import subprocess
import time
import unittest
from pathlib import Path

import numpy as np
from test_cli import HEDDLE, Scratch
from test_page import seen_by_browser
from test_tools import Balanced

DENSE = """dim N
model Dense {
  param w: real[96, 96]
  entry forward(x: real[N, 96]) -> y: real[N, 96] {
    y[n, o] = sum[i](x[n, i] * w[o, i])
    return y
  }
}
"""


class Records(Scratch):
    def setUp(self):
        super().setUp()
        (self.folder / "m.heddle").write_text(DENSE)
        np.savez(self.folder / "w.npz", w=np.zeros((96, 96), np.float32))
        self.temporary = self.folder / "temporary"
        self.temporary.mkdir()
        self.environment = {**os.environ, "HEDDLE_DB": str(self.folder / "t.db"), "TMPDIR": str(self.temporary)}

    def heddle(self, *words, status=0, **environment):
        done = subprocess.run([HEDDLE, *map(str, words)], capture_output=True, text=True, cwd=self.folder, timeout=300,
                              env={**self.environment, **environment})  # fmt: skip
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stderr if status else done.stdout

    def compile(self, *words, **environment):
        return self.heddle("compile", "m.heddle", "--weights", "w.npz", "-o", "out", "--dim", "N=128", *words, **environment)


class InAndOut(Records):
    TEXT = ("heddle tuning records, format 1\n\n[A CPU, family 1 model 2 | x86-64-v3 | 1 thread]\n"
            "0123456789abcdef contraction | 8 | | rows/1 grain=4 | 10.00 us\n"
            "0123456789abcdef contraction | 128 | 2: d0 floordiv 16, d1, d0 mod 16 | tiles/1 rows=6 fma | ! it crashed (SIGSEGV)\n")  # fmt: skip

    def test_what_was_imported_is_exported(self):
        text = self.TEXT.replace("| | rows", "|  | rows")
        (self.folder / "in.txt").write_text(text)
        self.assertEqual(self.heddle("tune", "--import", "in.txt"), f"{self.folder}/t.db: 2 records from in.txt\n")
        self.assertEqual(self.heddle("tune", "--export", "out.txt"), f"out.txt: 2 records of {self.folder}/t.db\n")
        self.assertEqual((self.folder / "out.txt").read_text(), text)

    def test_a_wrong_text_changes_nothing(self):
        (self.folder / "in.txt").write_text(self.TEXT)
        self.heddle("tune", "--import", "in.txt")
        (self.folder / "in.txt").write_text(self.TEXT + "0123456789abcdef contraction | 9 | | rows/1 grain=4 | soon\n")
        self.assertEqual(self.heddle("tune", "--import", "in.txt", status=1),
                         "in.txt:6: error: a record is written KERNEL KIND | sizes | layouts | row | N us\n")  # fmt: skip
        self.assertEqual(self.heddle("tune", "--export", "out.txt"), f"out.txt: 2 records of {self.folder}/t.db\n")

    def test_a_refused_text_leaves_no_database(self):
        (self.folder / "in.txt").write_text("notes\n")
        self.assertIn("in.txt:1: error: these are no tuning records", self.heddle("tune", "--import", "in.txt", status=1))
        self.assertIn("nothing.txt", self.heddle("tune", "--import", "nothing.txt", status=1))
        self.assertFalse((self.folder / "t.db").exists())

    def test_no_folder_is_made_for_a_database_that_is_named(self):
        (self.folder / "in.txt").write_text(self.TEXT)
        for environment, words in (({}, ("--db", "nowhere/deep/x.db")), ({"HEDDLE_DB": "nowhere/deep/x.db"}, ())):
            self.assertIn("nowhere/deep/x.db: there is no folder nowhere/deep; make it, or name another file with --db",
                          self.heddle("tune", "--import", "in.txt", *words, status=1, **environment))  # fmt: skip
        self.assertFalse((self.folder / "nowhere").exists())
        self.heddle("tune", "--import", "in.txt", HEDDLE_DB="", XDG_CACHE_HOME=str(self.folder / "cache"))
        self.assertTrue((self.folder / "cache/heddle/tuning.db").exists(), "the default one's is")

    def test_records_are_written_to_standard_output(self):
        (self.folder / "in.txt").write_text(self.TEXT)
        self.heddle("tune", "--import", "in.txt")
        self.assertEqual(self.heddle("tune", "--export", "-"), self.TEXT.replace("| | rows", "|  | rows"))
        self.assertIn("--export -: standard output has what the search or the import says; name a file",
                      self.heddle("tune", "--import", "in.txt", "--export", "-", status=2))  # fmt: skip
        self.assertFalse((self.folder / "-").exists())

    def test_wrong_usage(self):
        self.assertIn("tune wants a MODEL, or --import or --export", self.heddle("tune", status=2))
        self.assertIn("--db none: a search keeps its records in a file; name one", self.heddle("tune", "--db", "none", "--export", "a", status=2))
        self.assertIn("t.db: there is no such tuning database", self.heddle("tune", "--export", "a", status=1))
        self.assertFalse((self.folder / "t.db").exists())


class Compiling(Records):
    def test_a_database_that_is_named_must_be_one(self):
        (self.folder / "notes.txt").write_text("nothing of the kind")
        for db, message in (("notes.txt", "is no tuning database; name another file with --db"), ("none.db", "there is no such tuning database")):
            self.assertIn(f"{db}: {message}", self.heddle("compile", "m.heddle", "--weights", "w.npz", "--db", db, status=1))
        self.assertFalse((self.folder / "m").exists())
        self.assertEqual((self.folder / "notes.txt").read_text(), "nothing of the kind")

    def test_the_default_one_may_be_unusable(self):
        with sqlite3.connect(self.folder / "t.db") as theirs:
            theirs.execute("CREATE TABLE t (x)")
        before = (self.folder / "t.db").read_bytes()
        done = subprocess.run([HEDDLE, "compile", "m.heddle", "--weights", "w.npz"], capture_output=True, text=True, cwd=self.folder,
                              env=self.environment)  # fmt: skip
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stderr, f"note: {self.folder}/t.db: is another program's database; name another file with --db; compiling without it\n")
        self.assertEqual((self.folder / "t.db").read_bytes(), before)

    def test_records_of_no_use_are_not_said_to_be_used(self):
        machine = re.search(r" as measured on (.*)\n", self.measured_everything())[1]
        text = self.heddle("tune", "--export", "-")
        self.assertIn(machine, text)
        (self.folder / "in.txt").write_text(re.sub(r"(\w+)/(\d+) ", r"\1/99 ", text))  # of another version of each variant
        self.heddle("tune", "--import", "in.txt", "--db", "other.db")
        self.assertNotIn("as measured", self.compile("--db", "other.db"))

    def test_records_of_another_machine_count_where_it_is_named(self):
        machine = re.search(r" as measured on (.*)\n", self.measured_everything())[1]
        (self.folder / "in.txt").write_text(self.heddle("tune", "--export", "-").replace(machine, "Another CPU, family 1 model 2"))
        self.heddle("tune", "--import", "in.txt", "--db", "other.db")
        self.assertNotIn("as measured", self.compile("--db", "other.db"))
        self.assertIn(" as measured on Another CPU, family 1 model 2\n", self.compile("--db", "other.db", "--machine", "Another CPU, family 1 model 2"))
        self.assertRegex(self.heddle("compile", "m.heddle", "--weights", "w.npz", "--db", "other.db", "--machine", "None", status=1),
                         r'^error: --machine "None": for \S+ there are records of .*"Another CPU, family 1 model 2"')  # fmt: skip
        self.assertIn('--machine "None": its records are left out by --db none',
                      self.heddle("compile", "m.heddle", "--weights", "w.npz", "--db", "none", "--machine", "None", status=2))  # fmt: skip

    def measured_everything(self):
        """What a compilation says that goes by made-up records of all rows."""
        self.heddle("tune", "m.heddle", "--weights", "w.npz", "--dim", "N=128", "--threads", "1", "--budget", "60s")
        with sqlite3.connect(self.folder / "t.db") as database:
            database.execute("UPDATE OR REPLACE record SET confirmed=1")
        return self.compile()

    def test_nothing_is_said_without_records(self):
        self.assertNotIn("as measured", self.compile("--db", "none"))
        self.assertNotIn("as measured", self.compile())
        self.assertFalse((self.folder / "t.db").exists())


class Searching(Records):
    WORDS = ("tune", "m.heddle", "--weights", "w.npz", "--dim", "N=128", "--threads", "1")

    def kept(self):
        """How many measurements the database has, confirmed or not."""
        try:
            with sqlite3.connect(f"file:{self.folder}/t.db?mode=ro", uri=True) as database:
                return database.execute("SELECT count(*) FROM record").fetchone()[0]
        except sqlite3.OperationalError:
            return 0

    def begin(self, *words):
        """A search that has kept something already."""
        search = subprocess.Popen([HEDDLE, *self.WORDS, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder,
                                  env=self.environment)  # fmt: skip
        self.addCleanup(search.kill)
        while search.poll() is None and not self.kept():
            time.sleep(0.02)
        return search

    def test_compile_goes_by_what_a_search_has_found(self):
        begun = time.monotonic()
        out = self.heddle(*self.WORDS, "--budget", "60s", "--report", "report.html")
        self.assertLess(time.monotonic() - begun, 62)
        self.look_at((self.folder / "report.html").read_text())
        measured, now, _ = map(int, re.search(r"m N=128: (\d+) of \d+ candidates of 1 kernel measured, (\d+) of them now, (\d+) of no use", out).groups())
        self.assertEqual(measured, now)
        self.assertEqual(self.kept(), measured)
        if ", kept\n" not in out:
            self.assertNotIn("as measured", self.compile())
            return
        self.assertRegex(self.compile(), r"schedules: 1 of 1 kernel as measured on .*, family \d+ model \d+\n")
        self.assertNotIn("as measured", self.compile("--db", "none"))
        self.assertNotIn("as measured", self.heddle("compile", "m.heddle", "--weights", "w.npz", "-o", "out", "--dim", "N=2000"))
        self.assertRegex(self.heddle("show", "m.heddle", "--why", "--dim", "N=128"), r"  \* +\d+\.\d us  tiles .*, measured\n")
        again = self.heddle(*self.WORDS, "--budget", "60s")
        self.assertIn(", 0 of them now,", again)
        text = self.heddle("tune", "--export", "r.txt") and (self.folder / "r.txt").read_text()
        self.assertEqual(len(re.findall(r"^[0-9a-f]{16} contraction \| 128 \| ", text, re.M)), measured)

    def look_at(self, page):
        parsed = Balanced()
        parsed.feed(page)
        self.assertEqual(parsed.open, [])
        for link in parsed.links:
            self.assertTrue(link.startswith("#") and link[1:] in parsed.ids, link)
        for drawing in ("search curve", "roofline"):
            self.assertEqual(page.count(f'aria-label="{drawing}"'), 1)
        words = "".join(parsed.texts)
        self.assertIn("N=128", words)
        self.assertEqual(len(re.findall(r"<td>usual(?: fastest)?</td>", page)), 1)
        self.assertGreater(len(re.findall(r"<code>(?:tiles|chunks)/\d+ [^<]*</code>", page)), 5)
        self.assertNotIn("http", page)
        if not shutil.which("chromium"):
            print("[SKIP] no Chromium")
            return
        for dark in (False, True):
            for width in (1400, 500):
                with self.subTest(dark=dark, width=width):
                    self.assertGreater(seen_by_browser(self, page, dark, width)["texts"], 50)

    def test_a_killed_search_is_resumed(self):
        search = self.begin("--budget", "60s")
        search.send_signal(signal.SIGKILL)
        search.communicate()
        kept = self.kept()
        self.assertGreater(kept, 0)
        out = self.heddle(*self.WORDS, "--budget", "60s", "--resume")
        measured, now = map(int, re.search(r": (\d+) of \d+ candidates of 1 kernel measured, (\d+) of them now", out).groups())
        self.assertEqual(measured - now, kept)
        self.assertEqual([path.name for path in self.temporary.iterdir()], [], "what the killed one left is gone")

    def test_an_interrupt_keeps_what_is_done(self):
        search = self.begin("--budget", "60s")
        kept = self.kept()
        search.send_signal(signal.SIGINT)
        out, errors = search.communicate(timeout=120)
        self.assertEqual((search.returncode, errors), (0, ""))
        self.assertGreaterEqual(int(re.search(r": (\d+) of \d+ candidates", out)[1]), kept)

    def test_a_budget_that_is_too_short_ends_all_the_same(self):
        begun = time.monotonic()
        errors = self.heddle(*self.WORDS, "--budget", "0.05s", status=1)
        self.assertLess(time.monotonic() - begun, 5)
        self.assertIn("the budget is over before the model was compiled and compared", errors)

    def test_what_cannot_be_written_is_refused_before_the_search(self):
        begun = time.monotonic()
        for option in ("--report", "--export"):
            self.assertIn("nowhere/r: cannot write", self.heddle(*self.WORDS, "--budget", "60s", option, "nowhere/r", status=1))
        self.assertIn("w.npz: is an input of this command", self.heddle(*self.WORDS, "--budget", "60s", "--report", "w.npz", status=1))
        self.assertLess(time.monotonic() - begun, 20)
        self.assertFalse((self.folder / "t.db").exists())

    def test_wrong_usage(self):
        self.assertIn("a search is for one size; give it with --dim N=N", self.heddle("tune", "m.heddle", "--weights", "w.npz", status=1))
        self.assertIn("--budget wants a time such as 90s, 5m or 1h, not `soon`", self.heddle(*self.WORDS, "--budget", "soon", status=2))
        done = subprocess.run([HEDDLE, *self.WORDS, "--target", "x86-64-v4+amx"], capture_output=True, text=True, cwd=self.folder, env=self.environment)
        if done.returncode:
            self.assertIn("--target x86-64-v4+amx: this machine can't run its code, so nothing can be measured here", done.stderr)


MPI = Path(HEDDLE).resolve().parent.parent / "lib/heddle/libheddle_mpi.so"


@unittest.skipUnless(shutil.which("mpirun") and MPI.exists(), "no Open MPI")
class Shared(Records):
    WORDS = ("tune", "m.heddle", "--weights", "w.npz", "--dim", "N=128", "--threads", "1", "--budget", "60s")

    def mpirun(self, *words, **environment):
        as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"} if os.geteuid() == 0 else {}
        return subprocess.run(["mpirun", "-n", "2", "--oversubscribe", "--bind-to", "none", HEDDLE, *words], capture_output=True, text=True,
                              cwd=self.folder, timeout=200, env={**self.environment, **as_root, **environment})  # fmt: skip

    def test_two_processes_share_one_search(self):
        done = self.mpirun(*self.WORDS)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("error:", done.stderr)  # Open MPI itself may have words of its own there
        found = re.findall(r"(\d+) of (\d+) candidates of 1 kernel measured, (\d+) of them now \((\d+) by 1 other process\)", done.stdout)
        self.assertEqual(len(found), 1, "one of them says what was found")
        measured, all, now, elsewhere = map(int, found[0])
        self.assertEqual(measured, now)
        self.assertGreater(measured, 6)
        self.assertIn(elsewhere, range(measured // 3, measured // 2 + 1), "each share has the usual schedule, which one of them tells")
        with sqlite3.connect(self.folder / "t.db") as database:
            self.assertEqual(database.execute("SELECT count(*) FROM record").fetchone()[0], measured)
        more = re.search(r": (\d+) of (\d+) candidates of 1 kernel measured, (\d+) of them now", self.heddle(*self.WORDS))
        self.assertEqual([int(more[1]) - int(more[3]), int(more[2])], [measured, all], "one process goes on from there")

    def test_a_failure_is_said_once_and_ends_both(self):
        begun = time.monotonic()
        done = self.mpirun(*(word.replace("w.npz", "nothing.npz") for word in self.WORDS))
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr.count("nothing.npz: cannot read"), 1)
        self.assertLess(time.monotonic() - begun, 30)

    def test_one_process_needs_no_mpi(self):
        self.assertIn(" measured, ", self.heddle(*self.WORDS[:-1], "20s", OMPI_COMM_WORLD_SIZE="1"))


if __name__ == "__main__":
    unittest.main()
