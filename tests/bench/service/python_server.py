"""TopKService as users write it in Python: grpcio and ONNX Runtime.

usage: python_server.py PROTO_FOLDER READY_FILE

Serves ComputeTopK for f32 by ONNX-11 and writes its address into the file. The
settings are the defaults of grpcio and ONNX Runtime, except that large messages
are accepted.
"""

import concurrent.futures
import functools
import os
import pathlib
import sys
import tempfile

import grpc
import grpc_tools.protoc
import numpy as np
import onnx
import onnxruntime as ort

from topk_model import topk_model


def make_stubs(protos, folder):
    """Generates the contract's modules into a folder and imports from there."""
    names = [str(path.relative_to(protos)) for part in ("topk", "google")
             for path in sorted((protos / part).rglob("*.proto"))]
    out = [f"--python_out={folder}", f"--grpc_python_out={folder}"]
    if grpc_tools.protoc.main(["protoc", f"-I{protos}", *out, *names]):
        sys.exit("protoc failed")
    sys.path.insert(0, folder)


@functools.lru_cache(maxsize=64)
def session(shape, k):
    """Returns a session for tensors of a shape; made at its first request."""
    return ort.InferenceSession(topk_model(onnx.TensorProto.FLOAT, shape, k),
                                providers=["CPUExecutionProvider"])


def compute(request, _):
    from topk.v1 import tensor_pb2, topk_pb2
    shape = tuple(request.tensor.shape)
    x = np.frombuffer(request.tensor.data, np.float32).reshape(shape)
    values, indices = session(shape, request.onnx.k.value).run(None, {"x": x})
    return topk_pb2.TopKResponse(
        values={"data_type": tensor_pb2.DATA_TYPE_F32, "shape": values.shape,
                "data": values.tobytes()},
        indices={"data_type": tensor_pb2.DATA_TYPE_I64, "shape": indices.shape,
                 "data": indices.tobytes()})


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    protos, ready = map(pathlib.Path, sys.argv[1:])
    with tempfile.TemporaryDirectory() as folder:
        make_stubs(protos.resolve(), folder)
        from topk.v1 import topk_pb2_grpc
    servicer = type("Servicer", (topk_pb2_grpc.TopKServiceServicer,),
                    {"ComputeTopK": staticmethod(compute)})
    server = grpc.server(
        concurrent.futures.ThreadPoolExecutor(8),
        options=[("grpc.max_receive_message_length", -1),
                 ("grpc.max_send_message_length", -1)])
    topk_pb2_grpc.add_TopKServiceServicer_to_server(servicer(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    new = ready.with_suffix(".new")
    new.write_text(f"127.0.0.1:{port}\n", "utf-8")
    os.replace(new, ready)
    server.wait_for_termination()


if __name__ == "__main__":
    main()
