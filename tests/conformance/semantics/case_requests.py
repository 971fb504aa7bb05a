"""Requests for differential.py, from tests/conformance/cases and random."""

import math
import pathlib
import re

import numpy as np
from google.protobuf import text_format

from stable_topk import DTYPES

CASES = pathlib.Path(__file__).parents[1] / "cases"


def _element(word, dtype):
    """Returns the bytes of an element."""
    if word.startswith("0x"):
        return int(word, 16).to_bytes(dtype.itemsize, "little")
    number = int(word) if dtype.kind in "iu" else float(word)
    return np.array([number]).astype(dtype).tobytes()


def _data(text, dtype, count):
    """Parses the data column. `random` returns other bytes than in C++, which
    does not matter, because results are compared for the same request."""
    words = text.split()
    if words[0] == "zeros":
        return bytes(count * dtype.itemsize)
    if words[0] == "random":
        return np.random.default_rng(int(words[1])).bytes(
            count * dtype.itemsize)
    if words[0] == "bytes":
        return bytes(int(words[1]))
    data = b""
    for word in words:
        first, dots, last = word.partition("..")
        if not dots:
            data += _element(word, dtype)
            continue
        step = 1 if int(first) <= int(last) else -1
        for number in range(int(first), int(last) + step, step):
            data += _element(str(number), dtype)
    return data


def from_files(messages):
    """Yields (name, request) for each line whose operator and element type have
    names. tests/support/case_file.h explains the columns."""
    for path in sorted(CASES.glob("*.cases")):
        for line in path.read_text(encoding="utf-8").splitlines():
            if not line or line.startswith("#"):
                continue
            name, spec, tensor, rest, data, _ = [
                column.strip() for column in line.split(" | ")]
            dialect, version = spec.split()
            kind, shape = tensor.split(maxsplit=1)
            if kind not in DTYPES or dialect.isdigit():
                continue
            request = messages["topk"].TopKRequest()
            text_format.Parse(rest, request)
            request.spec.dialect = getattr(messages["topk"],
                                           f"DIALECT_{dialect.upper()}")
            request.spec.version = int(version)
            request.tensor.data_type = getattr(messages["tensor"],
                                               f"DATA_TYPE_{kind.upper()}")
            sizes = [int(size) for size in re.findall(r"-?\d+", shape)]
            request.tensor.shape.extend(sizes)
            if request.tensor.WhichOneof("source") is None:
                request.tensor.data = _data(data, np.dtype(DTYPES[kind]),
                                            math.prod(sizes))
            yield f"{path.stem}/{name}", request


def _array(rng, dtype, shape, hard):
    """Returns random elements. If `hard`, they may have any bits. Otherwise,
    there are no ties or NaNs, and libraries should agree on the order."""
    count = math.prod(shape)
    if not hard:
        low = 0 if dtype.kind == "u" else -100
        # Distinct in each slice, for any axis.
        return (low + rng.permutation(200)[:count]).astype(dtype)
    family = rng.integers(3)
    if family == 0:
        return np.frombuffer(rng.bytes(count * dtype.itemsize), dtype)
    few = [0, 1, 2, 3]
    if dtype.kind not in "iu":
        few = [-math.inf, -1, -0.0, 0, 1, math.inf]
        few += [math.nan, -math.nan] * int(family == 1)
    return rng.choice(np.array(few).astype(dtype), count)


def _set(rng, request, messages, dialect, version, rank):
    """Sets random attributes. Returns the message that has them."""
    request.spec.version = version
    request.spec.dialect = getattr(messages["topk"], f"DIALECT_{dialect}")
    if dialect == "ONNX":
        request.onnx.axis = int(rng.integers(-rank, rank))
        if version >= 11:
            request.onnx.largest = int(rng.integers(2))
            request.onnx.sorted = int(rng.integers(4) > 0)
        return request.onnx
    openvino = request.openvino
    openvino.axis = int(rng.integers(-rank, rank))
    openvino.mode = str(rng.choice(["max", "min"]))
    openvino.sort = str(rng.choice(["value", "value", "index", "none"]))
    if version > 1:
        openvino.index_element_type = str(rng.choice(["i32", "i64"]))
    if version == 11:
        openvino.stable = openvino.sort != "none" and bool(rng.integers(2))
    return openvino


def at_random(messages, seed, count):
    """Yields (name, request). Half are named "plain": without ties and NaNs."""
    rng = np.random.default_rng(seed)
    versions = [("ONNX", 1), ("ONNX", 10), ("ONNX", 11), ("ONNX", 24),
                ("OPENVINO", 1), ("OPENVINO", 3), ("OPENVINO", 11)]
    for number in range(count):
        hard = number % 2 == 1
        dialect, version = versions[number // 2 % len(versions)]
        names = list(DTYPES)
        if dialect == "ONNX" and version < 24:
            names.remove("bf16")
        if dialect == "ONNX" and version < 11:
            names = ["f16", "f32", "f64"]
        name = str(rng.choice(names))
        shape = [int(rng.integers(1, (200, 14, 5)[rank - 1] + 1))
                 for rank in [int(rng.integers(1, 4))] for _ in range(rank)]
        request = messages["topk"].TopKRequest()
        attributes = _set(rng, request, messages, dialect, version, len(shape))
        attributes.k.value = int(rng.integers(1, shape[attributes.axis] + 1))
        array = _array(rng, np.dtype(DTYPES[name]), shape, hard)
        request.tensor.data_type = getattr(messages["tensor"],
                                           f"DATA_TYPE_{name.upper()}")
        request.tensor.shape.extend(shape)
        request.tensor.data = array.tobytes()
        yield f"random/{'hard' if hard else 'plain'}/{number}", request
