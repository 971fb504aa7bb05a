"""Runs the examples of the Python client's README with another server address.


usage: client_readme_test.py TOPKD
"""

import os
import pathlib
import re
import tempfile
import unittest

import client_package
import client_security_test

README = client_package.PACKAGE / "README.md"
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
        blocks = re.findall(r"^```python\n(.*?)^```$",
                            README.read_text(encoding="utf-8"), re.M | re.S)
        self.assertGreaterEqual(len(blocks), 6)
        for block in blocks:
            with self.subTest(block):
                self.assertIn(TARGET, block)
                self.assertLessEqual(block.count("\n"), 16)
                server = secured if "tls_ca" in block else plain
                exec(compile(block.replace(TARGET, server.target), str(README),
                             "exec"), {})


if __name__ == "__main__":
    unittest.main()
