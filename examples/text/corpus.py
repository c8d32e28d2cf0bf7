"""The text to learn from, of which the last twentieth is held out, as characters and as words. Without files of yours it is the
licences and copyright notices of this machine and the manual of its Python: real prose that every Debian has."""

import hashlib
import re
import sys
from pathlib import Path

import numpy as np

MOST = 1 << 15  # bytes of one of the machine's texts, so that none of them is a large part of all
WORD = re.compile(r"\w+|[^\w\s]")
PAD, UNKNOWN, START, BETWEEN, MASK = range(5)  # before the words of a vocabulary


def of_this_machine():
    """Each text once, in an order that follows from the texts alone."""
    folders = [*Path("/usr/share/common-licenses").glob("*"), *Path("/usr/share/doc").glob("*/copyright")]
    texts = [path.read_bytes()[:MOST] for path in folders if path.is_file()]
    try:
        from pydoc_data.topics import topics

        texts += [text.encode()[:MOST] for text in topics.values()]
    except ImportError:  # a Python without its manual
        pass
    return b"\n".join(sorted(set(texts), key=lambda text: hashlib.sha256(text).digest()))


def gather(kept, files, least):
    """The text of these files, else the one that a run has kept, else the machine's."""
    try:
        if not files and kept.exists():
            return kept.read_bytes()
        text = b"\n".join(path.read_bytes() for path in files) if files else of_this_machine()
    except OSError as reason:
        sys.exit(f"error: {reason.filename}: {reason.strerror}")
    if len(text) < least:
        where = ", ".join(map(str, files)) or "the licences and manuals of this machine"
        sys.exit(f"error: {where}: {len(text)} characters, {least} are needed; name more text with --text")
    if kept.exists() and kept.read_bytes() != text:
        sys.exit(f"error: {kept.parent} has a run with another text; name another folder")
    return text


def split(text):
    """What is learned, and what is held out."""
    at = len(text) - len(text) // 20
    return text[:at], text[at:]


def characters(text):
    return np.frombuffer(text, np.uint8).astype(np.int32)


class Words:
    """The `size` - MASK - 1 words and signs that are most frequent in a text; all others are UNKNOWN."""

    def __init__(self, text, size):
        counts = {}
        for word in self.split(text):
            counts[word] = counts.get(word, 0) + 1
        frequent = sorted(counts, key=lambda word: (-counts[word], word))[: size - MASK - 1]
        self.numbers = {word: number for number, word in enumerate(frequent, MASK + 1)}

    @staticmethod
    def split(text):
        return WORD.findall(text.decode(errors="replace").lower())

    def of(self, text):
        return np.array([self.numbers.get(word, UNKNOWN) for word in self.split(text)], np.int32)
