#!/usr/bin/env python3
"""The page of `heddle show --html`: which lines it marks, its conditions, measured times, and how a browser shows it. The command
is $HEDDLE or build/bin/heddle; the browser is Chromium without a window."""

import html
import json
import re
import shutil
import subprocess
import unittest
from pathlib import Path

from test_cli import ROOT, Scratch

BERT = ROOT / "tests" / "models" / "goldens" / "bert_model"

# Measures the page as it is laid out: the contrast of every text with what is behind it, and whether it is too wide.
PROBE = """
<script>
const parts = c => (c.match(/[\\d.]+/g) || []).map(Number);
const channel = v => v / 255 <= 0.03928 ? v / 255 / 12.92 : Math.pow((v / 255 + 0.055) / 1.055, 2.4);
const light = c => { const p = parts(c); return 0.2126 * channel(p[0]) + 0.7152 * channel(p[1]) + 0.0722 * channel(p[2]); };
const solid = c => parts(c).length == 3 || parts(c)[3] > 0;
function behind(e) {
  if (e.matches("svg text.on")) return getComputedStyle(e.previousElementSibling).fill;
  for (; e; e = e.parentElement) if (solid(getComputedStyle(e).backgroundColor)) return getComputedStyle(e).backgroundColor;
  return "none";
}
addEventListener("load", () => {
  const faint = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let texts = 0;
  for (let node; node = walker.nextNode();) {
    const e = node.parentElement;
    if (!node.data.trim() || e.tagName == "SCRIPT" || e.tagName == "title") continue;
    texts++;
    const ink = e.matches("svg text") ? getComputedStyle(e).fill : getComputedStyle(e).color, paper = behind(e);
    const [high, low] = [light(ink), light(paper)].sort((a, b) => b - a);
    if (!((high + 0.05) / (low + 0.05) >= 4.5)) faint.push(`${node.data.trim().slice(0, 30)}: ${ink} on ${paper}`);
  }
  const hidden = [...document.querySelectorAll("th")].filter(e => e.innerText == "time" && e.getBoundingClientRect().right > innerWidth).length;
  document.title = JSON.stringify({texts, hidden, faint: [...new Set(faint)], width: document.documentElement.scrollWidth, room: innerWidth,
                                   dark: light(getComputedStyle(document.body).backgroundColor) < 0.2});
});
</script>
"""


def lines_of(page):
    """Of each line of model text its kernels and its time: {(file, line): ([kernel], text of the last column)}."""
    out = {}
    for path, table in re.findall(r'<h3>([^<]*)</h3>\n<div class="wide"><table class="text mono">(.*?)</table>', page, re.S):
        for used, number, last in re.findall(r'<tr( class="used")?><td class="line">(\d+)</td><td>.*?</td><td>(.*?)</td></tr>', table):
            kernels = re.findall(r">(k\d+)</a>", last)
            assert bool(used) == bool(kernels), (path, number)
            out[path, int(number)] = kernels, re.sub(r"<a .*?</a> ?", "", last)
    return out


def seen_by_browser(test, page, dark, width):
    """What a window of that width shows of a page, which is readable and no wider."""
    (test.folder / "probed.html").write_text(page + PROBE)
    done = subprocess.run(
        [shutil.which("chromium"), "--headless", "--no-sandbox", "--disable-gpu", f"--window-size={width},900",
         f"--user-data-dir={test.folder}/profile", f"--blink-settings=preferredColorScheme={0 if dark else 1}", "--dump-dom",
         f"file://{test.folder}/probed.html"],
        capture_output=True, text=True, timeout=120)  # fmt: skip
    found = re.search(r"<title>(\{.*?\})</title>", done.stdout, re.S)
    test.assertTrue(found, done.stderr[-2000:])
    seen = json.loads(html.unescape(found[1]))
    test.assertEqual(seen["faint"], [])
    test.assertEqual(seen["hidden"], 0, "the times of kernels are seen without scrolling")
    test.assertLessEqual(seen["width"], seen["room"], "tables scroll by themselves")
    test.assertEqual(seen["dark"], dark)
    return seen


