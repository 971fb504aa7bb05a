"""A Python client with generated stubs against a NumPy oracle.

Sends random requests over every dialect, version, type, axis, k and order to a
real server and compares the bytes of every answer with NumPy's lexsort on (key,
index). Most go through ComputeTopK, some through StreamTopK cut at random and
ComputeTopKMany.

usage: numpy_oracle_test.py TOPKD [--count N] [--seed S]
"""

import argparse
import random

import grpc
import numpy as np

import harness
import topk_stubs

# name, NumPy's type of the bits, whether it is a float
TYPES = {
    "F16": np.float16, "BF16": np.uint16, "F32": np.float32,
    "F64": np.float64, "I8": np.int8, "I16": np.int16, "I32": np.int32,
    "I64": np.int64, "U8": np.uint8, "U16": np.uint16, "U32": np.uint32,
    "U64": np.uint64,
}
# OpenVINO's own: how many bits; a code is a uint8 here.
SMALL = {"U1": 1, "U2": 2, "U3": 3, "U4": 4, "U6": 6, "I4": 4, "NF4": 4,
         "F4E2M1": 4, "F8E4M3": 8, "F8E5M2": 8, "F8E8M0": 8}
ONNX_1 = ["F16", "F32", "F64"]
ONNX_11 = [name for name in TYPES if name != "BF16"]
DML_1_0 = ["F16", "F32"]
DML_2_1 = DML_1_0 + ["I8", "I16", "I32", "U8", "U16", "U32"]
DML_5_0 = DML_2_1 + ["I64", "U64"]


def numbers(array, name):
    """Returns what the bits mean, as values that NumPy orders."""
    if name == "BF16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    if name in SMALL and name[0] != "U":
        codes = range(1 << SMALL[name])
        return np.array([meaning(name, c) for c in codes])[array]
    return array


def meaning(name, code):
    """Returns the number that a code of a small type stands for."""
    if name == "I4":
        return code - 16 if code > 7 else code
    if name == "NF4":
        return code  # its values ascend with the codes
    if name == "F8E8M0":
        return float("nan") if code == 255 else 2.0 ** (code - 127)
    e, m = int(name[3]), int(name[5])
    bias = 2 ** (e - 1) - 1
    exponent, mantissa = code >> m & 2**e - 1, code & 2**m - 1
    magnitude = (mantissa * 2.0 ** (1 - bias - m) if exponent == 0 else
                 (2**m + mantissa) * 2.0 ** (exponent - bias - m))
    if name == "F8E5M2" and exponent == 31:
        magnitude = float("nan") if mantissa else float("inf")
    if name == "F8E4M3" and code & 127 == 127:
        magnitude = float("nan")
    return -magnitude if code >> (e + m) else magnitude


