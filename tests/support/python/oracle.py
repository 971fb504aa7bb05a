"""A reference implementation of TopK in NumPy, and random requests for it."""

from typing import Any, NamedTuple, Optional

import client_package  # noqa: F401, makes topk_client importable
import numpy as np
from stable_topk import stable_topk
from topk_client import DirectML, Onnx, OpenVINO, Request

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None

# The NumPy type that holds each data type's bits.
TYPES = {
    "F16": np.float16, "BF16": np.uint16, "F32": np.float32,
    "F64": np.float64, "I8": np.int8, "I16": np.int16, "I32": np.int32,
    "I64": np.int64, "U8": np.uint8, "U16": np.uint16, "U32": np.uint32,
    "U64": np.uint64,
}
# The width in bits of each small type. Each element is a code in a uint8.
SMALL = {"U1": 1, "U2": 2, "U3": 3, "U4": 4, "U6": 6, "I4": 4, "NF4": 4,
         "F4E2M1": 4, "F8E4M3": 8, "F8E5M2": 8, "F8E8M0": 8}
# The corresponding names in ml_dtypes.
ML_DTYPES = {"U2": "uint2", "U4": "uint4", "I4": "int4",
             "F4E2M1": "float4_e2m1fn", "F8E4M3": "float8_e4m3fn",
             "F8E5M2": "float8_e5m2", "F8E8M0": "float8_e8m0fnu",
             "BF16": "bfloat16"}

_FLOATS = ["F16", "F32", "F64"]
_DML_1_0 = ["F16", "F32"]
_DML_2_1 = _DML_1_0 + ["I8", "I16", "I32", "U8", "U16", "U32"]
_DML_5_0 = _DML_2_1 + ["I64", "U64"]
# The operators: (class, version, feature level, data types).
_OPERATORS = [(Onnx, 1, None, _FLOATS), (Onnx, 10, None, _FLOATS),
              (Onnx, 11, None, [name for name in TYPES if name != "BF16"]),
              (Onnx, 24, None, list(TYPES))]
_OPERATORS += [(OpenVINO, version, None, names) for version in (1, 3, 11)
               for names in (list(TYPES), list(SMALL))]
_OPERATORS += [(DirectML, 0, level, _DML_1_0) for level in ("1_0", "2_0")]
_OPERATORS += [(DirectML, version, level, names) for version in (0, 1)
               for level, names in (
                   ("2_1", _DML_2_1), ("3_0", _DML_2_1), ("3_1", _DML_2_1),
                   ("4_1", _DML_2_1), ("5_0", _DML_5_0), ("6_4", _DML_5_0),
                   (None, _DML_5_0))]


def numbers(array, name):
    """Converts bits to values, in a type that NumPy can sort."""
    if name == "BF16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    if name in SMALL and name[0] != "U":
        codes = range(1 << SMALL[name])
        return np.array([_number(name, c) for c in codes])[array]
    return array


def _number(name, code):
    """Returns the number that `code` represents in a small type."""
    if name == "I4":
        return code - 16 if code > 7 else code
    if name == "NF4":
        return code  # codes have the same order as the numbers
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


def order(array, name, axis, k, largest, by_index):
    """Returns the indices along the axis."""
    _, indices = stable_topk(numbers(array, name), axis, k, largest)
    return np.sort(indices, axis) if by_index else indices


def oracle(array, name, axis, k, largest=True, by_index=False):
    """Returns the expected (values, indices) along the axis."""
    indices = order(array, name, axis, k, largest, by_index)
    return np.take_along_axis(array, indices, axis), indices


class Case(NamedTuple):
    """A request and its expected result."""

    name: str
    request: Request
    values: np.ndarray
    indices: np.ndarray

    def check(self, answer):
        """Asserts that the answer has exactly the expected bytes, including the
        bits of NaNs and the signs of zeros."""
        outputs = self.request.output
        for found, expected in (
                (answer.values, self.values if outputs != "indices" else None),
                (answer.indices, self.indices if outputs != "values" else None)
                ):
            assert (found is None) == (expected is None), self
            if expected is not None:
                assert (found.dtype, found.shape, found.tobytes()) == (
                    expected.dtype, expected.shape, expected.tobytes()), self
        assert answer.request_id == self.request.request_id, self


def _random_bits(rng, name, shape):
    """Returns random elements, often with ties, NaNs, zeros and extremes."""
    size = int(np.prod(shape))
    if name in SMALL:
        return rng.integers(0, 1 << SMALL[name], shape, np.uint8)
    kind = np.dtype(TYPES[name])
    pattern = rng.integers(4)
    if pattern == 0:  # random bits, which include NaNs with payloads
        x = np.frombuffer(rng.bytes(size * kind.itemsize), kind)
    elif pattern == 1 and (kind.kind == "f" or name == "BF16"):
        few = np.array([-np.inf, -1, -0.0, 0.0, 1, np.inf, np.nan, -np.nan],
                       np.float32)
        few = ((few.view(np.uint32) >> 16).astype(kind) if name == "BF16"
               else few.astype(kind))
        x = rng.choice(few, size)
    elif pattern == 2:  # ties
        x = rng.integers(0, 3, size).astype(kind)
    elif kind.kind == "f":
        x = rng.standard_normal(size).astype(kind)
    else:
        x = rng.integers(np.iinfo(kind).min, np.iinfo(kind).max, size, kind,
                         endpoint=True)
    return x.reshape(shape)


