#!/usr/bin/env python3
"""`./dev check` knows the direction of dependencies: the list of folders in ARCHITECTURE.md."""

import importlib.machinery
import importlib.util
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def load_dev():
    loader = importlib.machinery.SourceFileLoader("dev", str(ROOT / "dev"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("dev", loader))
    loader.exec_module(module)
    return module


class Dependencies(unittest.TestCase):
    def setUp(self):
        self.dev = load_dev()
        self.rooms = self.dev.compiler_rooms()

    def points_up(self, name, included):
        return self.dev.points_up(name, included, self.rooms)

    def test_every_folder_of_the_compiler_is_listed(self):
        for source in (ROOT / "compiler").rglob("*.cc"):
            name = str(source.relative_to(ROOT))
            self.assertTrue(any(name.startswith(room + "/") for room in self.rooms), name)

    def test_arrows_that_point_up(self):
        self.assertTrue(self.points_up("compiler/kernels/kinds.cc", "compiler/passes/passes.h"))
        self.assertTrue(self.points_up("compiler/halide/lower.cc", "compiler/kernels/kinds.h"))
        self.assertTrue(self.points_up("compiler/emit/host/host.cc", "compiler/emit/artifact/link.h"))
        self.assertTrue(self.points_up("compiler/new_folder/a.cc", "compiler/io/npy.h"))
        self.assertTrue(self.points_up("dsl/check/program.cc", "compiler/io/npy.h"))
        self.assertTrue(self.points_up("runtime/model.c", "dsl/errors/result.h"))
        self.assertTrue(self.points_up("compiler/driver/driver.cc", "tools/heddle.h"))

    def test_arrows_that_point_down(self):
        self.assertFalse(self.points_up("compiler/passes/why.cc", "compiler/choose/choice.h"))
        self.assertFalse(self.points_up("compiler/kernels/kinds.cc", "compiler/kernels/general/general.h"))
        self.assertFalse(self.points_up("compiler/emit/host/host.cc", "runtime/heddle.h"))
        self.assertFalse(self.points_up("compiler/io/config.cc", "dsl/errors/result.h"))
        self.assertFalse(self.points_up("compiler/io/config.cc", "compiler/version.h"))


if __name__ == "__main__":
    unittest.main()
