"""Compares topkd with Triton, which runs ONNX Runtime's TopK through PyTriton.
Both receive the same requests from Triton's Python client. See triton.sh.
"""

import argparse
import multiprocessing
import os
import pathlib
import statistics
import time

import harness
import numpy as np
import recorded
import tritonclient.grpc as triton

K = 10
SIZES = {"1 KiB": 1 << 10, "64 KiB": 1 << 16, "1 MiB": 1 << 20,
         "4 MiB": 4 << 20}
CALLERS = (1, 4)
ROUNDS = 3  # of which the median counts
SECONDS = 3  # of each measurement
SPAWN = multiprocessing.get_context("spawn")


def model():
    """Returns an ONNX model with the inputs X and K."""
    from onnx import TensorProto, helper
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("TopK", ["X", "K"], ["values", "indices"])], "topk",
        [value("X", TensorProto.FLOAT, ["n"]),
         value("K", TensorProto.INT64, [1])],
        [value("values", TensorProto.FLOAT, ["k"]),
         value("indices", TensorProto.INT64, ["k"])])
    return helper.make_model(
        graph, ir_version=8, opset_imports=[helper.make_opsetid("", 11)])


def serve(ports, ready, done):
    """Runs Triton until `done` is set."""
    import onnxruntime
    from pytriton.model_config import ModelConfig, Tensor
    from pytriton.triton import Triton, TritonConfig
    session = onnxruntime.InferenceSession(model().SerializeToString())
    names = ("values", "indices")

    def infer(requests):
        return [dict(zip(names, session.run(
            names, {"X": request["X"], "K": request["K"]})))
            for request in requests]

    local = "127.0.0.1"
    with Triton(config=TritonConfig(
            http_address=local, http_port=ports[0], grpc_address=local,
            grpc_port=ports[1], metrics_address=local,
            metrics_port=ports[2])) as server:
        server.bind(
            "onnx_topk", [infer] * os.cpu_count(),
            [Tensor(name="X", dtype=np.float32, shape=(-1,)),
             Tensor(name="K", dtype=np.int64, shape=(1,))],
            [Tensor(name="values", dtype=np.float32, shape=(-1,)),
             Tensor(name="indices", dtype=np.int64, shape=(-1,))],
            config=ModelConfig(batching=False))
        server.run()
        ready.set()
        done.wait()


def call_repeatedly(target, size, start, counts):
    """Puts the calls per second after `start` into `counts`."""
    x = np.random.default_rng(1).random(size // 4, np.float32)
    inputs = [triton.InferInput("X", x.shape, "FP32").set_data_from_numpy(x),
              triton.InferInput("K", (1,), "INT64").set_data_from_numpy(
                  np.array([K]))]
    client = triton.InferenceServerClient(target)
    result = client.infer("onnx_topk", inputs)
    order = np.argsort(-x, kind="stable")[:K]
    if not (np.array_equal(result.as_numpy("indices"), order)
            and np.array_equal(result.as_numpy("values"), x[order])):
        start.abort()
        raise SystemExit(f"wrong answer from {target}")
    start.wait(60)
    calls, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < SECONDS:
        client.infer("onnx_topk", inputs)
        calls += 1
    counts.put(calls / (time.perf_counter() - begin))


def rate(target, size, callers):
    """Returns the calls per second of all callers, each of which is a process.
    """
    start, counts = SPAWN.Barrier(callers), SPAWN.Queue()
    processes = [SPAWN.Process(target=call_repeatedly, args=(
        target, size, start, counts)) for _ in range(callers)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        if process.exitcode != 0:
            raise SystemExit("a caller failed")
    return sum(counts.get() for _ in range(callers))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("--json")
    options = parser.parse_args()
    record = recorded.recorder(options.json, "tests/bench/triton.sh")
    ports, ready, done = harness.free_ports(3), SPAWN.Event(), SPAWN.Event()
    server = SPAWN.Process(target=serve, args=(ports, ready, done))
    server.start()
    try:
        if not ready.wait(120):
            raise SystemExit("Triton did not start within 120 s")
        with harness.Server(options.programs / "topkd") as topkd:
            targets = {"topkd": topkd.target,
                       "triton": f"127.0.0.1:{ports[1]}"}
            for name, size in SIZES.items():
                for callers in CALLERS:
                    turns = [{which: rate(target, size, callers)
                              for which, target in targets.items()}
                             for _ in range(ROUNDS)]
                    rates = {which: round(statistics.median(
                        turn[which] for turn in turns), 1)
                        for which in targets}
                    record({"tensor": name, "callers": callers, **rates})
    finally:
        done.set()
        server.join()


if __name__ == "__main__":
    main()
