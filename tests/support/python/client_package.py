"""Makes topk_client importable for a test: copies the package from
client/python and generates its stubs and those of googleapis-common-protos, a
dependency, with Debian's protoc. TOPK_CLIENT=installed uses the installed
package instead.

Tests that import this module take the path of topkd as an argument.
"""

import atexit
import os
import pathlib
import runpy
import shutil
import subprocess
import sys
import tempfile

import harness
import topk_stubs

PACKAGE = topk_stubs.ROOT / "client" / "python"


def _make(folder):
    # Skip stubs that an editable install has put in the source folder.
    shutil.copytree(PACKAGE / "topk_client", folder / "topk_client",
                    ignore=shutil.ignore_patterns("_stubs"))
    make = runpy.run_path(str(PACKAGE / "make_stubs.py"))["make_stubs"]
    protos = topk_stubs.ROOT / "proto"
    make(["protoc"], protos, folder / "topk_client" / "_stubs")
    subprocess.run(
        ["protoc", f"-I{protos}", f"--python_out={folder}",
         "google/rpc/status.proto", "google/rpc/error_details.proto"],
        check=True)


if os.environ.get("TOPK_CLIENT") != "installed":
    _folder = tempfile.TemporaryDirectory()
    atexit.register(_folder.cleanup)
    _make(pathlib.Path(_folder.name))
    sys.path.insert(0, _folder.name)

TOPKD = os.path.abspath(sys.argv.pop(1))


def start(add_cleanup, *flags):
    """Returns a running topkd, which is stopped at cleanup."""
    server = harness.Server(TOPKD, *flags)
    add_cleanup(server.__exit__)
    return server
