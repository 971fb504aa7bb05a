"""Maps the service's element types to NumPy's."""

import functools
import sys
from typing import Any, Dict, Optional, Tuple

import numpy as np
import numpy.typing as npt

from topk_client._stubs import tensor_pb2

Array = npt.NDArray[Any]
DType = np.dtype[Any]

# The NumPy name of each type. ml_dtypes provides the types that NumPy lacks.
NUMPY_NAMES = {
    "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64",
    "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
    "u2": "uint2", "u4": "uint4", "i4": "int4", "f4e2m1": "float4_e2m1fn",
    "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2",
    "f8e8m0": "float8_e8m0fnu",
}
# The width in bits of each type smaller than a byte. NumPy has no name for u1,
# u3, u6 and nf4.
WIDTHS: Dict[str, int] = {"u1": 1, "u2": 2, "u3": 3, "u4": 4, "u6": 6, "i4": 4,
                          "nf4": 4, "f4e2m1": 4}
# The types that NumPy lacks, with the bytes of an integer for the bits of an
# element.
_BITS_BYTES = {**dict.fromkeys((*WIDTHS, "f8e4m3", "f8e5m2", "f8e8m0"), 1),
               "bf16": 2}
# The bits of +infinity in each floating-point type, or of the largest number if
# there is no infinity. Larger magnitudes are NaN. All other types compare like
# integers. This includes f8e8m0, because its NaN has the highest code.
INFINITIES: Dict[str, int] = {
    "f16": 0x7C00, "bf16": 0x7F80, "f32": 0x7F80_0000,
    "f64": 0x7FF0_0000_0000_0000, "f4e2m1": 0x7, "f8e4m3": 0x7E, "f8e5m2": 0x7C,
}
NUMBERS = [number for number in tensor_pb2.DataType.values() if number]
_NAMES = {numpy: name for name, numpy in NUMPY_NAMES.items()}


def number_of(name: str) -> Any:
    """Returns the DataType with a short name, e.g. "f32". Raises ValueError if
    the name is unknown, and TypeError if it is not a str."""
    if not isinstance(name, str):
        raise TypeError(f"the data type is {name!r}, not a name such as 'f32'")
    try:
        return tensor_pb2.DataType.Value("DATA_TYPE_" + name.upper())
    except ValueError:
        raise ValueError(f"there is no data type {name!r}; the types are "
                         + ", ".join(map(name_of, NUMBERS))) from None


def name_of(number: int) -> str:
    """Returns the short name of a DataType. Raises ValueError if it is
    unknown."""
    return tensor_pb2.DataType.Name(number)[len("DATA_TYPE_"):].lower()


def short_name_of(dtype: DType) -> str:
    """Returns the short name of a type, e.g. "f32". Raises TypeError for a type
    that the service does not support."""
    if dtype.name not in _NAMES:
        raise TypeError(f"the service does not support {dtype}; its "
                        "types are " + ", ".join(_NAMES))
    return _NAMES[dtype.name]


def holds(dtype: DType, name: str) -> bool:
    """Returns whether elements of a dtype are of the type with a short name, or
    are the bits of that type because NumPy lacks it. Bits are in unsigned
    integers or np.void, those of i4 also in int8, and those of bf16 also in
    int16, as in PyTorch."""
    return NUMPY_NAMES.get(name) == dtype.name or (
        dtype.itemsize == _BITS_BYTES.get(name)
        and (dtype.kind == "u" or dtype.type is np.void
             or dtype.kind == "i" and name in ("i4", "bf16")))


# Cached because NumPy takes longer to name a type than protobuf takes to encode
# a request.
@functools.lru_cache(maxsize=64)
def kind_of(dtype: DType, own: Optional[str] = None,
            data_type: Optional[str] = None
            ) -> Tuple[Any, int, Optional[str], DType]:
    """Returns a tuple: the DataType of the elements, its width in bits, its
    short name if it is smaller than a byte (otherwise None), and the NumPy type
    on the wire. `own` is the short name if `dtype` only holds the bits, and
    `data_type` is the type that the caller wants. Raises TypeError if the
    service does not support the type, and ValueError if the elements are not of
    the type that the caller wants."""
    number = number_of(data_type or own or short_name_of(dtype))
    name = name_of(number)
    if data_type and not (own == name if own else holds(dtype, name)):
        raise ValueError(
            f"data_type is {data_type!r}, but the elements are {own or dtype}: "
            "numbers are not converted. Use data_type only for the bits of a "
            "type that NumPy lacks, in unsigned integers of the same size")
    wire = little_endian_type(dtype)
    if name in WIDTHS:
        return number, WIDTHS[name], name, wire
    return number, 8 * dtype.itemsize, None, wire


def little_endian_type(dtype: DType) -> DType:
    # memoryview() supports only native types, not an explicit "<".
    return dtype.newbyteorder("=" if sys.byteorder == "little" else "<")


def little_endian(array: Array) -> Array:
    """Returns the array with little-endian elements, as on the wire. Copies
    only if the byte order differs."""
    return array.astype(little_endian_type(array.dtype), copy=False)


def check_unmasked(name: str, array: Any) -> None:
    """Raises TypeError for a masked array. NumPy would ignore the mask."""
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array, which is not supported: "
                        f"pass {name}.filled(value)")


def ordered_keys(array: Array, name: str) -> Array:
    """Returns a new array of unsigned numbers that compare like the elements.
    -0 equals +0, and all NaNs are equal and above +infinity. An array of a type
    smaller than a byte must have one element per byte."""
    bits: Array = little_endian(array).view(f"<u{array.dtype.itemsize}")
    width = WIDTHS.get(name, 8 * array.dtype.itemsize)
    every, sign = (bits.dtype.type(2**width - 1),
                   bits.dtype.type(1 << width - 1))
    bits = bits & every  # clears the sign extension of int4
    if name in INFINITIES:
        magnitude = bits & ~sign
        keys = np.where((bits & sign != 0) & (magnitude != 0), ~bits & every,
                        magnitude | sign)
        keys[magnitude > INFINITIES[name]] = every
        return keys
    if name[0] == "i":
        bits ^= sign
    return bits


def pack(array: Array, name: str) -> Array:
    """Packs elements smaller than a byte. The array has one element per byte.
    Raises ValueError if an element is out of range."""
    width = WIDTHS[name]
    codes = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    if array.dtype.kind in "ui":  # int8 and uint8 can hold larger numbers
        fits = codes < 1 << width
        if array.dtype.kind == "i" and name == "i4":
            fits = codes + 8 < 16  # for -8 .. 7, because uint8 wraps around
        if not fits.all():
            raise ValueError(f"{array.reshape(-1)[~fits][0]} has more than "
                             f"the {width} bits of {name}")
    bits = np.unpackbits(codes[:, None], axis=1, bitorder="little")[:, :width]
    return np.packbits(bits, bitorder="big" if name == "u1" else "little")


def unpack(data: Array, count: int, dtype: DType,
           name: str) -> Array:
    """Unpacks `count` elements that pack() has packed."""
    width = WIDTHS[name]
    bits = np.unpackbits(data, count=count * width,
                         bitorder="big" if name == "u1" else "little")
    codes: Array = np.packbits(bits.reshape(count, width), axis=1,
                               bitorder="little").reshape(-1)
    if name == "i4" and dtype != np.uint8:
        codes = (codes ^ 8) - np.uint8(8)  # sign-extends the element
    return codes.view(dtype)
