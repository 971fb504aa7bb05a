"""Compares our kernels with ONNX Runtime, OpenVINO, NumPy and PyTorch. See
peers.sh.

All libraries use the same tensor and the same number of threads. They run
alternately, under the same conditions. Each library runs 30 times, or until
--seconds have passed, and its minimum time counts. Our result is compared, byte
for byte, with a stable sort by NumPy. Other results are not verified.
"""

import argparse
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import ml_dtypes
import numpy as np

import recorded
from stable_topk import stable_topk

HERE = pathlib.Path(__file__).parent
TURN = 0.05  # seconds
# The element types of ONNX TopK-24.
DTYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32,
          "f64": np.float64, "i8": np.int8, "i16": np.int16, "i32": np.int32,
          "i64": np.int64, "u8": np.uint8, "u16": np.uint16, "u32": np.uint32,
          "u64": np.uint64}


class Workload:
    """A line of workloads.cases."""

    def __init__(self, line):
        self.line = line
        name, tensor, axis, k, direction, _ = [
            field.strip() for field in line.split("|")]
        self.name = name
        self.type, shape = tensor.split(maxsplit=1)
        self.shape = [int(size) for size in re.findall(r"\d+", shape)]
        self.axis = int(axis) % len(self.shape)
        self.k = int(k)
        self.largest = direction == "largest"


