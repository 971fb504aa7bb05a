"""Runs the examples of the Python client's pages, with another server address.
Skips examples that need a package that is not installed.

usage: client_readme_test.py TOPKD
"""

import importlib.util
import os
import pathlib
import re
import tempfile
import unittest

import client_package
import client_security_test

# {page: minimum number of examples}
PAGES = {"README.md": 5, "RECIPES.md": 6}
# Matches an example, and the package that it needs, if any.
EXAMPLE = re.compile(
    r"(?:^<!-- needs: (\w+)[\w.]* -->\n)?^```python\n(.*?)^```$", re.M | re.S)
TARGET = "localhost:50051"


class Examples(unittest.TestCase):
    def test_every_example_runs(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        here = pathlib.Path(folder.name)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(here)
        client_security_test.make_certificates(here)
        (here / "token").write_text("any-token-of-16-characters")
        plain = client_package.start(self.addCleanup, "--allow-shared-memory")
        secured = client_package.start(
            self.addCleanup, "--tls-cert", "server.pem", "--tls-key",
            "server.key", "--tls-client-ca", "ca.pem")
        for page, fewest in PAGES.items():
            path = client_package.PACKAGE / page
            examples = EXAMPLE.findall(path.read_text(encoding="utf-8"))
            self.assertGreaterEqual(len(examples), fewest)
            for package, example in examples:
                with self.subTest(example):
                    self.assertIn(TARGET, example)
                    if package and not importlib.util.find_spec(package):
                        self.skipTest(f"{package} is not installed")
                    server = secured if "tls_ca" in example else plain
                    exec(compile(example.replace(TARGET, server.target),
                                 str(path), "exec"), {})


if __name__ == "__main__":
    unittest.main()
