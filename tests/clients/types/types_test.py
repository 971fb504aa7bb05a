"""Checks the types of the Python client and of its pages' examples. Uses mypy
and pyright in strict mode. Skips examples that need PyTorch or Dask: PyTorch
takes gigabytes, and Dask has no types.

usage: PYTHON types_test.py TOPKD, with the Python of `venv.sh types`
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import client_package
import topk_client

EXAMPLE = re.compile(r"(<!-- needs: \S+ -->\n)?^```python\n(.*?)^```$",
                     re.M | re.S)


class Types(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(
            tempfile.TemporaryDirectory()))
        shutil.copytree(pathlib.Path(topk_client.__file__).parent,
                        cls.folder / "topk_client")
        shutil.copy(client_package.PACKAGE / "pyproject.toml", cls.folder)
        (cls.folder / "examples").mkdir()
        shutil.copy(pathlib.Path(__file__).with_name("typed_results.py"),
                    cls.folder / "examples")
        for page in ("README.md", "RECIPES.md"):
            text = (client_package.PACKAGE / page).read_text(encoding="utf-8")
            for number, (needs, code) in enumerate(EXAMPLE.findall(text)):
                if not needs:
                    name = f"{page[:-3].lower()}_{number}.py"
                    (cls.folder / "examples" / name).write_text(code, "utf-8")

    def check(self, *command):
        run = subprocess.run([sys.executable, "-m", *command], cwd=self.folder,
                             text=True, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, check=False)
        self.assertEqual(run.returncode, 0, run.stdout)

    def test_mypy(self):
        self.check("mypy", "-p", "topk_client")
        self.check("mypy", *map(str, self.folder.glob("examples/*.py")))

    def test_pyright(self):
        self.check("pyright", "--pythonpath", sys.executable, ".")


if __name__ == "__main__":
    unittest.main()
