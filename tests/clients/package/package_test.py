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

    def find(self, name):
        found = [path.parent for path in self.prefix.rglob(name)]
        self.assertEqual(len(found), 1, name)
        return found[0]

    def test_find_package(self):
        build = self.work / "by_cmake"
        run(CMAKE, "-S", CONSUMER, "-B", build, "-G", "Ninja",
            f"-DCMAKE_CXX_COMPILER={CXX}", f"-DCMAKE_PREFIX_PATH={self.prefix}",
            f"-DEXAMPLES={EXAMPLES}")
        run(CMAKE, "--build", build)
        self.assertEqual(run(build / "consumer", self.server.target), "1 3\n")
        service = f"unix:{self.work}/service"
        with harness.running([build / "async_service", self.server.target,
                              service], stdout=subprocess.PIPE) as process:
            self.assertIn(b"serving", process.stdout.readline())
            for _ in range(3):
                self.assertEqual(run(build / "consumer", service), "1 3\n")
            refused = subprocess.run(
                [self.prefix / "bin" / "topk", "run", "-", "--k", "9",
                 "--target", service], input="1 2", text=True,
                capture_output=True, check=False)
            self.assertIn("k = 9 exceeds dimension 2", refused.stderr)
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

    def test_find_package_rejects_another_version(self):
        script = self.work / "find.cmake"
        script.write_text(
            f"find_package(topk 0.2 CONFIG PATHS {self.prefix} "
            "NO_DEFAULT_PATH)\n"
            "message(${topk_FOUND} ${topk_CONSIDERED_VERSIONS})\n",
            encoding="utf-8")
        done = subprocess.run([CMAKE, "-P", script], capture_output=True,
                              text=True, check=False)
        self.assertRegex(done.stderr, r"(?m)^00\.1\.0$")

    @unittest.skipIf(NO_PKG_CONFIG, "pkg-config is not installed")
    def test_pkg_config_and_the_code_of_the_page(self):
        path = self.find("topk.pc")
        flags = run("pkg-config", "--cflags", "--libs", "topk",
                    PKG_CONFIG_PATH=str(path)).split()
        page = (ROOT / "client" / "README.md").read_text(encoding="utf-8")
        shown, *snippets = re.findall(r"^```cpp\n(.*?)^```$", page, re.M | re.S)
        source = self.work / "app.cc"
        source.write_text(
            shown.replace("localhost:50051", self.server.target), "utf-8")
        program = self.work / "by_pkg_config"
        run(CXX, "-std=c++20", source, "-o", program, *flags)
        self.assertEqual(run(program), "1: 9\n3: 7\n")
        # The other code of the page continues this program.
        head, main = shown.split("int main() {\n")
        blocks = [f"  {{\n{block}  }}\n" for block in snippets]
        code = head + "int main() {\n" + main.rsplit("}", 1)[0] + "".join(
            blocks) + "}\n"
        includes = re.findall(r"(?m)^#include .*\n", code)
        source.write_text(
            "".join(includes) + re.sub(r"(?m)^#include .*\n", "", code),
            "utf-8")
        run(CXX, "-std=c++20", "-fsyntax-only", source, *flags)

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
