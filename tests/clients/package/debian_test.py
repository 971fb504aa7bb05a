"""Checks the contents of the Debian packages, and that they install, start the
server and leave no files behind.

usage: debian_test.py BUILD CPACK [TEST...]      all tests, or those named
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from harness import SKIPPED, run

BUILD, CPACK = sys.argv[1:3]
INSTALL = pathlib.Path(__file__).resolve().parent / "debian_install.sh"
NAMESPACES = ("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child")


def obstacle():
    """Returns the reason why the packages cannot be installed in an overlay,
    or None."""
    if os.geteuid() != 0:
        return "only root may mount an overlay"
    for program in ("ip", "systemd-analyze", "adduser", "pkg-config"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    script = ("mount -t tmpfs tmpfs $0 && mkdir $0/u $0/w && "
              "mount -t overlay overlay $0 "
              "-o lowerdir=/,upperdir=$0/u,workdir=$0/w")
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [*NAMESPACES, "sh", "-c", script, folder], check=False,
            capture_output=True, text=True)
    if done.returncode != 0:
        return f"this machine permits no overlay: {done.stderr.strip()}"
    return None


class Debian(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        work = pathlib.Path(cls.enterClassContext(
            tempfile.TemporaryDirectory()))
        run(CPACK, "-G", "DEB", "--config",
            pathlib.Path(BUILD) / "CPackConfig.cmake", "-B", work)
        cls.packages = {
            run("dpkg-deb", "--field", path, "Package").strip(): path
            for path in work.glob("*.deb")}

    def contents(self, package):
        listing = run("dpkg-deb", "--contents", self.packages[package])
        return {line.split(None, 5)[5].removeprefix(".")
                for line in listing.splitlines() if not line.endswith("/")}

    def test_contents(self):
        self.assertEqual(set(self.packages),
                         {"topkd", "topkd-dbgsym", "topkd-dev"})
        for name, path in self.packages.items():
            self.assertRegex(path.name, rf"^{name}_[0-9.]+_\w+\.deb$")
        found = self.contents("topkd")
        for path in ("/usr/bin/topkd", "/usr/bin/topk", "/etc/topkd/topkd.env",
                     "/usr/lib/systemd/system/topkd.service",
                     "/usr/lib/systemd/system/topkd@.service",
                     "/usr/share/topkd/topk.protoset",
                     "/usr/share/man/man1/topk.1.gz",
                     "/usr/share/man/man8/topkd.8.gz",
                     "/usr/share/doc/topkd/copyright"):
            self.assertIn(path, found)
        dev = self.contents("topkd-dev")
        self.assertIn("/usr/include/topk/client.h", dev)
        self.assertIn("/usr/lib/libtopk_client.a", dev)
        self.assertEqual(found & dev, set())
        # These survive an upgrade.
        conffiles = run("dpkg-deb", "--info", self.packages["topkd"],
                        "conffiles")
        self.assertEqual(conffiles.split(), ["/etc/topkd/topkd.env"])

    def test_dependencies(self):
        depends = run("dpkg-deb", "--field", self.packages["topkd"], "Depends")
        self.assertIn("adduser", depends)
        # What gRPC's CMake package requires.
        depends = run("dpkg-deb", "--field", self.packages["topkd-dev"],
                      "Depends")
        for path in ("/usr/bin/grpc_cpp_plugin",
                     "/usr/include/grpcpp/grpcpp.h",
                     "/usr/include/google/protobuf/message.h"):
            package = run("dpkg", "-S", path).split(":")[0]
            self.assertIn(package, depends)
        for package in ("libgrpc\\+\\+-dev", "libprotobuf-dev"):
            self.assertRegex(depends, rf"{package} \(>= \S+\), "
                             rf"{package} \(<< \S+\)")

    def test_debug_symbols_belong_to_the_programs(self):
        with tempfile.TemporaryDirectory() as folder:
            for path in self.packages.values():
                run("dpkg-deb", "--extract", path, folder)
            root = pathlib.Path(folder, "usr")
            symbols = list((root / "lib/debug/.build-id").glob("*/*.debug"))
            ids = {path.parent.name + path.stem for path in symbols}
            programs = [root / "bin/topkd", root / "bin/topk"]
            self.assertEqual(ids, {
                re.search("Build ID: (.*)", run("readelf", "-n", path))[1]
                for path in programs})
            for path in [*programs, root / "lib/libtopk_client.a"]:
                self.assertNotIn(".debug_", run("readelf", "-SW", path))

    @unittest.skipUnless(shutil.which("lintian"), "lintian is not installed")
    def test_lintian_finds_no_warning(self):
        run("lintian", "--fail-on", "error,warning", "--allow-root",
            *self.packages.values())

    def test_installs_starts_and_purges(self):
        if reason := obstacle():
            self.skipTest(reason)
        with tempfile.TemporaryDirectory() as folder:
            print(run(*NAMESPACES, INSTALL, folder, *self.packages.values()))


if __name__ == "__main__":
    for needed in ("dpkg-shlibdeps", "file"):
        if shutil.which(needed) is None:
            print(f"SKIPPED: {needed} is not installed")
            sys.exit(SKIPPED)
    result = unittest.main(argv=[sys.argv[0], *sys.argv[3:]], exit=False,
                           verbosity=2).result
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(SKIPPED if result.skipped else 0)
