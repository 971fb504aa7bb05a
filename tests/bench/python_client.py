"""Measures the calls per second of four Python clients with one topkd: ours,
the generated stub with NumPy, Triton's, and grpcio alone, which sends prepared
bytes and does not decode the responses. The clients run alternately in one
process, and the median of the rounds counts. Before that, the results of the
first three are compared with NumPy's.

usage: PYTHONPATH=tests/support/python build/oip/bin/python \
           tests/bench/python_client.py TOPKD
           [--rounds N] [--seconds S] [--json FILE]

`tests/support/venv.sh oip` creates the environment with Triton's client.
"""

import argparse
import statistics
import sys
import time

import recorded

parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
parser.add_argument("topkd")
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--seconds", type=float, default=1,
                    help="of each client in each round")
parser.add_argument("--json")
options = parser.parse_args()
record = recorded.recorder(options.json, "tests/bench/python_client.py")
sys.argv[1:] = [options.topkd]
import client_package  # noqa: E402, makes topk_client importable
import grpc  # noqa: E402
import numpy as np  # noqa: E402
import topk_client  # noqa: E402
import tritonclient.grpc as triton  # noqa: E402
from topk_client import Onnx, Request  # noqa: E402
from topk_client._stubs import tensor_pb2, topk_pb2  # noqa: E402
from topk_client.messages import Call, Response  # noqa: E402

K = 10
MANY = 4000  # requests per stream
SIZES = {"1 KiB": 1 << 10, "64 KiB": 1 << 16, "1 MiB": 1 << 20,
         "4 MiB": 4 << 20, "64 MiB": 64 << 20}
UNLIMITED = [("grpc.max_receive_message_length", -1),
             ("grpc.max_send_message_length", -1)]


def rate(call, count):
    """Returns the requests per second. Each call makes `count` requests."""
    calls, begin = 0, time.perf_counter()
    while True:
        call()
        calls += 1
        seconds = time.perf_counter() - begin
        if seconds > options.seconds:
            return calls * count / seconds


def measure(name, ways, count=1):
    for call in ways.values():
        call()
    rates = {way: [] for way in ways}
    for _ in range(options.rounds):
        for way, call in ways.items():
            rates[way].append(rate(call, count))
    rates = {way: statistics.median(turns) for way, turns in rates.items()}
    record({"tensor": name, **rates})


def check(answer, x):
    order = np.argsort(-x, kind="stable")[:K]
    if not (np.array_equal(answer.indices, order)
            and np.array_equal(answer.values, x[order])):
        raise SystemExit("wrong answer")


def triton_call(client, x):
    def call():
        tensor = triton.InferInput("X", x.shape, "FP32")
        tensor.set_data_from_numpy(x)
        result = client.infer("onnx_topk", [tensor], parameters={"k": K})
        return Response(
            result.as_numpy("values"), result.as_numpy("indices"), "", None)
    return call


def stub_request(x):
    request = topk_pb2.TopKRequest(tensor=tensor_pb2.Tensor(
        data_type=tensor_pb2.DATA_TYPE_F32, shape=x.shape, data=x.tobytes()))
    request.spec.dialect = topk_pb2.DIALECT_ONNX
    request.spec.version = 24
    request.onnx.k.value = K
    return request


def stub_answer(response):
    return Response(np.frombuffer(response.values.data, np.float32),
                  np.frombuffer(response.indices.data, np.int64), "", None)


def consume(results):
    for _ in results:
        pass


def main():
    server = client_package.start(
        lambda *_: None, "--max-message-bytes", str(128 << 20),
        "--allow-shared-memory")
    client = topk_client.Client(server.target)
    channel = grpc.insecure_channel(server.target, UNLIMITED)
    service = "/topk.v1.TopKService/"
    grpcio = channel.unary_unary(service + "ComputeTopK")
    grpcio_many = channel.stream_stream(service + "ComputeTopKMany")
    # Create the stubs as the generated code does.
    serialize = topk_pb2.TopKRequest.SerializeToString
    stub = channel.unary_unary(
        service + "ComputeTopK", serialize, topk_pb2.TopKResponse.FromString)
    stub_many = channel.stream_stream(
        service + "ComputeTopKMany", serialize, topk_pb2.TopKResult.FromString)
    tritons = triton.InferenceServerClient(server.target)
    random = np.random.default_rng(1)
    for name, size in SIZES.items():
        x = random.random(size // 4, np.float32)
        message = Call(Request(x, Onnx(K))).message()
        ways = {
            "topk_client": lambda x=x: client.compute_topk(x, Onnx(K)),
            "generated stub": lambda x=x: stub_answer(stub(stub_request(x))),
            "tritonclient": triton_call(tritons, x)}
        for call in ways.values():
            check(call(), x)
        ways["grpcio"] = lambda message=message: grpcio(message)
        measure(name, ways)
    x = random.random(256, np.float32)
    message = Call(Request(x, Onnx(K))).message()
    measure("1 KiB, many on a stream", {
        "topk_client": lambda: consume(client.compute_topk_many(
            Request(x, Onnx(K)) for _ in range(MANY))),
        "generated stub": lambda: consume(
            stub_answer(result.response) for result in stub_many(
                stub_request(x) for _ in range(MANY))),
        "grpcio": lambda: consume(grpcio_many(iter([message] * MANY)))}, MANY)
    with topk_client.SharedMemory(4 << 20) as memory:
        shared = memory.array((1 << 20,), np.float32)
        shared[...] = random.random(1 << 20, np.float32)
        region = memory.region(shared)
        check(client.compute_topk(region, Onnx(K)), shared)
        for stream, name in ((True, "4 MiB, streamed"),
                             (None, "4 MiB, in shared memory")):
            x = shared.copy() if stream else region
            measure(name, {
                "topk_client": lambda: client.compute_topk(
                    x, Onnx(K), stream=stream)})
        del shared, region, x
    server.__exit__()


main()