class Page(Scratch):
    def page(self, *words):
        self.done("show", BERT, "--html", "page.html", *words)
        return (self.folder / "page.html").read_text()

    def test_each_line_has_the_kernels_that_compute_it_and_no_others(self):
        page = self.page()
        kinds = dict(re.findall(r'<h3 id="(k\d+)"><a [^>]*>k\d+</a> (\w+)', page))
        encoder = (ROOT / "models" / "bert" / "encoder.heddle").read_text().splitlines()
        marked = {text: kernels for (path, line), (kernels, _) in lines_of(page).items()
                  if path.endswith("bert/encoder.heddle") for text in [encoder[line - 1].strip()] if kernels}  # fmt: skip
        begins = {text.split(" = ")[0]: [kinds[kernel] for kernel in kernels] for text, kernels in marked.items()}
        self.assertEqual({name: begins[name] for name in ("q[b, i, h, e]", "k[b, j, h, e]", "v[b, j, h, e]", "s[b, h, i, j]", "o[b, i, d]")},
                         {"q[b, i, h, e]": ["contraction"], "k[b, j, h, e]": ["contraction"], "v[b, j, h, e]": ["contraction"],
                          "s[b, h, i, j]": ["attention"], "o[b, i, d]": ["contraction"]})  # fmt: skip
        self.assertEqual(len({tuple(marked[text]) for text in marked if text[:2] in ("q[", "k[", "v[")}), 1, "one kernel serves the three")

    def test_conditions_are_in_the_authors_names(self):
        words = html.unescape(re.sub(r"<details>.*?</details>", "", self.page(), flags=re.S))
        self.assertRegex(words, r"<td><code>B · S ≥ \d+</code></td>")
        self.assertRegex(words, r"<td><code>S ≥ \d+</code></td>")
        self.assertNotRegex(words, r"\bd\d\b")

    def test_measured_times_stand_beside_entry_kernels_and_lines(self):
        self.assertNotIn("roofline", self.page())
        page = self.page("--measure", "--dim", "B=2", "--dim", "S=9", "--threads", "1")
        time = r"[\d.]+ (?:us|ms)"
        self.assertRegex(page, rf"<b>{time}</b>a call of encode, 1 thread<")
        steps = re.findall(rf'<td class="n">({time})</td><td>', page)
        self.assertEqual(len(steps), int(re.search(r"<p>(\d+) kernel calls", page)[1]))
        self.assertEqual(len(re.findall(rf"called in \d+ places?, {time}</span>", page)), page.count("called in "))
        for place, (kernels, last) in lines_of(page).items():
            self.assertRegex(last, rf"^{time}$" if kernels else "^$", place)
        drawing = re.search(r'aria-label="roofline">(.*?)</svg>', page, re.S)[1]
        contractions = re.findall(r'<h3 id="(k\d+)"><a [^>]*>k\d+</a> contraction', page)
        for kernel in contractions:
            self.assertIn(f">{kernel}</text>", drawing)
        self.assertEqual(self.heddle("show", BERT, "--measure"),
                         (2, "", "error: --measure puts times on the page of --html FILE; for a table, `heddle bench`\n"))  # fmt: skip

    def test_an_entry_that_needs_another_one_first_is_not_measured(self):
        (self.folder / "kept.heddle").write_text(
            "dim B\nmodel Kept {\n  state total: real[B]\n  entry add(x: real[B]) -> y: real[B] {\n    total <- total + x\n    return total + x\n  }\n"
            "  entry begin(x: real[B]) -> y: real[B] {\n    total <- 2 * x\n    return x\n  }\n}\n")  # fmt: skip
        self.done("show", "kept.heddle", "--html", "page.html", "--measure", "--dim", "B=3")
        page = html.unescape((self.folder / "page.html").read_text())
        self.assertEqual(page.count("Not measured: "), 1)
        self.assertRegex(page, r"Not measured: [^<]*'total'")
        self.assertIn("a call of begin", page)

    def test_a_browser_shows_it_light_and_dark_wide_and_narrow(self):
        if not shutil.which("chromium"):
            print("[SKIP] no Chromium")
            return
        page = self.page("--measure", "--dim", "B=2", "--dim", "S=9")
        for dark in (False, True):
            for width in (1100, 500):
                with self.subTest(dark=dark, width=width):
                    seen = seen_by_browser(self, page, dark, width)
                    self.assertGreater(seen["texts"], 500)


if __name__ == "__main__":
    unittest.main()