class Topk:
    """Our kernels, in a separate process, so that no library is shared."""

    def __init__(self, program, threads, folder):
        self.data = os.path.join(folder, "data")
        self.outputs = [os.path.join(folder, name)
                        for name in ("values", "indices")]
        self.process = subprocess.Popen(
            [program, "--worker", f"--threads={threads}"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, **order):
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("topk_bench died")
        return json.loads(line)

    def load(self, workload):
        """Makes the tensor. Returns what runs it, and the tensor."""
        ran = self.ask(do="load", workload=workload.line, data=self.data)
        return ran, np.fromfile(self.data, DTYPES[workload.type]).reshape(
            workload.shape)

    def times(self, what, seconds, runs):
        done = self.ask(do=what, seconds=seconds, runs=runs)
        return done["min_us"], done["runs"]

    def verify(self, workload, x):
        self.ask(do="answer", values=self.outputs[0], indices=self.outputs[1])
        values, indices = stable_topk(x, workload.axis, workload.k,
                                      workload.largest)
        assert values.tobytes() == pathlib.Path(self.outputs[0]).read_bytes()
        assert (indices.astype(np.int64).tobytes()
                == pathlib.Path(self.outputs[1]).read_bytes())


def ort_call(workload, x, threads):
    import onnx
    import onnxruntime as ort
    from onnx import helper
    proto = {"f16": onnx.TensorProto.FLOAT16, "f32": onnx.TensorProto.FLOAT,
             "f64": onnx.TensorProto.DOUBLE, "u8": onnx.TensorProto.UINT8,
             "i8": onnx.TensorProto.INT8, "i32": onnx.TensorProto.INT32,
             "i64": onnx.TensorProto.INT64}
    if workload.type == "bf16":  # ONNX Runtime has no TopK for bf16
        x = x.astype(np.float32)
        element = onnx.TensorProto.FLOAT
    else:
        element = proto[workload.type]
    shape = list(workload.shape)
    out = shape.copy()
    out[workload.axis] = workload.k
    graph = helper.make_graph(
        [helper.make_node("TopK", ["x", "k"], ["v", "i"], axis=workload.axis,
                          largest=int(workload.largest), sorted=1)],
        "topk", [helper.make_tensor_value_info("x", element, shape)],
        [helper.make_tensor_value_info("v", element, out),
         helper.make_tensor_value_info("i", onnx.TensorProto.INT64, out)],
        [helper.make_tensor("k", onnx.TensorProto.INT64, [1], [workload.k])])
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = ort.InferenceSession(model.SerializeToString(), options,
                                   providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    values = np.empty(out, x.dtype)
    indices = np.empty(out, np.int64)
    keep = [ort.OrtValue.ortvalue_from_numpy(a) for a in (x, values, indices)]
    binding.bind_ortvalue_input("x", keep[0])
    binding.bind_ortvalue_output("v", keep[1])
    binding.bind_ortvalue_output("i", keep[2])
    return lambda: session.run_with_iobinding(binding)


def openvino_call(workload, x, threads):
    import openvino as ov
    from openvino import opset11
    if workload.type in ("u16", "i16", "u32", "u64"):
        raise TypeError("not run by its CPU plugin as such")
    bf16 = workload.type == "bf16"
    element = ov.Type.bf16 if bf16 else ov.Type(x.dtype)
    parameter = opset11.parameter(workload.shape, element)
    top = opset11.topk(parameter, opset11.constant(workload.k, np.int64),
                       workload.axis, "max" if workload.largest else "min",
                       "value", index_element_type="i64")
    model = ov.Model([top.output(0), top.output(1)], [parameter])
    compiled = ov.Core().compile_model(model, "CPU", {
        "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1,
        "INFERENCE_PRECISION_HINT":
            workload.type if workload.type in ("f16", "bf16") else "f32",
        "PERFORMANCE_HINT": "LATENCY"})
    request = compiled.create_infer_request()
    if bf16:
        tensor = ov.Tensor(x.view(np.uint16), ov.Shape(workload.shape),
                           ov.Type.bf16)
    else:
        tensor = ov.Tensor(x, shared_memory=True)
    request.set_input_tensor(0, tensor)
    return request.infer


def numpy_call(workload, x, threads):
    if workload.type == "bf16":
        raise TypeError("NumPy has no bfloat16")
    axis, k = workload.axis, workload.k

    def call():
        if k == x.shape[axis]:
            order = np.argsort(x, axis)
            if workload.largest:
                order = np.flip(order, axis)
            return np.take_along_axis(x, order, axis), order
        if workload.largest:
            part = np.argpartition(x, x.shape[axis] - k, axis)
            part = np.take(part, range(x.shape[axis] - k, x.shape[axis]), axis)
        else:
            part = np.take(np.argpartition(x, k, axis), range(k), axis)
        values = np.take_along_axis(x, part, axis)
        order = np.argsort(values, axis)
        if workload.largest:
            order = np.flip(order, axis)
        return (np.take_along_axis(values, order, axis),
                np.take_along_axis(part, order, axis))
    return call


def torch_call(workload, x, threads):
    import torch
    torch.set_num_threads(threads)
    if workload.type == "bf16":
        tensor = torch.from_numpy(x.view(np.int16)).view(torch.bfloat16)
    else:
        tensor = torch.from_numpy(x)
    values, indices = torch.topk(tensor, workload.k, workload.axis,
                                 workload.largest, True)
    return lambda: torch.topk(tensor, workload.k, workload.axis,
                              workload.largest, True, out=(values, indices))


PEERS = {"ort": ort_call, "openvino": openvino_call, "numpy": numpy_call,
         "torch": torch_call}


class Peer:
    """A library's call, and its minimum time so far."""

    def __init__(self, call):
        self.call = call
        self.best = math.inf
        self.runs = 0
        self.spent = 0.0
        self.call()  # warm up threads, memory and code

    def turn(self):
        """Runs for some milliseconds, at least once."""
        begin = time.perf_counter_ns()
        while True:
            start = time.perf_counter_ns()
            self.call()
            end = time.perf_counter_ns()
            self.best = min(self.best, (end - start) / 1e3)
            self.runs += 1
            if end - begin >= TURN * 1e9:
                break
        self.spent += (end - begin) / 1e9

    def done(self, seconds):
        return self.runs >= 30 or self.spent >= seconds


def measure(workload, topk, names, threads, seconds):
    ran, x = topk.load(workload)
    peers = {}
    for name in names:
        try:
            peers[name] = Peer(PEERS[name](workload, x, threads))
        except (ImportError, TypeError, KeyError, RuntimeError) as error:
            print(f"   {name} does not run {workload.name}: "
                  f"{str(error).splitlines()[0][:60]}", file=sys.stderr)
    ours = read = math.inf
    runs, turns = 0, 0
    while (runs < 30 or turns < 5
           or not all(peer.done(seconds) for peer in peers.values())):
        for what in ("read", "time"):
            least, count = topk.times(what, TURN, 3)
            if what == "read":
                read = min(read, least)
            else:
                ours = min(ours, least)
                runs += count
        for peer in peers.values():
            if not peer.done(seconds) or turns < 5:
                peer.turn()
        turns += 1
    topk.verify(workload, x)
    times = {name: round(peer.best, 2) for name, peer in peers.items()}
    best = min(times, key=times.get)
    return {"case": workload.name, "threads": threads, **ran,
            "topk_us": round(ours, 3),
            **{f"{name}_us": time for name, time in times.items()},
            "best_peer": best, "ratio": round(times[best] / ours, 2),
            "read_us": round(read, 2),
            "roofline_fraction": round(read / ours, 3)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--torch", action="store_true")
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--json")
    flags = parser.parse_args()
    names = [name for name in PEERS if name != "torch" or flags.torch]
    lines = [line.strip() for line in
             (HERE / "workloads.cases").read_text().splitlines()
             if line.strip() and not line.startswith("#")]
    workloads = [workload for workload in map(Workload, lines)
                 if workload.name.startswith(flags.only)
                 and workload.type in DTYPES]
    if not workloads:
        sys.exit(f"no case begins with {flags.only}")
    results = []
    record = recorded.recorder(flags.json, "tests/bench/peers.sh")
    with tempfile.TemporaryDirectory() as folder:
        topk = Topk(flags.program, flags.threads, folder)
        for workload in workloads:
            result = measure(workload, topk, names, flags.threads,
                             flags.seconds)
            results.append(result)
            record(result)
    table = [r for r in results if r["case"][0].isdigit()]
    if table:
        mean = statistics.geometric_mean(r["ratio"] for r in table)
        print(f"geometric mean of {len(table)}: {mean:.2f}")


if __name__ == "__main__":
    main()
