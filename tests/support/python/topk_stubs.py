"""Generates the Python stubs of topk.v1."""

import atexit
import functools
import importlib
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]


def generate_stubs(directory):
    """Generates the stubs with Debian's protoc (protobuf-compiler-grpc)."""
    protos = sorted(
        str(path.relative_to(ROOT / "proto"))
        for folder in ("topk", "google", "inference")
        for path in (ROOT / "proto" / folder).rglob("*.proto")
    )
    plugin = shutil.which("grpc_python_plugin")
    subprocess.run(
        ["protoc", f"-I{ROOT / 'proto'}", f"--python_out={directory}",
         f"--grpc_python_out={directory}",
         f"--plugin=protoc-gen-grpc_python={plugin}", *protos], check=True)


@functools.cache
def load_stubs():
    """Returns the generated modules: the messages under the short names of
    their files, and the service stubs as "rpc"."""
    directory = tempfile.TemporaryDirectory()
    atexit.register(directory.cleanup)
    generate_stubs(directory.name)
    sys.path.insert(0, directory.name)
    names = ("topk", "tensor", "onnx", "openvino", "directml")
    modules = {
        name: importlib.import_module(f"topk.v1.{name}_pb2") for name in names
    }
    modules["rpc"] = importlib.import_module("topk.v1.topk_pb2_grpc")
    return modules


def load_oip_stubs():
    """Returns the messages and the stubs of the Open Inference Protocol. They
    conflict with tritonclient's own."""
    load_stubs()
    return (importlib.import_module("inference.grpc_service_pb2"),
            importlib.import_module("inference.grpc_service_pb2_grpc"))
