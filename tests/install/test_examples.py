"""The examples in C++: built as their README says, with an installed Heddle, and their answers checked."""

import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

import numpy as np

import heddle
from installed import CMAKE, prefix

ROOT = Path(__file__).resolve().parents[2]
HEDDLE = os.environ["HEDDLE"]
MODEL = ROOT / "tests" / "models" / "goldens" / "vit_classifier"

# Writes a picture as JPEG and what libjpeg reads of it, as raw bytes.
TOOL = r"""
#include <stdio.h>
#include <stdlib.h>
#include <jpeglib.h>
int main(int count, char **words) {
  int width = atoi(words[1]), height = atoi(words[2]);
  unsigned char *row = malloc(width * 3);
  struct jpeg_error_mgr errors;
  struct jpeg_compress_struct writer;
  writer.err = jpeg_std_error(&errors);
  jpeg_create_compress(&writer);
  FILE *file = fopen(words[3], "wb");
  jpeg_stdio_dest(&writer, file);
  writer.image_width = width;
  writer.image_height = height;
  writer.input_components = 3;
  writer.in_color_space = JCS_RGB;
  jpeg_set_defaults(&writer);
  jpeg_start_compress(&writer, TRUE);
  for (int y = 0; y < height && fread(row, 3, width, stdin) == (size_t)width; y++)
    jpeg_write_scanlines(&writer, &row, 1);
  jpeg_finish_compress(&writer);
  fclose(file);
  struct jpeg_decompress_struct reader;
  reader.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&reader);
  file = fopen(words[3], "rb");
  jpeg_stdio_src(&reader, file);
  jpeg_read_header(&reader, TRUE);
  jpeg_start_decompress(&reader);
  while (reader.output_scanline < reader.output_height) {
    jpeg_read_scanlines(&reader, &row, 1);
    fwrite(row, 3, width, stdout);
  }
  return 0;
}
"""


def shrunk(picture, size):
    """The same resizing, as a product with a matrix per axis."""
    def matrix(old, new):
        scale = old / new
        support = max(1.0, scale)
        places = (np.arange(new) + 0.5) * scale
        weights = np.maximum(0, 1 - abs((np.arange(old) + 0.5 - places[:, None]) / support))
        return weights / weights.sum(1, keepdims=True)

    rows, columns = matrix(picture.shape[0], size[0]), matrix(picture.shape[1], size[1])
    return np.einsum("ay,bx,yxc->cab", rows, columns, picture.astype(np.float64))


class ImageService(unittest.TestCase):
    def test_pictures_in_labels_out(self):
        if not Path("/usr/include/jpeglib.h").exists():
            print("[SKIP] no libjpeg-dev")
            return
        with tempfile.TemporaryDirectory() as scratch:
            at = Path(scratch)
            env = {"PATH": os.environ["PATH"]}

            def run(*words, **options):
                done = subprocess.run([str(word) for word in words], cwd=at, env=env, capture_output=True, **options)
                self.assertEqual(done.returncode, 0, done.stderr)
                return done.stdout

            (at / "tool.c").write_text(TOOL)
            run("cc", "tool.c", "-ljpeg", "-o", "tool")
            random = np.random.default_rng(5)
            y, x = np.mgrid[0:47, 0:90]
            wanted = {}
            run(HEDDLE, "compile", MODEL, "-o", "vit")
            session = heddle.load(at / "vit").session()
            for name in ("first.jpg", "a second.jpg"):
                waves = random.uniform(0, 0.3, (3, 2))
                picture = np.stack([127 + 120 * np.sin(a * x + b * y) for a, b in waves], -1).astype(np.uint8)
                seen = run("./tool", 90, 47, name, input=picture.tobytes())
                pixels = shrunk(np.frombuffer(seen, np.uint8).reshape(47, 90, 3), (30, 30)) / 255 * 2 - 1
                logits = session.run({"pixel_values": pixels[None].astype(np.float32)})["logits"][0].astype(np.float64)
                shares = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
                wanted[name] = [(f"LABEL_{i}", 100 * shares[i]) for i in np.argsort(-logits)[:3]]
            (at / "broken.jpg").write_bytes(b"\xff\xd8\xff\xe0 no picture")

            run(CMAKE, "-S", ROOT / "examples" / "image_service", "-B", "build", f"-DMODEL={MODEL}", f"-DCMAKE_PREFIX_PATH={prefix()}")
            run(CMAKE, "--build", "build")
            said = run("build/image_service", MODEL, input=b"first.jpg\nmissing.jpg\nbroken.jpg\na second.jpg\n").decode().splitlines()
            self.assertEqual(said[1], "missing.jpg\terror: cannot be opened")
            self.assertRegex(said[2], r"^broken\.jpg\terror: \S")
            for line in (said[0], said[3]):
                name, answer = line.split("\t")
                got = [(label, float(percent)) for label, percent in re.findall(r"(LABEL_\d+) ([\d.]+)%", answer)]
                self.assertEqual([label for label, _ in got], [label for label, _ in wanted[name]])
                for (_, percent), (_, share) in zip(got, wanted[name]):
                    self.assertAlmostEqual(percent, share, delta=0.1)


class TrainingInC(unittest.TestCase):
    def test_a_run_learns_and_goes_on_where_it_was_stopped(self):
        with tempfile.TemporaryDirectory() as scratch:
            at = Path(scratch)

            def run(*words):
                done = subprocess.run([str(word) for word in words], cwd=at, capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                return done.stdout

            source = ROOT / "examples" / "training_in_c"
            run(HEDDLE, "compile", source / "curve.heddle", "--blank", "-o", "out")
            run("cc", "-Wall", "-Werror", source / "train.c", "-I", "out", "-ldl", "-lm", "-o", "train")
            said = run("./train", "out").splitlines()
            self.assertEqual([line.split(",")[0] for line in said], [f"step {n}" for n in (500, 1000, 1500, 2000)])
            self.assertLess(float(said[-1].split()[-1]), 0.02)
            learned = (at / "curve.safetensors").read_bytes()

            (at / "curve.session").unlink()
            stopped = subprocess.Popen(["./train", "out"], cwd=at, stdout=subprocess.PIPE, text=True)
            while not (at / "curve.session").exists():
                self.assertIsNone(stopped.poll())
            stopped.kill()
            stopped.communicate()
            run("./train", "out")
            self.assertEqual((at / "curve.safetensors").read_bytes(), learned)


if __name__ == "__main__":
    unittest.main()
