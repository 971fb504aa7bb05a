"""Calls the Open Inference Protocol and compares every result with NumPy's.
Retries until the time is up. Prints the counts as JSON.

usage: oip_caller.py HOST:PORT SECONDS SEED
"""

import collections
import json
import sys
import threading
import time

import grpc
import numpy as np

import topk_stubs

TYPES = {"FP32": np.float32, "FP16": np.float16, "INT64": np.int64,
         "INT32": np.int32, "UINT8": np.uint8}
DEADLINE = 20  # seconds for all attempts of a request
CALLERS = 4
PAUSE = 0.05
RETRYABLE = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED)


def make_request(rng, pb2):
    """Returns a request with a random tensor, and the expected output bytes."""
    name = rng.choice(list(TYPES))
    shape = (int(rng.integers(1, 9)), int(rng.integers(1, 20000)))
    k = int(rng.integers(1, min(100, shape[1]) + 1))
    x = rng.integers(0, 100, shape).astype(TYPES[name])  # many ties
    order = np.argsort(-x.astype(np.int64), axis=1, kind="stable")[:, :k]
    request = pb2.ModelInferRequest(
        model_name="onnx_topk", raw_input_contents=[x.tobytes()],
        inputs=[{"name": "X", "datatype": name, "shape": shape}])
    request.parameters["k"].int64_param = k
    return request, [np.take_along_axis(x, order, 1).tobytes(),
                     order.astype("<i8").tobytes()]


def call(stub, request, counts):
    """Calls until there is a response or the time is up. Returns the outputs,
    or None if there was no response."""
    deadline = time.monotonic() + DEADLINE
    pause = PAUSE
    while True:
        try:
            response = stub.ModelInfer(
                request, timeout=deadline - time.monotonic())
            return list(response.raw_output_contents)
        except grpc.RpcError as error:
            code = error.code()
            if code not in RETRYABLE or time.monotonic() + pause >= deadline:
                counts["lost", f"{code.name}: {error.details()}"] += 1
                return None
            counts["retryable", code.name] += 1
            time.sleep(pause)
            pause = min(1, 2 * pause)


def run(target, rpc, requests, end, seed, counts):
    rng = np.random.default_rng(seed)
    stub = rpc.GRPCInferenceServiceStub(grpc.insecure_channel(
        target, [("grpc.use_local_subchannel_pool", 1)]))
    while time.monotonic() < end:
        request, expected = requests[rng.integers(len(requests))]
        outputs = call(stub, request, counts)
        if outputs is not None:
            counts["requests"] += 1
            counts["wrong"] += outputs != expected
        time.sleep(PAUSE)


def main():
    target, seconds, seed = sys.argv[1:]
    messages, rpc = topk_stubs.load_oip_stubs()
    rng = np.random.default_rng(int(seed))
    requests = [make_request(rng, messages) for _ in range(100)]
    end = time.monotonic() + float(seconds)
    counts = [collections.Counter() for _ in range(CALLERS)]
    threads = [threading.Thread(target=run, args=(
        target, rpc, requests, end, i, counts[i]))
        for i in range(CALLERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    total = sum(counts, collections.Counter())
    row = {"requests": total["requests"], "wrong": total["wrong"], "lost": {},
           "retryable": {}}
    for key, count in total.items():
        if isinstance(key, tuple):
            row[key[0]][key[1]] = count
    json.dump(row, sys.stdout)


if __name__ == "__main__":
    main()
