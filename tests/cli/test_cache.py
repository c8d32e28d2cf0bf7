#!/usr/bin/env python3
"""Kernels that were compiled before: a library is the same, byte for byte, with and without them, and whatever is wrong with the
folder that they lie in, a compilation does without it. The model has the same formulas in both forms but for one more."""

import os
import subprocess
import unittest

from test_cli import HEDDLE, Scratch

TWO = """dim B, S
model Two {
  param w: real[24, 16]
  param v: real[8, 24]
  entry run(x: real[B, S, 16]) -> z: real[B, S, 8] {
    h[b, s, f] = relu(sum[e](x[b, s, e] * w[f, e]))
    y[b, s, g] = sum[f](h[b, s, f] * v[g, f])
    return y
  }
}
"""
SOFTENED = TWO.replace("x[b, s, e] * w", "soft[b, s, e] * w").replace("    h[", """    most[b, s] = max[e](x[b, s, e])
    soft[b, s, e] = exp(x[b, s, e] - most[b, s])
    h[""", 1)


class Kept(Scratch):
    def setUp(self):
        super().setUp()
        self.cache = self.folder / "kernels"
        (self.folder / "two.heddle").write_text(TWO)

    def compile(self, output, cache=None, **more):
        """The library's bytes."""
        environment = {**os.environ, "HEDDLE_CACHE": str(cache or self.cache), **more}
        done = subprocess.run([HEDDLE, "compile", "two.heddle", "--blank", "-o", output], cwd=self.folder, env=environment, capture_output=True,
                              text=True, timeout=300)  # fmt: skip
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return (self.folder / output / "libtwo.so").read_bytes()

    def files(self):
        return {path: path.read_bytes() for path in sorted(self.cache.glob("llvmcache-*")) if path.name != "llvmcache.timestamp"}

    def test_a_second_compilation_finds_what_the_first_has_made(self):
        without = self.compile("without", "none")
        self.assertFalse(self.cache.exists())
        first, made = self.compile("first"), self.files()
        self.assertGreater(len(made), 0)
        second = self.compile("second")
        self.assertTrue(first == second == without)
        self.assertEqual(self.files(), made)
        self.assertEqual(list(self.cache.glob("*.tmp")), [])

    def test_kernels_are_found_under_other_numbers_and_not_for_other_formulas(self):
        self.compile("first")
        before = set(self.files())
        (self.folder / "two.heddle").write_text(SOFTENED)
        changed = self.compile("changed")
        self.assertTrue(set(self.files()) > before)
        alone = self.folder / "alone"
        self.assertTrue(changed == self.compile("without", alone))
        self.assertTrue({path.name for path in before} & {path.name for path in alone.glob("llvmcache-*")} - {"llvmcache.timestamp"})
        (self.folder / "two.heddle").write_text(TWO)
        after = set(self.files())
        self.compile("again")
        self.assertEqual(set(self.files()), after)

    def test_a_damaged_object_is_made_anew(self):
        first, made = self.compile("first"), self.files()
        for damage in (lambda whole: whole[:-1], lambda whole: b"", lambda whole: whole[:40] + b"?" + whole[41:], lambda whole: whole[:31]):
            for path, whole in made.items():
                path.write_bytes(damage(whole))
            self.assertTrue(self.compile("second") == first)
            mended = self.files()
            self.assertEqual(set(mended), set(made))
            self.assertTrue(self.compile("third") == first)
            self.assertTrue(self.files() == mended, "what was mended is whole: it is not made once more")

    def test_an_object_under_the_name_of_another_is_none(self):
        first, made = self.compile("first"), self.files()
        self.assertGreater(len(made), 1)
        for path, whole in zip(made, [*made.values()][1:] + [*made.values()][:1]):
            path.write_bytes(whole)
        self.assertTrue(self.compile("second") == first)
        self.assertEqual(set(self.files()), set(made))

    def test_what_is_no_file_is_not_waited_for(self):
        first = self.compile("first")
        for path in [*self.files(), self.cache / "llvmcache.timestamp"]:
            path.unlink()
            os.mkfifo(path)
        self.assertTrue(self.compile("second") == first)
        for path in self.files():
            path.unlink()
            path.symlink_to("/dev/zero")
        self.assertTrue(self.compile("third") == first)

    def test_another_compiler_finds_nothing(self):
        self.compile("first")
        made = self.files()
        self.compile("second", HL_LLVM_ARGS="-enable-misched=true")  # another order to LLVM
        self.assertEqual(len(self.files()), 2 * len(made))

    def test_a_folder_that_cannot_be_used_changes_nothing(self):
        without = self.compile("without", "none")
        (self.folder / "file").write_text("mine")
        for place in ("file", "file/below", "/proc/nowhere", "/dev/full"):
            self.assertTrue(self.compile("with", place) == without, place)
        self.assertEqual((self.folder / "file").read_text(), "mine")

    def test_it_can_be_named(self):
        self.done("compile", "two.heddle", "--blank", "--cache", "named", "-o", "out")
        self.assertGreater(len(list((self.folder / "named").glob("llvmcache-*"))), 0)

    def test_it_lies_in_the_users_folder_for_caches(self):
        for variable, place in (("XDG_CACHE_HOME", "x/heddle/kernels"), ("HOME", "x/.cache/heddle/kernels")):
            environment = {k: v for k, v in os.environ.items() if k not in ("HEDDLE_CACHE", "XDG_CACHE_HOME", "HOME")}
            subprocess.run([HEDDLE, "compile", "two.heddle", "--blank", "-o", "out"], cwd=self.folder, check=True, capture_output=True,
                           env=environment | {variable: str(self.folder / "x")})  # fmt: skip
            self.assertGreater(len(list((self.folder / place).glob("llvmcache-*"))), 0)

    def test_what_is_old_is_removed(self):
        self.compile("first")
        (self.cache / "llvmcache.timestamp").unlink(missing_ok=True)
        for path in self.files():
            os.utime(path, (1e9, 1e9))
        (self.folder / "two.heddle").write_text(TWO.replace("24", "20"))
        self.compile("second")
        self.assertGreater(min(path.stat().st_mtime for path in self.files()), 1e9)


if __name__ == "__main__":
    unittest.main()
