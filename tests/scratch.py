"""Folders that tests write to, gone afterwards."""

import tempfile
import unittest
from pathlib import Path


class Scratch(unittest.TestCase):
    """Each test has a folder of its own."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)


class SharedScratch(unittest.TestCase):
    """The tests of a class have one folder."""

    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = Path(scratch.name)
