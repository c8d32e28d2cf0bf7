#!/usr/bin/env python3
"""A library's manifest, damaged at random (types changed, members dropped, numbers absurd, bytes flipped): every command
that reads it says in one message what is wrong or works as before, and those that don't read it never notice."""

import json
import random
import shutil
import unittest

from test_files import FileScratch

STRANGE = [None, True, 0, -1, 1e308, 2**64 - 1, -(2**63), "", "B // 0", "(" * 200, "x" * 5000, [], [[]], {}, {"name": 1}, [{}] * 3]


def places(value, at=()):
    """The paths of all values in it."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield at + (key,)
        yield from places(item, at + (key,))


def damaged(text, source):
    """The manifest with one thing wrong with it."""
    manifest = json.loads(text)
    *path, last = source.choice(list(places(manifest)))
    parent = manifest
    for key in path:
        parent = parent[key]
    kind = source.randrange(5)
    if kind == 0:
        del parent[last]
    elif kind == 1:
        parent[last] = source.choice(STRANGE)
    elif kind == 2 and isinstance(parent[last], (int, str)):
        parent[last] = str(parent[last]) if isinstance(parent[last], int) else len(parent[last])
    elif kind == 3:
        return text[: source.randrange(len(text))].encode()
    else:
        bytes = bytearray(text.encode())
        for _ in range(source.randrange(1, 4)):
            bytes[source.randrange(len(bytes))] = source.randrange(256)
        return bytes
    return json.dumps(manifest).encode()


class Manifests(FileScratch):
    def test_random_damage(self):
        self.compile()
        place = self.folder / "out" / "net.json"
        text = place.read_text()
        source = random.Random(11)
        refused = {command: 0 for command in ["show", "check", "bench"]}
        for turn in range(60):
            place.write_bytes(damaged(text, source))
            answers = {}
            for words in [["show", "out"], ["check", "out"], ["bench", "out", "--dim", "B=1", "--dim", "S=1", "--threads", "1"],
                          ["run", "out", "--in", "x.safetensors"]]:  # fmt: skip
                if words[0] == "bench" and not answers["check"]:
                    continue  # what `check` takes `bench` takes, and needs some seconds for it
                status, out, err = self.heddle(*words)
                answers[words[0]] = err
                with self.subTest(turn=turn, command=words[0], manifest=place.read_bytes()):
                    if status == 0:
                        self.assertEqual(err, "")
                        continue
                    refused[words[0]] += 1
                    self.assertEqual((status, out), (1, ""))
                    self.assertRegex(err, r"\Aerror: out/net\.json: [^\n]+; compile the model again\n\Z")
            self.assertIn(answers["show"], ["", answers["check"]])
            self.assertEqual(answers["run"], "")
        for command, count in refused.items():
            self.assertGreater(count, 20, command)

    def test_what_says_too_much_or_too_little_of_the_work_is_benchmarked_without_it(self):
        self.compile()
        place = self.folder / "out" / "net.json"
        manifest = json.loads(place.read_text())
        work = manifest["entries"][0]["work"]
        work[0].update(operations="B // 0", weights_bytes="0 - B", values_bytes="C * 99999999")
        work.append({"kernel": "no such kernel", "calls": 2**53})
        place.write_text(json.dumps(manifest))
        status, out, err = self.heddle("bench", "out", "--dim", "B=1", "--dim", "S=1", "--threads", "1")
        self.assertEqual((status, err), (0, ""))
        self.assertIn("net B=1 S=1, 1 thread: min ", out)

    def test_a_library_works_without_its_manifest_and_says_whose_it_has(self):
        self.compile()
        place = self.folder / "out" / "net.json"
        place.write_text(place.read_text().replace('"kind"', '"other"', 1))
        message = "out/net.json: describes another library than libnet.so; compile the model again"
        self.fails(message, "check", "out")
        self.fails(message, "bench", "out")
        self.compile()
        shutil.copy(place, self.folder / "older.json")
        (self.folder / "net.heddle").write_text((self.folder / "net.heddle").read_text().replace("x[", "2 * x[", 1))
        self.compile()
        shutil.copy(self.folder / "older.json", place)  # names and shapes are the same
        for command in ("check", "bench"):
            self.fails(message, command, "out")
        place.unlink()
        self.assertIn("intact", self.done("check", "out"))
        self.assertEqual(self.heddle("run", "out", "--in", "x.safetensors")[::2], (0, ""))
        self.fails(r"out/net\.json: cannot read: No such file or directory", "show", "out")
        shutil.copy(self.folder / "out" / "libnet.so", self.folder / "out" / "libother.so")
        self.fails("out: holds several lib\\*\\.so; give a folder with one", "show", "out")


if __name__ == "__main__":
    unittest.main()
