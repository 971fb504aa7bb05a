"""The expected outputs of a request, to check answers against."""

import math
from typing import Any, List, NamedTuple, Optional, Sequence

import numpy as np

from topk_client import _dtypes
from topk_client._dtypes import Array, DType
from topk_client.errors import bad_answer
from topk_client.specs import Spec, TensorDesc


_FEW_INDICES = 64
# The maximum number of received sizes or strides to compare and report. NumPy
# arrays have at most 64 dimensions, so the 65th size is always a mismatch.
_SIZES = 65


class Output(NamedTuple):
    """One output as the service must send it.

    Attributes:
      data_type: the DataType.
      shape: the input's shape, with k along the axis.
      strides: in elements; empty if the output is packed.
      nbytes: the length of the data.
    """

    data_type: Any
    shape: List[int]
    strides: List[int]
    nbytes: int

    @classmethod
    def of(cls, data_type: Any, bits: int, shape: List[int],
           desc: Optional[TensorDesc]) -> "Output":
        """Returns an output with elements of `bits` bits. `desc` is DirectML's
        description of the output, if any. Raises ValueError for a negative
        stride."""
        strides = list(desc.strides) if desc else []
        if min(strides, default=0) < 0:
            raise ValueError(f"strides {strides} must not be negative")
        elements = math.prod(shape)
        if strides:
            elements = 1 + sum((n - 1) * s for n, s in zip(shape, strides))
        nbytes = -(-elements * bits // 8)
        if strides:  # DirectML rounds buffers up to 4 bytes
            nbytes = -(-nbytes // 4) * 4
        if desc and desc.total_tensor_size_bytes:
            nbytes = desc.total_tensor_size_bytes
        return cls(data_type, shape, strides, nbytes)

    def check(self, tensor: Any, nbytes: int, field: str, place: str) -> None:
        """Raises BAD_ANSWER unless the message and its data match this output.
        The data has `nbytes` bytes and is in the field `place`."""
        for name, sent, expected in (
                ("data_type", tensor.data_type, self.data_type),
                ("shape", tensor.shape[:_SIZES], self.shape),
                ("strides", tensor.strides[:_SIZES], self.strides),
                (place, nbytes, self.nbytes)):
            if sent != expected:
                what = "bytes" if name == place else name
                raise bad_answer(f"{what} {sent}, expected {expected}",
                                 f"{field}.{name}")


class Outputs(NamedTuple):
    """Both outputs of a request, whether or not they are requested.

    Attributes:
      index_type: the NumPy type of the indices.
      begin, end: every index is in begin .. end - 1.
    """

    values: Output
    indices: Output
    index_type: DType
    begin: int
    end: int

    @classmethod
    def of(cls, spec: Spec, data_type: Any, bits: int, shape: Sequence[int],
           index_offset: int) -> "Outputs":
        """Raises ValueError for a request that the service must reject."""
        sizes: List[int] = list(shape)
        k = spec._k
        if not -len(sizes) <= spec.axis < len(sizes):
            raise ValueError(
                f"axis {spec.axis} is out of range for rank {len(sizes)}")
        n = sizes[spec.axis]
        if not 1 <= k <= n:
            raise ValueError(f"k {k} is outside 1 .. {n}")
        sizes[spec.axis] = k
        number = _dtypes.number_of(spec._index_type)
        index_type = np.dtype(_dtypes.NUMPY_NAMES[_dtypes.name_of(number)])
        return cls(
            Output.of(data_type, bits, sizes, spec.output_value),
            Output.of(number, 8 * index_type.itemsize, sizes,
                      spec.output_index),
            index_type, index_offset, index_offset + n)

    def check_range(self, indices: Array) -> None:
        """Raises BAD_ANSWER if an index is out of range."""
        if not indices.size:
            return
        # For few elements, a list is faster than NumPy's reductions.
        if indices.size <= _FEW_INDICES:
            some = (indices if indices.ndim == 1 else indices.ravel()).tolist()
            low, high = min(some), max(some)
        else:
            low, high = int(indices.min()), int(indices.max())
        if low < self.begin or high >= self.end:
            raise bad_answer(
                f"indices {low} .. {high}, expected {self.begin} .. "
                f"{self.end - 1}", "response.indices.data")
