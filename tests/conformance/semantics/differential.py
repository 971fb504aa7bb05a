"""Compares topkd's results with those of ONNX Runtime, onnx's reference
evaluator and OpenVINO, and its encodings of small types with OpenVINO's.

usage: differential.py TOPKD [--count N] [--seed S]

Exits with 1 if a result differs in any byte. The requests avoid the differences
that are listed in core/dialects/README.md.
"""

import argparse
import math
import random
import sys

import ml_dtypes
import numpy as np
import onnx
import onnx.reference
import onnxruntime
import openvino
from openvino import opset1, opset3, opset11

import client_package
import harness
import topk_client
from topk_client import Onnx, OpenVINO, _dtypes

TYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32,
         "f64": np.float64, "i8": np.int8, "i16": np.int16, "i32": np.int32,
         "i64": np.int64, "u8": np.uint8, "u16": np.uint16, "u32": np.uint32,
         "u64": np.uint64}
# Element types for which ONNX Runtime has no TopK.
LACKING = {"bf16", "i16", "u16", "u32", "u64"}

# Small types with the number that each code represents.
NF4 = (-1.0, -0.6961928, -0.52507305, -0.3949175, -0.28444138, -0.18477343,
       -0.09105004, 0.0, 0.0795803, 0.1609302, 0.2461123, 0.33791524,
       0.44070983, 0.562617, 0.72295684, 1.0)
SMALL = {"nf4": np.array(NF4),
         "i4": (np.arange(16) ^ 8) - 8,
         **{f"u{width}": np.arange(1 << width) for width in (1, 2, 3, 4, 6)},
         **{name: np.arange(1 << int(name[1]), dtype=np.uint8).view(
             getattr(ml_dtypes, dtype)).astype(np.float64)
            for name, dtype in (("f4e2m1", "float4_e2m1fn"),
                                ("f8e4m3", "float8_e4m3fn"),
                                ("f8e5m2", "float8_e5m2"),
                                ("f8e8m0", "float8_e8m0fnu"))}}
# The examples in tensor.proto: numbers, our encoding, and that of OpenVINO
# releases up to 2026.4.
OTHER_ENCODINGS = {"u3": ([1, 2, 3, 4, 5, 6, 7, 0], "d1581f", "6c6c1e"),
                   "u6": ([33, 18, 63, 44], "a1f4b3", "12fc9e")}

onnxruntime.set_default_logger_severity(4)
CORE = openvino.Core()


def onnx_model(x, spec):
    """Returns a model that consists of the operator."""
    element = onnx.helper.np_dtype_to_tensor_dtype(x.dtype)
    attributes = {"axis": spec.axis}
    inputs, constants = ["x"], []
    if spec.version == 1:
        attributes["k"] = spec.k
    else:
        inputs.append("k")
        constants.append(onnx.numpy_helper.from_array(np.array([spec.k]), "k"))
    if spec.version > 10:
        attributes |= {"largest": spec.largest, "sorted": spec.sorted}
    info = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("TopK", inputs, ["v", "i"], **attributes)],
        "topk", [info("x", element, x.shape)],
        [info("v", element, None), info("i", onnx.TensorProto.INT64, None)],
        constants)
    return onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", spec.version)],
        ir_version=10)


def onnx_runtime(x, spec):
    return onnxruntime.InferenceSession(
        onnx_model(x, spec).SerializeToString(),
        providers=["CPUExecutionProvider"]).run(None, {"x": x})


def onnx_reference(x, spec):
    return onnx.reference.ReferenceEvaluator(onnx_model(x, spec)).run(
        None, {"x": x})


def openvino_cpu(x, spec):
    kind = (openvino.Type.bf16 if x.dtype.name == "bfloat16"
            else openvino.Type(x.dtype))
    parameter = opset11.parameter(list(x.shape), kind)
    common = (parameter, opset11.constant(np.array(spec.k)), spec.axis,
              spec.mode, spec.sort)
    index = spec.index_element_type
    node = (opset1.topk(*common) if spec.version == 1 else
            opset3.topk(*common, index) if spec.version == 3 else
            opset11.topk(*common, index, spec.stable))
    # f32, because processors with bf16 would round to bf16.
    call = CORE.compile_model(
        openvino.Model(node.outputs(), [parameter]), "CPU",
        {"INFERENCE_PRECISION_HINT": "f32"}).create_infer_request()
    tensor = openvino.Tensor(kind, list(x.shape))
    tensor.data.view(np.uint8)[...] = x.view(np.uint8)
    call.set_input_tensor(tensor)
    call.infer()
    values, indices = (call.get_output_tensor(i).data for i in (0, 1))
    return values.view(x.dtype), indices


