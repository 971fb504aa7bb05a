"""The operators: their own attributes, with their own names and defaults."""

import dataclasses
from typing import Any, Optional, Sequence, Union

import numpy as np

from topk_client import _dtypes
from topk_client._stubs import directml_pb2, topk_pb2

# How many to select: the number itself, or a K tensor as the operator takes it,
# whose type and shape the service checks.
K = Union[int, np.ndarray]


def _set_k(k_input: Any, k: K) -> None:
    if not isinstance(k, np.ndarray):
        k_input.value = k
        return
    k_input.tensor.data_type = _dtypes.type_of(k)
    k_input.tensor.shape.extend(k.shape)
    k_input.tensor.data = _dtypes.little_endian(k).tobytes()


def _set_unless(default: Any, attributes: Any, name: str, value: Any) -> None:
    """Sets an attribute unless it has its default: versions without the
    attribute reject it."""
    if value != default:
        setattr(attributes, name, value)


@dataclasses.dataclass(frozen=True)
class Onnx:
    """ONNX TopK; the version is the opset that it appeared in: 1, 10, 11 or 24.

    Attributes:
      k: how many to select, 1 .. the size along the axis.
      axis: -r .. r-1 for a tensor of rank r.
      largest: 1 = the largest, 0 = the smallest; from opset 11 on.
      sorted: 1 = by value, 0 = in any order (here by value as well).
    """

    k: K
    axis: int = -1
    largest: int = 1
    sorted: int = 1
    version: int = 24

    _index_type = "i64"
    _output_value = _output_index = None

    def _fill(self, request: topk_pb2.TopKRequest) -> None:
        request.spec.dialect = topk_pb2.DIALECT_ONNX
        request.spec.version = self.version
        _set_unless(-1, request.onnx, "axis", self.axis)
        _set_unless(1, request.onnx, "largest", int(self.largest))
        _set_unless(1, request.onnx, "sorted", int(self.sorted))
        _set_k(request.onnx.k, self.k)


@dataclasses.dataclass(frozen=True)
class OpenVINO:
    """OpenVINO TopK, version 1, 3 or 11.

    Attributes:
      k: how many to select, 1 .. the size along the axis.
      axis: -r .. r-1 for a tensor of rank r.
      mode: "max" or "min".
      sort: "value", "index" or "none".
      index_element_type: "i32" or "i64"; from version 3 on.
      stable: from version 11 on; the answer is the stable one either way.
    """

    k: K
    axis: int
    mode: str
    sort: str
    index_element_type: str = "i32"
    stable: bool = False
    version: int = 11

    _output_value = _output_index = None

    @property
    def _index_type(self) -> str:
        return self.index_element_type

    def _fill(self, request: topk_pb2.TopKRequest) -> None:
        request.spec.dialect = topk_pb2.DIALECT_OPENVINO
        request.spec.version = self.version
        attributes = request.openvino
        attributes.axis = self.axis
        attributes.mode = self.mode
        attributes.sort = self.sort
        _set_unless("i32", attributes, "index_element_type",
                    self.index_element_type)
        _set_unless(False, attributes, "stable", self.stable)
        _set_k(attributes.k, self.k)


@dataclasses.dataclass(frozen=True)
class TensorDesc:
    """DML_BUFFER_TENSOR_DESC of an output; attributes left out are derived.

    Attributes:
      data_type: "u32" or "u64" of the indices; the input's of the values.
      sizes: the input's, with k along the axis.
      strides: in elements, as many as sizes.
      total_tensor_size_bytes: the length of the output's data.
    """

    data_type: Optional[str] = None
    sizes: Sequence[int] = ()
    strides: Sequence[int] = ()
    total_tensor_size_bytes: int = 0

    def _fill(self, message: directml_pb2.TensorDesc) -> None:
        if self.data_type is not None:
            message.data_type = _dtypes.number_of(self.data_type)
        message.sizes.extend(self.sizes)
        message.strides.extend(self.strides)
        message.total_tensor_size_bytes = self.total_tensor_size_bytes


@dataclasses.dataclass(frozen=True)
class DirectML:
    """DirectML's DML_OPERATOR_TOP_K1 (version 1) or _TOP_K (version 0).

    Attributes:
      k: how many to select, 1 .. the size along the axis.
      axis: 0 .. r-1 for a tensor of rank r.
      axis_direction: "increasing" = the smallest, "decreasing" = the largest;
        required in version 1, unknown to version 0.
      feature_level: "1_0" .. "6_4"; the newest by default.
      output_value, output_index: as packed as they can be by default, the
        indices u32.
      strict: rejects k == size along the axis, as the documentation does.
    """

    k: int
    axis: int
    axis_direction: Optional[str] = None
    feature_level: Optional[str] = None
    output_value: Optional[TensorDesc] = None
    output_index: Optional[TensorDesc] = None
    strict: bool = False
    version: int = 1

    @property
    def _index_type(self) -> str:
        desc = self.output_index
        return (desc.data_type if desc else None) or "u32"

    @property
    def _output_value(self) -> Optional[TensorDesc]:
        return self.output_value

    @property
    def _output_index(self) -> Optional[TensorDesc]:
        return self.output_index

    def _fill(self, request: topk_pb2.TopKRequest) -> None:
        request.spec.dialect = topk_pb2.DIALECT_DIRECTML
        request.spec.version = self.version
        attributes: Any = request.directml
        attributes.k = self.k
        attributes.axis = self.axis
        if self.axis_direction is not None:
            if self.axis_direction not in ("increasing", "decreasing"):
                raise ValueError(f"axis_direction is {self.axis_direction!r}; "
                                 "it must be increasing or decreasing")
            attributes.axis_direction = directml_pb2.AxisDirection.Value(
                "AXIS_DIRECTION_" + self.axis_direction.upper())
        if self.feature_level is not None:
            attributes.feature_level = directml_pb2.FeatureLevel.Value(
                "FEATURE_LEVEL_" + self.feature_level)
        if self.output_value is not None:
            self.output_value._fill(attributes.output_value)
        if self.output_index is not None:
            self.output_index._fill(attributes.output_index)
        attributes.strict = self.strict


Spec = Union[Onnx, OpenVINO, DirectML]
