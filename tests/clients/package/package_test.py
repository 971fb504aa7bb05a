"""Tests the installed package with a project that uses nothing else of ours.

usage: package_test.py BUILD SOURCE CMAKE CXX
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import harness
from harness import run

BUILD, SOURCE, CMAKE, CXX = sys.argv[1:5]
CONSUMER = pathlib.Path(__file__).resolve().parent / "consumer"
ROOT = CONSUMER.parents[3]
EXAMPLES = ROOT / "client" / "examples" / "cpp"
NO_PKG_CONFIG = shutil.which("pkg-config") is None


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        work = pathlib.Path(cls.enterClassContext(
            tempfile.TemporaryDirectory()))
        run(CMAKE, "--install", BUILD, "--prefix", work / "installed",
            "--strip")
        # The installed tree is relocatable.
        cls.prefix = (work / "installed").rename(work / "moved")
        cls.work = work
        cls.server = harness.Server(cls.prefix / "bin" / "topkd")
        cls.addClassCleanup(cls.server.stop)
        page = (ROOT / "client" / "README.md").read_text(encoding="utf-8")
        cls.program, *cls.snippets = re.findall(
            r"^```cpp\n(.*?)^```$", page.replace(
                "localhost:50051", cls.server.target), re.M | re.S)

    def find(self, name):
        found = [path.parent for path in self.prefix.rglob(name)]
        self.assertEqual(len(found), 1, name)
        return found[0]

    def test_find_package(self):
        # All code of the page in one program: the snippets continue the first.
        head, main = self.program.split("int main() {\n")
        code = head + "int main() {\n" + main.rsplit("}", 1)[0] + "".join(
            f"  {{\n{block}  }}\n" for block in self.snippets) + "}\n"
        include = r"(?m)^#include .*\n"
        source = self.work / "page.cc"
        source.write_text("".join(re.findall(include, code)) +
                          re.sub(include, "", code), "utf-8")
        build = self.work / "by_cmake"
        run(CMAKE, "-S", CONSUMER, "-B", build, "-G", "Ninja",
            f"-DCMAKE_CXX_COMPILER={CXX}", f"-DCMAKE_PREFIX_PATH={self.prefix}",
            f"-DPAGE={source}", f"-DEXAMPLES={EXAMPLES}")
        run(CMAKE, "--build", build)
        service = f"unix:{self.work}/service"
        with harness.running([build / "async_service", self.server.target,
                              service], stdout=subprocess.PIPE) as process:
            self.assertIn(b"serving", process.stdout.readline())
            for k, expected in (("1", "[:]  2 @1"), ("9", "k = 9 exceeds")):
                done = subprocess.run(
                    [self.prefix / "bin" / "topk", "run", "-", "--k", k,
                     "--target", service], input="1 2", text=True,
                    capture_output=True, check=False)
                self.assertIn(expected, done.stdout + done.stderr)
            process.stdout.close()

    def test_client_alone_needs_no_package_of_the_server(self):
        hidden = [f"-DCMAKE_DISABLE_FIND_PACKAGE_{package}=ON" for package in (
            "TBB", "hwy", "CLI11", "nlohmann_json", "spdlog", "prometheus-cpp")]
        build = self.work / "client_alone"
        run(CMAKE, "-S", SOURCE, "-B", build, "-G", "Ninja",
            f"-DCMAKE_CXX_COMPILER={CXX}", "-DTOPK_CLIENT_ONLY=ON", *hidden)
        plan = (build / "build.ninja").read_text(encoding="utf-8")
        self.assertIn("libtopk_client.a", plan)
        self.assertNotIn("bin/topkd", plan)

    @unittest.skipIf(NO_PKG_CONFIG, "pkg-config is not installed")
    def test_pkg_config(self):
        path = self.find("topk.pc")
        flags = run("pkg-config", "--cflags", "--libs", "topk",
                    PKG_CONFIG_PATH=str(path)).split()
        source = self.work / "app.cc"
        source.write_text(self.program, "utf-8")
        program = self.work / "by_pkg_config"
        run(CXX, "-std=c++20", source, "-o", program, *flags)
        self.assertEqual(run(program), "1: 9\n3: 7\n")

    def test_no_path_of_the_build_is_installed(self):
        for path in self.prefix.rglob("*"):
            if path.is_file() and path.parent.name != "bin":
                if path.suffix == ".a":  # debug info contains paths
                    path = self.work / "stripped.a"
                    run("strip", "-g", "-o", path, self.find(
                        "libtopk_client.a") / "libtopk_client.a")
                content = path.read_bytes()
                for where in (BUILD, SOURCE, str(self.work)):
                    # The project's folder may be /topk: ignore proto/topk/v1.
                    self.assertIsNone(
                        re.search(rb"(?<![\w.])" + re.escape(where.encode()),
                                  content), f"{where} in {path}")


if __name__ == "__main__":
    result = unittest.main(argv=sys.argv[:1], exit=False, verbosity=2).result
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(harness.SKIPPED if result.skipped else 0)
