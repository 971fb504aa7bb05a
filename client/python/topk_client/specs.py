"""The operators, with the attribute names and defaults of their
specifications."""

import dataclasses
import operator
from typing import Any, Optional, Tuple, Union, cast

import numpy as np

from topk_client import _dtypes
from topk_client._stubs import topk_pb2


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


def converted(name: str, kind: Any, value: Any) -> Any:
    """Converts an argument of type `kind` to Python's built-in types. Raises
    TypeError or ValueError, with the argument's name, if the type is wrong."""
    same = value  # mypy: isinstance narrows the type of `value`, not `same`
    if kind is int:
        return integer(name, value)
    if kind is bool:
        if isinstance(value, (int, np.integer, np.bool_)) and value in (0, 1):
            return bool(same)
    elif isinstance(value, str) or value is None and kind is not str:
        if value and value.encode(errors="ignore").decode() != value:
            raise ValueError(f"{name} is {value!r}, which is not valid Unicode")
        return value
    raise TypeError(f"{name} is {value!r}, not a "
                    + ("bool" if kind is bool else "str"))


def _enum_number(field: Any, name: str) -> int:
    """Returns the number of an enum value by its short name, e.g. that of
    AXIS_DIRECTION_INCREASING for "increasing"."""
    unset, *values = field.enum_type.values
    prefix = len(unset.name) - len("UNSPECIFIED")
    numbers = {value.name[prefix:].lower(): value.number for value in values}
    if name not in numbers:
        raise ValueError(f"{field.name} is {name!r}; it must be "
                         + " or ".join(numbers))
    return int(numbers[name])


@dataclasses.dataclass(frozen=True)
class Operator:
    """An operator of a dialect. Its attributes have the names of the fields in
    the dialect's message. All other code is independent of the dialect.

    Attributes:
      _dialect: the name of the dialect's field in TopKRequest.
      _selection: `largest` and `order` of merge.Partial.
      _index_type: the short name of the type of the indices.
    """

    _dialect = ""

    @property
    def _index_type(self) -> str:
        return "i64"

    @property
    def _selection(self) -> Tuple[bool, str]:
        raise NotImplementedError

    def _fill_request(self, request: topk_pb2.TopKRequest) -> None:
        """Sets the operator, and only the attributes that differ from their
        defaults, because an operator version rejects attributes that it does
        not have. Raises TypeError or ValueError if an attribute has a wrong
        type."""
        message, spec = getattr(request, self._dialect), cast(Any, request.spec)
        message.SetInParent()
        spec.dialect = topk_pb2.Dialect.Value(
            "DIALECT_" + self._dialect.upper())
        for attribute in dataclasses.fields(self):
            name = attribute.name
            value = converted(name, attribute.type, getattr(self, name))
            if name == "version":
                spec.version = value
            elif value != attribute.default:
                self._set(message, name, value)

    def _set(self, message: Any, name: str, value: Any) -> None:
        field = message.DESCRIPTOR.fields_by_name[name]
        if field.enum_type:
            value = _enum_number(field, value)
        if name == "k" and field.message_type:
            message.k.value = value
        else:
            setattr(message, name, value)


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

    k: int
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

    k: int
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
class DirectML(Operator):
    """DirectML's DML_OPERATOR_TOP_K1 (version 1) or _TOP_K (version 0).

    Attributes:
      k: the number of elements to select, 1 .. the size along the axis.
      axis: 0 .. r-1 for a tensor of rank r.
      axis_direction: "increasing" = the smallest, "decreasing" = the largest.
        Required in version 1, does not exist in version 0.
      feature_level: "1_0" .. "6_4"; the newest by default.
      index_data_type: the type of the indices, "u32" or "u64".
      strict: whether to reject k == the size along the axis, as the DirectML
        documentation demands.

    Tensors are contiguous. For strides and padding, use the protocol.
    """

    k: int
    axis: int
    axis_direction: Optional[str] = None
    feature_level: Optional[str] = None
    index_data_type: str = "u32"
    strict: bool = False
    version: int = 1

    _dialect = "directml"

    @property
    def _index_type(self) -> str:
        return self.index_data_type

    def _set(self, message: Any, name: str, value: Any) -> None:
        if name == "index_data_type":
            message.output_index.data_type = _dtypes.number_of(value)
        else:
            super()._set(message, name, value)

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
