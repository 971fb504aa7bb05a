"""Makes topk_client importable for a test: the package of client/python with
its stubs, and those of the two packages from PyPI that it needs; all by
Debian's protoc. With TOPK_CLIENT=installed it is the installed one instead.

The tests are called with the path of topkd as their argument.
"""

import atexit
import os
import pathlib
import runpy
import shutil
import subprocess
import sys
import tempfile

import topk_stubs

PACKAGE = topk_stubs.ROOT / "client" / "python"


def _make(folder):
    shutil.copytree(PACKAGE / "topk_client", folder / "topk_client")
    make = runpy.run_path(str(PACKAGE / "make_stubs.py"))["make_stubs"]
    make(["protoc"], topk_stubs.ROOT / "proto",
         folder / "topk_client" / "_stubs")
    # googleapis-common-protos and grpcio-health-checking, wire-compatible.
    protos = topk_stubs.ROOT / "proto"
    subprocess.run(
        ["protoc", f"-I{protos}", f"-Igrpc_health={protos / 'grpc/health'}",
         f"--python_out={folder}", "google/rpc/status.proto",
         "google/rpc/error_details.proto", "grpc_health/v1/health.proto"],
        check=True)


if os.environ.get("TOPK_CLIENT") != "installed":
    _folder = tempfile.TemporaryDirectory()
    atexit.register(_folder.cleanup)
    _make(pathlib.Path(_folder.name))
    sys.path.insert(0, _folder.name)

TOPKD = os.path.abspath(sys.argv.pop(1))


def start(add_cleanup, *flags):
    """Returns a topkd with the flags, stopped by the cleanup."""
    folder = tempfile.TemporaryDirectory()
    add_cleanup(folder.cleanup)
    server = topk_stubs.Server(TOPKD, folder.name, *flags)
    add_cleanup(server.__exit__)
    return server
