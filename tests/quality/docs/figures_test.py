"""Checks that the measured figures on the pages come from tests/bench/results:
tests/bench/figures.py has written them, or their line has a link to a result.
"""

import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/bench"))
import figures  # noqa: E402

# Speeds, latencies and comparisons, but not durations in seconds or minutes,
# most of which are settings.
FIGURE = re.compile(
    r"\d[\d,.]*( thousand| million)?\s*("
    r"(calls|requests|rows|tensors)( of [\w ]+?)?(/s| per second| a second)"
    r"|[kMGT]i?B(/s| per second)|[uµ]s\b|ms\b"
    r"|(times|x) (as \w+|faster|slower|longer|the (throughput|time|speed|rate)))"
    r"|\d%? (faster|slower)")
# Generated figures, and commands and settings.
NOT_MEASURED = re.compile(
    r"<!-- figures: \w+ -->.*?<!-- end -->|^```.*?^```|`[^`\n]*`",
    re.DOTALL | re.MULTILINE)


def strays(text):
    """Returns the lines with a figure whose origin is unknown."""
    text = NOT_MEASURED.sub(lambda found: "\n" * found[0].count("\n"), text)
    return [f"{number}: {line}" for number, line in enumerate(
        text.splitlines(), 1)
        if FIGURE.search(line) and "bench/results/" not in line]


class Figures(unittest.TestCase):
    def test_pages_have_the_figures_of_the_results(self):
        for file, text in figures.files():
            self.assertEqual(file.read_text(encoding="utf-8"), text,
                             "run tests/bench/figures.py")

    def test_no_other_figures(self):
        listed = subprocess.run(
            ["git", "-C", ROOT, "ls-files", "*.md"], check=False,
            capture_output=True, text=True)
        if listed.returncode != 0:
            self.skipTest("not a checkout of git")
        for name in listed.stdout.split():
            with self.subTest(name):
                self.assertEqual([], strays((ROOT / name).read_text("utf-8")))


if __name__ == "__main__":
    unittest.main()
