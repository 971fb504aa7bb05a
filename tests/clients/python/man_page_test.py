"""The manual page of the command topk, as roff understands it.

usage: man_page_test.py TOPK
"""

import re
import shutil
import subprocess
import sys
import unittest

TOPK = sys.argv[1]
SKIPPED = 77  # ctest's SKIP_RETURN_CODE


class ManPage(unittest.TestCase):
    def test_man_pages_are_complete_and_valid(self):
        page = subprocess.run([TOPK, "man"], capture_output=True, text=True,
                              check=True).stdout
        done = subprocess.run(["groff", "-man", "-ww", "-Tascii", "-rHY=0"],
                              input=page, capture_output=True, text=True,
                              check=True)
        self.assertEqual(done.stderr, "")
        text = re.sub("\x1b\\[[0-9;]*m|.\b", "", done.stdout)
        for word in ("TOPK(1)", "topk run file", "TOPK_TARGET",
                     "onnx|openvino|directml", "130 interrupted"):
            self.assertIn(word, text)
        for command in ("run", "merge", "health", "info", "bench"):
            said = subprocess.run([TOPK, command, "--help"], check=True,
                                  capture_output=True, text=True).stdout
            for flag in re.findall(r"^  (--[a-z-]+)", said, re.M):
                self.assertRegex(text, rf"(?m)^ +{flag}\b")


if __name__ == "__main__":
    if shutil.which("groff") is None:
        print("groff is not installed: skipped")
        sys.exit(SKIPPED)
    unittest.main(argv=sys.argv[:1])
