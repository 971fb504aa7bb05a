"""Generates the Python stubs of topk.v1 and the Open Inference Protocol."""

import atexit
import functools
import importlib
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]


def generate_stubs(directory):
    """Generates the stubs with Debian's protoc."""
    protos = ROOT / "proto"
    subprocess.run(
        ["protoc", f"-I{protos}", f"--python_out={directory}",
         *(path for folder in ("topk", "google", "inference")
           for path in (protos / folder).rglob("*.proto"))], check=True)


@functools.cache
def load_stubs():
    """Returns the messages of topk.proto and those of tensor.proto."""
    directory = tempfile.TemporaryDirectory()
    atexit.register(directory.cleanup)
    generate_stubs(directory.name)
    sys.path.insert(0, directory.name)
    return [importlib.import_module(f"topk.v1.{name}_pb2")
            for name in ("topk", "tensor")]


def load_oip_stubs():
    """Returns the messages of the Open Inference Protocol. They conflict with
    tritonclient's own."""
    load_stubs()
    return importlib.import_module("inference.grpc_service_pb2")
