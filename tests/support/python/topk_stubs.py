"""Generates the Python stubs of topk.v1."""

import importlib
import pathlib
import shutil
import subprocess
import sys

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


def load_stubs(directory):
    """Returns the modules of the stubs in the directory: the messages by the
    short names of their files, and the services' stubs as "rpc"."""
    sys.path.insert(0, str(directory))
    names = ("topk", "tensor", "onnx", "openvino", "directml")
    modules = {
        name: importlib.import_module(f"topk.v1.{name}_pb2") for name in names
    }
    modules["rpc"] = importlib.import_module("topk.v1.topk_pb2_grpc")
    return modules