def _as_tensor(rng, name, bits):
    """Returns the bits as an array of a type that a caller might pass, and the
    data_type that the request then needs."""
    signed = (bits ^ 8) - np.uint8(8) if name == "I4" else bits
    if ml_dtypes and name in ML_DTYPES and rng.integers(2):
        dtype = getattr(ml_dtypes, ML_DTYPES[name], None)
        if dtype is not None:
            return signed.view(dtype), None
    if name in SMALL or name == "BF16":
        if name == "I4" and rng.integers(2):
            bits = signed.view(np.int8)
        return bits, name.lower()
    return bits, None


# Views of an array that are not contiguous or not in C order.
_LAYOUTS = [np.asfortranarray, lambda x: x[::-1], lambda x: x[..., ::-1],
            lambda x: np.repeat(x, 3, -1)[..., ::3],
            lambda x: np.broadcast_to(x[:1], x.shape),
            lambda x: x.swapaxes(0, -1).copy().swapaxes(0, -1)]


def _random_spec(rng, operator, shape):
    kind, version, level, _ = operator

    def pick(*choices):
        return choices[int(rng.integers(len(choices)))]

    axis = int(rng.integers(len(shape)))
    n = shape[axis]
    k = int(pick(1, n, rng.integers(1, n + 1)))
    if kind is Onnx:
        spec = {"axis": pick(axis, axis - len(shape)), "k": k}
        if version > 10:
            spec |= {"largest": pick(0, 1), "sorted": pick(0, 1)}
    elif kind is OpenVINO:
        spec = {"axis": pick(axis, axis - len(shape)), "k": k,
                "mode": pick("min", "max"),
                "sort": pick("value", "index", "none")}
        if version > 1:
            spec["index_element_type"] = pick("i32", "i64")
        if version == 11 and spec["sort"] != "none":
            spec["stable"] = pick(False, True)
    else:
        spec = {"axis": axis, "k": k, "feature_level": level}
        if version == 1:
            spec["axis_direction"] = pick("increasing", "decreasing")
        if level in (None, "5_0", "6_4") and rng.integers(2):
            spec["index_data_type"] = "u64"
    return kind(version=version, **spec), axis, k


def _index_type(spec):
    """Returns the NumPy type of the operator's indices."""
    if isinstance(spec, Onnx):
        return np.int64
    if isinstance(spec, OpenVINO):
        return {"i32": np.int32, "i64": np.int64}[spec.index_element_type]
    return {"u32": np.uint32, "u64": np.uint64}[spec.index_data_type]


def random_case(rng, name: Optional[str] = None, plain=False) -> Any:
    """Returns a random Case, of any data type by default. If `plain`, the
    tensor is packed, and both outputs have no offset."""
    operators = [one for one in _OPERATORS if name in (None, *one[3])]
    operator = operators[int(rng.integers(len(operators)))]
    name = name or str(rng.choice(operator[3]))
    rank = int(rng.integers(1, 5))
    if operator[2] in ("1_0", "2_0", "2_1", "3_0"):
        rank = 4
    elif operator[0] is DirectML and rng.integers(2):
        rank = int(rng.integers(1, 9))
    most = {1: 60, 2: 24, 3: 10}.get(rank, 6 if rank < 6 else 3)
    shape = [int(n) for n in rng.integers(1, most + 1, rank)]
    if rank < 4 and rng.integers(4) == 0:
        shape[int(rng.integers(rank))] = int(rng.integers(1, 600))
    bits = _random_bits(rng, name, shape)
    tensor, data_type = _as_tensor(rng, name, bits)
    if not plain and rng.integers(2):
        layout = _LAYOUTS[int(rng.integers(len(_LAYOUTS)))]
        bits, tensor = layout(bits), layout(tensor)
    spec, axis, k = _random_spec(rng, operator, shape)
    largest, by = spec._selection
    indices = order(bits, name, axis, k, largest, by == "index")
    values = np.take_along_axis(tensor, indices, axis)
    options = {}
    if not plain:
        if tensor.dtype.kind in "iuf" and rng.integers(4) == 0:
            tensor = tensor.astype(tensor.dtype.newbyteorder(">"))
        options = {"index_offset": int(rng.integers(4) // 3 * 12345),
                   "request_id": f"r{rng.integers(1000)}",
                   "output": str(rng.choice(["both", "both", "values",
                                             "indices"]))}
    indices = indices + options.get("index_offset", 0)
    return Case(name, Request(tensor, spec, data_type=data_type, **options),
                values, indices.astype(_index_type(spec)))