def wire(array, name):
    """Returns the bytes of an array, those of a small type packed."""
    width = SMALL.get(name, 8)
    if width == 8:
        return np.ascontiguousarray(array).tobytes()
    number = 0  # whose bits are all elements', the first the lowest
    flat = [int(code) for code in array.reshape(-1)]
    if name == "U1":  # the highest first of each byte
        flat += [0] * (-len(flat) % 8)
        flat = [flat[i ^ 7] for i in range(len(flat))]
    for i, code in enumerate(flat):
        number |= code << i * width
    return number.to_bytes(-(-len(flat) * width // 8), "little")


def oracle(array, name, axis, k, largest, by_index):
    """Returns (values, indices) along the axis: lexsort on key, then index."""
    x = np.moveaxis(numbers(array, name), axis, -1)
    bits = np.moveaxis(array, axis, -1)
    index = np.broadcast_to(np.arange(x.shape[-1]), x.shape)
    if x.dtype.kind == "f":
        nan = np.isnan(x)
        # -(x) of a zero is a zero, and NumPy's sort takes -0 == +0.
        value = np.where(nan, 0, -x if largest else x)
        keys = (index, value, ~nan if largest else nan)
    else:
        keys = (index, ~x if largest else x)  # ~ reverses every integer order
    order = np.lexsort(keys, axis=-1)[..., :k]
    if by_index:
        order = np.sort(order, axis=-1)
    values = np.take_along_axis(bits, order, -1)
    return np.moveaxis(values, -1, axis), np.moveaxis(order, -1, axis)


def random_array(rng, name, shape):
    """Returns random elements, often with ties, NaNs, zeros and extremes."""
    kind = TYPES[name]
    size = int(np.prod(shape))
    width = np.dtype(kind).itemsize
    pattern = rng.integers(4)
    if pattern == 0:  # random bits: NaNs with payloads among them
        return rng.bytes(size * width), kind
    if pattern == 1 and np.dtype(kind).kind == "f":
        few = np.array([-np.inf, -1, -0.0, 0.0, 1, np.inf, np.nan, -np.nan],
                       kind)
        return rng.choice(few, size).tobytes(), kind
    if pattern == 1 and name == "BF16":
        few = np.array([0xFF80, 0xBF80, 0x8000, 0, 0x3F80, 0x7F80, 0x7FC0,
                        0xFFC1], np.uint16)
        return rng.choice(few, size).tobytes(), kind
    if pattern == 2:  # ties
        return rng.integers(0, 3, size).astype(kind).tobytes(), kind
    if np.dtype(kind).kind == "f":
        return rng.standard_normal(size).astype(kind).tobytes(), kind
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    return rng.integers(low, high, size, kind, endpoint=True).tobytes(), kind


class Maker:
    """Makes random requests with their expected answers."""

    def __init__(self, stubs, seed):
        self.rng = np.random.default_rng(seed)
        self.m = stubs
        self.makers = (
            [(self.onnx, v) for v in (1, 10, 11, 24)]
            + [(self.openvino, v) for v in (1, 3, 11)]
            + [(self.directml, v) for v in (0, 1)])

    def make(self, number):
        """Returns (request, values bytes, indices bytes, output shape)."""
        maker, version = self.makers[number % len(self.makers)]
        request = self.m["topk"].TopKRequest(request_id=f"r{number}")
        request.spec.version = version
        return maker(version, request)

    def pick(self, choices):
        return choices[int(self.rng.integers(len(choices)))]

    def shape(self, low=1, high=4):
        rank = int(self.rng.integers(low, high + 1))
        if rank == 1 and self.rng.integers(4) == 0:
            return [int(self.rng.integers(1, 5000))]
        limit = {1: 60, 2: 24, 3: 10}.get(rank, 6 if rank < 6 else 3)
        return [int(n) for n in self.rng.integers(1, limit + 1, rank)]

    def tensor(self, request, name, shape):
        if name in SMALL:
            codes = self.rng.integers(0, 1 << SMALL[name], shape, np.uint8)
            data, kind = codes.tobytes(), np.uint8
        else:
            data, kind = random_array(self.rng, name, shape)
        tensor = request.tensor
        tensor.data_type = getattr(self.m["tensor"], f"DATA_TYPE_{name}")
        tensor.shape.extend(shape)
        array = np.frombuffer(data, kind).reshape(shape)
        tensor.data = wire(array, name)
        return array

    def k_of(self, n):
        return int(self.pick([1, n, self.rng.integers(1, n + 1)]))

    def finish(self, request, array, name, axis, k, largest, by_index, kind):
        values, indices = oracle(array, name, axis, k, largest, by_index)
        if self.rng.integers(4) == 0:
            request.index_offset = int(self.rng.integers(0, 2**20))
        indices = (indices + request.index_offset).astype(kind)
        return (request, wire(values, name),
                np.ascontiguousarray(indices).tobytes(), list(values.shape))

    def onnx(self, version, request):
        request.spec.dialect = self.m["topk"].DIALECT_ONNX
        shape = self.shape()
        name = self.pick(ONNX_1 if version < 11 else
                         ONNX_11 if version == 11 else list(TYPES))
        array = self.tensor(request, name, shape)
        attributes = request.onnx
        axis = -1
        if self.rng.integers(2):
            axis = int(self.rng.integers(-len(shape), len(shape)))
            attributes.axis = axis
        k = self.k_of(shape[axis])
        if version > 1 and self.rng.integers(2):
            attributes.k.tensor.data_type = self.m["tensor"].DATA_TYPE_I64
            attributes.k.tensor.shape.append(1)
            attributes.k.tensor.data = np.int64(k).tobytes()
        else:
            attributes.k.value = k
        largest = True
        if version >= 11:
            if self.rng.integers(2):
                largest = bool(self.rng.integers(2))
                attributes.largest = int(largest)
            if self.rng.integers(2):
                attributes.sorted = int(self.rng.integers(2))
        return self.finish(request, array, name, axis, k, largest, False,
                           np.int64)

    def openvino(self, version, request):
        request.spec.dialect = self.m["topk"].DIALECT_OPENVINO
        shape = self.shape()
        name = self.pick(list(SMALL if self.rng.integers(2) else TYPES))
        array = self.tensor(request, name, shape)
        attributes = request.openvino
        axis = int(self.rng.integers(-len(shape), len(shape)))
        attributes.axis = axis
        attributes.mode = self.pick(["min", "max"])
        attributes.sort = self.pick(["value", "index", "none"])
        k = self.k_of(shape[axis])
        if self.rng.integers(2) and k < 128:
            kinds = ["I8", "I32", "I64"]
            if version > 1:
                kinds += ["U8", "I16", "U16", "U32", "U64"]
            kind = self.pick(kinds)
            attributes.k.tensor.data_type = getattr(self.m["tensor"],
                                                    f"DATA_TYPE_{kind}")
            attributes.k.tensor.data = TYPES[kind](k).tobytes()
        else:
            attributes.k.value = k
        kind = np.int32
        if version > 1 and self.rng.integers(2):
            attributes.index_element_type = self.pick(["i32", "i64"])
            if attributes.index_element_type == "i64":
                kind = np.int64
        if version == 11 and attributes.sort != "none":
            attributes.stable = bool(self.rng.integers(2))
        return self.finish(request, array, name, axis, k,
                           attributes.mode == "max",
                           attributes.sort == "index", kind)

    def directml(self, version, request):
        request.spec.dialect = self.m["topk"].DIALECT_DIRECTML
        dml = self.m["directml"]
        level = self.pick([0, dml.FEATURE_LEVEL_2_1, dml.FEATURE_LEVEL_3_0,
                           dml.FEATURE_LEVEL_3_1, dml.FEATURE_LEVEL_4_1,
                           dml.FEATURE_LEVEL_5_0, dml.FEATURE_LEVEL_6_4]
                          + ([dml.FEATURE_LEVEL_1_0, dml.FEATURE_LEVEL_2_0]
                             if version == 0 else []))
        attributes = request.directml
        attributes.feature_level = level
        new = level == 0 or level >= dml.FEATURE_LEVEL_5_0
        old = 0 < level < dml.FEATURE_LEVEL_3_1
        shape = self.shape(4, 4) if old else self.shape(1, 8)
        name = self.pick(
            DML_5_0 if new else
            DML_1_0 if 0 < level < dml.FEATURE_LEVEL_2_1 else DML_2_1)
        array = self.tensor(request, name, shape)
        if self.rng.integers(3) == 0:
            array = self.restride(request, array)
        attributes.axis = int(self.rng.integers(len(shape)))
        k = attributes.k = self.k_of(shape[attributes.axis])
        largest = True
        if version == 1:
            largest = bool(self.rng.integers(2))
            attributes.axis_direction = (dml.AXIS_DIRECTION_DECREASING
                                         if largest else
                                         dml.AXIS_DIRECTION_INCREASING)
        kind = np.uint32
        if new and self.rng.integers(2):
            attributes.output_index.data_type = (
                self.m["tensor"].DATA_TYPE_U64)
            kind = np.uint64
        return self.finish(request, array, name, attributes.axis, k, largest,
                           False, kind)

    def restride(self, request, array):
        """Gives the input other strides: permuted, padded, or 0."""
        shape = array.shape
        strides = np.zeros(len(shape), int)
        step = 1
        for d in self.rng.permutation(len(shape)):
            if self.rng.integers(6) == 0:
                continue  # stride 0: one element repeated
            strides[d] = step
            step = step * shape[d] + int(self.rng.integers(3))
        size = int(sum((n - 1) * s for n, s in zip(shape, strides)) + 1)
        width = array.dtype.itemsize
        base = np.frombuffer(self.rng.bytes(size * width), array.dtype)
        data = base.tobytes()
        if self.rng.integers(2):
            data += bytes(-len(data) % 4)
        request.tensor.data = data
        request.tensor.strides.extend(int(s) for s in strides)
        return np.lib.stride_tricks.as_strided(base, shape, strides * width)


def stream(stub, m, request, rng):
    """Sends the request through StreamTopK, cut at random."""
    header = m["topk"].TopKRequest()
    header.CopyFrom(request)
    header.tensor.ClearField("data")
    data = request.tensor.data

    def chunks():
        yield m["topk"].TopKRequestChunk(header=header)
        begin = 0
        while begin < len(data):
            end = begin + rng.randint(1, max(1, len(data)))
            yield m["topk"].TopKRequestChunk(data=data[begin:end])
            begin = end

    answer = None
    for chunk in stub.StreamTopK(chunks()):
        kind = chunk.WhichOneof("content")
        if kind == "header":
            answer = chunk.header
        else:
            tensor = getattr(answer, kind)
            tensor.data = tensor.data + getattr(chunk, kind)
    return answer


def check(number, made, answer):
    """Raises unless the answer has the expected bytes."""
    request, values, indices, shape = made
    if (answer.values.data, answer.indices.data) != (values, indices) or list(
            answer.values.shape) != shape or list(
                answer.indices.shape) != shape or (
                    answer.request_id != request.request_id):
        raise AssertionError(f"request {number} differs:\n{request}\n"
                             f"answer:\n{answer}\nexpected shape {shape}, "
                             f"values {values!r}, indices {indices!r}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("topkd")
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=20261121)
    args = parser.parse_args()
    print(f"seed {args.seed}")
    m = topk_stubs.load_stubs()
    maker = Maker(m, args.seed)
    rng = random.Random(args.seed)
    with harness.Server(args.topkd) as server, \
            grpc.insecure_channel(server.target) as channel:
        stub = m["rpc"].TopKServiceStub(channel)
        many = []
        for number in range(args.count):
            made = maker.make(number)
            way = rng.randrange(8)
            if way == 0:
                check(number, made, stream(stub, m, made[0], rng))
            elif way == 1:
                many.append((number, made))
            else:
                check(number, made, stub.ComputeTopK(made[0]))
        results = stub.ComputeTopKMany(made[0] for _, made in many)
        for (number, made), result in zip(many, results, strict=True):
            check(number, made, result.response)
    print(f"{args.count} passed, 0 failed")


if __name__ == "__main__":
    main()
