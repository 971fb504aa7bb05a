"""The operators, with the attribute names and defaults of their
specifications."""

import dataclasses
import operator
from typing import Any, Optional, Sequence, Tuple, Union, get_args

import numpy as np

from topk_client import _dtypes
from topk_client._dtypes import Array
from topk_client._stubs import tensor_pb2, topk_pb2

# The number of elements to select: an integer, or the operator's K tensor. The
# service checks the tensor's type and shape.
K = Union[int, Array]


def integer(name: str, value: Any) -> int:
    """Converts an integer of any kind, such as NumPy's, to int. Raises
    TypeError or ValueError, with the argument's name, for any other value."""
    try:
        same = value  # mypy: isinstance narrows the type of `value`, not `same`
        number = operator.index(
            bool(same) if isinstance(value, np.bool_) else value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}, not an integer") from None
    if not -1 << 63 <= number < 1 << 63:
        raise ValueError(f"{name} is {number}, which does not fit in a signed "
                         "64-bit integer")
    return int(number)


def _converted(name: str, kind: Any, value: Any) -> Any:
    """Converts an attribute of type `kind` to Python's built-in types. Raises
    TypeError or ValueError, with the attribute's name, if the type is wrong.
    """
    same = value  # mypy: isinstance narrows the type of `value`, not `same`
    if kind is K and isinstance(value, np.ndarray):
        _dtypes.check_unmasked(name, value)
        return same
    if kind is int or kind is K:
        return integer(name, value)
    if get_args(kind)[1:] == (type(None),):  # `kind` is Optional
        if value is None:
            return None
        kind = get_args(kind)[0]
    if kind is bool:
        if isinstance(value, (int, np.integer, np.bool_)) and value in (0, 1):
            return bool(same)
    elif kind == Sequence[int]:
        if np.iterable(value) and not isinstance(value, (str, bytes)):
            return tuple(integer(name, item) for item in same)
    elif isinstance(value, kind):
        return value
    expected = "integers" if kind == Sequence[int] else f"a {kind.__name__}"
    raise TypeError(f"{name} is {value!r}, not {expected}")


def _set_k(k_input: Any, k: K) -> None:
    if not isinstance(k, np.ndarray):
        k_input.value = k
        return
    k_input.tensor.data_type = _dtypes.kind_of(k.dtype)[0]
    k_input.tensor.shape.extend(k.shape)
    k_input.tensor.data = _dtypes.little_endian(k).tobytes()


def _enum_number(field: Any, name: str) -> int:
    """Returns the number of an enum value by its short name, e.g. that of
    AXIS_DIRECTION_INCREASING for "increasing"."""
    if field.enum_type is tensor_pb2.DataType.DESCRIPTOR:
        return int(_dtypes.number_of(name))
    unset, *values = field.enum_type.values
    prefix = len(unset.name) - len("UNSPECIFIED")
    numbers = {value.name[prefix:].lower(): value.number for value in values}
    if name not in numbers:
        raise ValueError(f"{field.name} is {name!r}; it must be "
                         + " or ".join(numbers))
    return int(numbers[name])


@dataclasses.dataclass(frozen=True)
class _Attributes:
    """Attributes that have the names of a message's fields."""

    def _fill(self, message: Any) -> None:
        """Sets only the fields whose attributes differ from their defaults,
        because an operator version rejects fields that it does not have. Raises
        TypeError or ValueError if an attribute has a wrong type."""
        message.SetInParent()
        for attribute in dataclasses.fields(self):
            name = attribute.name
            value = _converted(name, attribute.type, getattr(self, name))
            if attribute.type is K:
                _set_k(getattr(message, name), value)
            elif value == attribute.default or name == "version":
                pass
            elif isinstance(value, _Attributes):
                value._fill(getattr(message, name))
            elif isinstance(value, tuple):
                getattr(message, name).extend(value)
            elif isinstance(value, str):
                field = message.DESCRIPTOR.fields_by_name[name]
                setattr(message, name, _enum_number(field, value)
                        if field.enum_type else value)
            else:
                setattr(message, name, value)


class Operator(_Attributes):
    """An operator of a dialect. All other code is independent of the dialect.

    Attributes:
      _dialect: the name of the dialect's field in TopKRequest.
      _selection: `largest` and `order` of merge.Partial.
      _takes_strides: whether tensors may have strides and padding.
      _index_type: the short name of the type of the indices.

    The remaining attributes belong to the operators. Operators that lack an
    attribute use the default in this class.
    """

    _dialect: str
    _takes_strides = False
    k: Any
    version: int
    input_total_tensor_size_bytes: int = 0

    @property
    def _selection(self) -> Tuple[bool, str]:
        raise NotImplementedError

    @property
    def _index_type(self) -> str:
        return "i64"

    @property
    def _k(self) -> int:
        """K as an int. Raises ValueError unless the K tensor has one
        element."""
        return int(np.asarray(self.k).item())

    def _fill_request(self, request: topk_pb2.TopKRequest) -> None:
        """Sets the operator and its attributes. Raises TypeError or ValueError
        if an attribute has a wrong type."""
        request.spec.CopyFrom(topk_pb2.Spec(
            dialect="DIALECT_" + self._dialect.upper(),
            version=integer("version", self.version)))
        self._fill(getattr(request, self._dialect))


