"""Generates the Python stubs of topk.v1 and starts a server for a test."""

import importlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

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


class Server:
    """A topkd on a free loopback port, stopped at the end of a with block."""

    def __init__(self, topkd, directory, *flags, **environment):
        self._killed = False
        ready = os.path.join(directory, "ready.json")
        self._process = subprocess.Popen(
            [topkd, "--listen", "127.0.0.1:0", "--ready-file", ready,
             "--log-level", "warn", *flags],
            env=dict(os.environ, **environment))
        self.pid = self._process.pid
        for _ in range(600):  # a loaded machine may take seconds to start one
            if os.path.exists(ready):
                break
            if self._process.poll() is not None:
                raise RuntimeError(f"topkd exited {self._process.returncode}")
            time.sleep(0.05)
        else:
            self._process.kill()
            raise RuntimeError("topkd did not become ready")
        with open(ready, encoding="utf-8") as file:
            self.addresses = json.load(file)
        self.target = self.addresses["listen"][0]

    def __enter__(self):
        return self

    def kill(self):
        """Ends it as a crash would."""
        self._killed = True
        self._process.kill()

    def __exit__(self, *_):
        self._process.terminate()
        code = self._process.wait(timeout=60)
        if code != 0 and not self._killed:
            raise RuntimeError(f"topkd exited {code} on SIGTERM")
