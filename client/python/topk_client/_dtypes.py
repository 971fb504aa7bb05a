"""The element types of the contract as NumPy has them."""

from typing import Any, Optional

import numpy as np

from topk_client._stubs import tensor_pb2

# NumPy's name of each; bfloat16 is ml_dtypes'.
NUMPY_NAMES = {
    "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64",
    "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
}
_NAMES = {numpy: name for name, numpy in NUMPY_NAMES.items()}


def number_of(name: str) -> Any:
    """Returns the contract's number of a type by its short name, e.g. "f32".
    ValueError for a name that it lacks."""
    return tensor_pb2.DataType.Value("DATA_TYPE_" + name.upper())


def type_of(array: np.ndarray, name: Optional[str] = None) -> Any:
    """Returns the contract's number of an array's type, or of the type whose
    bits it holds. TypeError where there is none."""
    if name is not None:
        return number_of(name)
    if array.dtype.name not in _NAMES:
        raise TypeError(f"{array.dtype.name} is no type of the service; it has "
                        + ", ".join(_NAMES))
    return number_of(_NAMES[array.dtype.name])


def numpy_of(number: int) -> np.dtype:
    """Returns NumPy's own type of a number. KeyError or TypeError where it has
    none."""
    name = tensor_pb2.DataType.Name(number)[len("DATA_TYPE_"):].lower()
    return np.dtype(NUMPY_NAMES[name])


def little_endian(array: np.ndarray) -> np.ndarray:
    """Returns the array as the wire has its elements: a copy only of one that
    has them the other way round."""
    return array.astype(array.dtype.newbyteorder("<"), copy=False)