def random_request(chance):
    """Returns a tensor, a spec, and the libraries that must agree."""
    onnx_version = chance.choice((1, 10, 11, 24, None))
    names = {None: list(TYPES), 1: ["f32", "f64"], 10: ["f16", "f32", "f64"],
             11: [name for name in TYPES if name != "bf16"],
             24: list(TYPES)}[onnx_version]
    name = chance.choice(names)
    rank = chance.randint(1, 3)
    shape = [chance.randint(1, (200, 14, 5)[rank - 1]) for _ in range(rank)]
    axis = chance.randrange(-rank, rank)
    k = chance.randint(1, shape[axis])
    ties = chance.random() < 0.5
    count = math.prod(shape)
    few = [0, 1, 2, 3]
    if name[0] in "fb":
        few += [-1, -0.0]
        if name != "f64":  # OpenVINO replaces infinities of this type
            few += [math.inf, -math.inf]
    low = 0 if name[0] == "u" else -100
    numbers = (chance.choices(few, k=count) if ties else
               chance.sample(range(low, low + 200), count))
    x = np.array(numbers).astype(TYPES[name]).reshape(shape)
    if onnx_version is not None:
        flags = ({} if onnx_version < 11 else
                 {"largest": chance.randrange(2), "sorted": chance.randrange(2)})
        return x, Onnx(k, axis, version=onnx_version, **flags), (
            [onnx_reference] if name in LACKING else
            [onnx_runtime, onnx_reference])
    version = chance.choice((1, 3, 11))
    sort = chance.choice(("value", "index", "none"))
    if ties:  # otherwise, OpenVINO may select any of them
        version, sort = 11, "value"
    stable = ties or (version == 11 and sort != "none" and
                      chance.random() < 0.5)
    spec = OpenVINO(k, axis, chance.choice(("max", "min")), sort,
                    "i32" if version == 1 else chance.choice(("i32", "i64")),
                    version=version, **({"stable": True} if stable else {}))
    return x, spec, [openvino_cpu]


def in_any_order(spec):
    return not spec.sorted if isinstance(spec, Onnx) else spec.sort == "none"


def check(client, x, spec, libraries):
    """Compares a result. Returns the number of libraries that differ."""
    answer = client.compute_topk(x, spec)
    failed = 0
    for library in libraries:
        results = [answer.values, answer.indices], list(library(x, spec))
        if in_any_order(spec):
            for result in results:
                order = np.argsort(result[1], spec.axis)
                result[:] = (np.take_along_axis(one, order, spec.axis)
                             for one in result)
        ours, theirs = ([(one.dtype, one.shape, one.tobytes())
                         for one in result] for result in results)
        if ours != theirs:
            failed += 1
            print(f"{library.__name__} differs: {spec}, {x!r}\n"
                  f"topkd: {results[0]}\nlibrary: {results[1]}")
    return failed


def check_small(client, name):
    """Compares the encoding and the order of a small type. Returns whether they
    differ."""
    def packed(codes):
        return (codes if name.startswith("f8") else
                _dtypes.pack(codes, name)).tobytes()

    def theirs(numbers):
        return openvino.op.Constant(
            getattr(openvino.Type, name), openvino.Shape([len(numbers)]),
            numbers).data.tobytes()

    codes = np.random.default_rng(7).permutation(len(SMALL[name]))
    # Add an element, so that the last byte is not full.
    codes = np.append(codes, codes[:1]).astype(np.uint8)
    codes = codes[~np.isnan(SMALL[name][codes])]  # OpenVINO has one code for NaN
    numbers = SMALL[name][codes]
    answer = client.compute_topk(
        codes, OpenVINO(len(codes), 0, "max", "value"), data_type=name)
    order = np.argsort(-(numbers + 0.0), kind="stable")  # -0 is equal to 0
    same = np.array_equal(answer.indices, order)
    if name in OTHER_ENCODINGS:
        example, ours, other = OTHER_ENCODINGS[name]
        same &= packed(np.array(example, np.uint8)).hex() == ours
        same &= theirs(example).hex() in (ours, other)
    else:
        same &= packed(codes) == theirs(numbers.tolist())
    if not same:
        print(f"{name} has another encoding or order in OpenVINO")
    return not same


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=700)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    with harness.Server(client_package.TOPKD) as server, topk_client.Client(
            server.target) as client:
        failed = sum(check_small(client, name) for name in SMALL)
        failed += sum(check(client, *random_request(chance))
                      for _ in range(options.count))
    print(f"{options.count} requests and {len(SMALL)} small types, "
          f"{failed} differences")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