@dataclasses.dataclass(frozen=True)
class Onnx(Operator):
    """ONNX TopK. The version is the opset that introduced it: 1, 10, 11 or 24.

    Attributes:
      k: the number of elements to select, 1 .. the size along the axis.
      axis: -r .. r-1 for a tensor of rank r.
      largest: 1 = the largest, 0 = the smallest. Since opset 11.
      sorted: 1 = sorted by value, 0 = any order (this service sorts by value
        anyway).
    """

    k: K
    axis: int = -1
    largest: int = 1
    sorted: int = 1
    version: int = 24

    _dialect = "onnx"

    @property
    def _selection(self) -> Tuple[bool, str]:
        return bool(self.largest), "value"


@dataclasses.dataclass(frozen=True)
class OpenVINO(Operator):
    """OpenVINO TopK, version 1, 3 or 11.

    Attributes:
      k: the number of elements to select, 1 .. the size along the axis.
      axis: -r .. r-1 for a tensor of rank r.
      mode: "max" or "min".
      sort: "value", "index" or "none".
      index_element_type: "i32" or "i64". Since version 3.
      stable: since version 11. Responses are stable either way.
    """

    k: K
    axis: int
    mode: str
    sort: str
    index_element_type: str = "i32"
    stable: bool = False
    version: int = 11

    _dialect = "openvino"

    @property
    def _index_type(self) -> str:
        return self.index_element_type

    @property
    def _selection(self) -> Tuple[bool, str]:
        return self.mode == "max", "index" if self.sort == "index" else "value"


@dataclasses.dataclass(frozen=True)
class TensorDesc(_Attributes):
    """An output's DML_BUFFER_TENSOR_DESC. The server derives unset attributes.

    Attributes:
      data_type: for the indices "u32" or "u64"; for the values the input's
        type.
      sizes: the input's sizes, with k along the axis.
      strides: in elements, one for each size.
      total_tensor_size_bytes: the length of the output's data.
    """

    data_type: Optional[str] = None
    sizes: Sequence[int] = ()
    strides: Sequence[int] = ()
    total_tensor_size_bytes: int = 0


@dataclasses.dataclass(frozen=True)
class DirectML(Operator):
    """DirectML's DML_OPERATOR_TOP_K1 (version 1) or _TOP_K (version 0).

    Attributes:
      k: the number of elements to select, 1 .. the size along the axis.
      axis: 0 .. r-1 for a tensor of rank r.
      axis_direction: "increasing" = the smallest, "decreasing" = the largest.
        Required in version 1, does not exist in version 0.
      feature_level: "1_0" .. "6_4"; the newest by default.
      output_value, output_index: by default, the outputs are packed and the
        indices are u32.
      strict: whether to reject k == the size along the axis, as the DirectML
        documentation demands.
      input_total_tensor_size_bytes: the length of a padded input. An array is
        padded with zeros; a region of shared memory must include the padding.
    """

    k: int
    axis: int
    axis_direction: Optional[str] = None
    feature_level: Optional[str] = None
    output_value: Optional[TensorDesc] = None
    output_index: Optional[TensorDesc] = None
    strict: bool = False
    input_total_tensor_size_bytes: int = 0
    version: int = 1

    _dialect = "directml"
    _takes_strides = True

    @property
    def _index_type(self) -> str:
        return (self.output_index and self.output_index.data_type) or "u32"

    @property
    def _selection(self) -> Tuple[bool, str]:
        return self.axis_direction != "increasing", "value"


class AnyOnnx(Onnx):
    """ONNX TopK-11, or another operator for types that ONNX TopK-11 lacks."""

    def operator_for(self, data_type: int) -> Operator:
        """Returns the operator to use for elements of a DataType."""
        if data_type in _ONNX_11:
            return self
        if data_type == _BF16:
            return Onnx(self.k, self.axis, self.largest, self.sorted, 24)
        return OpenVINO(self.k, self.axis, "max" if self.largest else "min",
                        "value" if self.sorted else "none", "i64")


_BF16 = _dtypes.number_of("bf16")
_ONNX_11 = frozenset(map(_dtypes.number_of, (
    "f16", "f32", "f64", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")))

Spec = Union[Onnx, OpenVINO, DirectML]
